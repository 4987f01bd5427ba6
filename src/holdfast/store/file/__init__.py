"""The SQLite file and the files beside it: opening, schema, tables, journal, WAL, mark, copies.

This room reads and writes rows. It does not know keys that are in memory, nor when to fold.
"""
