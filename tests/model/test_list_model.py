"""Random commands on a list, against a plain Python list and a plain dict of rows.

Chunks are tiny, so that every few steps something splits, empties or is renumbered. The same
steps run on lists that were built in memory and on lists that load from a table, which is
folded and reopened meanwhile, also half-way through a fold.
"""

import random
from collections.abc import Callable

import pytest

from holdfast.store.change.change_log import ChangeLog
from holdfast.store.change.runs import STEP, rows_in
from holdfast.store.values import list as lists
from holdfast.store.values import list_chunks, list_elements, list_ends
from holdfast.store.values.list import List
from tests.store.list_rows import KEY_ID, Table, roll_back

ALPHABET = [b"", b"a", b"bb", b"ccc", b"dddd", b"e" * 40]


class Model:
    """The list under test beside its expected content."""

    def __init__(self, rng: random.Random, *, is_stored: bool) -> None:
        self.rng = rng
        self.is_stored = is_stored
        self.log = ChangeLog()
        self.elements: list[bytes] = []
        self.rows: dict[int, bytes] = {}
        self.table = Table()
        self.unfolded: list[tuple[int, bytes | None]] = []
        self.subject = List(KEY_ID)

    def value(self) -> bytes:
        return self.rng.choice(ALPHABET)

    def values(self) -> list[bytes]:
        return [self.value() for _ in range(self.few_or_many())]

    def few_or_many(self) -> int:
        """From list_ends.MANY on they are one operation."""
        return self.rng.choice([self.rng.randint(1, 6), self.rng.randint(8, 20)])

    def any_index(self) -> int:
        return self.rng.randint(-len(self.elements) - 2, len(self.elements) + 2)

    # -- mutators -----------------------------------------------------------------------------

    def push_left(self) -> None:
        values = self.values()
        self.subject.push_left(values, self.log)
        self.elements[:0] = reversed(values)

    def push_right(self) -> None:
        values = self.values()
        self.subject.push_right(values, self.log)
        self.elements += values

    def pop_left(self) -> None:
        count = self.rng.choice([0, self.few_or_many()])
        popped = self.subject.pop_left(count, self.log)
        assert popped == self.elements[:count]
        del self.elements[:count]

    def pop_right(self) -> None:
        count = self.rng.randint(0, 5)
        expected = self.elements[::-1][:count]
        assert self.subject.pop_right(count, self.log) == expected
        del self.elements[len(self.elements) - len(expected) :]

    def set(self) -> None:
        i, value = self.any_index(), self.value()
        is_there = -len(self.elements) <= i < len(self.elements)
        assert self.subject.set(i, value, self.log) == is_there
        if is_there:
            self.elements[i] = value

    def insert(self) -> None:
        pivot, before = self.value(), self.rng.random() < 0.5
        for _ in range(self.rng.choice([1, 1, 2, 30])):
            value = self.value()
            is_there = pivot in self.elements
            assert self.subject.insert(pivot, value, before, self.log) == is_there
            if is_there:
                self.elements.insert(self.elements.index(pivot) + (not before), value)

    def remove(self) -> None:
        value, count = self.value(), self.rng.randint(-4, 4)
        if count == 0 and self.rng.random() < 0.7:
            count = 1  # removing all too often would keep the list short
        at = [i for i, element in enumerate(self.elements) if element == value]
        gone = at[count:] if count < 0 else at[: count or None]
        assert self.subject.remove(count, value, self.log) == len(gone)
        for i in reversed(gone):
            del self.elements[i]

    def trim(self) -> None:
        length = len(self.elements)
        if self.rng.random() < 0.9:
            start, stop = self.rng.randint(0, 3), self.rng.randint(-4, -1)
        else:
            start, stop = self.any_index(), self.any_index()
        self.subject.trim(start, stop, self.log)
        self.elements = self.elements[_slice(start, stop, length)]

    MUTATORS: tuple[Callable[["Model"], None], ...] = (
        push_left, push_left, push_right, push_right, pop_left, pop_right,
        set, insert, remove, trim,
    )  # fmt: skip

    # -- readers ------------------------------------------------------------------------------

    def read(self) -> None:
        length = len(self.elements)
        i, j = self.any_index(), self.any_index()
        expected = self.elements[i] if -length <= i < length else None
        assert self.subject.index(i) == expected
        assert list(self.subject.range(i, j)) == self.elements[_slice(i, j, length)]

    def find(self) -> None:
        value, rank = self.value(), self.rng.choice([-3, -2, -1, 1, 2, 3])
        count, maxlen = self.rng.randint(0, 3), self.rng.choice([0, 0, 1, 5, 30])
        order = list(enumerate(self.elements))
        if rank < 0:
            order.reverse()
        at = [i for i, element in order[: maxlen or None] if element == value]
        expected = at[abs(rank) - 1 :][: count or None]
        assert self.subject.find(value, rank, count, maxlen) == expected

    # -- one step -----------------------------------------------------------------------------

    def step(self) -> None:
        self.rng.choice([self.read, self.find, self.change, self.change, self.change])()
        if self.is_stored:
            self.rng.choice([self.fold_some, self.reopen, self.recover, *[_nothing] * 9])()
        self.subject.check()
        assert len(self.subject) == len(self.elements)
        assert self.log.used_bytes == self.subject.nbytes

    def change(self) -> None:
        rows_before = dict(self.rows)
        is_scripted = self.rng.random() < 0.4
        self.log.undo = [] if is_scripted else None
        self.rng.choice(self.MUTATORS)(self)
        ops = [(pos, value) for op in self.log.ops for _, _, pos, value in rows_in(op)]
        self.log.ops.clear()
        self.unfolded += ops
        for pos, value in ops:
            _write(self.rows, pos, value)
        assert [self.rows[pos] for pos in sorted(self.rows)] == self.elements
        if is_scripted:
            roll_back(self.log)
            assert dict(self.subject.rows()) == rows_before
            assert self.log.used_bytes == self.subject.nbytes
            for _ in range(2):  # the second time nothing changes
                for pos, value in ops:
                    self.subject.apply(pos, value)
            self.log.used_bytes = self.subject.nbytes
        if is_scripted or not self.is_stored:
            # Looking at every row loads them all, so a stored list is spared it mostly.
            assert list(self.subject.rows()) == sorted(self.rows.items())

    # -- the file -----------------------------------------------------------------------------

    def fold_some(self) -> None:
        """Some rows reach the table in their latest state; the list in memory lives on."""
        latest = dict(self.unfolded)
        for pos in self.rng.sample(sorted(latest), self.rng.randint(0, len(latest))):
            self.table.write(pos, latest[pos])

    def reopen(self) -> None:
        """Everything is folded, the value evicted and opened again."""
        assert list(self.subject) == self.elements
        for pos, value in self.unfolded:
            self.table.write(pos, value)
        self.unfolded.clear()
        self.log.used_bytes = 0
        self.subject = self.table.open(self.log)

    def recover(self) -> None:
        """A crash in the middle of a fold: the journal is applied over a mixture of states."""
        self.fold_some()
        self.subject = self.table.open(self.log)
        for pos, value in self.unfolded:
            self.subject.apply(pos, value)
        self.log.used_bytes = self.subject.nbytes


def _nothing() -> None:
    pass


def _write(rows: dict[int, bytes], pos: int, value: bytes | None) -> None:
    if value is None:
        rows.pop(pos, None)
    else:
        rows[pos] = value


def _slice(start: int, stop: int, length: int) -> slice:
    """Redis's inclusive indexes as Python's."""
    start = max(start + length, 0) if start < 0 else start
    stop = stop + length if stop < 0 else stop
    return slice(start, max(stop + 1, 0))


@pytest.mark.parametrize("is_stored", [False, True], ids=["memory", "stored"])
@pytest.mark.parametrize("seed", range(30))
def test_a_list_equals_a_plain_list(
    seed: int, is_stored: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr(list_chunks, "CHUNK", rng.choice([2, 3, 4, 8]))
    monkeypatch.setattr(list_elements, "LOOSE", rng.choice([1, 2, 16]))
    monkeypatch.setattr(lists, "WINDOW", rng.choice([2, 4, 8]))
    monkeypatch.setattr(list_ends, "FARTHEST", rng.choice([STEP * 20, list_ends.FARTHEST]))
    model = Model(rng, is_stored=is_stored)
    for _ in range(300):
        model.step()
    assert list(model.subject.rows()) == sorted(model.rows.items())
