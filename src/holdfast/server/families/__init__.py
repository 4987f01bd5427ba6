"""Command families that concern the server itself: they are given the whole session."""

from holdfast.server.families import command, connection, transactions

__all__ = ["command", "connection", "transactions"]
