"""The server: engine, sessions, waiting, the end of a turn, and the sockets around them.

Commands on data are in `commands`, values and files in `store`. The server imports nothing of
`replication`: `holdfast/daemon.py` puts both together.
"""
