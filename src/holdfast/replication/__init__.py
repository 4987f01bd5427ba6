"""Links between the servers of an active-active database.

Every server dials every other one and *pulls* from it: a `Puller` here, a `Feed` there. What is
pulled is the other's log, in the order in which the other has it, all origins. Acknowledgements go
back on the same connection, and leave only when what they confirm is on disk; so do the records,
because they leave like replies. messages.py has what is said, states.py the life of a link.
"""
