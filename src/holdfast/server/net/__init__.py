"""Sockets: listening, one connection for each client, and the server that answers while a script
runs for too long.

This room moves bytes. It does not know any command.
"""
