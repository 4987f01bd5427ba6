"""Commands that concern the server itself: their handlers are given the whole session.

They may use all of the engine (`engine_of`). They do not import each other.
"""

from holdfast.server.commands import (
    acl_commands,
    admin_commands,
    client_commands,
    command_commands,
    commandlog_commands,
    config_commands,
    connection_commands,
    debug_commands,
    excluded_commands,
    functions_commands,
    himport_commands,
    hotkeys_commands,
    latency_commands,
    memory_commands,
    monitor_commands,
    pubsub_commands,
    replica_commands,
    scripting_commands,
    slowlog_commands,
    tracking_commands,
    transactions_commands,
    wait_commands,
)

__all__ = [
    "acl_commands",
    "admin_commands",
    "client_commands",
    "command_commands",
    "commandlog_commands",
    "config_commands",
    "connection_commands",
    "debug_commands",
    "excluded_commands",
    "functions_commands",
    "himport_commands",
    "hotkeys_commands",
    "latency_commands",
    "memory_commands",
    "monitor_commands",
    "pubsub_commands",
    "replica_commands",
    "scripting_commands",
    "slowlog_commands",
    "tracking_commands",
    "transactions_commands",
    "wait_commands",
]
