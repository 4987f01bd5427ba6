"""Sockets: listening, one connection a client, and the server that answers while a script overruns.

Bytes pass here; nothing here knows a command.
"""
