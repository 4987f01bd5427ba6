"""What all replicated values have in common: state as rows, and how two states become one."""

from abc import ABCMeta, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from holdfast.crdt.dots import Author, Dot, Vector, covers
from holdfast.crdt.effects import Change, Effect

Rows = Iterable[tuple[Any, Any]]  # sub key and row, both plain and hashable


class Replicated(metaclass=ABCMeta):
    """See the package's docstring. True while it holds anything that a client can see."""

    __slots__ = ()

    @abstractmethod
    def __bool__(self) -> bool: ...

    @abstractmethod
    def view(self) -> Any: ...

    @abstractmethod
    def clear(self, author: Author) -> Effect:
        """DEL: everything goes that the author has seen."""

    @abstractmethod
    def integrate(self, effect: Effect) -> list[Change]: ...

    @abstractmethod
    def rows(self) -> Iterator[tuple[Any, Any]]: ...

    @abstractmethod
    def apply(self, sub: Any, row: Any) -> None:
        """The row is this now (None: gone), as the file or a rolled back change says."""

    # -- in pieces: what files keep together ---------------------------------------------------

    def piece_of(self, sub: Any) -> Any:
        """The place of the piece that a row is part of."""
        return sub

    @abstractmethod
    def piece(self, place: Any) -> Any:
        """All rows of a piece, as plain data; None when there is nothing left."""

    @abstractmethod
    def put_piece(self, place: Any, piece: Any) -> None:
        """These are its rows now, and no others."""

    # -- two states ----------------------------------------------------------------------------

    @abstractmethod
    def dot_of(self, sub: Any) -> Dot:
        """The event that the row goes with, alone or with others; 0: it never goes for good."""

    @abstractmethod
    def join(self, one: Any, other: Any) -> Any:
        """What becomes of a row that two states have differently."""

    def merge(self, rows: Rows, seen: Vector, other_seen: Vector) -> list[Change]:
        """Take over the rows of a replica that has seen so much, having seen so much oneself.
        Keeps what both have, and what one has because the other has not seen it yet."""
        mine, theirs = dict(self.rows()), dict(rows)
        dot_of = self.dot_of
        my_dots, their_dots = ({0, *map(dot_of, side)} for side in (mine, theirs))
        changes: list[Change] = []
        for sub, row in mine.items():
            if sub not in theirs:
                dot = dot_of(sub)
                if dot not in their_dots and covers(other_seen, dot):
                    changes.append((sub, None, row))
        for sub, row in theirs.items():
            if sub in mine:
                old = mine[sub]
                if old != row and (new := self.join(old, row)) != old:
                    changes.append((sub, new, old))
            else:
                dot = dot_of(sub)
                if dot in my_dots or not covers(seen, dot):
                    changes.append((sub, row, None))
        for sub, new, _ in changes:
            self.apply(sub, new)
        return changes

    def resets_within(self, vector: Vector, kind: str, points: Mapping[Any, Any]) -> Any:
        """Which counters are reset by a flush that has seen so much, as CLEAR says it; see there
        for the points."""
        return ()

    @property
    def has_totals(self) -> bool:
        """Whether there are counters, or were since this came to memory."""
        return False

    @property
    def has_residue(self) -> bool:
        """Whether there is anything that `settle` may forget one day."""
        return False

    def settle(self, stable: Vector) -> list[Change]:
        """Forget what is only remembered until everybody has seen so much."""
        return []

    def facts(self) -> Rows:
        """The rows without what depends on who has settled what: those who have seen the same
        have the same."""
        return self.rows()

    def replicas(self) -> set[int]:
        """Those who wrote what is there."""
        dots = (self.dot_of(sub) for sub, _ in self.facts())
        return {dot & 0xFFFF for dot in dots if dot}
