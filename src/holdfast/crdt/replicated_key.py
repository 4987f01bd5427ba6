"""A replicated key: a value of each type under its name, and its expiry.

Two replicas may give one name values of different types at the same time. Both are kept, and on all
replicas clients see the value that the lower replica has written. The next change of the key
removes the other values that its author has seen, so that they do not appear again when the visible
one is removed.
"""

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from sys import intern
from typing import Any, Final

import msgspec

from holdfast.crdt.cell import Cell
from holdfast.crdt.cells import Cells
from holdfast.crdt.dots import Author, Vector
from holdfast.crdt.effects import Effect, RowChange
from holdfast.crdt.replicated_list import ReplicatedList
from holdfast.crdt.replicated_sketch import ReplicatedSketch
from holdfast.crdt.replicated_stream import ReplicatedStream
from holdfast.crdt.replicated_types import (
    Expiry,
    ReplicatedHash,
    ReplicatedSet,
    ReplicatedSortedSet,
    ReplicatedString,
)
from holdfast.crdt.replicated_value import ReplicatedValue

EXPIRY: Final = "expiry"  # not a type, but replicated like one

KINDS: Final[dict[str, type[ReplicatedValue]]] = {
    "string": ReplicatedString,
    "list": ReplicatedList,
    "hash": ReplicatedHash,
    "set": ReplicatedSet,
    "zset": ReplicatedSortedSet,
    "stream": ReplicatedStream,
    "hyperloglog": ReplicatedSketch,
    EXPIRY: Expiry,
}

_encode = msgspec.msgpack.Encoder().encode

Aimed = tuple[str, Effect]  # the kind of value, and an effect for it


