-- Holdfast's database file. State = these tables + the journal: a batch of row operations is
-- first one row of `journal`; the fold later writes it into the tables and deletes it there.
-- People read the views at the end; everything else belongs to the server.

-- One row for each committed batch that is not folded yet: msgpack of [table, key_id, sub, value].
CREATE TABLE journal (
  lsn INTEGER PRIMARY KEY,
  batch BLOB NOT NULL
);

-- Facts about the file: schema_version and whatever else is one value.
CREATE TABLE holdfast_meta (
  name TEXT PRIMARY KEY,
  value
) WITHOUT ROWID;

-- Which space a numbered database shows. FLUSHDB gives it a new one, SWAPDB exchanges two.
CREATE TABLE redis_databases (
  db INTEGER PRIMARY KEY,
  space INTEGER NOT NULL
);
WITH RECURSIVE numbers(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < 1023)
  INSERT INTO redis_databases SELECT n, n FROM numbers;

-- Every key, of every type. The index is not UNIQUE on purpose: while a fold is under way,
-- a renamed key's new row may stand beside the old owner's for a few slices.
CREATE TABLE redis_keys (
  id INTEGER PRIMARY KEY,
  space INTEGER NOT NULL,
  name BLOB NOT NULL,
  type TEXT NOT NULL,
  expires_at_ms INTEGER
);
CREATE INDEX redis_keys_by_name ON redis_keys (space, name);
CREATE INDEX redis_keys_by_expiry ON redis_keys (expires_at_ms) WHERE expires_at_ms IS NOT NULL;

-- How many keys a space has, so that a start does not count them.
CREATE TABLE redis_space_sizes (
  space INTEGER PRIMARY KEY,
  keys INTEGER NOT NULL
);
CREATE TRIGGER redis_keys_added AFTER INSERT ON redis_keys BEGIN
  INSERT INTO redis_space_sizes VALUES (new.space, 1) ON CONFLICT DO UPDATE SET keys = keys + 1;
END;
CREATE TRIGGER redis_keys_removed AFTER DELETE ON redis_keys BEGIN
  UPDATE redis_space_sizes SET keys = keys - 1 WHERE space = old.space;
END;
CREATE TRIGGER redis_keys_moved AFTER UPDATE OF space ON redis_keys WHEN old.space <> new.space BEGIN
  UPDATE redis_space_sizes SET keys = keys - 1 WHERE space = old.space;
  INSERT INTO redis_space_sizes VALUES (new.space, 1) ON CONFLICT DO UPDATE SET keys = keys + 1;
END;

CREATE TABLE redis_strings (
  key_id INTEGER PRIMARY KEY,
  value BLOB NOT NULL
);

-- Lists: `pos` orders the elements; neighbours pushed at an end are 2^20 apart.
CREATE TABLE redis_list_items (
  key_id INTEGER NOT NULL,
  pos INTEGER NOT NULL,
  value BLOB NOT NULL,
  PRIMARY KEY (key_id, pos)
) WITHOUT ROWID;

-- A list's length, kept by the database itself, so that it cannot disagree with the items.
-- `off_grid` counts positions that are no multiple of 2^20 (LINSERT makes them): a list with none
-- and no gaps is found by index without reading it.
CREATE TABLE redis_list_meta (
  key_id INTEGER PRIMARY KEY,
  length INTEGER NOT NULL,
  off_grid INTEGER NOT NULL
);
CREATE TRIGGER redis_list_items_added AFTER INSERT ON redis_list_items BEGIN
  INSERT INTO redis_list_meta VALUES (new.key_id, 1, (new.pos & 0xFFFFF) <> 0)
    ON CONFLICT DO UPDATE SET length = length + 1, off_grid = off_grid + excluded.off_grid;
END;
CREATE TRIGGER redis_list_items_removed AFTER DELETE ON redis_list_items BEGIN
  UPDATE redis_list_meta
    SET length = length - 1, off_grid = off_grid - ((old.pos & 0xFFFFF) <> 0)
    WHERE key_id = old.key_id;
END;

-- Hashes and sets: `ordinal` is the order in which fields and members came.
CREATE TABLE redis_hash_fields (
  key_id INTEGER NOT NULL,
  field BLOB NOT NULL,
  value BLOB NOT NULL,
  ordinal INTEGER NOT NULL,
  expires_at_ms INTEGER,
  PRIMARY KEY (key_id, field)
) WITHOUT ROWID;
CREATE INDEX redis_hash_fields_by_expiry ON redis_hash_fields (expires_at_ms)
  WHERE expires_at_ms IS NOT NULL;

CREATE TABLE redis_set_members (
  key_id INTEGER NOT NULL,
  member BLOB NOT NULL,
  ordinal INTEGER NOT NULL,
  PRIMARY KEY (key_id, member)
) WITHOUT ROWID;

CREATE TABLE redis_zset_members (
  key_id INTEGER NOT NULL,
  member BLOB NOT NULL,
  score REAL NOT NULL,
  PRIMARY KEY (key_id, member)
) WITHOUT ROWID;
CREATE INDEX redis_zset_members_by_score ON redis_zset_members (key_id, score, member);

