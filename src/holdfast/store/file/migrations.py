"""The versions of the schema: what makes the next one of each. (The newest is schema.sql.)"""

SCHEMA_VERSION = 6

# Since version 4, elements of lists share a row. Old elements keep their own rows until they are
# written again: to convert all of them would make the start slow.
BLOCKS = """
DROP VIEW lists;
ALTER TABLE redis_list_meta RENAME TO redis_list_meta_3;
CREATE TABLE redis_list_blocks (
  key_id INTEGER NOT NULL,
  pos INTEGER NOT NULL,
  first INTEGER NOT NULL,
  sizes TEXT NOT NULL,
  data BLOB NOT NULL,
  PRIMARY KEY (key_id, pos)
);
CREATE TABLE redis_list_meta (
  key_id INTEGER PRIMARY KEY,
  length INTEGER NOT NULL,
  off_grid INTEGER NOT NULL,
  singles INTEGER NOT NULL
);
INSERT INTO redis_list_meta SELECT key_id, length, off_grid, length FROM redis_list_meta_3;
DROP TABLE redis_list_meta_3;
CREATE VIEW lists AS
  WITH ends AS (
    SELECT key_id, pos, first + s.key AS place, s.value AS size, data,
           sum(s.value) OVER (PARTITION BY key_id, pos ORDER BY s.key) AS end
    FROM redis_list_blocks, json_each(sizes) s WHERE s.value IS NOT NULL
  ), elements AS (
    SELECT key_id, pos, value FROM redis_list_items UNION ALL
    SELECT key_id, pos + place * 1048576, substr(data, end - size + 1, size) FROM ends
  )
  SELECT d.db, CAST(k.name AS TEXT) AS key,
         row_number() OVER (PARTITION BY e.key_id ORDER BY e.pos) - 1 AS "index",
         CAST(e.value AS TEXT) AS value
  FROM elements e JOIN redis_keys k ON k.id = e.key_id JOIN redis_databases d USING (space);
"""

# Since version 5, entries of streams share a row. Old entries keep their own rows until they are
# written again, but they are copied to a table with row ids: a µs for each.
ENTRIES = """
ALTER TABLE redis_stream_entries RENAME TO redis_stream_entries_4;
CREATE TABLE redis_stream_entries (
  key_id INTEGER NOT NULL,
  id BLOB NOT NULL,
  entries BLOB NOT NULL,
  PRIMARY KEY (key_id, id)
);
INSERT INTO redis_stream_entries SELECT key_id, id, fields FROM redis_stream_entries_4;
DROP TABLE redis_stream_entries_4;
"""

# Since version 6, names have a table of their own in place of an index. Holdfast 0.1.0 had an index
# by bytes; later ones had an index by text.
NAMES = """
CREATE TABLE redis_names (
  space INTEGER NOT NULL,
  name TEXT NOT NULL,
  id INTEGER NOT NULL,
  PRIMARY KEY (space, name, id)
) WITHOUT ROWID;
INSERT INTO redis_names SELECT space, CAST(name AS TEXT), id FROM redis_keys ORDER BY 1, 2, 3;
DROP INDEX IF EXISTS redis_keys_by_name;
DROP INDEX IF EXISTS redis_keys_by_text;
"""

# What turns a file of version n into n + 1, by n. Runs in one transaction.
MIGRATIONS: dict[int, str] = {
    1: "DROP INDEX IF EXISTS redis_zset_members_by_score",
    2: "DROP TRIGGER redis_keys_added; DROP TRIGGER redis_keys_removed;"
    " DROP TRIGGER redis_keys_moved; DROP TRIGGER redis_list_items_added;"
    " DROP TRIGGER redis_list_items_removed; DROP TRIGGER redis_graves_emptied",
    3: BLOCKS,
    4: ENTRIES,
    5: NAMES,
}

# The table that such a step reads row by row, if it reads one. Its size says how long that takes.
READ_BY_MIGRATION = {3: "redis_list_meta", 4: "redis_stream_entries", 5: "redis_keys"}
