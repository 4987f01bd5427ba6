"""Redis's serialised forms: of a value (DUMP, RESTORE), and of all keys (RDB files and streams).

Bytes become values and records, and values and records become bytes.

Nothing here opens a file or a socket, and nothing knows keys in memory: plain.py converts
collections of store/values to plain values and back, and the callers give them names.
"""
