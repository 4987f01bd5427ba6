"""Redis's replication, as the replica sees it: bytes in, events out. No sockets, clock or store.
The server follows a primary with it, and an import reads a server that runs with it.
"""
