-- Views for people and their programs. A server that opens the file replaces them when this text has changed
-- (see decision 28): views are no part of the schema version, and no code of the server reads them.
--
-- `key` is the name in redis_names everywhere, so that WHERE key = 'x' finds it by the primary key of that table.
-- A cast to TEXT does not change the bytes of a name or value that is not UTF-8: hex(key) shows them.
-- CROSS JOIN makes SQLite begin with the databases: else it would read all keys.

DROP VIEW IF EXISTS keys;
CREATE VIEW keys AS
  SELECT d.db, k.name AS key, r.type, datetime(r.expires_at_ms / 1000, 'unixepoch') AS expires_at
  FROM redis_databases d CROSS JOIN redis_names k USING (space) JOIN redis_keys r ON r.id = k.id;

DROP VIEW IF EXISTS strings;
CREATE VIEW strings AS
  SELECT d.db, k.name AS key, CAST(s.value AS TEXT) AS value
  FROM redis_databases d CROSS JOIN redis_names k USING (space) JOIN redis_strings s ON s.key_id = k.id;

-- With these columns in PARTITION BY, SQLite applies WHERE key = 'x' before it numbers the elements.
DROP VIEW IF EXISTS lists;
CREATE VIEW lists AS
  SELECT db, key, row_number() OVER (PARTITION BY db, key, id ORDER BY pos) - 1 AS "index", value
  FROM (
    SELECT d.db AS db, k.name AS key, k.id AS id, i.pos AS pos,
           CAST(i.value AS TEXT) AS value
    FROM redis_databases d CROSS JOIN redis_names k USING (space) JOIN redis_list_items i ON i.key_id = k.id
    UNION ALL
    SELECT d.db, k.name, k.id, b.pos + (b.first + s.key) * 1048576,
           CAST(substr(b.data, 1 + (SELECT ifnull(sum(p.value), 0) FROM json_each(b.sizes) p
                                    WHERE p.key < s.key), s.value) AS TEXT)
    FROM redis_databases d CROSS JOIN redis_names k USING (space) JOIN redis_list_blocks b ON b.key_id = k.id
    JOIN json_each(b.sizes) s
    WHERE s.value IS NOT NULL
  );

DROP VIEW IF EXISTS hashes;
CREATE VIEW hashes AS
  SELECT d.db, k.name AS key, CAST(f.field AS TEXT) AS field,
         CAST(f.value AS TEXT) AS value,
         datetime(f.expires_at_ms / 1000, 'unixepoch') AS expires_at
  FROM redis_databases d CROSS JOIN redis_names k USING (space) JOIN redis_hash_fields f ON f.key_id = k.id;

DROP VIEW IF EXISTS sets;
CREATE VIEW sets AS
  SELECT d.db, k.name AS key, CAST(m.member AS TEXT) AS member
  FROM redis_databases d CROSS JOIN redis_names k USING (space) JOIN redis_set_members m ON m.key_id = k.id;

DROP VIEW IF EXISTS zsets;
CREATE VIEW zsets AS
  SELECT d.db, k.name AS key, CAST(m.member AS TEXT) AS member, m.score
  FROM redis_databases d CROSS JOIN redis_names k USING (space) JOIN redis_zset_members m ON m.key_id = k.id;

-- All 256 bytes in order: instr(bytes, b) - 1 is the number of the byte b.
DROP VIEW IF EXISTS holdfast_bytes;
CREATE VIEW holdfast_bytes AS
  SELECT CAST(x'000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9fa0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedfe0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff' AS BLOB) AS bytes;

