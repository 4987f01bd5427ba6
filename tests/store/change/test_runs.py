"""The table of runs: every kind of run expands into the rows that it stands for."""

import pytest

from holdfast.store.change.change_log import ChangeLog
from holdfast.store.change.ops import (
    CRDT_FACTS,
    FIRST_RUN,
    HASH_FIELDS,
    KEYS,
    LIST_ITEMS,
    SET_MEMBERS,
    STREAM_ENTRIES,
    STREAM_META,
    STRING_PARTS,
    STRINGS,
    Op,
    row_op,
)
from holdfast.store.change.runs import (
    LIST_RUNS,
    LIST_RUNS_DOWN,
    MANY_MEMBER_RUNS,
    NEW_KEY_RUNS,
    RUNS,
    STEP,
    rows_in,
)
from holdfast.store.file.tables import ROWS

KEY = 2000


def rows(log: ChangeLog) -> list[tuple[object, ...]]:
    """Of one run, which must be all that the log has."""
    log.close_runs()
    [run] = log.ops
    assert run[0] in RUNS
    return [*rows_in(run)]


def test_runs_and_tables_share_the_numbers() -> None:
    """First the old tables, then runs, then tables, runs and parts of rows that came later."""
    assert min(RUNS) == FIRST_RUN == CRDT_FACTS + 1
    numbers = sorted([*RUNS, *ROWS, STRING_PARTS])
    assert numbers == list(range(len(numbers)))


def test_an_operation_that_is_no_run_stands_for_itself() -> None:
    op: Op = row_op(STRINGS, KEY, None, b"v")
    assert rows_in(op) == [op]


def test_strings() -> None:
    log = ChangeLog()
    for key_id, value in ((KEY, b"a"), (KEY + 1, b"b")):
        log.add_strings(1).extend([key_id, value])
    assert rows(log) == [(STRINGS, KEY, None, b"a"), (STRINGS, KEY + 1, None, b"b")]


def test_new_strings() -> None:
    log, space = ChangeLog(), object()
    log.add_new_string(space, 5, KEY, b"n", b"a")
    log.add_new_string(space, 5, KEY + 1, b"m", b"b")
    assert rows(log) == [
        (KEYS, KEY, None, (5, b"n", "string", None)),
        (STRINGS, KEY, None, b"a"),
        (KEYS, KEY + 1, None, (5, b"m", "string", None)),
        (STRINGS, KEY + 1, None, b"b"),
    ]


def test_new_keys() -> None:
    log, space = ChangeLog(), object()
    log.add_new_key(space, 5, "set", KEY, b"n")
    log.add_new_key(space, 5, "set", KEY + 1, b"m")
    assert rows(log) == [
        (KEYS, KEY, None, (5, b"n", "set", None)),
        (KEYS, KEY + 1, None, (5, b"m", "set", None)),
    ]


def test_a_run_of_new_keys_goes_on_behind_other_operations() -> None:
    log, space, other = ChangeLog(), object(), object()
    for number in range(2):
        log.add_new_key(space, 5, "set", KEY + number, b"n%d" % number)
        log.add_member(f"set {number}", KEY + number, b"m", 1)
    log.add_new_key(other, 6, "set", KEY + 2, b"a")
    log.add_new_key(other, 6, "hash", KEY + 3, b"b")
    log.add_new_key(other, 6, "hash", KEY + 5, b"another has the id between")
    assert [(op[0], op[1]) for op in log.ops] == [
        (NEW_KEY_RUNS, KEY),
        (MANY_MEMBER_RUNS, 0),
        (NEW_KEY_RUNS, KEY + 2),
        (NEW_KEY_RUNS, KEY + 3),
        (NEW_KEY_RUNS, KEY + 5),
    ]
    assert log.ops[0][3] == [b"n0", b"n1"]
    assert log.changes == 7


def test_a_run_of_new_keys_that_was_undone_does_not_go_on() -> None:
    log, space = ChangeLog(), object()
    log.add_new_key(space, 5, "set", KEY, b"n")
    log.ops.clear()
    log.add_new_key(space, 5, "set", KEY + 1, b"m")
    assert rows(log) == [(KEYS, KEY + 1, None, (5, b"m", "set", None))]


def test_elements_that_come() -> None:
    log = ChangeLog()
    log.add_elements(KEY, 7 * STEP, [b"a", b"b"])
    assert rows(log) == [(LIST_ITEMS, KEY, 7 * STEP, b"a"), (LIST_ITEMS, KEY, 8 * STEP, b"b")]


