"""Links between the servers of an active-active database.

Every server dials every other one and *pulls* from it: a `Puller` here, a `Feed` there. A peer
sends its log, records of all origins, in its own order. Acknowledgements go back on the same
connection, and leave only when the records that they confirm are on disk. Records leave like
replies, so they are on disk, too. messages.py defines the messages, link_states.py the life of a
link.
"""
