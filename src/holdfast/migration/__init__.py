"""Moving all data in and out: `holdfast import`, `holdfast export`, `holdfast compare`.

A source gives records (store/rdb/records.py): an RDB file, a folder of append-only files, a
database file, or a server that runs. A target takes them: a database file, an RDB file, or a server
that runs. Between them a `Selection` leaves records out and renames databases. A target that is a
file becomes visible at once, when it is complete. The processes that write and load snapshots for
Redis's replication are here, too (`snapshot`, `replica_file`).

Nothing here prints, and nothing knows a command line: see holdfast/cli.
"""
