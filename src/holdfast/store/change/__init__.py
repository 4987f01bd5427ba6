"""The language of change: row operations, the runs that join them, and the log that collects them.

Each change of a value is reported here once; journal, fold, recovery and undo read it. Besides the
row operations there are intents, which tell replicas the meaning of a change (intents.py), and undo
steps (undo.py). No values, no file, no keyspace: this room imports nothing from the other rooms.
"""
