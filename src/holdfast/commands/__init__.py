"""The commands on data, one file for each family. Importing this package fills the table.

Families do not import each other. Functions that several share are in `args`, `encodings` and the
files named `…_args`. No sessions, sockets or files: a handler is given a `Context`.
"""

from holdfast.commands import (
    bitfield,
    bitmaps,
    dump,
    hash_expiry,
    hashes,
    hyperloglog,
    increx,
    key_expiry,
    keys,
    lcs,
    list_moves,
    lists,
    numbers,
    object,
    sets,
    sort,
    string_compare,
    strings,
)
from holdfast.commands.streams import (
    stream_claims,
    stream_deletes,
    stream_groups,
    stream_info,
    stream_reads,
    stream_settings,
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
    "increx",
    "key_expiry",
    "keys",
    "lcs",
    "list_moves",
    "lists",
    "numbers",
    "object",
    "sets",
    "sort",
    "stream_claims",
    "stream_deletes",
    "stream_groups",
    "stream_info",
    "stream_reads",
    "stream_settings",
    "streams",
    "string_compare",
    "strings",
    "zset_algebra",
    "zset_ranges",
    "zsets",
]
