-- Holdfast's database file. State = these tables + the journal: a batch of row operations is
-- first one row of `journal`; the fold later writes it into the tables and deletes it there.
-- People read the views (views.sql); everything else belongs to the server.

-- One row for each committed batch that is not folded yet: msgpack of [table, key_id, sub, value].
-- (Tables 17 to 21 do not exist: they are runs of rows of other tables, see store/change/ops.py.)
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
-- a renamed key's new row may stand beside the old owner's for a few slices. It has names as text, whose
-- bytes are the same, because the views show them so: one index serves the server and other programs.
CREATE TABLE redis_keys (
  id INTEGER PRIMARY KEY,
  space INTEGER NOT NULL,
  name BLOB NOT NULL,
  type TEXT NOT NULL,
  expires_at_ms INTEGER
);
CREATE INDEX redis_keys_by_text ON redis_keys (space, CAST(name AS TEXT));
CREATE INDEX redis_keys_by_expiry ON redis_keys (expires_at_ms) WHERE expires_at_ms IS NOT NULL;

-- How many keys a space has, so that a start does not count them. Written together with the keys.
CREATE TABLE redis_space_sizes (
  space INTEGER PRIMARY KEY,
  keys INTEGER NOT NULL
);

CREATE TABLE redis_strings (
  key_id INTEGER PRIMARY KEY,
  value BLOB NOT NULL
);

-- Lists: `pos` orders the elements; neighbours pushed at an end are 2^20 apart. Of 32 such places
-- the short elements share a row. `pos` is the first of these places, a multiple of 2^25, `first` the
-- number of the first that has an element. `data` has all of them one behind the other, `sizes`, a JSON
-- array, how long each one is, from the first to the last, null where there is none between.
-- (No WITHOUT ROWID: a row of such a table leaves its page when it has a quarter of it.)
CREATE TABLE redis_list_blocks (
  key_id INTEGER NOT NULL,
  pos INTEGER NOT NULL,
  first INTEGER NOT NULL,
  sizes TEXT NOT NULL,
  data BLOB NOT NULL,
  PRIMARY KEY (key_id, pos)
);
-- Elements by themselves: those that are long, those that were inserted between two places, and those
-- that were written before there were blocks.
CREATE TABLE redis_list_items (
  key_id INTEGER NOT NULL,
  pos INTEGER NOT NULL,
  value BLOB NOT NULL,
  PRIMARY KEY (key_id, pos)
) WITHOUT ROWID;

-- A list's length, written together with the elements, so that it cannot disagree with them. (A list
-- in a grave may have elements and no length.) `off_grid` counts positions that are no multiple of 2^20
-- (LINSERT makes them): in a list with none and no gaps an index is found without reading it. `singles`
-- counts what is in redis_list_items.
CREATE TABLE redis_list_meta (
  key_id INTEGER PRIMARY KEY,
  length INTEGER NOT NULL,
  off_grid INTEGER NOT NULL,
  singles INTEGER NOT NULL
);

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

-- Sorted sets: not by score, because an index that is written to at random costs the fold more than
-- loading gains by it (decision 9).
CREATE TABLE redis_zset_members (
  key_id INTEGER NOT NULL,
  member BLOB NOT NULL,
  score REAL NOT NULL,
  PRIMARY KEY (key_id, member)
) WITHOUT ROWID;

-- Streams: an id is 16 bytes, milliseconds and sequence as big-endian 64-bit numbers, so that
-- bytes compare as ids do.
CREATE TABLE redis_stream_meta (
  key_id INTEGER PRIMARY KEY,
  last_id BLOB NOT NULL,
  max_deleted_id BLOB NOT NULL,
  entries_added INTEGER NOT NULL
);
-- Entries: those from `id` on to the next row's, up to 32 if they are short. `entries` is msgpack:
-- [id, [field, value, field, value, …], id, […], …]; or [field, value, …], of one entry that was
-- written before several shared a row.
CREATE TABLE redis_stream_entries (
  key_id INTEGER NOT NULL,
  id BLOB NOT NULL,
  entries BLOB NOT NULL,
  PRIMARY KEY (key_id, id)
);
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
-- Changes that not every server has confirmed, in the order in which this one made them. A record
-- of more than 32 MB has parts 1, 2, … as well.
CREATE TABLE crdt_log (
  part INTEGER NOT NULL, -- 0
  lsn INTEGER NOT NULL,
  record BLOB NOT NULL, -- msgpack: [origin, after, seq, hlc, changes]
  PRIMARY KEY (part, lsn)
) WITHOUT ROWID;
-- The identity of this server, the events that it has seen, the servers that it knows.
CREATE TABLE crdt_facts (
  part INTEGER NOT NULL, -- 0
  name BLOB NOT NULL,
  value BLOB NOT NULL, -- msgpack
  PRIMARY KEY (part, name)
) WITHOUT ROWID;

-- What died as one row operation but still has rows: the id of a key, with its type, or of a
-- space; or the id below which the replicated keys of a database are dead.
CREATE TABLE redis_graves (
  id INTEGER PRIMARY KEY,
  kind TEXT NOT NULL
);