class ReplicatedKey:
    """A key. It has a value of each kind that it ever held: `_first`, of the kind `_kind`, and
    usually no others but an expiry. `text` is the cell of a string, as long as the key never held
    another kind nor an expiry. It is there because it is reached through few objects: most of the
    time is spent on waiting for memory."""

    __slots__ = ("_expiry", "_first", "_kind", "_others", "text")

    def __init__(self) -> None:
        self._kind = ""
        self._first: ReplicatedValue | None = None
        self._expiry: Expiry | None = None
        self._others: dict[str, ReplicatedValue] | None = None
        self.text: Cell | None = None

    @property
    def parts(self) -> list[tuple[str, ReplicatedValue]]:
        """The values, with their kinds."""
        parts: list[tuple[str, ReplicatedValue]] = []
        if self._first is not None:
            parts.append((self._kind, self._first))
        if self._expiry is not None:
            parts.append((EXPIRY, self._expiry))
        if self._others is not None:
            parts += self._others.items()
        return parts

    def find(self, kind: str) -> Any:
        """The value of that kind; None if the key never held one."""
        if kind == self._kind:
            return self._first
        if kind == EXPIRY:
            return self._expiry
        return None if self._others is None else self._others.get(kind)

    def part(self, kind: str) -> Any:
        """The value of that kind; an empty one is made if the key never held one."""
        if kind == self._kind:
            return self._first
        part = self.find(kind)
        if part is None:
            part = KINDS[kind]()
            if isinstance(part, Expiry):
                self._expiry, self.text = part, None
            elif self._first is None:
                self._kind, self._first = intern(kind), part
                if isinstance(part, ReplicatedString) and self._expiry is None:
                    self.text = part.cell
            else:
                self.text = None
                if self._others is None:
                    self._others = {kind: part}
                else:
                    self._others[kind] = part
        return part

    @property
    def has_one(self) -> bool:
        """Whether the key never held a value of another kind."""
        return self._others is None and self._expiry is None

    @property
    def type(self) -> str | None:
        """The type that clients see; None if the key does not exist for them."""
        if self._others is None:  # nearly always
            return self._kind if self._first else None
        kinds = [(kind, part) for kind, part in self.parts if part and kind != EXPIRY]
        if len(kinds) > 1:
            kinds.sort(key=lambda kind: min(kind[1].replicas()))
        return kinds[0][0] if kinds else None

    def view(self) -> Any:
        kind = self.type
        return None if kind is None else self.part(kind).view()

    @property
    def expires_at_ms(self) -> int | None:
        expiry: Expiry | None = self.find(EXPIRY)
        return None if expiry is None else expiry.view()

    # -- changes, as effects ------------------------------------------------------------------

    def delete(self, author: Author) -> list[Aimed]:
        """DEL: remove all that the author has seen, of each type."""
        return [(kind, part.clear(author)) for kind, part in self.parts if part]

    def supersede(self, kind: str, author: Author) -> list[Aimed]:
        """Remove the values of other types, for a change of the value of that kind."""
        return [
            (other, part.clear(author))
            for other, part in self.parts
            if other not in (kind, EXPIRY) and part
        ]

    # -- applying -----------------------------------------------------------------------------

    def integrate(self, kind: str, effect: Effect) -> list[RowChange]:
        """Apply an effect to the value of that kind. Returns the changed rows of that value."""
        part: ReplicatedValue = self.part(kind)
        return part.integrate(effect)

    def conflict_of(self, kind: str, effect: Effect) -> str:
        """The conflict in the value (see ReplicatedValue); or "types" if the key has values of
        several types, of which one is shown."""
        if self._others is not None:
            kinds = [other for other, value in self.parts if value and other != EXPIRY]
            if len(kinds) > 1:
                return "types"
        part: ReplicatedValue = self.part(kind)
        return part.conflict_of(effect)

    def merge(
        self, rows: Iterable[tuple[str, Any, Any]], seen: Vector, other_seen: Vector
    ) -> list[tuple[str, RowChange]]:
        by_kind: dict[str, list[tuple[Any, Any]]] = {kind: [] for kind, _ in self.parts}
        for kind, sub, row in rows:
            by_kind.setdefault(kind, []).append((sub, row))
        return [
            (kind, change)
            for kind, part_rows in by_kind.items()
            for change in self.part(kind).merge(part_rows, seen, other_seen)
        ]

    def settle(self, stable: Vector) -> list[tuple[str, RowChange]]:
        return [(kind, change) for kind, part in self.parts for change in part.settle(stable)]

    @property
    def has_residue(self) -> bool:
        return any(part.has_residue for _, part in self.parts) or bool(self.orphans)

    @property
    def has_totals(self) -> bool:
        text = self.text
        if text is not None:
            return text.counter is not None
        return any(part.has_totals for _, part in self.parts)

    def live_totals(self) -> Iterator[tuple[str, bytes | None, int, int, Any]]:
        """All counters that count: kind, cell, replica, number and total of each."""
        for kind, part in self.parts:
            if isinstance(part, Cells):
                for name, cell in part.counted():
                    for replica, number, total in cell.resets:
                        yield kind, name, replica, number, total

    @property
    def orphans(self) -> list[bytes | None]:
        """Expiries without a value: one replica has deleted the key (no name) or the field, while
        another one set its expiry. The next write there removes them. Without a write, they may be
        forgotten when each member has seen all changes of the key: see `forget_orphans`."""
        expiry: Expiry | None = self.find(EXPIRY)
        if not expiry:
            return []
        fields: ReplicatedHash | None = self.find("hash")
        return [
            name
            for name in expiry.names()
            if (self.type is None if name is None else fields is None or name not in fields)
        ]

    def forget_orphans(self) -> list[tuple[str, RowChange]]:
        return [
            (EXPIRY, change) for name in self.orphans for change in self.part(EXPIRY).forget(name)
        ]

    def rows(self) -> Iterator[tuple[str, Any, Any]]:
        for kind, part in self.parts:
            for sub, row in part.rows():
                yield kind, sub, row

    def digest(self, name: bytes) -> int:
        """A number for the content of the key, the same for any order of its rows. The sum over all
        keys stands for a database: replicas that have seen the same events have the same sum."""
        return sum(
            int.from_bytes(blake2b(_encode((name, *fact)), digest_size=16).digest(), "big")
            for fact in self.facts()
        )

    def facts(self) -> Iterator[tuple[str, Any, Any]]:
        """See ReplicatedValue."""
        for kind, part in self.parts:
            orphans = self.orphans if kind == EXPIRY else ()
            for sub, row in part.facts():
                if not orphans or sub[0] not in orphans:
                    yield kind, sub, row
