"""The types that are collections: what each one is called, its class, and its rows.

Whoever must treat values alike, whatever they are (recovery, fold, keyspace), asks this table.
Strings are no collections: their value is `bytes`, and their one row goes with the key's.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol, Self

from holdfast.store.hashes import Hash
from holdfast.store.lists import List
from holdfast.store.ops import HASH_FIELDS, LIST_ITEMS, SET_MEMBERS, ZSET_MEMBERS, ChangeLog
from holdfast.store.sets import Set
from holdfast.store.streams import ROWS as STREAM_ROWS
from holdfast.store.streams import Stream
from holdfast.store.zsets import ZSet


class Collection(Protocol):
    """A value with elements. Each mutator of its own takes the ChangeLog as its last argument."""

    id: int
    nbytes: int

    def __init__(self, key_id: int) -> None: ...

    def __len__(self) -> int: ...

    def copy(self, new_id: int, log: ChangeLog) -> Self:
        """A new value with the same elements, all of them reported as rows of `new_id`."""
        ...

    def parts(self) -> list[Any]:
        """The dicts and lists that hold what it has, for whoever takes it apart."""
        ...


class CollectionType(NamedTuple):
    name: str
    cls: type[Collection]
    # How a row operation on each of its tables is applied: (value, sub, row value or None).
    apply: dict[int, Callable[[Any, Any, Any], None]]
    # For those of one table: how all rows are loaded at once.
    fill: Callable[[Any, Iterable[Any]], None] | None = None

    @property
    def tables(self) -> tuple[int, ...]:
        return tuple(self.apply)


Value = bytes | Collection

COLLECTIONS: dict[str, CollectionType] = {
    kind.name: kind
    for kind in (
        CollectionType("list", List, {LIST_ITEMS: List.apply}),
        CollectionType("hash", Hash, {HASH_FIELDS: Hash.apply}, Hash.fill),
        CollectionType("set", Set, {SET_MEMBERS: Set.apply}, Set.fill),
        CollectionType("zset", ZSet, {ZSET_MEMBERS: ZSet.apply}, ZSet.fill),
        CollectionType("stream", Stream, STREAM_ROWS),
    )
}

TYPE_NAMES: dict[type, str] = {bytes: "string"} | {
    kind.cls: kind.name for kind in COLLECTIONS.values()
}

# Of all types, by table.
APPLY = {table: apply for kind in COLLECTIONS.values() for table, apply in kind.apply.items()}


def revert(table: int, value: Collection, sub: object, was: object, log: ChangeLog) -> None:
    """Undo the change of one row; see `Undo`."""
    nbytes = value.nbytes
    APPLY[table](value, sub, was)
    log.used_bytes += value.nbytes - nbytes
