"""Elements of lists in the file: in blocks or by themselves, and counted right at every moment."""

import random
from pathlib import Path

import pytest

from holdfast.errors import StorageError
from holdfast.store.change.ops import LIST_ITEMS, RowOp, row_op
from holdfast.store.change.runs import STEP
from holdfast.store.file.list_blocks import PLACES
from holdfast.store.fold.write_lists import ListRows, end_of_block
from holdfast.store.memory import scanning
from holdfast.store.store import FileStore
from holdfast.store.values.list import List
from tests.store.consistency import check_rows, check_settled
from tests.store.list_rows import elements_in
from tests.store.refusal import refusing_writes
from tests.store.tables import CutOffError, Tables

KEY = 1024
TABLES = ["redis_list_blocks", "redis_list_items", "redis_list_meta"]


class ListTables(Tables):
    """The tables, and their expected content."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = ListRows(self.connection)
        self.model: dict[tuple[int, int], bytes] = {}

    def write(self, ops: list[RowOp]) -> None:
        with self.connection:
            self.rows.write(ops)
        for _, key_id, position, value in ops:
            if value is None:
                self.model.pop((key_id, position), None)
            else:
                self.model[key_id, position] = value

    def write_with_accidents(self, ops: list[RowOp]) -> None:
        """Cut off at the first statement, at the second, … until all of it is written."""
        for allowed in range(6 * len(ops) + 9):
            self.connection.execute("BEGIN")
            self.allowed = allowed
            try:
                self.rows.write(ops)
                is_done = True
            except CutOffError:
                is_done = False
            finally:
                self.allowed = -1
            self.connection.execute("ROLLBACK")
            self.check()
            if is_done:
                break
        else:
            pytest.fail("so many statements?")
        self.write(ops)

    def check(self) -> None:
        assert elements_in(self.connection) == self.model
        counts: dict[int, list[int]] = {}
        singles = self.connection.execute("SELECT key_id, pos FROM redis_list_items")
        for key_id, position in self.model:
            count = counts.setdefault(key_id, [0, 0, 0])
            count[0] += 1
            count[1] += bool(position % STEP)
        for key_id, _ in singles:
            counts[key_id][2] += 1
        meta = self.connection.execute("SELECT * FROM redis_list_meta WHERE length OR off_grid")
        assert {key_id: count for key_id, *count in meta} == counts


def run(
    start: int, count: int, value: bytes | None, key_id: int = KEY, beside: int = 0
) -> list[RowOp]:
    positions = range(start * STEP + beside, (start + count) * STEP + beside, STEP)
    return [row_op(LIST_ITEMS, key_id, position, value) for position in positions]


def some_ops(rng: random.Random) -> list[RowOp]:
    """As a pass has them: by key, each place once; of a key maybe in two runs, as of RowsOfKey."""
    ops: list[RowOp] = []
    for _ in range(rng.randrange(1, 5)):
        value = rng.choice([None, None, b"", b"%d" % rng.randrange(9), b"long" * 99])
        beside = rng.choice([0, 0, 0, 1, STEP // 2, STEP - 1])
        key_id = rng.choice([KEY, KEY + 1])
        ops += run(rng.randrange(-80, 80), rng.choice([1, 2, 7, 120]), value, key_id, beside)
    last = {op[1:3]: op for op in ops}
    first_part = {place: rng.random() < 0.9 for place in last} if rng.random() < 0.3 else {}
    order = sorted(last, key=lambda place: (place[0], first_part.get(place, True), place[1]))
    return [last[place] for place in order]


@pytest.mark.parametrize("seed", range(30))
def test_counts_are_right_whatever_was_there(seed: int) -> None:
    rng = random.Random(seed)
    file = ListTables()
    for _ in range(40):
        ops = some_ops(rng)
        if rng.random() < 0.5:  # a pass that was cut off between two slices, and is done again
            file.write(ops[: rng.randrange(len(ops))])
            file.check()
        file.write(ops)
        file.check()


@pytest.mark.parametrize("seed", range(10))
def test_a_slice_that_is_cut_off_at_any_statement_leaves_nothing_behind(seed: int) -> None:
    rng = random.Random(seed)
    file = ListTables()
    for _ in range(4):
        file.write(some_ops(rng))
        file.write_with_accidents(some_ops(rng))
        file.check()


def test_a_run_takes_few_statements() -> None:
    file = ListTables()
    blocks = 500 // PLACES
    file.write(run(-300, 500, b"x"))
    made = file.statements.count("INSERT list_blocks")
    assert blocks <= made <= blocks + 2
    assert file.statements.count("SELECT list_blocks") <= 2
    assert file.statements.count("REPLACE list_meta") == 1
    file.statements.clear()
    file.write(run(-300, 500, None))
    assert file.statements.count("DELETE list_blocks") == made
    assert not any("items" in statement for statement in file.statements)
    file.statements.clear()
    file.write(run(-300, 500, None))  # pushed and popped meanwhile: nothing to count
    assert file.statements.count("REPLACE list_meta") == 0
    file.check()


def test_slices_end_where_blocks_do() -> None:
    positions = [op[2] for op in run(-5, 100, b"x")]
    assert end_of_block(positions, 40) == 5 + 2 * PLACES
    assert end_of_block(positions, 98) == 100
    for end in (0, 5, 5 + PLACES, 100):
        assert end_of_block(positions, end) == end


def test_long_elements_are_written_and_removed_many_at_once() -> None:
    file = ListTables()
    file.write(run(0, 320, b"long" * 99))
    assert file.statements.count("INSERT list_items") == 10
    assert not any("blocks" in statement for statement in file.statements)
    file.statements.clear()
    file.write(run(0, 320, None))
    assert file.statements.count("DELETE list_items") == 10
    file.check()


def test_a_change_at_an_end_of_a_long_list_touches_one_block() -> None:
    file = ListTables()
    file.write(run(-3000, 6000, b"x"))
    for ops in (run(-3001, 1, b"new"), run(2999, 1, None), run(7, 1, b"changed")):
        file.statements.clear()
        file.write(ops)
        assert len([line for line in file.statements if "blocks" in line]) <= 2
    file.check()


def test_what_was_inserted_between_stays_when_its_neighbours_go() -> None:
    file = ListTables()
    file.write(
        sorted(run(0, 9, b"x") + run(3, 1, b"y", beside=STEP // 2) + run(5, 1, b"z", beside=1))
    )
    file.write(run(0, 9, None))
    assert sorted(file.model.values()) == [b"y", b"z"]
    file.check()


def test_an_element_that_changes_is_no_new_one() -> None:
    file = ListTables()
    file.write(run(0, 60, b"old"))
    for value in (b"new", b"new and long" * 99, b"short"):
        file.write(run(10, 60, value))
        assert len(file.model) == 70
        file.check()


def test_people_can_read_lists() -> None:
    file = ListTables()
    file.connection.execute("INSERT INTO redis_keys VALUES (?, 0, x'6c', 'list', NULL)", (KEY,))
    file.connection.execute("INSERT INTO redis_names VALUES (0, 'l', ?)", (KEY,))
    values = [b"", b"a", b"", b"long" * 99, "\u00e4".encode(), b"z"]
    ops = [row_op(LIST_ITEMS, KEY, (n + 30) * STEP, value) for n, value in enumerate(values)]
    file.write(ops[:2] + run(31, 1, b"between", beside=9) + ops[2:])
    values.insert(2, b"between")
    found = list(file.connection.execute('SELECT * FROM lists ORDER BY "index"'))
    assert found == [(0, "l", n, value.decode()) for n, value in enumerate(values)]


def lists_of(store: FileStore) -> dict[bytes, list[bytes]]:
    database = store.keyspace.databases[0]
    found: dict[bytes, list[bytes]] = {}
    for name in sorted(scanning.names(store.keyspace, database.space)):
        value = database.read_as(name, List)
        assert value is not None
        found[name] = list(value)
    return found


@pytest.mark.parametrize("seed", range(12))
def test_a_fold_that_is_cut_off_anywhere_and_done_again_counts_nothing_twice(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr("holdfast.store.fold.fold.SLICE_ROWS", rng.choice([3, 40, 130]))
    monkeypatch.setattr("holdfast.store.fold.pending_rows.SORTED_ROWS", rng.choice([2, 50]))
    path = tmp_path / "x.db"
    store = FileStore(path)
    model: dict[bytes, list[bytes]] = {}
    for _ in range(30):
        for _ in range(rng.randrange(1, 6)):
            _change_a_list(rng, store, model)
        store.commit()
        for _ in range(rng.randrange(4)):
            store.fold_step()
        what = rng.random()
        if what < 0.15:
            with refusing_writes(store, rng.choice(TABLES)):
                try:
                    store.fold()
                except StorageError:
                    check_rows(path)
        elif what < 0.4:
            store.abandon()
            check_rows(path)
            store = FileStore(path)
            _look_into_lists(rng, store, model)
            assert lists_of(store) == {name: model[name] for name in sorted(model)}
        elif what < 0.6:
            store.close()
            check_settled(path)
            store = FileStore(path)
            _look_into_lists(rng, store, model)
    store.close()
    check_settled(path)
    store = FileStore(path)
    assert lists_of(store) == {name: model[name] for name in sorted(model)}
    store.abandon()


def _look_into_lists(rng: random.Random, store: FileStore, model: dict[bytes, list[bytes]]) -> None:
    """Here and there, while most of them is only in the file."""
    for name, expected in model.items():
        value = store.keyspace.databases[0].read_as(name, List)
        assert value is not None
        for _ in range(3):
            i, stop = rng.randrange(len(expected)), rng.randrange(len(expected))
            assert value.index(i) == expected[i]
            assert value.range(i, stop) == tuple(expected[i : stop + 1])
        value.check()


def _change_a_list(rng: random.Random, store: FileStore, model: dict[bytes, list[bytes]]) -> None:
    database, log = store.keyspace.databases[0], store.keyspace
    name = b"%d" % rng.randrange(3)
    expected = model.setdefault(name, [])
    found = database.find_as(name, List)
    if found is None:
        found = database.create_as(name, List)
    key, value = found
    long = b"long" * 99 if rng.random() < 0.2 else b""
    values = [b"%d" % rng.randrange(99) + long for _ in range(rng.choice([1, 3, 120]))]
    i = rng.randrange(len(expected) + 1)
    match rng.randrange(10):
        case 0 | 1:
            value.push_left(values, log)
            expected[:0] = values[::-1]
        case 2 | 3:
            value.push_right(values, log)
            expected += values
        case 4:
            value.pop_left(len(values), log)
            del expected[: len(values)]
        case 5:
            value.pop_right(len(values), log)
            del expected[-len(values) :]
        case 6:
            value.insert_at(i, values[0], log)
            expected.insert(i, values[0])
        case 7 if expected:
            gone = rng.choice(expected)
            value.remove(0, gone, log)
            expected[:] = [element for element in expected if element != gone]
        case 8 if rng.random() < 0.3:
            value.trim(i // 2, -i // 3 - 1, log)
            expected[:] = expected[i // 2 : len(expected) + -i // 3]
        case _ if i < len(expected):
            value.set(i, values[0], log)
            expected[i] = values[0]
    if not expected:
        del model[name]
    if not expected or rng.random() < 0.02:
        model.pop(name, None)
        database.remove(key)


def test_the_grave_of_a_list_is_sound_while_it_is_emptied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.store.fold.fold.SLICE_ROWS", 10)
    path = tmp_path / "x.db"
    store = FileStore(path)
    database, log = store.keyspace.databases[0], store.keyspace
    key, value = database.create_as(b"l", List)
    value.push_right([b"x"] * 1000, log)
    value.insert_at(50, b"y", log)
    store.commit()
    store.fold()
    database.remove(key)
    store.commit()
    steps = 0
    while store.fold_step():
        check_rows(path)
        steps += 1
        if steps % 11 == 0:
            store.abandon()
            store = FileStore(path)
    assert steps > 10
    store.close()
    check_settled(path)
