"""The commands on data, one file per family. Importing this package fills the table."""

from holdfast.commands import expiry, keys, lcs, lists, numbers, object, strings

__all__ = ["expiry", "keys", "lcs", "lists", "numbers", "object", "strings"]
