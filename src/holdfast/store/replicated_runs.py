"""Runs: what a turn does to strings, and to the ends of lists, nearly always, in few words.

The record of a busy turn is hundreds of writes to strings that hold one write, and of additions to
counters. Told one by one, each is four tuples around a name and a value, and to make, pack, unpack
and free these took more than all the rest. So neighbours among them become one change, which has
no name (None) and an effect with all of them side by side; their dots follow each other:

    (WRITES, first dot, hlc, (name, value, dot that it replaces or 0, …))
    (ADDS, first dot, (name, number of the author's last ADD, its total until then, now, …))
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, final

from holdfast.crdt.dots import MAX_REPLICA, REPLICA_BITS
from holdfast.crdt.effects import ADD, ADDS, WRITE, WRITES, Effect
from holdfast.crdt.numbers import Number
from holdfast.store.ops import LIST_RUNS, POP_LEFT, Op

TEXT: Final = "string"  # the only kind that has runs
NEXT_DOT: Final = 1 << REPLICA_BITS

# Number of the database, name of the key, kind of value, effect; of a run without name. A tuple,
# but a list where it comes from elsewhere.
Change = Sequence[Any]


class Told:
    """The changes of a record, in order."""

    __slots__ = ("_database", "_first_dot", "_kind", "_next_dot", "_run", "changes")

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self._run: list[Any] = []  # the end of the last change, if that is a run: then these
        self._kind = 0
        self._database = 0
        self._first_dot = self._next_dot = 0

    def add(self, database: int, name: bytes, kind: str, effect: Effect) -> None:
        what: int = effect[0]
        if kind == TEXT and what == ADD:
            self.count(database, name, effect[2], effect[3], effect[4], effect[5])
        elif kind == TEXT and what == WRITE and len(effect[5]) < 2 and not effect[6]:
            seen = effect[5][0] if effect[5] else 0
            self.write(database, name, effect[2], effect[3], effect[4], seen)
        else:
            self._kind = 0
            self.changes.append((database, name, kind, effect))

    def write(
        self, database: int, name: bytes, dot: int, hlc: int, value: bytes, seen: int
    ) -> None:
        if self._kind != WRITES or dot != self._next_dot or database != self._database:
            self._begin(database, WRITES, dot, (dot, hlc))
        self._next_dot = dot + NEXT_DOT
        run = self._run
        run.append(name)
        run.append(value)
        run.append(seen)

    def count(
        self, database: int, name: bytes, dot: int, last: int, until_now: Number, now: Number
    ) -> None:
        if self._kind != ADDS or dot != self._next_dot or database != self._database:
            self._begin(database, ADDS, dot, (dot,))
        self._next_dot = dot + NEXT_DOT
        run = self._run
        run.append(name)
        run.append(last)
        run.append(until_now)
        run.append(now)

    def _begin(self, database: int, kind: int, dot: int, first: tuple[int, ...]) -> None:
        self._kind, self._database, self._run = kind, database, []
        self._first_dot = dot
        self.changes.append((database, None, TEXT, (kind, *first, self._run)))

    def again(self, kind: int, dot: int, now: Any) -> bool:
        """Something else was written, or more was added, by that event, if it is in the run that
        goes on: what happens to a string again and again is told once."""
        if kind != self._kind or not self._first_dot <= dot < self._next_dot:
            return False
        offset = dot - self._first_dot
        if offset & MAX_REPLICA:
            return False  # somebody else's
        if kind == WRITES:
            self._run[(offset >> REPLICA_BITS) * 3 + 1] = now
        else:
            self._run[(offset >> REPLICA_BITS) * 4 + 3] = now
        return True


def one_by_one(changes: Iterable[Change]) -> Iterator[Change]:
    """The same without runs."""
    for change in changes:
        if change[1] is not None:
            yield change
            continue
        database, _, kind, run = change
        dot = run[1]
        parts = run[-1]
        if run[0] == WRITES:
            for i in range(0, len(parts), 3):
                effect = written(dot, run[2], parts[i + 1], parts[i + 2])
                yield database, parts[i], kind, effect
                dot += NEXT_DOT
        else:
            for i in range(0, len(parts), 4):
                effect = (ADD, None, dot, parts[i + 1], parts[i + 2], parts[i + 3])
                yield database, parts[i], kind, effect
                dot += NEXT_DOT


def written(dot: int, hlc: int, value: bytes, seen: int) -> Effect:
    return (WRITE, None, dot, hlc, value, (seen,) if seen else (), ())


@final
class ListEnd:
    """What a batch does at one end of a list: pushes or pops, one beside the other. `data` are the
    elements or, for each pop, a None; `first` and `step` say where they are, unless (step 0) row
    operations tell that."""

    __slots__ = ("data", "first", "step", "what")

    def __init__(self, what: int, first: int, step: int) -> None:
        self.what = what
        self.first = first
        self.step = step
        self.data: list[bytes | None] = []

    def goes_on(self, what: int, pos: int) -> bool:
        return what == self.what and pos == self.first + len(self.data) * self.step

    def row_op(self, key_id: int) -> Op:
        """Of all of them; they are in order of their positions."""
        count = len(self.data)
        first = self.first if self.step > 0 else self.first + (count - 1) * self.step
        if self.what >= POP_LEFT:
            return (LIST_RUNS, key_id, first, count)
        values = self.data if self.step > 0 else self.data[::-1]
        return (LIST_RUNS, key_id, first, values)
