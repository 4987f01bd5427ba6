"""The engine and its loop turn: admit, run, block, commit, reply, and what runs ten times a second.

Sockets are in `net`, the commands in `commands`.
"""
