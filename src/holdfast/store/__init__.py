"""Values in memory, SQLite for good: keyspace, value types, journal, fold."""
