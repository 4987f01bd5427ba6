"""The journal: one row for a batch, more for one that SQLite could not hold in a row."""

from pathlib import Path

import pytest

from holdfast.store.change.ops import KEYS, SET_MEMBERS, STREAM_PENDING, Op, row_op
from holdfast.store.file import journal
from holdfast.store.store import FileStore


def test_a_batch_is_one_row(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "a.db")
    for number in range(100):
        store.keyspace.databases[0].set_string(b"%d" % number, b"v")
    store.commit()
    assert [lsn for lsn, _ in store.journal.batches()] == [1]
    store.close()


def test_the_journal_returns_the_operations_that_were_written(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "a.db")
    ops: list[Op] = [
        row_op(KEYS, 2000, None, (0, b"name", "stream", None)),
        row_op(STREAM_PENDING, 2000, (b"group", b"id"), (b"consumer", 1, 2)),
        row_op(SET_MEMBERS, 2001, b"member", None),
    ]
    store.journal.append(ops)
    assert list(store.journal.batches()) == [(1, ops)]
    store.abandon()


def test_a_batch_too_large_for_a_row_is_several_in_one_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "LARGEST_ROW", 1000)
    store = FileStore(tmp_path / "a.db")
    database = store.keyspace.databases[0]
    before = store.journal.wal_pages
    for number in range(10):
        database.set_string(b"%d" % number, b"%d" % number * 400)
    database.set_string(b"huge", b"x" * 5000)
    store.commit()
    ops = [op for _, ops in store.journal.batches() for op in ops]
    assert len(list(store.journal.batches())) > 5
    assert len(ops) == 22
    assert store.journal.lsn == len(list(store.journal.batches()))
    assert store.journal.wal_pages > before
    database.set_string(b"after", b"v")
    store.commit()
    store.fold()
    assert list(store.journal.batches()) == []
    store.close()
    again = FileStore(tmp_path / "a.db")
    database = again.keyspace.databases[0]
    assert database.read_string(b"7") == b"7" * 400
    assert database.read_string(b"huge") == b"x" * 5000
    assert len(database) == 12
    again.close()
