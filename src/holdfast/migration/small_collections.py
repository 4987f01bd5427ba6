"""Reads the small collections of a database file in the order of their keys: one statement for all
of a type. A statement for each key takes several times as long.

A collection with many elements or long ones is not read here, so memory is bounded.
"""

import sys
from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import Any, Final

from holdfast.store.file.list_blocks import unpack

SHORT: Final = 1 << 10  # bytes of a name or value
MOST: Final = 128  # elements
MOST_SKIPPED: Final = 50  # rows; to skip more takes longer than a new statement

# Behind the last row.
END: Final[tuple[Any, ...]] = (sys.maxsize,)


def _short(column: str) -> str:
    """NULL if it is long. SQLite knows its length without reading it."""
    return f"iif(length({column}) <= {SHORT}, {column}, NULL)"


# The key, what the rows are sorted by, and the element. Bindings: the key to begin with.
ROWS: Final = {
    "hash": f"SELECT key_id, ordinal, {_short('field')}, {_short('value')}, expires_at_ms"
    " FROM redis_hash_fields",
    "set": f"SELECT key_id, ordinal, {_short('member')} FROM redis_set_members",
    "zset": f"SELECT key_id, score, {_short('member')} FROM redis_zset_members",
    "list": "SELECT key_id, pos, sizes, data, length, singles"
    " FROM redis_list_meta CROSS JOIN redis_list_blocks USING (key_id)",
}
FROM_KEY: Final = " WHERE key_id >= ? ORDER BY key_id"

_order: Final = itemgetter(1)
_score_and_member: Final = itemgetter(1, 2)


class SmallCollections:
    """Those of one type."""

    def __init__(self, execute: Callable[..., Iterator[Any]], type_name: str) -> None:
        self._execute = execute
        self._type = type_name
        self._statement = ROWS[type_name] + FROM_KEY
        self._rows: Iterator[Any] = iter(())
        self._row: tuple[Any, ...] = END  # the next one
        self._last_id = sys.maxsize

    def content(self, key_id: int) -> list[Any] | None:
        """See `Plain`. None if it has many elements, long ones or none, or a field that expires.
        The fewest rows are read if the ids of the calls grow."""
        row = self._first_row(key_id)
        found: list[tuple[Any, ...]] = []
        while row[0] == key_id and len(found) <= MOST:
            found.append(row)
            row = next(self._rows, END)
        self._row = row
        if not found or len(found) > MOST:
            return None
        for each in found:
            if each[2] is None:
                return None
        if self._type == "zset":
            found.sort(key=_score_and_member, reverse=True)  # as redis-server writes a large one
            return [(each[2], each[1]) for each in found]
        if len(found) > 1:
            found.sort(key=_order)
        if self._type == "hash":
            return _fields(found)
        if self._type == "list":
            return _elements(found)
        return [each[2] for each in found]

    def _first_row(self, key_id: int) -> tuple[Any, ...]:
        """The first row of this key or of a later one."""
        row, skipped = self._row, 0
        if key_id <= self._last_id:
            skipped = MOST_SKIPPED
            row = (-1,)
        self._last_id = key_id
        while row[0] < key_id:
            if skipped == MOST_SKIPPED:
                self._rows = self._execute(self._statement, (key_id,))
            skipped += 1
            row = next(self._rows, END)
        return row


def _fields(found: list[tuple[Any, ...]]) -> list[Any] | None:
    for each in found:
        if each[3] is None or each[4] is not None:
            return None
    return [(each[2], each[3], None) for each in found]


def _elements(blocks: list[tuple[Any, ...]]) -> list[Any] | None:
    length, singles = blocks[0][4:]
    if length > MOST or singles:
        return None
    return [
        element
        for _, _, sizes, data, _, _ in blocks
        for element in unpack(sizes, data)
        if element is not None
    ]
