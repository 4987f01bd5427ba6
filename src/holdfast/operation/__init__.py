"""The parts of a server process that its operator sees: the log, the progress of long work, the
messages to systemd, the process of the dashboard.

This room knows no engine and no socket of a client. `holdfast/daemon.py` uses it.
"""
