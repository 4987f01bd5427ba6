"""Redis's replication, as the primary: the effects of commands, the backlog that keeps them, and
the replicas, which get them.

A server that no replica has followed does none of this. The process that writes a snapshot is in
`migration`. Following a primary is in `server/replica`.
"""
