"""A pass of the fold that breaks off for any reason, even a bug, loses nothing."""

from pathlib import Path

import pytest

from holdfast.errors import StorageError
from holdfast.store.change.ops import row_op
from holdfast.store.check import check_file
from holdfast.store.store import FileStore
from holdfast.store.values.hash import Hash
from holdfast.store.values.set import Set
from holdfast.store.values.stream import Stream

TOO_LARGE = 1 << 63  # for the file


def contents(store: FileStore) -> tuple[object, ...]:
    database = store.keyspace.databases[0]
    value, members = database.read_as(b"h", Hash), database.read_as(b"s", Set)
    assert value is not None
    assert members is not None
    return database.read_string(b"k"), value.items, set(members)


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    """With a row that cannot be written to the tables, after rows that can."""
    store = FileStore(tmp_path / "a.db")
    keyspace, database = store.keyspace, store.keyspace.databases[0]
    database.set_string(b"k", b"v")
    database.find_or_create_as(b"h", Hash).set(b"f", b"v", keyspace)
    database.find_or_create_as(b"s", Set).add(b"m", keyspace)
    stream = database.find_or_create_as(b"stream", Stream)
    stream.set_meta(1, 0, TOO_LARGE, keyspace)
    store.commit()
    return store


def test_what_it_had_to_write_is_written_later(store: FileStore) -> None:
    expected = contents(store)
    for _ in range(3):
        with pytest.raises(StorageError, match=r"cannot write the tables: .*too big"):
            store.fold()
    database = store.keyspace.databases[0]
    database.set_string(b"later", b"v")
    store.commit()
    database.remove(database.space.keys[b"stream"])
    store.commit()
    store.fold()
    assert contents(store) == expected
    store.abandon()
    assert check_file(store.path) == []
    store = FileStore(store.path)
    assert contents(store) == expected
    assert store.keyspace.databases[0].read_string(b"later") == b"v"
    store.close()


def test_it_survives_the_end_of_the_process(store: FileStore) -> None:
    expected = contents(store)
    with pytest.raises(StorageError, match="too big"):
        store.close()
    store = FileStore(store.path)
    assert contents(store) == expected
    with pytest.raises(StorageError, match="too big"):
        store.fold()
    assert contents(store) == expected
    store.abandon()


def test_a_batch_that_cannot_be_committed_is_no_bug_of_the_server(tmp_path: Path) -> None:
    """No client may be told that it was written, so the store must report that it was not."""
    store = FileStore(tmp_path / "a.db")
    store.keyspace.databases[0].set_string(b"k", b"v")
    store.keyspace.ops.append(row_op(2, 1 << 70, None, object()))
    with pytest.raises(StorageError, match="cannot write the journal"):
        store.commit()
    store.reload()
    assert store.keyspace.databases[0].read_string(b"k") is None
    store.close()
