-- Tables that a file gets when it is opened, if it lacks them. They are no new version of the schema: an older
-- Holdfast opens the file, and ignores them (decision 34).

-- The idempotent ids of streams (XADD IDMP): the settings, how many ids were added and how many came again.
-- Streams that never used them have no rows here.
CREATE TABLE IF NOT EXISTS redis_stream_idempotence (
  key_id INTEGER PRIMARY KEY,
  duration_s INTEGER NOT NULL,
  maxsize INTEGER NOT NULL,
  added INTEGER NOT NULL,
  duplicates INTEGER NOT NULL
);
-- For each producer, the entry that each of its ids stands for.
CREATE TABLE IF NOT EXISTS redis_stream_iids (
  key_id INTEGER NOT NULL,
  producer BLOB NOT NULL,
  iid BLOB NOT NULL,
  entry_id BLOB NOT NULL,
  PRIMARY KEY (key_id, producer, iid)
) WITHOUT ROWID;

-- How many elements a large hash, set or sorted set has. Not every one has a row here; the row of one that has is
-- right (store/fold/write_sizes.py).
CREATE TABLE IF NOT EXISTS redis_sizes (
  key_id INTEGER PRIMARY KEY,
  elements INTEGER NOT NULL
);

-- How far a replica of another server (REPLICAOF) has come: one row, written with the data that it is about. A primary
-- has none.
CREATE TABLE IF NOT EXISTS holdfast_replication (
  part INTEGER NOT NULL,
  name BLOB NOT NULL,
  value BLOB NOT NULL,
  PRIMARY KEY (part, name)
) WITHOUT ROWID;
