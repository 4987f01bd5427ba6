"""Values in memory, SQLite for good: keyspace, value types, journal, fold.

No commands, no clients, no sockets. `Store` is the whole of it; the rooms below have the parts.
"""
