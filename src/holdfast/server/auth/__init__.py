"""Users, their rules, and the check of a command against them. Passwords do not leave this room.

No sessions and no files: the users of this server are in server/core/users.py.
"""
