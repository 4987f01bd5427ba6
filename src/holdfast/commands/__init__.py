"""The commands on data, one file per family. Importing this package fills the table."""

from holdfast.commands import (
    bitfield,
    bitmaps,
    expiry,
    hyperloglog,
    keys,
    lcs,
    lists,
    numbers,
    object,
    strings,
)

__all__ = [
    "bitfield",
    "bitmaps",
    "expiry",
    "hyperloglog",
    "keys",
    "lcs",
    "lists",
    "numbers",
    "object",
    "strings",
]
