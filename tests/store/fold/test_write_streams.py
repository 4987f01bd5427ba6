"""Entries of streams in the file: several to a row, each in the row that its id says."""

import contextlib
import random
from pathlib import Path

import apsw
import msgspec
import pytest

from holdfast.store.change.stream_blocks import (
    BYTES,
    ENTRIES,
    HEAD_BYTES,
    entry_count,
    pack,
    unpack,
)
from holdfast.store.check import check_file
from holdfast.store.fold.pending_rows import Rows
from holdfast.store.fold.write_streams import StreamRows
from holdfast.store.store import FileStore
from holdfast.store.values.stream import Stream
from holdfast.store.values.stream_id import to_row
from tests.store.consistency import check_settled
from tests.store.tables import CutOffError, Tables

Fields = tuple[bytes, ...]
Change = tuple[int, int, Fields | None]  # the stream, the entry, its fields now


class StreamTables(Tables):
    """The tables, and their expected content."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = StreamRows(self.connection)
        self.model: dict[tuple[int, bytes], Fields] = {}

    def write(self, changes: list[Change]) -> list[str]:
        """Write the changes; return the statements executed."""
        self.statements.clear()
        subs = [to_row(number) for _, number, _ in changes]
        values = [None if it is None else msgspec.msgpack.encode(it) for _, _, it in changes]
        with self.connection:
            self.rows.write(Rows([key_id for key_id, _, _ in changes], [*subs], [*values]))
        for key_id, number, fields in changes:
            if fields is None:
                self.model.pop((key_id, to_row(number)), None)
            else:
                self.model[key_id, to_row(number)] = fields
        verbs = [statement.split()[0] for statement in self.statements]
        return [verb for verb in verbs if verb in ("INSERT", "UPDATE", "DELETE")]

    def write_with_accidents(self, changes: list[Change]) -> None:
        """Slices of a pass that is cut off somewhere, then all of them once more."""
        for allowed in range(0, 30, 3):
            self.allowed = allowed
            with contextlib.suppress(CutOffError):
                self.write(changes[:allowed])
                self.write(changes[allowed:])
        self.allowed = -1
        self.write(changes)

    def check(self) -> None:
        found: dict[tuple[int, bytes], Fields] = {}
        query = "SELECT key_id, id, entries FROM redis_stream_entries ORDER BY key_id, id"
        rows = list(self.connection.execute(query))
        for at, (key_id, row_id, row) in enumerate(rows):
            entries = unpack(row_id, row)
            ids = [entry_id for entry_id, _ in entries]
            assert ids == sorted(set(ids))
            assert row_id <= ids[0]
            if at + 1 < len(rows) and rows[at + 1][0] == key_id:
                assert ids[-1] < rows[at + 1][1]
            assert len(ids) == 1 or (len(ids) <= ENTRIES and len(row) <= BYTES + 3)
            found |= {(key_id, entry_id): fields for entry_id, fields in entries}
        assert found == self.model

    @property
    def row_count(self) -> int:
        return int(self.connection.execute("SELECT count(*) FROM redis_stream_entries").get)


def short(number: int) -> Fields:
    return (b"field", b"%d" % number)


def added(numbers: range) -> list[Change]:
    return [(1024, number, short(number)) for number in numbers]


def test_entries_share_rows() -> None:
    file = StreamTables()
    assert file.write(added(range(10 * ENTRIES))) == ["INSERT"] * 10
    file.check()


def test_new_entries_fill_the_last_row() -> None:
    file = StreamTables()
    for number in range(2 * ENTRIES):
        written = file.write(added(range(number, number + 1)))
        assert written == ["INSERT" if number % ENTRIES == 0 else "UPDATE"]
    assert file.row_count == 2
    assert file.write(added(range(2 * ENTRIES, 4 * ENTRIES))) == ["INSERT"] * 2
    file.check()


def test_entries_that_are_in_the_tables_are_not_written_again() -> None:
    file = StreamTables()
    file.write(added(range(20)))
    assert file.write(added(range(20))) == []
    file.check()


def test_trimming_removes_rows_and_shortens_one() -> None:
    file = StreamTables()
    file.write(added(range(10 * ENTRIES)))
    gone: list[Change] = [(1024, number, None) for number in range(3 * ENTRIES + 5)]
    assert file.write(gone) == ["DELETE"] * 3 + ["UPDATE"]
    file.check()
    assert file.write(gone) == []


def test_a_long_entry_has_a_row_of_its_own() -> None:
    file = StreamTables()
    long = (b"field", b"x" * BYTES)
    file.write([(1024, 1, short(1)), (1024, 2, long), (1024, 3, short(3)), (1024, 4, short(4))])
    assert file.row_count == 3
    file.check()


def test_a_row_has_one_stream() -> None:
    file = StreamTables()
    file.write([(1024, 5, short(5)), (1025, 6, short(6)), (1025, 7, short(7))])
    assert file.row_count == 2
    file.check()


def random_changes(rng: random.Random, last: list[int]) -> list[Change]:
    changes: list[Change] = []
    for key_id in (1024, 1025):
        numbers: set[int] = set()
        kind = rng.randrange(4)
        if kind == 0:  # at the end
            start = last[key_id - 1024] + 1
            numbers = {*range(start, start + rng.randrange(1, 150))}
            last[key_id - 1024] = max(numbers)
        elif kind == 1:  # anywhere
            numbers = {rng.randrange(last[key_id - 1024] + 9) for _ in range(rng.randrange(40))}
        else:  # neighbours
            start = rng.randrange(last[key_id - 1024] + 9)
            numbers = {*range(start, start + rng.randrange(80))}
        last[key_id - 1024] = max(last[key_id - 1024], *numbers, 0)
        for number in sorted(numbers):
            is_gone = rng.random() < (0, 0.5, 0, 1)[kind]
            fields = (b"f", rng.randbytes(rng.choice([0, 5, 40, 40, 300, 3000])))
            changes.append((key_id, number, None if is_gone else fields))
    return changes


@pytest.mark.parametrize("seed", range(20))
def test_rows_have_what_was_written(seed: int) -> None:
    rng = random.Random(seed)
    file = StreamTables()
    last = [0, 0]
    for _ in range(30):
        changes = random_changes(rng, last)
        if not changes:
            continue
        if rng.random() < 0.3:
            file.write_with_accidents(changes)
        else:
            for start in range(0, len(changes), 50):
                file.write(changes[start : start + 50])
        file.check()


@pytest.mark.parametrize("seed", range(4))
def test_a_stream_is_what_it_was_after_it_was_forgotten(tmp_path: Path, seed: int) -> None:
    """Evicted, killed and closed at random."""
    rng = random.Random(seed)
    path = tmp_path / "holdfast.db"
    store = FileStore(path)
    expected: list[tuple[int, Fields]] = []
    last_id = 0
    for _ in range(40):
        database, log = store.keyspace.databases[0], store.keyspace
        found = database.find_as(b"s", Stream) or database.create_as(b"s", Stream)
        key, stream = found
        assert list(stream.range(0)) == expected
        for _ in range(rng.randrange(60)):
            last_id += rng.choice([1, 2, 1 << 64])
            fields = (b"f", rng.randbytes(rng.choice([1, 40, 2500])))
            stream.add(last_id, fields, log)
            expected.append((last_id, fields))
        for _ in range(rng.randrange(10)):
            if expected:
                entry_id, _ = expected.pop(rng.randrange(len(expected)))
                assert stream.delete(entry_id, log)
        count = min(rng.choice([0, 0, 30]), len(expected))
        stream.trim(count, log)
        del expected[:count]
        store.commit()
        for _ in range(rng.randrange(4)):
            store.fold_step()
        end = rng.randrange(4)
        if end == 0:
            store.abandon()
            assert check_file(path) == []
            store = FileStore(path)
        elif end == 1:
            store.close()
            check_settled(path)
            assert check_file(path) == []
            store = FileStore(path)
        elif end == 2:
            store.fold()
            store.keyspace.evict(key)
    store.close()


def row_of(*words: object) -> bytes:
    return msgspec.msgpack.encode(words)


@pytest.mark.parametrize(
    "row",
    [
        b"",
        b"\xc1",
        row_of(),
        row_of(to_row(1)),
        row_of(b"short", (b"f", b"v")),
        row_of(to_row(1), (b"f", b"v", b"f")),
        row_of(to_row(1), ()),
        row_of(to_row(0), (b"f", b"v")),
        row_of(to_row(2), (b"f", b"v"), to_row(2), (b"f", b"v")),
        row_of(to_row(1), (b"f", b"v"), to_row(40), (b"f", b"v")),
    ],
)
def test_a_damaged_row_is_found(tmp_path: Path, row: bytes) -> None:
    path = tmp_path / "holdfast.db"
    store = FileStore(path)
    key, stream = store.keyspace.databases[0].create_as(b"s", Stream)
    for number in range(1, 41):
        stream.add(number, short(number), store.keyspace)
    key_id = key.id
    store.close()
    assert check_file(path) == []
    connection = apsw.Connection(str(path))
    update = "UPDATE redis_stream_entries SET entries = ? WHERE id = ?"
    connection.execute(update, (row, to_row(1)))
    connection.close()
    assert check_file(path) == [f"row {to_row(1).hex()} of stream {key_id} is damaged"]


def test_the_head_of_a_row_tells_how_many_entries_it_has(rng: random.Random) -> None:
    encode = msgspec.msgpack.Encoder().encode
    for _ in range(1000):
        words = [
            rng.randbytes(rng.choice([0, 1, 16, 16, 300, 70_000]))
            for _ in range(rng.choice([2, 4, 16, 20]))
        ]
        of_old_schema = encode(words)
        assert entry_count(of_old_schema[:HEAD_BYTES]) == len(unpack(b"", of_old_schema)) == 1
        count = rng.randint(1, ENTRIES)
        ids = [rng.randbytes(16) for _ in range(count)]
        row = pack(ids, [encode(rng.choice([words[:2], words])) for _ in ids])
        assert entry_count(row[:HEAD_BYTES]) == len(unpack(b"", row)) == count
