"""Undo steps: while a script runs, each change notes the state before it.

A failed script is undone by these, newest first (store/memory/savepoint.py). Each has its own
type. Nothing here knows keys, databases or collections.
"""

from typing import Any, final


@final
class StringUndo:
    """A key held the string `was`."""

    __slots__ = ("key", "was")

    def __init__(self, key: Any, was: bytes) -> None:
        self.key = key
        self.was = was


@final
class PartUndo:
    """A key held a string of this length, with the bytes `was` from the offset on."""

    __slots__ = ("key", "length", "offset", "was")

    def __init__(self, key: Any, offset: int, was: bytes, length: int) -> None:
        self.key = key
        self.offset = offset
        self.was = was
        self.length = length


@final
class RowUndo:
    """A row of a collection had this value in the words of row operations; None: the row did not
    exist."""

    __slots__ = ("collection", "sub", "table", "was")

    def __init__(self, table: int, collection: Any, sub: Any, was: Any) -> None:
        self.table = table
        self.collection = collection
        self.sub = sub
        self.was = was


@final
class KeyUndo:
    """A key had this place: `(space, name, expires_at_ms)`. None: it did not exist."""

    __slots__ = ("key", "was")

    def __init__(self, key: Any, was: tuple[Any, bytes, int | None] | None) -> None:
        self.key = key
        self.was = was


@final
class SpaceUndo:
    """A database showed the space `was`."""

    __slots__ = ("database", "was")

    def __init__(self, database: Any, was: Any) -> None:
        self.database = database
        self.was = was


@final
class WatchUndo:
    """A watcher had not noticed any change."""

    __slots__ = ("watcher",)

    def __init__(self, watcher: Any) -> None:
        self.watcher = watcher


Undo = StringUndo | PartUndo | RowUndo | KeyUndo | SpaceUndo | WatchUndo
