"""The common part of all replicated values: a state of rows, and the merge of two states."""

from abc import ABCMeta, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from holdfast.crdt.dots import Author, Dot, Vector, covers
from holdfast.crdt.effects import CLEAR, Effect, RowChange

Rows = Iterable[tuple[Any, Any]]  # sub key and row, both plain and hashable


class ReplicatedValue(metaclass=ABCMeta):
    """See the docstring of the package. A value is true while clients can see anything of it."""

    __slots__ = ()

    @abstractmethod
    def __bool__(self) -> bool: ...

    @abstractmethod
    def view(self) -> Any: ...

    @abstractmethod
    def clear(self, author: Author) -> Effect:
        """DEL: everything goes that the author has seen."""

    @abstractmethod
    def integrate(self, effect: Effect) -> list[RowChange]: ...

    def conflict_of(self, effect: Effect) -> str:
        """The conflict that an effect, which has just been integrated, has met: "removals" if
        something stays that the removal has not seen, "writes" if several writes stay that have
        not seen each other, of which one is shown. Empty for none."""
        return "removals" if effect[0] == CLEAR and self else ""

    @abstractmethod
    def rows(self) -> Iterator[tuple[Any, Any]]: ...

    @abstractmethod
    def apply(self, sub: Any, row: Any) -> None:
        """Set a row (None: remove it), as it is in the file or in a merged state."""

    # -- pieces: rows that the file keeps together ---------------------------------------------

    def piece_of(self, sub: Any) -> Any:
        """The place of the piece that the row belongs to."""
        return sub

    @abstractmethod
    def piece(self, place: Any) -> Any:
        """All rows of a piece, as plain data; None when there are none."""

    @abstractmethod
    def put_piece(self, place: Any, piece: Any) -> None:
        """Set the rows of a piece; it has no others."""

    # -- two states ----------------------------------------------------------------------------

    @abstractmethod
    def dot_of(self, sub: Any) -> Dot:
        """The event that made the row; the row goes when that event is removed. 0 for rows that are
        never removed that way."""

    @abstractmethod
    def join(self, one: Any, other: Any) -> Any:
        """The row that both states get where they have different ones."""

    def merge(self, rows: Rows, seen: Vector, other_seen: Vector) -> list[RowChange]:
        """Take over the rows of another replica. `seen` is what this replica has seen, `other_seen`
        what the other one has. Rows stay that both have, and rows of one side that the other side
        has not seen; a row that the other side has seen and does not have was removed there."""
        mine, theirs = dict(self.rows()), dict(rows)
        dot_of = self.dot_of
        my_dots, their_dots = ({0, *map(dot_of, side)} for side in (mine, theirs))
        changes: list[RowChange] = []
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
        """The counters that a flush with this vector resets, as in CLEAR. `points`: see
        flush.py."""
        return ()

    @property
    def has_totals(self) -> bool:
        """Whether the value has counters, or had some since it was loaded."""
        return False

    @property
    def has_residue(self) -> bool:
        """Whether there is anything that `settle` can forget, now or later."""
        return False

    def settle(self, stable: Vector) -> list[RowChange]:
        """Forget what is kept only until every member has confirmed so much; returns the rows."""
        return []

    def facts(self) -> Rows:
        """The rows without residue. Replicas that have seen the same have equal facts, whatever
        each of them has settled."""
        return self.rows()

    def replicas(self) -> set[int]:
        """The replicas whose events the rows are from."""
        dots = (self.dot_of(sub) for sub, _ in self.facts())
        return {dot & 0xFFFF for dot in dots if dot}
