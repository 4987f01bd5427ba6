"""The databases in memory: keyspace, databases, keys, expiry, eviction, savepoints.

Values live in `store/values`, rows in `store/file`. Nothing here writes to the file.
"""
