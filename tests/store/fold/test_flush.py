"""The fold after databases were flushed: it does no unnecessary work, and dead rows and living ones
take turns."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from holdfast.store.check import check_file
from holdfast.store.fold import fold
from holdfast.store.store import FileStore
from holdfast.store.values.hash import Hash
from holdfast.store.values.list import List
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


@pytest.mark.source_only
def test_the_wal_stays_small_while_the_end_removes_what_was_flushed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each slice changes pages that the slices before it have changed."""
    monkeypatch.setattr(fold, "SLICE_ROWS", 10)
    monkeypatch.setattr("holdfast.store.store.CHECKPOINT_PAGES", 50)
    store = FileStore(tmp_path / "a.db")
    fill(store, 3000)
    store.fold()
    flush(store)
    store.sync_and_checkpoint()
    pages: list[int] = []
    step = store.folding.step

    def counted() -> bool:
        pages.append(store.wal_pages)
        return step()

    monkeypatch.setattr(store.folding, "step", counted)
    store.close()
    assert len(pages) > 300
    assert max(pages[2:]) < 300  # 1800 without copies


def test_keys_of_other_databases_and_of_exchanged_ones_are(store: FileStore) -> None:
    one, two = store.keyspace.databases[:2]
    one.set_string(b"a", b"v")
    two.set_string(b"b", b"v")
    one.swap(two)
    store.commit()
    flush(store)  # formerly the second database
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


def crash_when_the_first_batch_is_gone(store: FileStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several, which the pass has folded."""
    monkeypatch.setattr(fold, "SLICE_BYTES", 1)
    folded_lsn = store.folded_lsn
    while store.folded_lsn == folded_lsn:
        assert store.fold_step()
    assert store.folded_lsn < store.lsn
    store.reload()


def test_a_flushed_key_that_was_never_written_hides_no_other_after_a_crash(
    store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = store.keyspace.databases[:2]
    one.set_string(b"flushed", b"v")
    two.set_string(b"kept", b"v")
    store.commit()
    key = one.find(b"flushed")
    assert key is not None
    one.set_expiry(key, 1 << 40)  # so that a later batch, too, has a row of it
    store.commit()
    flush(store)
    crash_when_the_first_batch_is_gone(store, monkeypatch)
    assert check_file(store.path) == []
    assert two.find(b"kept") is not None
    store.fold()
    check_settled(store.path)


def test_elements_of_a_flushed_key_that_was_never_written_are_not_after_a_crash_either(
    store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = store.keyspace.databases[0]
    _, subject = database.create_as(b"flushed", List)
    for value in (b"a", b"b"):
        subject.push_right([value], store.keyspace)
        store.commit()
    flush(store)
    crash_when_the_first_batch_is_gone(store, monkeypatch)
    store.fold()
    assert count(store, "redis_list_blocks") == 0
    check_settled(store.path)


def test_a_pass_that_an_idle_server_began_for_graves_alone_makes_room_for_the_next(
    store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fold, "SLICE_ROWS", 10)
    monkeypatch.setattr(fold, "PASS_ROWS", 100)
    fill(store, 1000)
    store.fold()
    flush(store)
    while not store.folding.is_idle and store.folded_lsn < store.lsn:
        store.fold_step()
    store.reload()
    assert count(store, "redis_graves") == 1
    store.fold_step()
    longest = 0
    for number in range(500):
        store.keyspace.databases[0].set_string(b"%d" % number, b"v")
        store.keep_up(store.commit())
        longest = max(longest, store.folding.pending_ops)
    assert longest < 500


def test_what_was_flushed_before_a_crash_leaves_memory(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "a.db")
    fill(store, 100)
    flush(store)
    fill(store, 3, b"new")
    store.abandon()
    with closing(FileStore(tmp_path / "a.db")) as store:
        freeing = store.keyspace.freeing
        assert freeing.pending == 100
        while freeing.step():
            pass
        assert freeing.pending == 0
        assert len(store.keyspace.databases[0]) == 3


def test_databases_that_a_server_does_not_open_keep_what_they_have(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "a.db", databases=16)
    store.keyspace.databases[10].set_string(b"k", b"before")
    flush(store)
    store.abandon()
    with closing(FileStore(tmp_path / "a.db", databases=4)) as store:
        while store.keyspace.freeing.step():
            pass
        store.fold()
    with closing(FileStore(tmp_path / "a.db", databases=16)) as store:
        key = store.keyspace.databases[10].find(b"k")
        assert key is not None
        assert key.value == b"before"


def test_small_collections_that_are_dead_share_a_slice(store: FileStore) -> None:
    """Jobs are hashes that live for a while. A slice for each was most of their cost."""
    database, log = store.keyspace.databases[0], store.keyspace
    for number in range(200):
        database.create_as(b"job-%d" % number, Hash)[1].set(b"state", b"done", log)
        database.create_as(b"queue-%d" % number, List)[1].push_right([b"x", b"y"], log)
    store.commit()
    store.fold()
    for number in range(200):
        database.discard(b"job-%d" % number)
        database.discard(b"queue-%d" % number)
    store.commit()
    before = store.folding.slices
    store.fold()
    assert store.folding.slices - before < 100
    assert count(store, "redis_graves") == 0
    assert count(store, "redis_hash_fields") == count(store, "redis_list_blocks") == 0
    check_settled(store.path)
