"""The commands on data, one file per family. Importing this package fills the table."""

from holdfast.commands import keys, lists, strings

__all__ = ["keys", "lists", "strings"]
