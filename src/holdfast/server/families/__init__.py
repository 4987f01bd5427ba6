"""Command families that concern the server itself: they are given the whole session."""

from holdfast.server.families import connection, transactions

__all__ = ["connection", "transactions"]
