"""The types that consist of cells: the content of a cell, and the value that a client sees.

Their changes are those of `Cells`. `write` is SET, SADD, HSET and ZADD, even if the member exists:
the member then survives a removal whose author has not seen this write. `add` is INCRBY, HINCRBY
and ZINCRBY, `remove` is SREM, HDEL and ZREM, `clear` is DEL.
"""

import math
from collections.abc import Iterable
from typing import Any, Final

from holdfast.crdt.cell import Cell, Write
from holdfast.crdt.cells import Cells, Name
from holdfast.crdt.dots import Author
from holdfast.crdt.effects import Effect
from holdfast.crdt.exact_numbers import parse, text_of, total

_NO_CELLS: Final[dict[Name, Cell]] = {}  # shared by many values: it must stay empty
# The values of most counters. Making the digits took a fifth of the time of an INCR.
_COUNTS: Final[list[bytes]] = [b"%d" % count for count in range(1000)]


def text_in(cell: Cell) -> bytes | None:
    """The text that clients see: a string, a counter, or the sum of a written number and of
    additions."""
    base: bytes | None = cell.value
    counter = cell.counter
    if counter is None:
        return base
    if base is None and counter.next is None and counter.is_live:  # nearly always integers
        now, reset = counter.amount, counter.reset_amount
        if type(now) is int and type(reset) is int:
            added: int = now
            not_counted: int = reset
            counted = added - not_counted
            return _COUNTS[counted] if 0 <= counted < len(_COUNTS) else b"%d" % counted
    terms = cell.terms
    if not terms:
        return base
    number = 0 if base is None else parse(base)
    # If one replica wrote a text while another one incremented, clients see the text.
    return base if number is None else text_of(total([number, total(terms)]))


class Texts(Cells):
    """Cells that hold strings, see `text_in`."""

    __slots__ = ()

    def get(self, name: Name) -> bytes | None:
        cell = self._find(name)
        return None if cell is None else text_in(cell)

    def increment(self, name: Name, amount: int | bytes, result: bytes, author: Author) -> Effect:
        """INCRBY, and INCRBYFLOAT (with an amount of bytes), also for hashes. `result` is the reply
        to the client. If a sum would show another number, because long doubles are rounded,
        `result` is written instead."""
        if isinstance(amount, int):
            return self.add(name, amount, author)
        number, shown = parse(amount), parse(self.get(name) or b"0")
        if number is None or shown is None or text_of(total([shown, number])) != result:
            return self.write(name, result, author)
        return self.add(name, number, author)


class ReplicatedString(Texts):
    """A single cell without a name, which always exists. Most keys are strings, so it is not in a
    dict."""

    __slots__ = ("cell",)

    def __init__(self) -> None:
        self._cells = _NO_CELLS
        self._written = 0
        self._has_totals = False
        self.cell = Cell()

    def _find(self, name: Name) -> Cell | None:
        return self.cell

    def _create(self, name: Name) -> Cell:
        return self.cell

    def _discard(self, name: Name) -> None: ...

    def _all(self) -> Iterable[tuple[Name, Cell]]:
        return ((None, self.cell),)

    def view(self) -> bytes | None:
        return self.get(None)


class ReplicatedHash(Texts):
    __slots__ = ()

    def view(self) -> dict[Name, bytes | None]:
        return {name: self.get(name) for name in self.names()}


class ReplicatedSet(Cells):
    """Cells without a value: each cell with a write is a member."""

    __slots__ = ()

    def view(self) -> set[Name]:
        return set(self.names())


class ReplicatedSortedSet(Cells):
    """Cells that hold scores."""

    __slots__ = ()

    def score(self, member: Name) -> float | None:
        base, terms = self.written(member), self.terms(member)
        return float(total([base or 0.0, *terms])) if terms else base

    def view(self) -> list[tuple[Any, Name]]:
        """Members and scores, lowest score first, and equal scores in the order of their
        members."""
        return sorted((self.score(name), name) for name in self.names())

    def increment(self, member: Name, amount: float, author: Author) -> Effect:
        """ZINCRBY. A score that is or becomes infinite is written, because a sum with an infinite
        term stays infinite. A score that a sum would round differently is written, too."""
        score = (self.score(member) or 0.0) + amount
        if not math.isinf(score):
            *_, until_now, now = effect = self.add(member, amount, author)
            base = self.written(member) or 0.0
            if total([base, *self.terms(member), now, -until_now]) == score:
                return effect
        return self.write(member, score, author)


class Expiry(Cells):
    """The expiry of a key (no name) or of a field of a hash, in Unix milliseconds; None means
    never. Of expiries that have not seen each other, the latest wins. The cell of the key is not in
    a dict, as in ReplicatedString; `_cells` has those of fields, and is shared as long as there are
    none."""

    __slots__ = ("_cell",)

    def __init__(self) -> None:
        self._cells = _NO_CELLS
        self._written = 0
        self._has_totals = False
        self._cell: Cell | None = None

    def _find(self, name: Name) -> Cell | None:
        return self._cell if name is None else self._cells.get(name)

    def _create(self, name: Name) -> Cell:
        cell = Cell()
        if name is None:
            self._cell = cell
        elif self._cells is _NO_CELLS:
            self._cells = {name: cell}
        else:
            self._cells[name] = cell
        return cell

    def _discard(self, name: Name) -> None:
        if name is None:
            self._cell = None
        else:
            del self._cells[name]

    def _all(self) -> Iterable[tuple[Name, Cell]]:
        if self._cell is None:
            return self._cells.items()
        return [(None, self._cell), *self._cells.items()]

    def precedence(self, name: Name, write: Write) -> Any:
        dot, _, expires_at_ms = write
        return expires_at_ms is None, expires_at_ms or 0, dot

    def view(self) -> int | None:
        expires_at_ms: int | None = self.written(None)
        return expires_at_ms
