"""Entries added to a stream one after the other are one operation of the journal, which also has
the stream's counters. The result is the same."""

import random
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

from holdfast.store.change.change_log import ChangeLog
from holdfast.store.change.ops import STREAM_ENTRIES, STREAM_META, Op, Run, row_op
from holdfast.store.change.runs import STREAM_RUNS, STRING_RUNS
from holdfast.store.change.stream_blocks import (
    BYTES,
    ENTRIES,
    PIECE_BYTES,
    PIECE_ENTRIES,
    entries_of,
)
from holdfast.store.check import check_file
from holdfast.store.file import journal
from holdfast.store.fold.pending_rows import ChangedRows
from holdfast.store.memory.savepoint import Savepoint
from holdfast.store.store import FileStore
from holdfast.store.values.stream import Stream
from holdfast.store.values.stream_id import to_row

Fields = tuple[bytes, ...]


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    return FileStore(tmp_path / "a.db")


def stream_of(store: FileStore, name: bytes = b"s") -> Stream:
    database = store.keyspace.databases[0]
    found = database.find_as(name, Stream) or database.create_as(name, Stream)
    return found[1]


def add(stream: Stream, store: FileStore, *numbers: int) -> None:
    for number in numbers:
        stream.add(number, entry(number), store.keyspace)


def entry(number: int) -> Fields:
    return (b"field", b"%d" % number)


def reopened(store: FileStore) -> FileStore:
    """As after a crash."""
    store.abandon()
    assert check_file(store.path) == []
    return FileStore(store.path)


def seen(store: FileStore) -> tuple[object, ...]:
    stream = stream_of(store)
    counters = (stream.last_id, stream.max_deleted_id, stream.entries_added)
    return [number for number, _ in stream.range(0)], *counters


def tables(store: FileStore) -> list[int]:
    return [op[0] for op in store.keyspace.ops]


def test_entries_that_are_added_one_after_the_other_are_one_operation(store: FileStore) -> None:
    stream = stream_of(store)
    store.commit()
    add(stream, store, *range(1, 21))
    assert tables(store) == [STREAM_RUNS]
    assert store.commit() == 20
    *_, (_, ops) = store.journal.batches()
    assert [op[0] for op in ops] == [STREAM_ENTRIES] * 20 + [STREAM_META]
    store = reopened(store)
    assert list(stream_of(store).range(0)) == [(number, entry(number)) for number in range(1, 21)]
    assert seen(store)[1:] == (20, 0, 20)
    store.close()


def test_the_counters_are_those_of_the_last_change(store: FileStore) -> None:
    stream = stream_of(store)
    stream.create(store.keyspace)
    add(stream, store, 1, 2, 3)
    stream.delete(2, store.keyspace)
    add(stream, store, 4)
    stream.delete(3, store.keyspace)
    stream.set_meta(9, 3, 20, store.keyspace)
    store.commit()
    stream.set_meta(10, 3, 21, store.keyspace)
    add(stream, store, 11)
    stream.delete(1, store.keyspace)
    store.commit()
    expected = ([4, 11], 11, 3, 22)
    assert seen(store) == expected
    store = reopened(store)
    assert seen(store) == expected
    store.fold()
    store = reopened(store)
    assert seen(store) == expected
    store.close()


def test_streams_and_strings_do_not_share_a_run(store: FileStore) -> None:
    database = store.keyspace.databases[0]
    one, other = stream_of(store), stream_of(store, b"other")
    database.set_string(b"a", b"1")
    store.commit()
    add(one, store, 1, 2)
    add(other, store, 1)
    add(one, store, 3)
    database.set_string(b"a", b"2")
    database.set_string(b"a", b"3")
    add(one, store, 4)
    expected = [STREAM_RUNS, STREAM_RUNS, STREAM_RUNS, STRING_RUNS, STREAM_RUNS]
    assert tables(store) == expected
    store.commit()
    add(one, store, 5)
    store.commit()
    store = reopened(store)
    assert seen(store) == ([1, 2, 3, 4, 5], 5, 0, 5)
    assert len(stream_of(store, b"other")) == 1
    assert store.keyspace.databases[0].read_string(b"a") == b"3"
    store.close()


@pytest.mark.parametrize("fails", [True, False])
@pytest.mark.parametrize("lets_go", [True, False])
def test_entries_of_a_script_are_not_mixed_with_earlier_ones(
    store: FileStore, fails: bool, lets_go: bool
) -> None:
    stream = stream_of(store)
    add(stream, store, 1)
    before = store.keyspace.changes
    savepoint = Savepoint(store.keyspace)
    add(stream, store, 2, 3)
    assert store.keyspace.changes > before
    if lets_go:
        savepoint.let_earlier_go(lambda: assert_committed(store))
        add(stream, store, 4)
    if fails:
        savepoint.roll_back()
        assert len(store.keyspace.open_runs) == (not lets_go), "those of the script take memory"
    else:
        savepoint.keep()
    add(stream, store, 5)
    store.commit()
    numbers = [1, 5] if fails else [1, 2, 3, *([4] if lets_go else []), 5]
    expected = (numbers, 5, 0, len(numbers))
    assert seen(store) == expected
    store = reopened(store)
    assert seen(store) == expected
    store.close()