def test_elements_that_go() -> None:
    log = ChangeLog()
    log.remove_elements(KEY, -STEP, 2)
    assert rows(log) == [(LIST_ITEMS, KEY, -STEP, None), (LIST_ITEMS, KEY, 0, None)]


@pytest.mark.parametrize("step", [STEP, -STEP])
@pytest.mark.parametrize("element", [b"pushed", None])
def test_neighbours_at_an_end_of_a_list(step: int, element: bytes | None) -> None:
    log, owner = ChangeLog(), object()
    for number in range(3):
        log.add_at_end(owner, KEY, number * step, element, step)
    assert log.changes == 3
    assert rows(log) == [(LIST_ITEMS, KEY, number * step, element) for number in range(3)]


def test_a_push_and_a_pop_in_turn_are_rows() -> None:
    log, owner = ChangeLog(), object()
    for _ in range(2):
        log.add_at_end(owner, KEY, 0, b"v", STEP)
        log.add_at_end(owner, KEY, 0, None, -STEP)
    assert [op[0] for op in log.ops] == [LIST_ITEMS] * 4


def test_elements_that_are_no_neighbours_begin_another_run() -> None:
    log, owner = ChangeLog(), object()
    for position in (0, STEP, 3 * STEP, 4 * STEP):
        log.add_at_end(owner, KEY, position, b"v", STEP)
    log.add_at_end(owner, KEY, 5 * STEP, None, -STEP)
    log.add_at_end(owner, KEY, 4 * STEP, None, -STEP)
    log.add_at_end("another list", KEY + 1, 3 * STEP, None, -STEP)
    kinds = [LIST_RUNS, LIST_RUNS, LIST_RUNS_DOWN, LIST_ITEMS]
    assert [op[0] for op in log.ops] == kinds
    log.end_run()
    log.add_at_end("another list", KEY + 1, 2 * STEP, None, -STEP)
    assert [op[0] for op in log.ops] == [*kinds, LIST_ITEMS]


def test_fields() -> None:
    log, owner = ChangeLog(), object()
    log.add_field(owner, KEY, b"f", b"1", 1)
    log.add_field(owner, KEY, b"g", b"2", 2)
    assert rows(log) == [
        (HASH_FIELDS, KEY, b"f", (b"1", 1, None)),
        (HASH_FIELDS, KEY, b"g", (b"2", 2, None)),
    ]


def test_members() -> None:
    log, owner = ChangeLog(), object()
    log.add_member(owner, KEY, b"m", 1)
    log.add_member(owner, KEY, b"n", 2)
    assert rows(log) == [(SET_MEMBERS, KEY, b"m", 1), (SET_MEMBERS, KEY, b"n", 2)]


def test_fields_of_several_hashes() -> None:
    log = ChangeLog()
    log.add_field("one", KEY, b"f", b"1", 1)
    log.add_field("two", KEY + 1, b"g", b"2", 2)
    assert rows(log) == [
        (HASH_FIELDS, KEY, b"f", (b"1", 1, None)),
        (HASH_FIELDS, KEY + 1, b"g", (b"2", 2, None)),
    ]


def test_members_of_several_sets() -> None:
    log = ChangeLog()
    log.add_member("one", KEY, b"m", 1)
    log.add_member("two", KEY + 1, b"n", 2)
    assert rows(log) == [(SET_MEMBERS, KEY, b"m", 1), (SET_MEMBERS, KEY + 1, b"n", 2)]


def test_entries_and_the_counters_of_their_stream() -> None:
    log, owner = ChangeLog(), object()
    first, second, deleted = (bytes([number]) * 16 for number in (1, 2, 0))
    assert not log.add_entry(owner, first, (b"a", b"1"), 1), "there is no run yet"
    log.begin_entries(owner, KEY, deleted, first, (b"a", b"1"), 1)
    assert log.add_entry(owner, second, (b"b", b"2"), 2)
    assert rows(log) == [
        (STREAM_ENTRIES, KEY, first, b"\x92\xc4\x01a\xc4\x011"),
        (STREAM_ENTRIES, KEY, second, b"\x92\xc4\x01b\xc4\x012"),
        (STREAM_META, KEY, None, (second, deleted, 2)),
    ]


def test_rows_of_another_kind_begin_another_run() -> None:
    log = ChangeLog()
    for key_id, owner in ((KEY, "one"), (KEY + 1, "other")):
        log.add_member(owner, key_id, b"m", 1)
    log.add_strings(1).extend([KEY + 2, b"v"])
    log.add_member("other", KEY + 1, b"n", 2)
    log.add_field("hash", KEY + 3, b"f", b"v", 1)
    assert [op[1] for op in log.ops] == [0, 0, KEY + 1, KEY + 3]
