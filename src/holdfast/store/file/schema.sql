-- Holdfast's database file. The state is these tables and the journal. A batch of row operations is first
-- written as one row of `journal`. Later the fold writes it into the tables and deletes it from the journal.
-- People and their programs read the views (views.sql). The tables belong to the server. Tables that came later,
-- without a new version of the schema, are in additions.sql.

-- One row for each committed batch that is not folded yet: msgpack of [table, key_id, sub, value]. (There are
-- no tables with the numbers 17 to 21, 24 and 25: they stand for runs of rows of other tables, see store/change/ops.py.)
CREATE TABLE journal (
  lsn INTEGER PRIMARY KEY,
  batch BLOB NOT NULL
);

-- Facts about the file, each of one value, such as schema_version.
CREATE TABLE holdfast_meta (
  name TEXT PRIMARY KEY,
  value
) WITHOUT ROWID;

-- The space of each numbered database: the keys of a database are the keys of its space. FLUSHDB gives a
-- database a new space, SWAPDB exchanges the spaces of two databases.
CREATE TABLE redis_databases (
  db INTEGER PRIMARY KEY,
  space INTEGER NOT NULL
);
WITH RECURSIVE numbers(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < 1023)
  INSERT INTO redis_databases SELECT n, n FROM numbers;

-- Every key, of every type.
CREATE TABLE redis_keys (
  id INTEGER PRIMARY KEY,
  space INTEGER NOT NULL,
  name BLOB NOT NULL,
  type TEXT NOT NULL,
  expires_at_ms INTEGER
);
CREATE INDEX redis_keys_by_expiry ON redis_keys (expires_at_ms) WHERE expires_at_ms IS NOT NULL;

-- Keys by name. It is a table, not an index of redis_keys, because SQLite writes an index together with its
-- table, in the order of ids. The fold writes this table by itself, in the order of names: a new key costs a
-- third (decision 35). A key that has a name here has a row in redis_keys. The reverse holds, too, except for
-- keys that the journal mentions. `name` is the name of the key as text, with the same bytes, because the views
-- show it as text. `id` is a part of the primary key: while a fold runs, a renamed key and the key that had
-- the name before may both be here, for a few slices.
CREATE TABLE redis_names (
  space INTEGER NOT NULL,
  name TEXT NOT NULL,
  id INTEGER NOT NULL,
  PRIMARY KEY (space, name, id)
) WITHOUT ROWID;

-- The number of keys in each space, so that a start need not count them. Written together with the keys.
CREATE TABLE redis_space_sizes (
  space INTEGER PRIMARY KEY,
  keys INTEGER NOT NULL
);

CREATE TABLE redis_strings (
  key_id INTEGER PRIMARY KEY,
  value BLOB NOT NULL
);

-- Lists: `pos` orders the elements; neighbours that were pushed at an end are 2^20 apart. The short elements
-- of 32 such places share a row, a block. `pos` is the first of the 32 places, a multiple of 2^25. `first` is
-- the number (0 to 31) of the first place with an element. `data` has all elements one behind the other.
-- `sizes` is a JSON array of their lengths, from the first element to the last; null is a place without one.
-- (Not WITHOUT ROWID: in such a table, a row larger than a quarter of a page is moved to overflow pages.)
CREATE TABLE redis_list_blocks (
  key_id INTEGER NOT NULL,
  pos INTEGER NOT NULL,
  first INTEGER NOT NULL,
  sizes TEXT NOT NULL,
  data BLOB NOT NULL,
  PRIMARY KEY (key_id, pos)
);
-- Elements with a row of their own: long elements, elements that were inserted between two places, and
-- elements that a version without blocks wrote.
CREATE TABLE redis_list_items (
  key_id INTEGER NOT NULL,
  pos INTEGER NOT NULL,
  value BLOB NOT NULL,
  PRIMARY KEY (key_id, pos)
) WITHOUT ROWID;

-- The length of a list, written together with its elements, so that both agree. (A list in a grave may have
-- elements and no length.) `off_grid` counts positions that are no multiple of 2^20 (LINSERT makes them): in a
-- list without such positions and without gaps, an index is found by computing, without reading the list.
-- `singles` counts the rows of the list in redis_list_items.
CREATE TABLE redis_list_meta (
  key_id INTEGER PRIMARY KEY,
  length INTEGER NOT NULL,
  off_grid INTEGER NOT NULL,
  singles INTEGER NOT NULL
);

-- Hashes and sets: `ordinal` is the order in which fields and members were added.
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

-- Sorted sets: there is no index by score. Random writes into such an index would cost the fold more time
-- than a load saves (decision 9).
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
-- Entries of streams: a row has the entry `id` and up to 31 entries after it, if they are short. `entries` is
-- msgpack: [id, [field, value, field, value, …], id, […], …]; or [field, value, …] of one entry, written by a
-- version that had one row for each entry.
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
-- An entry that was returned (XNACK) has no consumer: an empty name, and in the place of the time a negative
-- number, which orders the returned entries of the group.
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

-- Only for replicated (active-active) databases. These tables have the replicated state, which several
-- servers may change at once; the tables above have the values that clients see of it. See crdt/ and
-- store/replicated/replication.py.
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
-- Changes that not every server has confirmed, in the order in which this server made them. A record of more
-- than 32 MB has parts 1, 2, … as well.
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

-- Graves: keys and spaces that one row operation deleted, and that still have rows to delete. `id` is the id
-- of a key, with its type as `kind`, or of a space; or the id below which the replicated keys of a database
-- are deleted.
CREATE TABLE redis_graves (
  id INTEGER PRIMARY KEY,
  kind TEXT NOT NULL
);
