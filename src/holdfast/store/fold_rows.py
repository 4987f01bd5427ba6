"""What the fold has to write: of every row that changed the last operation, and all of them in
the order of the tables.

To sort 100k rows takes 0.1 s, so it is done in parts, and whoever asks is given an empty list
after each of them, to do something else first.
"""

from bisect import bisect_left
from collections.abc import Callable, Collection, Generator, Iterator
from collections.abc import Set as AbstractSet
from itertools import chain, islice
from operator import itemgetter, lt
from typing import Any, final

from holdfast.store.ops import KEYS, Op
from holdfast.store.tables import ROWS

SORTED_ROWS = 2000  # sorted, counted or freed in about the time of a slice
SAMPLES = 16  # of so many sorted rows, from which one learns how all are distributed

_sub_of = itemgetter(2)


@final
class RowsOfKey:
    """The operations on one key's rows in one table.

    As long as each row lies beyond the one before, in either direction, none can have come twice:
    elements that are pushed or popped, entries of streams. Such a run need be neither searched nor
    sorted, which is most of what a row costs here. What comes after a long one is kept by sub key,
    and is newer than what the run has of the same row; short ones are not worth keeping.
    """

    __slots__ = ("_after", "_descends", "_run")

    def __init__(self) -> None:
        self._run: list[Op] = []
        self._descends = False
        self._after: dict[Any, Op] | None = None

    def add(self, op: Op) -> int:
        """How many rows more there are; one too many if a long run has it already."""
        after = self._after
        if after is None:
            run = self._run
            if len(run) <= 1:
                if not run:
                    run.append(op)
                    return 1
                self._descends = bool(op[2] < run[0][2])
            last = run[-1][2]
            if op[2] < last if self._descends else op[2] > last:
                run.append(op)
                return 1
            if len(run) <= SORTED_ROWS:
                after = {row[2]: row for row in run}
                self._run = []
            else:
                after = {}
            self._after = after
        count = len(after)
        after[op[2]] = op
        return len(after) - count

    def __len__(self) -> int:
        return len(self._run) + len(self._after or ())

    def ops(self) -> list[Op]:
        """From old to new."""
        return [*self._run, *(self._after or {}).values()]

    def in_order(self) -> Iterator[list[Op]]:
        """Each row once, sorted (a long run by itself, before the rest); empty lists between."""
        run, after = self._run, self._after
        for start in range(0, len(run), SORTED_ROWS):
            if self._descends:
                end = len(run) - start
                part = run[max(0, end - SORTED_ROWS) : end]
                part.reverse()
            else:
                part = run[start : start + SORTED_ROWS]
            if after is not None:
                part = [op for op in part if op[2] not in after]
            yield part
        if after is not None:
            yield from in_order(after.values(), _sub_of)

    def free(self) -> Generator[None]:
        while self._run:
            del self._run[-SORTED_ROWS:]
            yield
        if self._after is not None:
            yield from _free(self._after)


class ChangedRows:
    """For each table the operations by key id, or by key id and sub key."""

    __slots__ = ("count", "tables")

    def __init__(self) -> None:
        self.tables: list[dict[int, Any]] = [{} for _ in ROWS]
        self.count = 0  # rows

    def add(self, ops: list[Op], without: int = -1) -> None:
        """All but those of one table."""
        tables = self.tables
        count = 0
        last_table = last_id = -1
        rows = RowsOfKey()
        for op in ops:
            table: int = op[0]
            if table == without:
                continue
            key_id: int = op[1]
            if table != last_table or key_id != last_id:
                of_table = tables[table]
                if op[2] is None:
                    count -= len(of_table)
                    of_table[key_id] = op
                    count += len(of_table)
                    continue
                found = of_table.get(key_id)
                if found is None:
                    found = of_table[key_id] = RowsOfKey()
                rows = found
                last_table, last_id = table, key_id
            count += rows.add(op)
        self.count += count

    def overlay(self, newer: "ChangedRows") -> None:
        for table, of_table in enumerate(newer.tables):
            if ROWS[table].sub:
                for rows in of_table.values():
                    self.add(rows.ops())
            else:
                self.add(list(of_table.values()))

    def has(self, table: int) -> bool:
        return bool(self.tables[table])

    def concern(self, key_id: int) -> bool:
        return any(key_id in of_table for of_table in self.tables)

    def dead(self) -> Generator[None, None, set[int]]:
        """The ids of keys that are gone."""
        ids: set[int] = set()
        rows = iter(self.tables[KEYS].values())
        while some := list(islice(rows, SORTED_ROWS)):
            ids.update([key_id for _, key_id, _, row in some if row is None])
            yield
        return ids

    def in_order(self, table: int, without: AbstractSet[int]) -> Iterator[list[Op]]:
        """The operations of a table by place, but for those of some keys; empty lists between."""
        of_table = self.tables[table]
        for ids in in_order(of_table):
            if not ROWS[table].sub:
                yield [of_table[key_id] for key_id in ids if key_id not in without]
                continue
            for key_id in ids:
                if key_id not in without:
                    rows: RowsOfKey = of_table[key_id]
                    yield from rows.in_order()

    def free(self) -> Generator[None]:
        """To free 100k rows at once takes 10 ms."""
        for table, of_table in enumerate(self.tables):
            if not ROWS[table].sub:
                yield from _free(of_table)
                continue
            count = 0
            while of_table:
                rows: RowsOfKey = of_table.popitem()[1]
                count += len(rows)
                if count > SORTED_ROWS:
                    yield from rows.free()
                    count = 0


def _free(rows: dict[Any, Op]) -> Generator[None]:
    while rows:
        for _ in range(min(len(rows), SORTED_ROWS)):
            rows.popitem()
        yield


def in_order(
    places: Collection[Any], key: Callable[[Any], Any] | None = None
) -> Iterator[list[Any]]:
    """The same places, sorted, in lists that follow each other, some of them empty.

    Many are sorted in runs. If these do not follow each other as they are (ids of new keys do),
    samples of all runs tell where to cut every one of them, so that what lies between two cuts is
    again about as much as a run. Nothing is done for single places here: of 100k random names each
    takes 0.6 µs, and merged by heapq it took 3.
    """
    if len(places) <= SORTED_ROWS:
        yield sorted(places, key=key)
        return
    runs: list[list[Any]] = []
    rest = iter(places)
    while run := sorted(islice(rest, SORTED_ROWS), key=key):
        runs.append(run)
        yield []
    ends = [run[-1] if key is None else key(run[-1]) for run in runs]
    beginnings = [run[0] if key is None else key(run[0]) for run in runs]
    if all(map(lt, ends, beginnings[1:])):
        yield from runs
        return
    step = max(1, SORTED_ROWS // SAMPLES)
    samples = sorted(chain.from_iterable([run[::step] for run in runs]), key=key)
    starts = [0] * len(runs)
    for sample in samples[:: len(runs[0][::step])][1:]:
        cut = sample if key is None else key(sample)
        part: list[Any] = []
        for number, run in enumerate(runs):
            start = starts[number]
            starts[number] = end = bisect_left(run, cut, start, key=key)
            part += run[start:end]
        part.sort(key=key)
        yield part
    yield sorted(
        chain.from_iterable([run[start:] for run, start in zip(runs, starts, strict=True)]),
        key=key,
    )
