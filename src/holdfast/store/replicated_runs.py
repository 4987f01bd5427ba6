"""Runs: what a turn does to strings, and to the ends of lists, nearly always, in few words.

The record of a busy turn is hundreds of writes to strings that hold one write, and of additions to
counters. Told one by one, each is four tuples around a name and a value, and to make, pack, unpack
and free these took more than all the rest. So neighbours among them become one change, which has
no name (None) and an effect with all of them side by side; their dots follow each other:

    (WRITES, first dot, hlc, (name, value, dot that it replaces or 0, …))
    (OVERWRITES, first dot, hlc, (name, value, …))
    (ADDS, first dot, (name, number of the author's last ADD, its total until then, now, …))

The second is of strings that hold nothing but what its author wrote before. Who has all that an
author did before (all have, as records come in order) knows what that was. Of an addition the one
before is told, because it is told where the author's total was forgotten: whoever was deleted for
by somebody remembers up to which addition, and all have to remember the same.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, final

from holdfast.crdt.dots import MAX_REPLICA, REPLICA_BITS
from holdfast.crdt.effects import ADD, ADDS, OVERWRITES, WRITE, WRITES, Effect
from holdfast.crdt.flush import FLUSHED
from holdfast.crdt.numbers import Number
from holdfast.store.ops import LIST_RUNS, POP_LEFT, Op

TEXT: Final = "string"  # the only kind that has runs
NEXT_DOT: Final = 1 << REPLICA_BITS
# Of what a run has of each string. (What may change again is at 1 if written, the last if added.)
WIDTHS: Final = {WRITES: 3, OVERWRITES: 2, ADDS: 4}

# Number of the database, name of the key, kind of value, effect; of a run without name. A tuple,
# but a list where it comes from elsewhere.
Change = Sequence[Any]


@final
class Told:
    """The changes of a record, in order. `first_dot` is that of the run that goes on, 0 if there is
    none."""

    __slots__ = ("_database", "_kind", "_next_dot", "_run", "_width", "changes", "first_dot")

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self._run: list[Any] = []  # the end of the last change, if that is a run: then these
        self._kind = 0
        self._width = 0
        self._database = 0
        self.first_dot = self._next_dot = 0

    def add(self, database: int, name: bytes, kind: str, effect: Effect) -> None:
        what: int = effect[0]
        if kind == TEXT and what == ADD:
            self.count(database, name, effect[2], effect[3], effect[4], effect[5])
        elif kind == TEXT and what == WRITE and len(effect[5]) < 2 and not effect[6]:
            seen = effect[5][0] if effect[5] else 0
            self.write(database, name, effect[2], effect[3], effect[4], seen)
        else:
            self._kind = self.first_dot = self._next_dot = 0
            self.changes.append((database, name, kind, effect))

    def flush(self, database: int, effect: Effect) -> None:
        self._kind = self.first_dot = self._next_dot = 0
        self.changes.append((database, None, FLUSHED, effect))

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

    def overwrite(
        self, database: int, name: bytes, dot: int, hlc: int, value: bytes, seen: int
    ) -> None:
        """`write`, of a string that its author wrote last. Not in the middle of a run that says
        more: few long ones are better than many that say nothing needless."""
        if dot != self._next_dot or database != self._database or self._kind != OVERWRITES:
            if self._kind == WRITES:
                self.write(database, name, dot, hlc, value, seen)
                return
            self._begin(database, OVERWRITES, dot, (dot, hlc))
        self._next_dot = dot + NEXT_DOT
        run = self._run
        run.append(name)
        run.append(value)

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
        self._width = WIDTHS[kind]
        self.first_dot = dot
        self.changes.append((database, None, TEXT, (kind, *first, self._run)))

    def again(self, kind: int, dot: int, now: Any) -> bool:
        """Something else was written (WRITES), or more was added (ADDS), by that event, if it is in
        the run that goes on: what happens to a string again and again is told once."""
        if not self.first_dot <= dot < self._next_dot:
            return False
        offset = dot - self.first_dot
        what, width = self._kind, self._width
        if offset & MAX_REPLICA:
            return False  # somebody else's
        is_sum = what == ADDS
        if is_sum != (kind == ADDS):
            return False
        self._run[(offset >> REPLICA_BITS) * width + (width - 1 if is_sum else 1)] = now
        return True


def one_by_one(changes: Iterable[Change]) -> Iterator[Change]:
    """The same without runs. (A flush has no name.)"""
    for change in changes:
        if change[1] is not None or change[2] == FLUSHED:
            yield change
            continue
        database, _, kind, run = change
        what, dot, parts = run[0], run[1], run[-1]
        for i in range(0, len(parts), WIDTHS[what]):
            yield database, parts[i], kind, part_of_run(what, dot, run[2], parts, i)
            dot += NEXT_DOT


def part_of_run(what: int, dot: int, hlc: Any, parts: list[Any], i: int) -> Effect:
    """What a run says of the string there; the stamp is of no interest if that was added to."""
    if what == ADDS:
        return (ADD, None, dot, parts[i + 1], parts[i + 2], parts[i + 3])
    if what == OVERWRITES:
        return (WRITE, None, dot, hlc, parts[i + 1], None, ())
    seen = parts[i + 2]
    return (WRITE, None, dot, hlc, parts[i + 1], (seen,) if seen else (), ())


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
