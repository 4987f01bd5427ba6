"""Command families that concern the server itself: they are given the whole session."""

from holdfast.server.families import (
    acl,
    admin,
    client,
    command,
    config,
    connection,
    debug,
    excluded,
    latency,
    memory,
    monitor,
    pubsub,
    slowlog,
    tracking,
    transactions,
    waiting,
)

__all__ = [
    "acl",
    "admin",
    "client",
    "command",
    "config",
    "connection",
    "debug",
    "excluded",
    "latency",
    "memory",
    "monitor",
    "pubsub",
    "slowlog",
    "tracking",
    "transactions",
    "waiting",
]