-- Streams: an id is 16 bytes, milliseconds and sequence as big-endian 64-bit numbers, so that
-- bytes compare as ids do.
CREATE TABLE redis_stream_meta (
  key_id INTEGER PRIMARY KEY,
  last_id BLOB NOT NULL,
  max_deleted_id BLOB NOT NULL,
  entries_added INTEGER NOT NULL
);
CREATE TABLE redis_stream_entries (
  key_id INTEGER NOT NULL,
  id BLOB NOT NULL,
  fields BLOB NOT NULL, -- msgpack: [field, value, field, value, …]
  PRIMARY KEY (key_id, id)
) WITHOUT ROWID;
CREATE TABLE redis_stream_groups (
  key_id INTEGER NOT NULL,
  name BLOB NOT NULL,
  last_id BLOB NOT NULL,
  entries_read INTEGER, -- NULL: not known
  PRIMARY KEY (key_id, name)
) WITHOUT ROWID;
CREATE TABLE redis_stream_consumers (
  key_id INTEGER NOT NULL,
  group_name BLOB NOT NULL,
  name BLOB NOT NULL,
  seen_at_ms INTEGER NOT NULL,
  PRIMARY KEY (key_id, group_name, name)
) WITHOUT ROWID;
CREATE TABLE redis_stream_pending (
  key_id INTEGER NOT NULL,
  group_name BLOB NOT NULL,
  id BLOB NOT NULL,
  consumer BLOB NOT NULL,
  delivered_at_ms INTEGER NOT NULL,
  deliveries INTEGER NOT NULL,
  PRIMARY KEY (key_id, group_name, id)
) WITHOUT ROWID;

-- Scripts by SHA1 (kind 0) and libraries of functions by name (kind 1).
CREATE TABLE redis_scripts (
  kind INTEGER NOT NULL,
  name BLOB NOT NULL,
  body BLOB NOT NULL,
  PRIMARY KEY (kind, name)
) WITHOUT ROWID;

-- Replicated (active-active) databases only. What several servers may change at once is kept
-- here; the tables above have what clients see of it. See crdt/ and store/replicated/replication.py.
CREATE TABLE crdt_keys (
  id INTEGER PRIMARY KEY,
  db INTEGER NOT NULL,
  name BLOB NOT NULL
);
CREATE TABLE crdt_rows (
  key_id INTEGER NOT NULL,
  kind INTEGER NOT NULL,
  sub BLOB NOT NULL, -- msgpack: the cell; of lists: the position of the first of up to 32
  row BLOB NOT NULL, -- msgpack: all that is to be known of it
  PRIMARY KEY (key_id, kind, sub)
) WITHOUT ROWID;
-- Changes that not every server has confirmed, in the order in which this one made them.
CREATE TABLE crdt_log (
  part INTEGER NOT NULL, -- 0
  lsn INTEGER NOT NULL,
  record BLOB NOT NULL, -- msgpack: [origin, after, seq, hlc, changes]
  PRIMARY KEY (part, lsn)
) WITHOUT ROWID;
-- Who this server is, what it has seen, whom it knows.
CREATE TABLE crdt_facts (
  part INTEGER NOT NULL, -- 0
  name BLOB NOT NULL,
  value BLOB NOT NULL, -- msgpack
  PRIMARY KEY (part, name)
) WITHOUT ROWID;

-- What died as one row operation but still has rows: the id of a key, with its type, or of a
-- space.
CREATE TABLE redis_graves (
  id INTEGER PRIMARY KEY,
  kind TEXT NOT NULL
);
CREATE TRIGGER redis_graves_emptied AFTER DELETE ON redis_graves WHEN old.kind = 'list' BEGIN
  DELETE FROM redis_list_meta WHERE key_id = old.id;
END;

-- For people.
CREATE VIEW keys AS
  SELECT d.db, CAST(k.name AS TEXT) AS key, k.type,
         datetime(k.expires_at_ms / 1000, 'unixepoch') AS expires_at
  FROM redis_keys k JOIN redis_databases d USING (space);
CREATE VIEW strings AS
  SELECT d.db, CAST(k.name AS TEXT) AS key, CAST(s.value AS TEXT) AS value
  FROM redis_strings s JOIN redis_keys k ON k.id = s.key_id JOIN redis_databases d USING (space);
CREATE VIEW lists AS
  SELECT d.db, CAST(k.name AS TEXT) AS key,
         row_number() OVER (PARTITION BY i.key_id ORDER BY i.pos) - 1 AS "index",
         CAST(i.value AS TEXT) AS value
  FROM redis_list_items i JOIN redis_keys k ON k.id = i.key_id JOIN redis_databases d USING (space);
CREATE VIEW hashes AS
  SELECT d.db, CAST(k.name AS TEXT) AS key, CAST(f.field AS TEXT) AS field,
         CAST(f.value AS TEXT) AS value,
         datetime(f.expires_at_ms / 1000, 'unixepoch') AS expires_at
  FROM redis_hash_fields f JOIN redis_keys k ON k.id = f.key_id JOIN redis_databases d USING (space);
CREATE VIEW sets AS
  SELECT d.db, CAST(k.name AS TEXT) AS key, CAST(m.member AS TEXT) AS member
  FROM redis_set_members m JOIN redis_keys k ON k.id = m.key_id JOIN redis_databases d USING (space);
CREATE VIEW zsets AS
  SELECT d.db, CAST(k.name AS TEXT) AS key, CAST(m.member AS TEXT) AS member, m.score
  FROM redis_zset_members m JOIN redis_keys k ON k.id = m.key_id JOIN redis_databases d USING (space);
