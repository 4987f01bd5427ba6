"""Every family of commands, whichever package it belongs to. Importing this fills the table."""

from holdfast import commands
from holdfast.replication import active_commands
from holdfast.server import commands as server_commands

__all__ = ["active_commands", "commands", "server_commands"]
