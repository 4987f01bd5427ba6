"""The commands on data, one file for each family. Importing this package fills the table."""

from holdfast.commands import (
    bitfield,
    bitmaps,
    dump,
    hash_expiry,
    hashes,
    hyperloglog,
    key_expiry,
    keys,
    lcs,
    lists,
    numbers,
    object,
    sets,
    sort,
    strings,
)
from holdfast.commands.streams import (
    stream_claims,
    stream_groups,
    stream_info,
    stream_reads,
    streams,
)
from holdfast.commands.zsets import geo, zset_algebra, zset_ranges, zsets

__all__ = [
    "bitfield",
    "bitmaps",
    "dump",
    "geo",
    "hash_expiry",
    "hashes",
    "hyperloglog",
    "key_expiry",
    "keys",
    "lcs",
    "lists",
    "numbers",
    "object",
    "sets",
    "sort",
    "stream_claims",
    "stream_groups",
    "stream_info",
    "stream_reads",
    "streams",
    "strings",
    "zset_algebra",
    "zset_ranges",
    "zsets",
]
