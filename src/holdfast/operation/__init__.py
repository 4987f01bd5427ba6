"""What an operator sees of a server process: its log, long work in it, and what systemd is told.

This room knows no engine and no socket of a client. `holdfast/daemon.py` uses it.
"""