-- One row for each field of each entry. `walk` goes through the msgpack of a row of entries, item by item, and
-- has these columns: `at` and `size`, the place and the size of the item (in bytes; of an array the number of
-- its items); `left`, the number of items that are left in its entry (0: the item is an id or an array);
-- `entry`, the place of the id of the entry (NULL: the row has one entry, written by a version that had one
-- row for each entry); `before` and `before_size`, the place and the size of the item before it.
DROP VIEW IF EXISTS streams;
CREATE VIEW streams AS
  SELECT d.db, k.name AS key,
         (SELECT printf('%u-%u', sum((instr(bytes, substr(ifnull(substr(e.entries, json_extract(f.value, '$[0]'), 16), e.id), n.value, 1)) - 1) << (64 - 8 * n.value)),
                 sum((instr(bytes, substr(ifnull(substr(e.entries, json_extract(f.value, '$[0]'), 16), e.id), n.value + 8, 1)) - 1) << (64 - 8 * n.value)))
          FROM holdfast_bytes, json_each('[1,2,3,4,5,6,7,8]') n) AS id,
         CAST(substr(e.entries, json_extract(f.value, '$[1]'), json_extract(f.value, '$[2]')) AS TEXT)
           AS field,
         CAST(substr(e.entries, json_extract(f.value, '$[3]'), json_extract(f.value, '$[4]')) AS TEXT)
           AS value
  FROM redis_databases d CROSS JOIN redis_names k USING (space) JOIN redis_stream_entries e ON e.key_id = k.id
  JOIN json_each((
    WITH RECURSIVE
      start(at) AS (
        SELECT CASE substr(e.entries, 1, 1) WHEN x'dc' THEN 4 WHEN x'dd' THEN 6 ELSE 2 END
      ),
      walk(at, size, is_binary, left, entry, before, before_size) AS (
        SELECT at, CASE
            WHEN substr(e.entries, at, 2) = x'c410' AND (
              substr(e.entries, at + 18, 1) BETWEEN x'90' AND x'9f'
              OR substr(e.entries, at + 18, 1) IN (x'dc', x'dd')) THEN 0
            ELSE 2 * length(e.entries) END, 0, 0, NULL, NULL, NULL
        FROM start
        UNION ALL
        SELECT
          at + size * is_binary + CASE substr(e.entries, at + size * is_binary, 1)
            WHEN x'c4' THEN 2 WHEN x'c5' THEN 3 WHEN x'dc' THEN 3
            WHEN x'c6' THEN 5 WHEN x'dd' THEN 5 ELSE 1 END,
          CASE substr(e.entries, at + size * is_binary, 1)
            WHEN x'c4' THEN instr(bytes, substr(e.entries, at + size * is_binary + 1, 1)) - 1
            WHEN x'c5' THEN
              (instr(bytes, substr(e.entries, at + size * is_binary + 1, 1)) - 1) * 256
              + instr(bytes, substr(e.entries, at + size * is_binary + 2, 1)) - 1
            WHEN x'dc' THEN
              (instr(bytes, substr(e.entries, at + size * is_binary + 1, 1)) - 1) * 256
              + instr(bytes, substr(e.entries, at + size * is_binary + 2, 1)) - 1
            WHEN x'c6' THEN
              (instr(bytes, substr(e.entries, at + size * is_binary + 1, 1)) - 1) * 16777216
              + (instr(bytes, substr(e.entries, at + size * is_binary + 2, 1)) - 1) * 65536
              + (instr(bytes, substr(e.entries, at + size * is_binary + 3, 1)) - 1) * 256
              + instr(bytes, substr(e.entries, at + size * is_binary + 4, 1)) - 1
            WHEN x'dd' THEN
              (instr(bytes, substr(e.entries, at + size * is_binary + 1, 1)) - 1) * 16777216
              + (instr(bytes, substr(e.entries, at + size * is_binary + 2, 1)) - 1) * 65536
              + (instr(bytes, substr(e.entries, at + size * is_binary + 3, 1)) - 1) * 256
              + instr(bytes, substr(e.entries, at + size * is_binary + 4, 1)) - 1
            ELSE instr(bytes, substr(e.entries, at + size * is_binary, 1)) - 145
          END,
          substr(e.entries, at + size * is_binary, 1) IN (x'c4', x'c5', x'c6'),
          CASE is_binary WHEN 0 THEN size ELSE max(left - 1, 0) END,
          CASE
            WHEN substr(e.entries, at + size * is_binary, 1) = x'c4'
              AND CASE is_binary WHEN 0 THEN size ELSE max(left - 1, 0) END = 0
            THEN at + size * is_binary + 2
            ELSE entry
          END,
          at, size
        FROM walk, holdfast_bytes
        WHERE at + size * is_binary <= length(e.entries)
      )
    SELECT json_group_array(json_array(entry, before, before_size, at, size))
    FROM walk WHERE is_binary AND left % 2 = 1
  )) f;

DROP VIEW IF EXISTS stream_groups;
CREATE VIEW stream_groups AS
  SELECT d.db, k.name AS key, CAST(g.name AS TEXT) AS "group",
         (SELECT printf('%u-%u', sum((instr(bytes, substr(g.last_id, n.value, 1)) - 1) << (64 - 8 * n.value)),
                 sum((instr(bytes, substr(g.last_id, n.value + 8, 1)) - 1) << (64 - 8 * n.value)))
          FROM holdfast_bytes, json_each('[1,2,3,4,5,6,7,8]') n) AS last_id,
         g.entries_read
  FROM redis_databases d CROSS JOIN redis_names k USING (space) JOIN redis_stream_groups g ON g.key_id = k.id;

DROP VIEW IF EXISTS stream_consumers;
CREATE VIEW stream_consumers AS
  SELECT d.db, k.name AS key, CAST(c.group_name AS TEXT) AS "group",
         CAST(c.name AS TEXT) AS consumer, datetime(c.seen_at_ms / 1000, 'unixepoch') AS seen_at
  FROM redis_databases d CROSS JOIN redis_names k USING (space) JOIN redis_stream_consumers c ON c.key_id = k.id;

DROP VIEW IF EXISTS stream_pending;
CREATE VIEW stream_pending AS
  SELECT d.db, k.name AS key, CAST(p.group_name AS TEXT) AS "group",
         (SELECT printf('%u-%u', sum((instr(bytes, substr(p.id, n.value, 1)) - 1) << (64 - 8 * n.value)),
                 sum((instr(bytes, substr(p.id, n.value + 8, 1)) - 1) << (64 - 8 * n.value)))
          FROM holdfast_bytes, json_each('[1,2,3,4,5,6,7,8]') n) AS id,
         iif(p.delivered_at_ms < 0 AND p.consumer = x'', NULL, CAST(p.consumer AS TEXT)) AS consumer,
         iif(p.delivered_at_ms < 0 AND p.consumer = x'', NULL, datetime(p.delivered_at_ms / 1000, 'unixepoch'))
           AS delivered_at, p.deliveries
  FROM redis_databases d CROSS JOIN redis_names k USING (space) JOIN redis_stream_pending p ON p.key_id = k.id;
