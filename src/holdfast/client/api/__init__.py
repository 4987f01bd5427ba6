"""The interface for users: client, typed commands, pub/sub, transactions, cache, blocking calls."""
