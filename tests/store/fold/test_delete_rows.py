"""Rows that are removed: neighbours as a range, and never anything between them."""

import random
from pathlib import Path

import apsw
import pytest

from holdfast.store.change.ops import SET_MEMBERS, STREAM_PENDING, ZSET_MEMBERS, row_op
from holdfast.store.file.tables import ROWS
from holdfast.store.fold import pending_rows
from holdfast.store.store import FileStore
from holdfast.store.values.stream_id import to_row
from holdfast.store.values.zset import ZSet

KEY = 5000


def name_of(number: int) -> bytes:
    return b"%05d" % number


class File:
    """Rows in the tables, without keys: only the fold reads them."""

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
            op = row_op(self.table, key_id, sub, None if gone else value)
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
def test_rows_that_are_gone_already_do_no_harm(tmp_path: Path, table: int) -> None:
    file = File(tmp_path / "x.db", table)
    file.change([(KEY, number) for number in range(0, 1000, 2)], gone=False)
    file.change([(KEY, number) for number in range(301, 400, 2)], gone=True)
    file.store.abandon()


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("seed", range(5))
def test_removed_rows_are_gone_and_no_others(tmp_path: Path, table: int, seed: int) -> None:
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


# -- rows that are found by a name, which are looked at many at a time ---------------------------


class Names:
    """The members of one set in the tables, beside the expected ones."""

    def __init__(self, path: Path) -> None:
        self.store = FileStore(path)
        self.connection = self.store.folding._connection
        self.deletions = 0
        self.left: set[bytes] = set()

        def trace(_: object, sql: str, __: object) -> bool:
            self.deletions += sql.startswith("DELETE FROM redis_set_members")
            return True

        self.connection.exec_trace = trace

    def change(self, *changes: tuple[list[bytes], bool]) -> int:
        """Names that come or go, all of them in one pass. How many statements removed rows."""
        for names, there in changes:
            for name in names:
                op = row_op(SET_MEMBERS, KEY, name, 1 if there else None)
                self.store.keyspace.ops.append(op)
            self.left = self.left | {*names} if there else self.left - {*names}
            self.store.commit()
        self.deletions = 0
        self.store.fold()
        deletions = self.deletions
        rows = self.connection.execute("SELECT member FROM redis_set_members ORDER BY member")
        assert [name for (name,) in rows] == sorted(self.left)
        return deletions


@pytest.fixture
def names(tmp_path: Path) -> Names:
    return Names(tmp_path / "x.db")


JOBS = [b"job:%d" % number for number in range(1000)]


def test_what_came_and_went_between_two_passes_is_not_looked_for(names: Names) -> None:
    names.change(([b"a", b"z"], True))
    assert names.change((JOBS, True), (JOBS, False)) == 0
    assert names.change((JOBS[:500], True)) == 0
    # All of them are gone then, half of which were never there.
    assert names.change((JOBS[500:], True), (JOBS, False)) <= 3


def test_others_between_two_looks_stay(names: Names) -> None:
    numbers = [b"%05d" % number for number in range(2000)]
    for end in (8, 9, 15, 16, 17, 31, 38, 39, 40):
        others = [number + b"x" for number in numbers[end - 2 : end + 2]]
        names.change((numbers, True), (others, True))
        names.change((numbers, False))
        names.change((others, False))


def test_names_that_cannot_be_joined(names: Names) -> None:
    parts = [b"a", b"b", b"c", b"d", b"e", b"f", b"g", b"h"]
    joined = [b"a\0b", b"c", b"d", b"e", b"f", b"g\0h"]
    names.change((joined, True))
    names.change((parts, False))  # of which the table has some, and others look the same
    names.change((parts, True))
    names.change((parts, False))
    names.change(([b"", *parts], True))
    names.change(([b"", *parts, b"d\0"], False))


def test_long_names(names: Names) -> None:
    long = [name + b"/" * size for name in JOBS[:40] for size in (255, 256, 257, 5_000)]
    names.change((JOBS[:50] + long, True))
    names.change((JOBS[:20], False))
    names.change((long[::2], False))
    names.connection.limit(apsw.SQLITE_LIMIT_LENGTH, 8_000)
    names.change((JOBS[30:50], False))
    names.connection.limit(apsw.SQLITE_LIMIT_LENGTH, 1_000_000_000)
    names.change((long[1::2], False))


def test_the_order_in_which_rows_are_found_is_not_trusted(names: Names) -> None:
    numbers = [b"%05d" % number for number in range(23)]
    names.change((numbers, True), ([b"00007x", b"00021x", b"00021y"], True))
    names.connection.execute("PRAGMA reverse_unordered_selects = ON")
    names.change((numbers, False))


@pytest.mark.source_only
def test_rows_that_do_not_come_in_order(names: Names, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long run of a pass comes before later rows."""
    monkeypatch.setattr(pending_rows, "SORTED_ROWS", 10)
    ordered = sorted(JOBS)
    names.change((ordered, True))
    names.change((ordered[500:600], False), (ordered[480:530], False))
    names.change((ordered[700:690:-1], False), (ordered[400:800], False))


@pytest.mark.parametrize("seed", range(20))
def test_removed_members_are_gone_and_no_others(names: Names, seed: int) -> None:
    rng = random.Random(seed)
    kinds = (b"%d", b"job:%d", b"\0%d", b"%d\0", b"\xff%d", b"%d" + b"y" * 250)
    some = [kind % number for kind in rng.sample(kinds, 2) for number in range(300)]
    for _ in range(8):
        come = rng.sample(some, rng.randrange(len(some)))
        start = rng.randrange(len(some))
        go = sorted(some)[start : start + rng.randrange(1, 200)]
        go = [name for name in go if rng.random() > 0.02] + rng.sample(some, rng.randrange(20))
        if rng.random() < 0.5:
            names.change((come, True), (go, False))
        else:
            names.change((come, True))
            names.change((go, False))
