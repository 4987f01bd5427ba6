"""Rows of a fold: sorted in parts, none lost, none twice."""

import random
from collections.abc import Generator
from typing import Any

import pytest

from holdfast.store.change.change_log import ChangeLog
from holdfast.store.change.ops import KEYS, LIST_ITEMS, SET_MEMBERS, STRINGS, Op, row_op
from holdfast.store.change.runs import STEP
from holdfast.store.fold import pending_rows
from holdfast.store.fold.pending_rows import ChangedRows, in_order

SORTED_ROWS = 20


@pytest.fixture(autouse=True)
def small_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending_rows, "SORTED_ROWS", SORTED_ROWS)


@pytest.mark.parametrize("seed", range(50))
def test_places_come_sorted_in_parts_that_are_no_longer_than_two_runs(seed: int) -> None:
    rng = random.Random(seed)
    count = rng.choice([0, 1, SORTED_ROWS, SORTED_ROWS + 1, 1000])
    digits = rng.choice([3, 9])
    places = list({b"%0*d" % (digits, rng.randrange(10**digits)): None for _ in range(count)})
    if rng.random() < 0.3:
        places.sort(reverse=rng.random() < 0.5)
    parts = list(in_order(places))
    assert [place for part in parts for place in part] == sorted(places)
    assert max(map(len, parts)) <= 2 * SORTED_ROWS


def test_the_caller_can_do_other_work_between_runs() -> None:
    parts = list(in_order(range(10 * SORTED_ROWS, 0, -1)))
    assert parts[:10] == [[]] * 10


def test_rows_that_come_in_order_are_handed_on_as_they_are() -> None:
    class Counted(bytes):
        compared = 0

        def __lt__(self, other: bytes) -> bool:
            Counted.compared += 1
            return bytes.__lt__(self, other)

    places = [Counted(b"%05d" % number) for number in range(100 * SORTED_ROWS)]
    assert sum(map(len, in_order(places))) == len(places)
    assert Counted.compared <= len(places)


def test_of_each_row_is_kept_what_it_is_last() -> None:
    rows = ChangedRows()
    rows.add(
        [
            row_op(SET_MEMBERS, 5, b"b", 1),
            row_op(STRINGS, 4, None, b"old"),
            row_op(SET_MEMBERS, 5, b"a", 2),
        ]
    )
    rows.add(
        [
            row_op(SET_MEMBERS, 5, b"b", None),
            row_op(STRINGS, 4, None, b"new"),
            row_op(SET_MEMBERS, 3, b"c", 1),
        ]
    )
    assert written(rows, SET_MEMBERS) == [
        row_op(SET_MEMBERS, 3, b"c", 1),
        row_op(SET_MEMBERS, 5, b"a", 2),
        row_op(SET_MEMBERS, 5, b"b", None),
    ]
    assert written(rows, STRINGS) == [row_op(STRINGS, 4, None, b"new")]
    assert written(rows, SET_MEMBERS, {5}) == [row_op(SET_MEMBERS, 3, b"c", 1)]
    assert rows.count == 4
    assert rows.concern(4)
    assert not rows.concern(6)


def test_newer_rows_hide_older_ones() -> None:
    older, newer = ChangedRows(), ChangedRows()
    older.add(
        [
            row_op(STRINGS, 4, None, b"old"),
            row_op(SET_MEMBERS, 5, b"a", 1),
            row_op(SET_MEMBERS, 5, b"b", 2),
        ]
    )
    newer.add(
        [
            row_op(STRINGS, 4, None, b"new"),
            row_op(SET_MEMBERS, 5, b"a", None),
            row_op(SET_MEMBERS, 6, b"c", 1),
        ]
    )
    older.overlay(newer)
    assert written(older, STRINGS) == [row_op(STRINGS, 4, None, b"new")]
    assert written(older, SET_MEMBERS) == [
        row_op(SET_MEMBERS, 5, b"a", None),
        row_op(SET_MEMBERS, 5, b"b", 2),
        row_op(SET_MEMBERS, 6, b"c", 1),
    ]


