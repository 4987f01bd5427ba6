"""A key: what its name holds, of which type, and until when.

Two replicas may give one name values of different types at once. Both are kept; the one that
the lower replica wrote to is seen, everywhere the same. Whoever changes the key then removes
what he saw of the others, so that it does not come back when the visible one has gone.
"""

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from sys import intern
from typing import Any, Final

import msgspec

from holdfast.crdt.cell import Cell
from holdfast.crdt.cells import Cells
from holdfast.crdt.dots import Author, Vector
from holdfast.crdt.effects import Change, Effect
from holdfast.crdt.lists import List
from holdfast.crdt.replicated import Replicated
from holdfast.crdt.sketches import Sketch
from holdfast.crdt.streams import Stream
from holdfast.crdt.types import Expiry, Hash, Set, SortedSet, String

EXPIRY: Final = "expiry"  # not a type, but replicated like one

KINDS: Final[dict[str, type[Replicated]]] = {
    "string": String,
    "list": List,
    "hash": Hash,
    "set": Set,
    "zset": SortedSet,
    "stream": Stream,
    "hyperloglog": Sketch,
    EXPIRY: Expiry,
}

_encode = msgspec.msgpack.Encoder().encode

Aimed = tuple[str, Effect]  # what kind of value the effect is for


class Key:
    """It has a value of each kind that was ever there: `_first`, of the kind `_kind`, and mostly
    no others. `text` is the cell of the string, if there never was anything else: the shortest way
    to it, as most of the time is waiting for memory."""

    __slots__ = ("_first", "_kind", "_others", "text")

    def __init__(self) -> None:
        self._kind = ""
        self._first: Replicated | None = None
        self._others: dict[str, Replicated] | None = None
        self.text: Cell | None = None

    @property
    def parts(self) -> list[tuple[str, Replicated]]:
        """By kind."""
        if self._first is None:
            return []
        return [(self._kind, self._first), *(self._others or {}).items()]

    def find(self, kind: str) -> Any:
        """The value of that kind; None when there never was one."""
        if kind == self._kind:
            return self._first
        return None if self._others is None else self._others.get(kind)

    def part(self, kind: str) -> Any:
        """The value of that kind, to look at and to make effects with; a new one if need be."""
        if kind == self._kind:
            return self._first
        part = self.find(kind)
        if part is None:
            part = KINDS[kind]()
            if self._first is None:
                self._kind, self._first = intern(kind), part
                if isinstance(part, String):
                    self.text = part.cell
                return part
            self.text = None
            if self._others is None:
                self._others = {kind: part}
            else:
                self._others[kind] = part
        return part

    @property
    def has_one(self) -> bool:
        """Whether there is no value of another kind."""
        return self._others is None

    @property
    def type(self) -> str | None:
        """The type that is seen; None when the key does not exist."""
        if self._others is None:  # nearly always
            return self._kind if self._first and self._kind != EXPIRY else None
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
        """DEL: all that the author has seen, whatever is visible of it."""
        return [(kind, part.clear(author)) for kind, part in self.parts if part]

    def supersede(self, kind: str, author: Author) -> list[Aimed]:
        """What a change of the value of that kind does to those of other types."""
        return [
            (other, part.clear(author))
            for other, part in self.parts
            if other not in (kind, EXPIRY) and part
        ]

    # -- applying -----------------------------------------------------------------------------

    def integrate(self, kind: str, effect: Effect) -> list[Change]:
        """The rows are the part's."""
        part: Replicated = self.part(kind)
        return part.integrate(effect)

    def merge(
        self, rows: Iterable[tuple[str, Any, Any]], seen: Vector, other_seen: Vector
    ) -> list[tuple[str, Change]]:
        by_kind: dict[str, list[tuple[Any, Any]]] = {kind: [] for kind, _ in self.parts}
        for kind, sub, row in rows:
            by_kind.setdefault(kind, []).append((sub, row))
        return [
            (kind, change)
            for kind, part_rows in by_kind.items()
            for change in self.part(kind).merge(part_rows, seen, other_seen)
        ]

    def settle(self, stable: Vector) -> list[tuple[str, Change]]:
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
        """Of counters that count: kind, cell, replica, number and total."""
        for kind, part in self.parts:
            if isinstance(part, Cells):
                for name, cell in part.counted():
                    for replica, number, total in cell.resets:
                        yield kind, name, replica, number, total

    @property
    def orphans(self) -> list[bytes | None]:
        """Names of expiries that are of nothing: somebody deleted the key (no name) or the field
        while somebody else set when it is to expire. Whoever writes there again takes them away;
        else they may go when all have seen all that was done to the key, see `forget_orphans`."""
        expiry: Expiry | None = self.find(EXPIRY)
        if not expiry:
            return []
        fields: Hash | None = self.find("hash")
        return [
            name
            for name in expiry.names()
            if (self.type is None if name is None else fields is None or name not in fields)
        ]

    def forget_orphans(self) -> list[tuple[str, Change]]:
        return [
            (EXPIRY, change) for name in self.orphans for change in self.part(EXPIRY).forget(name)
        ]

    def rows(self) -> Iterator[tuple[str, Any, Any]]:
        for kind, part in self.parts:
            for sub, row in part.rows():
                yield kind, sub, row

    def digest(self, name: bytes) -> int:
        """A number for what the key is, whatever the order of its rows. Those of all keys, added,
        stand for a database: replicas that have seen the same have the same."""
        return sum(
            int.from_bytes(blake2b(_encode((name, *fact)), digest_size=16).digest(), "big")
            for fact in self.facts()
        )

    def facts(self) -> Iterator[tuple[str, Any, Any]]:
        """See Replicated."""
        for kind, part in self.parts:
            orphans = self.orphans if kind == EXPIRY else ()
            for sub, row in part.facts():
                if not orphans or sub[0] not in orphans:
                    yield kind, sub, row
