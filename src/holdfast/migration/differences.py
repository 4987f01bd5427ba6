"""Whether two values are equal, and if not, where they differ. No I/O.

Two things are not compared: the times at which consumers of streams were last seen, and ids of
idempotent producers. Not every server keeps them, and files do not have all of them.
"""

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

from holdfast.store.rdb.file_reader import printable
from holdfast.store.rdb.plain import Plain
from holdfast.store.rdb.stream_codec import GroupData, StreamData
from holdfast.store.values.stream_id import text_of

MISSING = object()


def difference(one: Plain, other: Plain) -> str | None:
    """The end of the sentence "the values differ: …"; None if they are equal."""
    if one.type != other.type:
        return f"{one.type} and {other.type}"
    if one.type == "string":
        return _strings(one.content, other.content)
    if one.type == "list":
        return _lists(one.content, other.content)
    if one.type == "set":
        return _maps("member", dict.fromkeys(one.content), dict.fromkeys(other.content))
    if one.type == "zset":
        return _maps("the score of member", dict(one.content), dict(other.content))
    if one.type == "hash":
        return _maps("field", _fields(one.content), _fields(other.content))
    return _streams(one.content, other.content)


def is_same_expiry(one: int | None, other: int | None, tolerance_ms: int) -> bool:
    if one is None or other is None:
        return one is other
    return abs(one - other) <= tolerance_ms


def _strings(one: bytes, other: bytes) -> str | None:
    if one == other:
        return None
    return f"from byte {_first_difference(one, other):,} on ({len(one):,} and {len(other):,} bytes)"


def _first_difference(one: bytes, other: bytes) -> int:
    """By halves, because a loop over the bytes would take a minute for hundreds of megabytes."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _lists(one: Sequence[bytes], other: Sequence[bytes]) -> str | None:
    for index, (left, right) in enumerate(zip_longest(one, other)):
        if left != right:
            return f"element {index:,} ({len(one):,} and {len(other):,} elements)"
    return None


def _fields(fields: Sequence[tuple[bytes, bytes, int | None]]) -> dict[bytes, Any]:
    return {name: (text, at_ms) for name, text, at_ms in fields}


def _maps(what: str, one: dict[bytes, Any], other: dict[bytes, Any]) -> str | None:
    if one == other:
        return None
    for name, value in one.items():
        if other.get(name, MISSING) != value:
            place = "" if name in other else ", which the second lacks"
            return f"{what} {printable(name)}{place}"
    extra = next(name for name in other if name not in one)
    return f"{what} {printable(extra)}, which the first lacks"


def _streams(one: StreamData, other: StreamData) -> str | None:
    for left, right in zip_longest(one.entries, other.entries):
        if left is None or right is None:
            entry_id = (left or right)[0]
            lacking = "first" if left is None else "second"
            return f"entry {text_of(entry_id).decode()}, which the {lacking} lacks"
        if (left[0], tuple(left[1])) != (right[0], tuple(right[1])):
            return f"entry {text_of(min(left[0], right[0])).decode()}"
    for name in ("last_id", "max_deleted_id", "entries_added"):
        if getattr(one, name) != getattr(other, name):
            return name.replace("_", " ")
    return _maps("group", _groups(one.groups), _groups(other.groups))


def _groups(groups: Sequence[GroupData]) -> dict[bytes, Any]:
    return {
        group.name: (
            group.last_id,
            group.entries_read,
            sorted(name for name, _ in group.consumers if name),
            sorted((entry_id, who, count) for entry_id, who, _, count in _pending(group)),
        )
        for group in groups
    }


def _pending(group: GroupData) -> list[tuple[int, bytes, int, int]]:
    """Also entries that were returned, in the form in which older servers have them."""
    return [*group.pending, *((entry_id, b"", 0, count) for entry_id, count in group.returned)]