@pytest.mark.parametrize("seed", range(50))
def test_rows_in_runs_and_between_them_are_what_a_dict_would_have(seed: int) -> None:
    rng = random.Random(seed)
    rows, expected = ChangedRows(), dict[int, Op]()
    sub = 0
    step = rng.choice([1, STEP])  # long runs are packed, those on the grid in fewer bytes
    for number in range(rng.choice([3, 30, 300])):
        if rng.random() < rng.choice([0.005, 0.3]):
            sub = rng.randrange(-300, 300)
        sub += rng.choice([-1, 1]) if rng.random() < 0.02 else rng.choice([-1, 1][seed % 2 :])
        value = b"%d" % number if number % 7 else None
        op = row_op(LIST_ITEMS, 5, sub * step, value)
        rows.add([op])
        expected[sub * step] = op
    overlaid = ChangedRows()
    overlaid.add([row_op(LIST_ITEMS, 5, 0, b"old"), row_op(LIST_ITEMS, 5, step, b"old")])
    overlaid.overlay(rows)
    for found in (written(rows, LIST_ITEMS), written(overlaid, LIST_ITEMS)):
        assert len(found) == len({op[2] for op in found})
    assert {op[2]: op for op in written(rows, LIST_ITEMS)} == expected
    old = {at: row_op(LIST_ITEMS, 5, at, b"old") for at in (0, step)}
    assert {op[2]: op for op in written(overlaid, LIST_ITEMS)} == old | expected
    assert len(expected) <= rows.count <= 2 * len(expected)
    stepped(rows.free())
    assert written(rows, LIST_ITEMS) == []


@pytest.mark.parametrize("seed", range(50))
def test_pushes_and_pops_in_runs_are_what_a_dict_would_have(seed: int) -> None:
    rng = random.Random(seed)
    rows, expected = ChangedRows(), dict[int, bytes | None]()
    place = 0
    for _ in range(rng.choice([1, 3, 30])):
        log, step = ChangeLog(), rng.choice([STEP, -STEP] if rng.random() < 0.3 else [STEP])
        place += rng.choice([0, 0, 0, rng.randrange(-50, 50)]) * STEP
        value = rng.choice([b"v", None])
        for _ in range(rng.choice([1, 2, 40, 3 * SORTED_ROWS])):
            log.add_at_end(rows, 5, place, value, step)
            expected[place] = value
            place += step
        rows.add(log.ops)
    found = written(rows, LIST_ITEMS)
    assert len(found) == len(expected) <= rows.count
    assert {op[2]: op[3] for op in found} == expected


def test_a_run_is_not_sorted_and_comes_in_parts() -> None:
    for places in (range(10 * SORTED_ROWS), range(10 * SORTED_ROWS, 0, -1)):
        rows = ChangedRows()
        rows.add([row_op(LIST_ITEMS, 5, place, b"") for place in places])
        parts = list(rows.in_order(LIST_ITEMS, set()))
        assert [len(part.ids) for part in parts] == [SORTED_ROWS] * 10
        assert [sub for part in parts for sub in part.subs] == sorted(places)


@pytest.mark.parametrize("size", [10, pending_rows.MOST_PACKED])
def test_only_short_elements_that_wait_are_copied(size: int) -> None:
    rows = ChangedRows()
    values = [bytes(size) + b"%d" % number for number in range(4 * SORTED_ROWS)]
    rows.add([row_op(LIST_ITEMS, 5, at * STEP, value) for at, value in enumerate(values)])
    found = [op[3] for op in written(rows, LIST_ITEMS)]
    assert found == values
    assert (found[0] is values[0]) == (size > 10)


def test_finding_the_dead_and_freeing_take_many_small_steps() -> None:
    rows = ChangedRows()
    ids = range(1024, 1024 + 10 * SORTED_ROWS)
    rows.add(
        [
            row_op(KEYS, key_id, None, None if key_id % 2 else (0, b"", "set", None))
            for key_id in ids
        ]
    )
    rows.add([row_op(SET_MEMBERS, key_id, b"a", 1) for key_id in ids])
    rows.add([row_op(SET_MEMBERS, 1024, b"%d" % number, 1) for number in range(10 * SORTED_ROWS)])
    steps, dead = stepped(rows.dead(0, None))
    assert (steps, dead) == (10, {key_id for key_id in ids if key_id % 2})
    assert stepped(rows.free())[0] >= 20
    assert not any(map(rows.has, (KEYS, SET_MEMBERS)))


def written(
    rows: ChangedRows, table: int, without: frozenset[int] | set[int] = frozenset()
) -> list[Op]:
    found: list[Op] = []
    for some in rows.in_order(table, without):
        subs = some.subs or [None] * len(some.ids)
        found += [
            row_op(table, key_id, sub, value)
            for key_id, sub, value in zip(some.ids, subs, some.values, strict=True)
        ]
    return found


def stepped(work: Generator[None, None, Any]) -> tuple[int, Any]:
    """The number of steps of a generator, and its result."""
    steps = 0
    while True:
        try:
            next(work)
        except StopIteration as end:
            return steps, end.value
        steps += 1
