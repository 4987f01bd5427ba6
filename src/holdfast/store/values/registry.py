"""The types that are collections: the name, the class and the rows of each.

Code for values of all types (recovery, fold, keyspace) uses this table. Strings are not
collections: their value is `bytes`, and their single row is written with the row of the key.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, Protocol, Self

from holdfast.store.change.change_log import ChangeLog
from holdfast.store.change.ops import HASH_FIELDS, LIST_ITEMS, SET_MEMBERS, ZSET_MEMBERS
from holdfast.store.change.undo import RowUndo
from holdfast.store.values.hash import Hash
from holdfast.store.values.insertion_order import Ordered
from holdfast.store.values.list import List
from holdfast.store.values.set import Set
from holdfast.store.values.stream import ROWS as STREAM_ROWS
from holdfast.store.values.stream import Stream
from holdfast.store.values.zset import ZSet


class Collection(Protocol):
    """A value with elements. Each of its methods that change it takes the ChangeLog as its last
    argument."""

    id: int
    nbytes: int

    def __init__(self, key_id: int) -> None: ...

    def __len__(self) -> int: ...

    def copy(self, new_id: int, log: ChangeLog) -> Self:
        """A new value with the same elements. All of them are reported as rows of `new_id`. Nothing
        is noted for an undo, and no bytes are counted, because the key of the copy does both."""
        ...

    def parts(self) -> list[Any]:
        """The dicts and lists that hold its elements. lazy_free.py frees them in slices."""
        ...


class CollectionType(NamedTuple):
    name: str
    cls: type[Collection]
    # How a row operation on each of its tables is applied: (value, sub, row value or None).
    apply: dict[int, Callable[[Any, Any, Any], None]]
    # For types with one table: loads a list of rows of the file into the collection.
    fill: Callable[[Any, list[Any]], None] | None = None
    # Builds the order or index of a large collection after loading, a slice at a time.
    settle: Callable[[Any], Iterator[None]] | None = None

    @property
    def tables(self) -> tuple[int, ...]:
        return tuple(self.apply)


Value = bytes | Collection

COLLECTIONS: dict[str, CollectionType] = {
    kind.name: kind
    for kind in (
        CollectionType("list", List, {LIST_ITEMS: List.apply}),
        CollectionType("hash", Hash, {HASH_FIELDS: Hash.apply}, Hash.fill, Hash.settle),
        CollectionType("set", Set, {SET_MEMBERS: Set.apply}, Set.fill, Set.settle),
        CollectionType("zset", ZSet, {ZSET_MEMBERS: ZSet.apply}, ZSet.fill, ZSet.settle),
        CollectionType("stream", Stream, STREAM_ROWS),
    )
}

TYPE_NAMES: Final[dict[type, str]] = {bytes: "string"} | {
    kind.cls: kind.name for kind in COLLECTIONS.values()
}


def nbytes_of(value: Value) -> int:
    """The counted memory of a value. (Compiled code would look up the attribute of a Protocol by
    its name, for each new key and for each key that is packed.)"""
    if isinstance(value, bytes):
        return len(value)
    if isinstance(value, Ordered):
        elements: Ordered[Any] = value
        return elements.nbytes
    return value.nbytes


# For all types: how a row operation is applied, by table.
APPLY = {table: apply for kind in COLLECTIONS.values() for table, apply in kind.apply.items()}


def revert(step: RowUndo, log: ChangeLog) -> None:
    """Undo the change of one row."""
    value: Collection = step.collection
    nbytes = value.nbytes
    APPLY[step.table](value, step.sub, step.was)
    log.used_bytes += value.nbytes - nbytes
