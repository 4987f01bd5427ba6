"""The commands on data, one file per family. Importing this package fills the table."""

from holdfast.commands import (
    bitfield,
    bitmaps,
    expiry,
    hash_expiry,
    hashes,
    hyperloglog,
    keys,
    lcs,
    lists,
    numbers,
    object,
    sets,
    strings,
)

__all__ = [
    "bitfield",
    "bitmaps",
    "expiry",
    "hash_expiry",
    "hashes",
    "hyperloglog",
    "keys",
    "lcs",
    "lists",
    "numbers",
    "object",
    "sets",
    "strings",
]
