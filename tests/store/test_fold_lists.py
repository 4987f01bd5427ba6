"""Elements of lists in the file: written in runs, and their lengths right at every moment."""

import random
from importlib.resources import files
from pathlib import Path

import apsw
import pytest

from holdfast.errors import StorageError
from holdfast.store.chunks import STEP
from holdfast.store.fold_lists import ListRows
from holdfast.store.lists import List
from holdfast.store.ops import LIST_ITEMS, Op
from holdfast.store.store import FileStore
from tests.store.consistency import check_rows, check_settled
from tests.store.refusal import refusing_writes

KEY = 1024


class File:
    """The tables, what is executed on them, and what has to be in them."""

    def __init__(self) -> None:
        self.connection = apsw.Connection(":memory:")
        self.connection.execute(files("holdfast.store").joinpath("schema.sql").read_text())
        self.rows = ListRows(self.connection)
        self.statements: list[str] = []
        self.connection.exec_trace = self._trace
        self.model: dict[tuple[int, int], bytes] = {}

    def _trace(self, _: object, sql: str, __: object) -> bool:
        self.statements.append(sql.split()[0])
        return True

    def write(self, ops: list[Op]) -> None:
        with self.connection:
            self.rows.write(ops)
        for _, key_id, position, value in ops:
            if value is None:
                self.model.pop((key_id, position), None)
            else:
                self.model[key_id, position] = value

    def check(self) -> None:
        found = self.connection.execute("SELECT key_id, pos, value FROM redis_list_items")
        assert {(key_id, position): value for key_id, position, value in found} == self.model
        counts: dict[int, tuple[int, int]] = {}
        for key_id, position in self.model:
            length, off_grid = counts.get(key_id, (0, 0))
            counts[key_id] = length + 1, off_grid + bool(position % STEP)
        meta = self.connection.execute("SELECT * FROM redis_list_meta WHERE length OR off_grid")
        assert {key_id: (length, off) for key_id, length, off in meta} == counts


def run(
    start: int, count: int, value: bytes | None, key_id: int = KEY, beside: int = 0
) -> list[Op]:
    positions = range(start * STEP + beside, (start + count) * STEP + beside, STEP)
    return [(LIST_ITEMS, key_id, position, value) for position in positions]


@pytest.mark.parametrize("seed", range(30))
def test_lengths_are_right_whatever_was_there(seed: int) -> None:
    rng = random.Random(seed)
    file = File()
    for _ in range(40):
        ops: list[Op] = []
        for _ in range(rng.randrange(1, 5)):
            value = rng.choice([None, None, b"%d" % rng.randrange(9)])
            beside = rng.choice([0, 0, 0, 1, STEP // 2])
            key_id = rng.choice([KEY, KEY + 1])
            ops += run(rng.randrange(-80, 80), rng.choice([1, 2, 7, 120]), value, key_id, beside)
        last = {op[1:3]: op for op in ops}
        ops = [last[place] for place in sorted(last)]
        if rng.random() < 0.5:  # a pass that was cut off, and is done again
            file.write(ops[: rng.randrange(len(ops))])
            file.check()
        file.write(ops)
        file.check()


def test_a_run_takes_few_statements() -> None:
    file = File()
    file.write(run(-300, 500, b"x"))
    assert file.statements.count("INSERT") == 10 + 1  # and the length
    file.statements.clear()
    file.write(run(-300, 500, None))
    assert (file.statements.count("DELETE"), file.statements.count("INSERT")) == (1, 1)
    file.statements.clear()
    file.write(run(-300, 500, None))  # pushed and popped meanwhile: nothing to count
    assert (file.statements.count("DELETE"), file.statements.count("INSERT")) == (1, 0)
    file.check()


def test_what_was_inserted_between_stays_when_its_neighbours_go() -> None:
    file = File()
    file.write(
        sorted(run(0, 9, b"x") + run(3, 1, b"y", beside=STEP // 2) + run(5, 1, b"z", beside=1))
    )
    file.write(run(0, 9, None))
    assert sorted(file.model.values()) == [b"y", b"z"]
    file.check()


def test_an_element_that_changes_is_no_new_one() -> None:
    file = File()
    file.write(run(0, 60, b"old"))
    file.write(run(10, 60, b"new"))
    assert len(file.model) == 70
    file.check()


def lists_of(store: FileStore) -> dict[bytes, list[bytes]]:
    database = store.keyspace.databases[0]
    found: dict[bytes, list[bytes]] = {}
    for name in sorted(store.keyspace.names(database.space)):
        value = database.read_as(name, List)
        assert value is not None
        found[name] = list(value)
    return found


@pytest.mark.parametrize("seed", range(8))
def test_a_fold_that_is_cut_off_anywhere_and_done_again_counts_nothing_twice(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr("holdfast.store.fold.SLICE_ROWS", rng.choice([3, 40, 130]))
    monkeypatch.setattr("holdfast.store.fold_rows.SORTED_ROWS", rng.choice([2, 50]))
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
            with refusing_writes(store, rng.choice(["redis_list_items", "redis_list_meta"])):
                try:
                    store.fold()
                except StorageError:
                    check_rows(path)
        elif what < 0.4:
            store.abandon()
            check_rows(path)
            store = FileStore(path)
            assert lists_of(store) == {name: model[name] for name in sorted(model)}
    store.close()
    check_settled(path)
    store = FileStore(path)
    assert lists_of(store) == {name: model[name] for name in sorted(model)}
    store.abandon()


def _change_a_list(rng: random.Random, store: FileStore, model: dict[bytes, list[bytes]]) -> None:
    database, log = store.keyspace.databases[0], store.keyspace
    name = b"%d" % rng.randrange(3)
    expected = model.setdefault(name, [])
    found = database.find_as(name, List)
    if found is None:
        found = database.create_as(name, List)
    key, value = found
    values = [b"%d" % rng.randrange(99) for _ in range(rng.choice([1, 3, 120]))]
    i = rng.randrange(len(expected) + 1)
    match rng.randrange(8):
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
    monkeypatch.setattr("holdfast.store.fold.SLICE_ROWS", 10)
    path = tmp_path / "x.db"
    store = FileStore(path)
    database, log = store.keyspace.databases[0], store.keyspace
    key, value = database.create_as(b"l", List)
    value.push_right([b"x"] * 100, log)
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
