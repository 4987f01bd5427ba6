"""Redis's serialised forms: of a value (DUMP, RESTORE), and of all keys (RDB files and streams).

Bytes become values and records, and the other way round.

Nothing here opens a file or a socket, and nothing knows keys in memory: plain.py moves values from
and to the collections of store/values, its callers attach them to names.
"""
