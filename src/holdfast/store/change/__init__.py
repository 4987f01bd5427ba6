"""The language of change: row operations, the runs that join them, and the log that takes them.

Every change of a value is reported here once; journal, fold, recovery and undo read it. Beside the
rows stand their meaning for replicas (intents.py) and the steps back (undo.py). No values, no file,
no keyspace: this room imports nothing of the others.
"""
