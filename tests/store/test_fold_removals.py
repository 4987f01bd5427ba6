"""Rows that are removed: neighbours as a range, and never anything between them."""

import random
from pathlib import Path

import pytest

from holdfast.store.ops import STREAM_PENDING, ZSET_MEMBERS
from holdfast.store.store import FileStore
from holdfast.store.stream_ids import to_row
from holdfast.store.tables import ROWS
from holdfast.store.zsets import ZSet

KEY = 5000


def name_of(number: int) -> bytes:
    return b"%05d" % number


class File:
    """Rows in the tables, without keys: nobody but the fold asks."""

    def __init__(self, path: Path, table: int) -> None:
        self.store = FileStore(path)
        self.table = table
        self.statements: list[str] = []
        self.left: set[tuple[int, int]] = set()
        self._connection = self.store.folding._connection
        self._connection.exec_trace = self._trace

    def _trace(self, _: object, sql: str, __: object) -> bool:
        self.statements.append(sql)
        return True

    def change(self, places: list[tuple[int, int]], *, gone: bool) -> int:
        """How many statements removed rows."""
        for key_id, number in places:
            sub: object = name_of(number)
            value: object = float(number)
            if self.table == STREAM_PENDING:
                sub = (b"group%d" % (number // 100), to_row(number))
                value = (b"consumer", number, 1)
            op = (self.table, key_id, sub, None if gone else value)
            self.store.keyspace.ops.append(op)
        self.left = self.left - {*places} if gone else self.left | {*places}
        self.store.commit()
        self.statements.clear()
        self.store.fold()
        table = ROWS[self.table]
        prefix = f"DELETE FROM {table.name} "
        last = table.sub[-1]
        found = self._connection.execute(f"SELECT key_id, {last} FROM {table.name}")
        numbers = {
            (key_id, int.from_bytes(sub, "big") if self.table == STREAM_PENDING else int(sub))
            for key_id, sub in found
        }
        assert numbers == self.left
        return sum(sql.startswith(prefix) for sql in self.statements)


TABLES = [ZSET_MEMBERS, STREAM_PENDING]


@pytest.mark.parametrize("table", TABLES)
def test_neighbours_are_removed_at_once(tmp_path: Path, table: int) -> None:
    file = File(tmp_path / "x.db", table)
    file.change([(KEY, number) for number in range(1000)], gone=False)
    assert file.change([(KEY, number) for number in range(300, 400)], gone=True) == 1
    file.store.abandon()


@pytest.mark.parametrize("table", TABLES)
def test_what_is_gone_already_harms_nobody(tmp_path: Path, table: int) -> None:
    file = File(tmp_path / "x.db", table)
    file.change([(KEY, number) for number in range(0, 1000, 2)], gone=False)
    file.change([(KEY, number) for number in range(301, 400, 2)], gone=True)
    file.store.abandon()


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("seed", range(5))
def test_what_is_removed_is_gone_and_nothing_else(tmp_path: Path, table: int, seed: int) -> None:
    rng = random.Random(seed)
    file = File(tmp_path / "x.db", table)
    everything = [(key_id, number) for key_id in (KEY, KEY + 1) for number in range(300)]
    for _ in range(8):
        file.change(rng.sample(everything, rng.randrange(1, 600)), gone=False)
        start = rng.randrange(500)
        run = everything[start : start + rng.randrange(1, 200)]
        some = rng.sample(everything, rng.randrange(30))
        spared = {*rng.sample(everything, rng.choice([0, 5, 50]))}
        file.change([place for place in {*run, *some} if place not in spared], gone=True)
    file.store.abandon()


def test_a_queue_that_was_emptied_is_gone(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "x.db")
    _, queue = store.keyspace.databases[0].create_as(b"q", ZSet)
    for number in range(500):
        queue.put(b"job:%d" % number, float(number), store.keyspace)
    store.commit()
    store.fold()
    queue.pop(490, False, store.keyspace)
    store.close()
    store = FileStore(tmp_path / "x.db")
    kept = store.keyspace.databases[0].read_as(b"q", ZSet)
    assert kept is not None
    assert kept.members(0, 500) == [b"job:%d" % number for number in range(490, 500)]
    store.close()
