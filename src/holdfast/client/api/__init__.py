"""The interface for users: client, typed commands, pub/sub, transactions, cache, blocking calls.

Nothing here opens a socket or chooses a server: `topology` does that.
"""
