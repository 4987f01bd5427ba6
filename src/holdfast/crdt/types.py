"""The types that consist of cells: what a cell holds, and what a client sees of it.

Their changes are those of `Cells`: `write` is SET, SADD, HSET and ZADD, also if the member is
there already (it then survives a removal that has not seen this); `add` is INCRBY, HINCRBY and
ZINCRBY; `remove` is SREM, HDEL, ZREM; `clear` is DEL.
"""

import math
from collections.abc import Iterable
from typing import Any, Final

from holdfast.crdt.cell import Cell, Total, Write, is_live
from holdfast.crdt.cells import Cells, Name
from holdfast.crdt.dots import MAX_REPLICA, REPLICA_BITS, Author, Dot
from holdfast.crdt.effects import Effect
from holdfast.crdt.numbers import parse, text_of, total

_NO_CELLS: Final[dict[Name, Cell]] = {}  # shared by all strings, and never written to


class Texts(Cells):
    """Cells that hold strings, or counters, or a string that is a number and was counted on."""

    __slots__ = ()

    def get(self, name: Name) -> bytes | None:
        cell = self._find(name)
        if cell is None:
            return None
        base: bytes | None = cell.value
        totals = cell.totals
        if not totals:
            return base
        if base is None and len(totals) == 1:  # a counter, and nearly always integers
            pair: Any = totals[0]
            entry: Total = pair[1]
            now, reset = entry[1], entry[3]
            if type(now) is int and type(reset) is int and is_live(entry):
                return b"%d" % (now - reset)
        added = self.added(name)
        if added is None:
            return base
        number = 0 if base is None else parse(base)
        # Somebody wrote what is no number while somebody else was counting.
        return base if number is None else text_of(total([number, added]))

    def increment(self, name: Name, amount: int | bytes, result: bytes, author: Author) -> Effect:
        """INCRBY, and INCRBYFLOAT (bytes), and those of hashes; `result` is what the client is
        told. Where a sum would show something else (long doubles round), that is written
        instead."""
        if isinstance(amount, int):
            return self.add(name, amount, author)
        number, shown = parse(amount), parse(self.get(name) or b"0")
        if number is None or shown is None or text_of(total([shown, number])) != result:
            return self.write(name, result, author)
        return self.add(name, number, author)


class String(Texts):
    """One cell, which has no name. Most keys are strings, so there is no dict around it."""

    __slots__ = ("_cell",)

    def __init__(self) -> None:
        self._cells = _NO_CELLS
        self._written = 0
        self._cell: Cell | None = None

    def _find(self, name: Name) -> Cell | None:
        return self._cell

    def _create(self, name: Name) -> Cell:
        cell = self._cell = Cell()
        return cell

    def _discard(self, name: Name) -> None:
        self._cell = None

    def _all(self) -> Iterable[tuple[Name, Cell]]:
        return () if self._cell is None else ((None, self._cell),)

    def view(self) -> bytes | None:
        return self.get(None)

    @property
    def only_dot(self) -> Dot:
        """Of the one write; 0 where there is more, or none."""
        cell = self._cell
        return 0 if cell is None or cell.others or cell.totals else cell.dot

    def only_total(self, replica: int) -> Total | None:
        """Of that replica, if it counts and nobody else has one."""
        cell = self._cell
        if cell is None or cell.others or len(cell.totals) != 1:
            return None
        pair: Any = cell.totals[0]  # as it is: a tuple whose type tells its length is made anew
        author: int = pair[0]
        entry: Total = pair[1]
        return entry if author == replica and is_live(entry) else None

    def overwrite(self, seen: Dot, dot: Dot, hlc: int, value: Any) -> bool:
        """`integrate`, of a write that has seen the only one there is. False, and nothing has
        changed, where anything else is the case."""
        cell = self._cell
        if cell is None or cell.dot != seen or cell.others or cell.totals:
            return False
        cell.dot, cell.hlc, cell.value = dot, hlc, value
        return True

    def count(self, dot: Dot, last: int, now: Any) -> bool:
        """Likewise, of the next addition to the only total."""
        cell = self._cell
        if cell is None or cell.others or len(cell.totals) != 1:
            return False
        pair: Any = cell.totals[0]
        replica: int = pair[0]
        entry: Total = pair[1]
        seq: int = entry[0]
        if dot & MAX_REPLICA != replica or last != seq or not is_live(entry):
            return False
        new: Any = (pair[0], (dot >> REPLICA_BITS, now, entry[2], entry[3], entry[4]))
        cell.totals = (new,)
        return True


class Hash(Texts):
    __slots__ = ()

    def view(self) -> dict[Name, bytes | None]:
        return {name: self.get(name) for name in self.names()}


class Set(Cells):
    """Cells that hold nothing: being there is all."""

    __slots__ = ()

    def view(self) -> set[Name]:
        return set(self.names())


class SortedSet(Cells):
    """Cells that hold scores."""

    __slots__ = ()

    def score(self, member: Name) -> float | None:
        base, terms = self.written(member), self.terms(member)
        return float(total([base or 0.0, *terms])) if terms else base

    def view(self) -> list[tuple[Any, Name]]:
        """Lowest first, equal scores in order of their members."""
        return sorted((self.score(name), name) for name in self.names())

    def increment(self, member: Name, amount: float, author: Author) -> Effect:
        """ZINCRBY. What is or becomes infinite is written, because no sum would find back; so is
        what a sum would round differently than this addition does."""
        score = (self.score(member) or 0.0) + amount
        if not math.isinf(score):
            *_, until_now, now = effect = self.add(member, amount, author)
            base = self.written(member) or 0.0
            if total([base, *self.terms(member), now, -until_now]) == score:
                return effect
        return self.write(member, score, author)


class Expiry(Cells):
    """When a key (no name) or a field of a hash expires, in Unix milliseconds; None is never.
    The longest of those who did not know of each other wins."""

    __slots__ = ()

    def precedence(self, name: Name, write: Write) -> Any:
        dot, _, expires_at_ms = write
        return expires_at_ms is None, expires_at_ms or 0, dot

    def view(self) -> int | None:
        expires_at_ms: int | None = self.written(None)
        return expires_at_ms
