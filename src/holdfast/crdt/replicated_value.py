"""The common part of all replicated values: a state in rows, and the merge of two states."""

from abc import ABCMeta, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from holdfast.crdt.dots import Author, Dot, Vector, covers
from holdfast.crdt.effects import CLEAR, Effect, RowChange

Rows = Iterable[tuple[Any, Any]]  # sub key and row, both plain and hashable


class ReplicatedValue(metaclass=ABCMeta):
    """See the docstring of the package. A value is true if clients can see any part of it."""

    __slots__ = ()

    @abstractmethod
    def __bool__(self) -> bool: ...

    @abstractmethod
    def view(self) -> Any: ...

    @abstractmethod
    def clear(self, author: Author) -> Effect:
        """DEL: remove all that the author has seen."""

    @abstractmethod
    def integrate(self, effect: Effect) -> list[RowChange]: ...

    def conflict_of(self, effect: Effect) -> str:
        """The conflict of an effect that was just integrated: "removals" if something remains that
        the author of the removal has not seen; "writes" if several writes remain that have not seen
        each other, of which one is shown. Empty if there is none."""
        return "removals" if effect[0] == CLEAR and self else ""

    @abstractmethod
    def rows(self) -> Iterator[tuple[Any, Any]]: ...

    @abstractmethod
    def apply(self, sub: Any, row: Any) -> None:
        """Set a row (None: remove it), in the form of the file or of a merged state."""

    # -- pieces: rows that the file keeps together ---------------------------------------------

    def piece_of(self, sub: Any) -> Any:
        """The place of the piece to which the row belongs."""
        return sub

    @abstractmethod
    def piece(self, place: Any) -> Any:
        """All rows of a piece, as plain data; None if there are none."""

    @abstractmethod
    def put_piece(self, place: Any, piece: Any) -> None:
        """Set the rows of a piece, which has no rows yet."""

    # -- two states ----------------------------------------------------------------------------

    @abstractmethod
    def dot_of(self, sub: Any) -> Dot:
        """The event that made the row. The row is removed with that event. 0 for rows that are
        never removed in that way."""

    @abstractmethod
    def join(self, one: Any, other: Any) -> Any:
        """The row for both states, if their rows differ."""

    def merge(self, rows: Rows, seen: Vector, other_seen: Vector) -> list[RowChange]:
        """Add the rows of another replica. `seen` are the events that this replica has seen,
        `other_seen` those of the other one. Rows of both sides remain, and rows of one side that
        the other side has not seen. A row that the other side has seen and does not have was
        removed there."""
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
        """The counters that a flush with this vector resets, in the form of CLEAR. For `points` see
        flush.py."""
        return ()

    @property
    def has_totals(self) -> bool:
        """Whether the value has counters, or had counters since it was loaded."""
        return False

    @property
    def has_residue(self) -> bool:
        """Whether there is anything that `settle` can forget, now or later."""
        return False

    def settle(self, stable: Vector) -> list[RowChange]:
        """Forget data that was kept only until each member has confirmed these events. Returns the
        rows."""
        return []

    def facts(self) -> Rows:
        """The rows without residue. Replicas that have seen the same events have equal facts, even
        if they have not settled the same."""
        return self.rows()

    def replicas(self) -> set[int]:
        """The replicas whose events made the rows."""
        dots = (self.dot_of(sub) for sub, _ in self.facts())
        return {dot & 0xFFFF for dot in dots if dot}
