"""The engine and its loop turn: admit, run, block, commit, reply, and the work of each tick.

Sockets are in `net`, the commands in `commands`.
"""
