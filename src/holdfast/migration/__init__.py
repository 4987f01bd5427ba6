"""Moving all data in and out: `holdfast import` and `holdfast export`.

A source gives records (store/rdb/records.py): an RDB file, a folder of append-only files, a
database file. A target takes them: a database file, an RDB file. Between them a `Selection` leaves
records out and renames databases. Everything becomes visible at once, when the target is complete.

Nothing here prints, and nothing knows a command line: see holdfast/cli.
"""