def assert_committed(store: FileStore) -> None:
    assert store.commit() >= 1


def test_a_run_too_large_for_a_row_is_several_in_one_transaction(
    store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "LARGEST_ROW", 1000)
    stream = stream_of(store)
    for number in range(1, 21):
        stream.add(number, (b"f", b"%d" % number * 200), store.keyspace)
    store.commit()
    assert len(list(store.journal.batches())) > 5
    store = reopened(store)
    assert seen(store) == ([*range(1, 21)], 20, 0, 20)
    store.close()


@pytest.mark.parametrize(
    "run",
    [
        7,
        None,
        [],
        [to_row(0), 1],
        [to_row(0), 1, to_row(1), 1],
        [to_row(0), 1, to_row(1), 1, b"nonsense"],
        [to_row(0), 1, to_row(1), 2, b"\xc4\x10" + to_row(1) + b"\x92\xc4\x01f\xc4\x01v"],
    ],
)
def test_a_run_that_makes_no_sense_is_found(store: FileStore, run: object) -> None:
    key_id = stream_of(store).id
    stream_of(store).create(store.keyspace)
    store.commit()
    store.abandon()
    connection = apsw.Connection(str(store.path))
    row = msgspec.msgpack.encode([Run((STREAM_RUNS, key_id, None, run))])
    connection.execute("INSERT INTO journal SELECT max(lsn) + 1, ? FROM journal", (row,))
    connection.close()
    assert any("cannot be read" in problem for problem in check_file(store.path))


# -- pieces -----------------------------------------------------------------------------------


def closed(run: list[tuple[int, Fields]]) -> list[Any]:
    log = ChangeLog()
    stream = Stream(1024)
    for number, fields in run:
        stream.add(number, fields, log)
    log.close_runs()
    [op] = log.ops
    value: list[Any] = op[3]
    return value


@pytest.mark.parametrize("seed", range(5))
def test_pieces_are_small_and_have_all(seed: int) -> None:
    rng = random.Random(seed)
    run = [
        (number, tuple(rng.randbytes(rng.choice([0, 5, 40, 300, 3000])) for _ in range(texts)))
        for number in range(1, 100)
        for texts in [rng.choice([2, 2, 2, 4, 20])]
    ]
    _, added, last_id, *pieces = closed(run)
    assert (added, last_id) == (99, to_row(99))
    found = []
    for count, piece in zip(pieces[::2], pieces[1::2], strict=True):
        assert count == 1 or (count <= PIECE_ENTRIES and len(piece) <= PIECE_BYTES)
        found += entries_of(count, piece)
    assert found == [(to_row(number), msgspec.msgpack.encode(fields)) for number, fields in run]


def test_rows_of_pieces_are_about_full(store: FileStore) -> None:
    stream = stream_of(store)
    number = 0
    for _ in range(40):
        for _ in range(50):
            number += 1
            stream.add(number, (b"field", bytes(32)), store.keyspace)
        store.commit()
    store.close()
    connection = apsw.Connection(str(store.path))
    rows = list(connection.execute("SELECT length(entries) FROM redis_stream_entries"))
    assert all(nbytes <= BYTES + 3 for (nbytes,) in rows)
    assert len(rows) < 1.2 * number / ENTRIES
    connection.close()


# -- the fold ---------------------------------------------------------------------------------


def single(number: int, fields: Fields | None) -> Op:
    value = None if fields is None else msgspec.msgpack.encode(fields)
    return row_op(STREAM_ENTRIES, 1024, to_row(number), value)


@pytest.mark.parametrize("seed", range(30))
def test_the_fold_knows_what_every_entry_is_now(seed: int) -> None:
    """Added by the run, changed and removed one by one, and added again under the same id."""
    rng = random.Random(seed)
    changed, newer = ChangedRows(), ChangedRows()
    expected: dict[bytes, bytes | None] = {}
    for at in range(30):
        rows = changed if at < 20 else newer
        numbers = sorted(rng.sample(range(1, 60), rng.randrange(1, 20)))
        if rng.random() < 0.5:
            numbers = [number + 60 * at for number in numbers]
        fields = {number: (b"%d" % at, b"%d" % number) for number in numbers}
        if rng.random() < 0.5:
            rows.add([Run((STREAM_RUNS, 1024, None, closed([*fields.items()])))])
        else:
            gone = {number: None for number in numbers if rng.random() < 0.5}
            changes = [single(number, it) for number, it in (fields | gone).items()]
            rows.add(changes)
            expected |= {sub: value for _, _, sub, value in changes}
            continue
        expected |= {to_row(n): msgspec.msgpack.encode(it) for n, it in fields.items()}
    changed.overlay(newer)
    found: dict[bytes, bytes | None] = {}
    for some in changed.in_order(STREAM_ENTRIES, set()):
        for sub, value in zip(some.subs, some.values, strict=True):
            if isinstance(value, tuple):
                piece, count = value
                entries = entries_of(count, piece)
                assert entries[0][0] == sub
                found |= dict(entries)
            else:
                found[sub] = value
    assert found == expected
