"""Redis's replication, as the replica: the link to a primary, its snapshot, its commands. The bytes
of the protocol are in `psync`. A server that follows no other one does not import this.
"""
