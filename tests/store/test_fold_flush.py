"""What the fold does about databases that were flushed: nothing that can be spared, and dead rows
and living ones take turns."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from holdfast.store import fold
from holdfast.store.store import FileStore
from tests.store.consistency import check_settled


@pytest.fixture
def store(tmp_path: Path) -> Iterator[FileStore]:
    store = FileStore(tmp_path / "a.db")
    yield store
    store.close()


def count(store: FileStore, table: str) -> int:
    with closing(apsw.Connection(str(store.path), apsw.SQLITE_OPEN_READONLY)) as connection:
        return int(connection.execute(f"SELECT count(*) FROM {table}").get)


def fill(store: FileStore, keys: int, prefix: bytes = b"k") -> None:
    database = store.keyspace.databases[0]
    for number in range(keys):
        database.set_string(b"%b%d" % (prefix, number), b"v")
    store.commit()


def flush(store: FileStore) -> None:
    store.keyspace.databases[0].flush()
    store.commit()


def test_keys_that_were_flushed_before_a_pass_are_never_written(store: FileStore) -> None:
    connection = store._connection
    fill(store, 500)
    flush(store)
    fill(store, 3, b"new")
    before = connection.total_changes()
    store.fold()
    assert connection.total_changes() - before < 50
    assert count(store, "redis_keys") == count(store, "redis_strings") == 3
    assert count(store, "redis_graves") == 0
    assert store.keyspace.databases[0].find(b"new2") is not None


def test_keys_of_other_databases_and_of_exchanged_ones_are(store: FileStore) -> None:
    one, two = store.keyspace.databases[:2]
    one.set_string(b"a", b"v")
    two.set_string(b"b", b"v")
    one.swap(two)
    store.commit()
    flush(store)  # what was the second
    store.fold()
    assert count(store, "redis_keys") == 1
    store.reload()
    assert two.find(b"a") is not None
    assert one.find(b"b") is None


def test_a_key_that_the_tables_have_goes_although_it_moved_before_the_flush(
    store: FileStore,
) -> None:
    one, two = store.keyspace.databases[:2]
    two.set_string(b"a", b"v")
    store.commit()
    store.fold()
    key = two.find(b"a")
    assert key is not None
    two.move(key, one, b"a")
    flush(store)
    store.fold()
    assert count(store, "redis_keys") == count(store, "redis_strings") == 0
    store.reload()
    assert two.find(b"a") is None


def test_the_next_pass_does_not_wait_for_all_graves(
    store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fold, "SLICE_ROWS", 100)
    monkeypatch.setattr(fold, "PASS_ROWS", 400)
    fill(store, 5000)
    store.fold()
    flush(store)
    longest = 0
    for round_number in range(200):
        fill(store, 50, b"%d-" % round_number)
        store.keep_up(100)
        longest = max(longest, store.folding.pending_ops)
        if not count(store, "redis_graves") and store.folding.is_idle:
            break
    assert longest < 10 * 400, "what is new piles up behind what is dead"
    store.fold()
    assert count(store, "redis_graves") == 0
    assert count(store, "redis_keys") == 50 * (round_number + 1)
    check_settled(store.path)
