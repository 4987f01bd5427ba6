"""The changes of a record. Writes to strings and to the ends of lists are joined into runs.

The record of a busy batch has hundreds of writes to strings that consist of one write, and of
additions to counters. As a single change, each is four tuples around a name and a value; making,
packing, unpacking and freeing these took more time than the rest of the work. So neighbours become
one change, a run. It has no name (None), and its effect has the parts of all of them, one after the
other. Their dots follow each other:

(WRITES, first dot, hlc, (name, value, dot that it replaces or 0, …)) (OVERWRITES, first dot, hlc,
(name, value, …)) (ADDS, first dot, (name, number of the author's last ADD, its total until then,
now, …))

OVERWRITES is for strings that consist of one earlier write of the same author. A replica that
applies it knows that write, because records of one author arrive in order. ADDS names the author's
previous ADD: a replica that reset the counter remembers only that number, and all replicas have to
remember the same.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, final

from holdfast.crdt.dots import MAX_REPLICA, REPLICA_BITS
from holdfast.crdt.effects import ADD, ADDS, OVERWRITES, WRITE, WRITES, Effect
from holdfast.crdt.exact_numbers import Number
from holdfast.crdt.flush import FLUSHED
from holdfast.store.change.intents import POP_LEFT
from holdfast.store.change.ops import Run
from holdfast.store.change.runs import list_run, list_run_gone

TEXT: Final = "string"  # the only kind that has runs
NEXT_DOT: Final = 1 << REPLICA_BITS
# The number of items of a run that belong to one string. `again` changes item 1 of a write, and the
# last item of an addition.
WIDTHS: Final = {WRITES: 3, OVERWRITES: 2, ADDS: 4}

# Number of the database, name of the key (None for a run), kind of value, effect. It is a tuple, or
# a list if it was decoded.
KeyChange = Sequence[Any]


@final
class RecordBuilder:
    """The changes of a record, in order. `first_dot` is the first dot of the run that can still
    grow; 0 if there is none."""

    __slots__ = ("_database", "_kind", "_next_dot", "_run", "_width", "changes", "first_dot")

    def __init__(self) -> None:
        self.changes: list[KeyChange] = []
        # the items of the last change if it is a run; these are about it, too:
        self._run: list[Any] = []
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
        """`write` to a string whose last write has the same author. If the last run is of WRITES,
        it takes this one, too: few long runs are better than many that leave out the replaced
        dot."""
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
        """The string of that dot changes again in the same batch. If its entry is in the last run,
        change it there; otherwise return False. `kind` is WRITES or ADDS, `now` is the value or
        total."""
        if not self.first_dot <= dot < self._next_dot:
            return False
        offset = dot - self.first_dot
        what, width = self._kind, self._width
        if offset & MAX_REPLICA:
            return False  # the dot belongs to another replica
        is_sum = what == ADDS
        if is_sum != (kind == ADDS):
            return False
        self._run[(offset >> REPLICA_BITS) * width + (width - 1 if is_sum else 1)] = now
        return True


def one_by_one(changes: Iterable[KeyChange]) -> Iterator[KeyChange]:
    """The same changes without runs. (A flush also has no name.)"""
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
    """The effect for the string whose items begin at `i`. An addition needs no stamp."""
    if what == ADDS:
        return (ADD, None, dot, parts[i + 1], parts[i + 2], parts[i + 3])
    if what == OVERWRITES:
        return (WRITE, None, dot, hlc, parts[i + 1], None, ())
    seen = parts[i + 2]
    return (WRITE, None, dot, hlc, parts[i + 1], (seen,) if seen else (), ())


@final
class ListEnd:
    """Neighbouring pushes or pops of a batch at one end of a list. `data` has the elements, or a
    None for each pop. `first` and `step` give their positions; with a step of 0, row operations
    tell the positions."""

    __slots__ = ("data", "first", "step", "what")

    def __init__(self, what: int, first: int, step: int) -> None:
        self.what = what
        self.first = first
        self.step = step
        self.data: list[bytes | None] = []

    def goes_on(self, what: int, pos: int) -> bool:
        return what == self.what and pos == self.first + len(self.data) * self.step

    def as_run(self, key_id: int) -> Run:
        """One operation for all of them, in order of their positions."""
        count = len(self.data)
        first = self.first if self.step > 0 else self.first + (count - 1) * self.step
        if self.what >= POP_LEFT:
            return list_run_gone(key_id, first, count)
        values = self.data if self.step > 0 else self.data[::-1]
        return list_run(key_id, first, values)
