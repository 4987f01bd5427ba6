"""Strings are folded from memory: each once, as it is, and only if the journal has it."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from holdfast.errors import StorageError
from holdfast.store.fold import fold
from holdfast.store.memory.savepoint import Savepoint
from holdfast.store.store import FileStore, MemoryStore
from tests.store.refusal import refusing_writes


@pytest.fixture
def store(tmp_path: Path) -> Iterator[FileStore]:
    store = FileStore(tmp_path / "a.db")
    yield store
    store.close()


def strings(store: FileStore) -> list[bytes]:
    with closing(apsw.Connection(str(store.path), apsw.SQLITE_OPEN_READONLY)) as connection:
        return [value for (value,) in connection.execute("SELECT value FROM redis_strings")]


def test_a_string_that_changed_often_is_one_row_with_its_last_value(store: FileStore) -> None:
    database = store.keyspace.databases[0]
    for number in range(100):
        database.set_string(b"k", b"%d" % number)
        store.commit()
        if number == 10:
            assert store.keyspace.fold_state.dirty_strings == [], "it is read with its new key"
            store.fold()
    assert len(store.keyspace.fold_state.dirty_strings) == 1
    store.fold()
    assert strings(store) == [b"99"]
    assert store.keyspace.fold_state.dirty_strings == []


def test_what_a_failed_script_created_is_not_written(store: FileStore) -> None:
    database = store.keyspace.databases[0]
    database.set_string(b"there", b"before")
    savepoint = Savepoint(store.keyspace)
    database.set_string(b"there", b"within")
    database.set_string(b"new", b"within")
    savepoint.roll_back()
    store.commit()
    store.fold()
    assert strings(store) == [b"before"]


def test_an_open_batch_waits_while_strings_are_collected(
    store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fold, "COLLECTED_ROWS", 1)
    database = store.keyspace.databases[0]
    for value in (b"new", b"committed"):
        store.fold()
        for name in (b"a", b"b", b"c"):
            database.set_string(name, value)
        store.commit()
    store.fold_step()  # has collected the first
    savepoint = Savepoint(store.keyspace)
    database.set_string(b"c", b"not yet")
    assert not store.may_fold
    for _ in range(10):
        store.fold_step()
    assert strings(store) == [b"new"] * 3
    savepoint.roll_back()
    store.fold()
    assert strings(store) == [b"committed"] * 3


def test_a_string_that_changes_while_it_is_folded_is_folded_again(store: FileStore) -> None:
    database = store.keyspace.databases[0]
    database.set_string(b"k", b"first")
    store.commit()
    store.fold_step()
    database.set_string(b"k", b"second")
    store.commit()
    assert store.keyspace.has_unwritten_value(database.space.keys[b"k"])
    store.fold()
    assert strings(store) == [b"second"]
    assert not store.keyspace.has_unwritten_value(database.space.keys[b"k"])


def test_a_fold_that_fails_loses_no_string(store: FileStore) -> None:
    database = store.keyspace.databases[0]
    database.set_string(b"a", b"1")
    database.set_string(b"b", b"1")
    store.commit()
    with refusing_writes(store, "redis_strings"), pytest.raises(StorageError, match="authorized"):
        store.fold()
    assert store.keyspace.has_unwritten_value(database.space.keys[b"a"])
    database.set_string(b"b", b"2")
    store.commit()
    store.fold()
    assert sorted(strings(store)) == [b"1", b"2"]


def test_recovery_knows_what_the_tables_lack(store: FileStore, tmp_path: Path) -> None:
    database = store.keyspace.databases[0]
    database.set_string(b"k", b"old")
    store.commit()
    store.fold()
    database.set_string(b"k", b"new")
    store.commit()
    store.reload()
    assert store.keyspace.has_unwritten_value(database.space.keys[b"k"])
    store.fold()
    assert strings(store) == [b"new"]


def test_a_database_in_memory_remembers_no_key() -> None:
    store = MemoryStore()
    database = store.keyspace.databases[0]
    for number in range(10):
        database.set_string(b"%d" % number, b"v")
        store.commit()
    assert store.keyspace.fold_state.dirty_strings == []
