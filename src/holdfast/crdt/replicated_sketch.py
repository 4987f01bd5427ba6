"""The replicated HyperLogLog: registers that only grow, until the sketch is deleted.

A sketch belongs to the event that created it. An addition names that event. So an addition to a
sketch that another replica has deleted meanwhile is dropped: DEL wins. Sketches that were created
under one name at the same time are shown as one.
"""

from collections.abc import Iterable, Iterator, Sequence

from holdfast.crdt.dots import Author, Dot, covers
from holdfast.crdt.effects import CLEAR, RAISE, Effect, RowChange
from holdfast.crdt.replicated_value import ReplicatedValue

REGISTERS = 1 << 14

Ranks = Iterable[Sequence[int]]  # register and rank


class ReplicatedSketch(ReplicatedValue):
    """A sketch. Rows: (dot, register) → rank. An empty sketch has one row: register 0 with rank
    0."""

    __slots__ = ("_sketches",)

    def __init__(self) -> None:
        self._sketches: dict[Dot, dict[int, int]] = {}

    def __bool__(self) -> bool:
        return bool(self._sketches)

    def view(self) -> bytes | None:
        """One byte for each register; None if there is no sketch."""
        if not self._sketches:
            return None
        registers = bytearray(REGISTERS)
        for sketch in self._sketches.values():
            for register, rank in sketch.items():
                registers[register] = max(registers[register], rank)
        return bytes(registers)

    # -- changes, as effects ------------------------------------------------------------------

    def add(self, ranks: Ranks, author: Author) -> Effect:
        """PFADD and PFMERGE. The effect has only ranks that are higher than the current ones."""
        is_new = not self._sketches
        dot = author.dot() if is_new else min(self._sketches)
        sketch = self._sketches.get(dot, {})
        higher = ((register, rank) for register, rank in ranks if rank > sketch.get(register, 0))
        return (RAISE, dot, is_new, tuple(higher))

    def clear(self, author: Author) -> Effect:
        return (CLEAR, author.observed(), (), 0)

    # -- applying -----------------------------------------------------------------------------

    def integrate(self, effect: Effect) -> list[RowChange]:
        if effect[0] == RAISE:
            _, dot, is_new, ranks = effect
            return self._raise(dot, ranks, begin=is_new)
        assert effect[0] == CLEAR
        return self._drop([dot for dot in self._sketches if covers(effect[1], dot)])

    def _raise(self, dot: Dot, ranks: Ranks, *, begin: bool) -> list[RowChange]:
        changes: list[RowChange] = []
        sketch = self._sketches.get(dot)
        if sketch is None:
            if not begin:
                return []
            sketch = self._sketches[dot] = {0: 0}
            changes.append(((dot, 0), 0, None))
        for register, rank in ranks:
            old = sketch.get(register)
            if old is None or rank > old:
                sketch[register] = rank
                changes.append(((dot, register), rank, old))
        return changes

    def _drop(self, dots: list[Dot]) -> list[RowChange]:
        return [
            ((dot, register), None, rank)
            for dot in dots
            for register, rank in self._sketches.pop(dot).items()
        ]

    # -- whole --------------------------------------------------------------------------------

    def rows(self) -> Iterator[tuple[tuple[Dot, int], int]]:
        for dot, sketch in self._sketches.items():
            for register, rank in sketch.items():
                yield (dot, register), rank

    def apply(self, sub: tuple[Dot, int], row: int | None) -> None:
        dot, register = sub
        sketch = self._sketches.setdefault(dot, {})
        if row is not None:
            sketch[register] = row
        else:
            sketch.pop(register, None)
        if not sketch:
            del self._sketches[dot]

    def piece(self, place: tuple[Dot, int]) -> int | None:
        dot, register = place
        return self._sketches.get(dot, {}).get(register)

    def put_piece(self, place: tuple[Dot, int], piece: int | None) -> None:
        self.apply(place, piece)

    def dot_of(self, sub: tuple[Dot, int]) -> Dot:
        return sub[0]

    def join(self, one: int, other: int) -> int:
        return max(one, other)
