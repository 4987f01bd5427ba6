"""Links between the servers of an active-active database.

Each server dials all others and *pulls* from them: a `Puller` here is linked with a `Feed` there. A
peer sends its log, with records of all origins, in its own order. Acknowledgements go back on the
same connection, and leave only when the records that they confirm are on disk. Records leave like
replies, so they are on disk, too. messages.py defines the messages, link_states.py the states of a
link.
"""
