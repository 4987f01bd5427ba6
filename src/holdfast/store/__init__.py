"""Values in memory and in an SQLite file: keyspace, value types, journal, fold.

No commands, no clients, no sockets. `Store` joins all parts; the rooms below have the parts.
"""
