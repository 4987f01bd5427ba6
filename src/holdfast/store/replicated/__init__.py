"""The databases of an active-active server: a replica key beside each key that clients see, and a
log.

This room is a stage between the batch and the journal (stage.py). It turns changes of clients into
records, and records of peers into changes of the keys that clients see. `Store` adds it, and
`replication` exchanges its records with peers. Commands, server and values do not know this room.
The replicated values themselves are in `crdt`.
"""
