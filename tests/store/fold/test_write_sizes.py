"""The file has the size of a large collection, and it is right whenever it is there."""

import random
from pathlib import Path

import apsw
import pytest

from holdfast.errors import StorageError
from holdfast.store.change.fold_state import LARGE
from holdfast.store.check import check_file
from holdfast.store.store import FileStore
from holdfast.store.values.hash import Hash
from holdfast.store.values.set import Set
from holdfast.store.values.zset import ZSet
from tests.store.consistency import check_rows, check_settled
from tests.store.refusal import refusing_writes

KINDS: list[type[Hash | Set | ZSet]] = [Hash, Set, ZSet]


def add(store: FileStore, name: bytes, kind: type[Hash | Set | ZSet], elements: range) -> None:
    value = store.keyspace.databases[0].find_or_create_as(name, kind)
    for number in elements:
        element = b"%d" % number
        if isinstance(value, Hash):
            value.set(element, b"v", store.keyspace)
        elif isinstance(value, Set):
            value.add(element, store.keyspace)
        else:
            value.put(element, float(number), store.keyspace)


def remove(store: FileStore, name: bytes, element: bytes) -> None:
    key = store.keyspace.databases[0].find(name)
    assert key is not None
    assert isinstance(key.value, Hash | Set | ZSet)
    key.value.remove(element, store.keyspace)


def sizes(store: FileStore) -> list[int]:
    return [size for (size,) in store._connection.execute("SELECT elements FROM redis_sizes")]


@pytest.mark.parametrize("kind", KINDS)
def test_a_cold_collection_is_not_counted(tmp_path: Path, kind: type[Hash | Set | ZSet]) -> None:
    store = FileStore(tmp_path / "a.db")
    add(store, b"k", kind, range(LARGE + 5))
    add(store, b"small", kind, range(5))
    store.close()
    store = FileStore(store.path)
    assert sizes(store) == [LARGE + 5]
    store._connection.execute("UPDATE redis_sizes SET elements = 123456")  # it is believed
    assert store.keyspace.databases[0].read_size(b"k", kind) == 123456
    assert store.keyspace.databases[0].read_size(b"small", kind) == 5
    store.abandon()


@pytest.mark.parametrize("kind", KINDS)
def test_a_change_deletes_the_size_and_the_end_of_the_pass_writes_it(
    tmp_path: Path, kind: type[Hash | Set | ZSet]
) -> None:
    store = FileStore(tmp_path / "a.db")
    add(store, b"k", kind, range(LARGE + 5))
    store.commit()
    store.fold()
    assert sizes(store) == [LARGE + 5]
    remove(store, b"k", b"7")
    add(store, b"k", kind, range(LARGE, LARGE + 8))
    store.commit()
    seen = set()
    while store.fold_step():
        check_rows(store.path)
        seen.add(tuple(sizes(store)))
    assert seen == {(LARGE + 5,), (), (LARGE + 7,)}
    store.close()


def test_fields_that_expire_leave_no_size(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "a.db")
    add(store, b"k", Hash, range(LARGE + 5))
    store.commit()
    store.fold()
    key = store.keyspace.databases[0].find(b"k")
    assert key is not None
    assert isinstance(key.value, Hash)
    key.value.set_expiry(b"3", 1 << 50, store.keyspace)
    key.value.set(b"more", b"v", store.keyspace)
    store.commit()
    store.fold()
    assert sizes(store) == []
    store.close()


def test_a_file_that_an_older_holdfast_wrote_has_no_sizes(tmp_path: Path) -> None:
    """It changes elements, notes how far it folded, and leaves the size as it was."""
    path = tmp_path / "a.db"
    store = FileStore(path)
    add(store, b"k", Set, range(LARGE + 5))
    store.close()
    connection = apsw.Connection(str(path))
    connection.execute("DELETE FROM redis_set_members WHERE ordinal = 5")
    connection.execute("UPDATE holdfast_meta SET value = value + 1 WHERE name = 'folded_lsn'")
    connection.close()
    assert check_file(path) == []
    store = FileStore(path)
    assert sizes(store) == []
    assert store.keyspace.databases[0].read_size(b"k", Set) == LARGE + 4
    store.close()


def test_check_reports_a_size_that_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    store = FileStore(path)
    add(store, b"k", Set, range(LARGE))
    store.close()
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE redis_sizes SET elements = 7")
    connection.close()
    (problem,) = check_file(path)
    assert problem.endswith(f"has {LARGE} elements, but its size says 7")


@pytest.mark.parametrize("seed", range(10))
def test_random_lives(tmp_path: Path, seed: int) -> None:
    rnd = random.Random(seed)
    store = FileStore(tmp_path / "a.db")
    store.keyspace.fold_state.large_from = 3
    lengths: dict[bytes, int] = {}
    kinds = {b"%d" % number: KINDS[number % 3] for number in range(6)}
    for _ in range(80):
        name = rnd.choice(list(kinds))
        database = store.keyspace.databases[0]
        key = database.find(name)
        what = rnd.random()
        if what < 0.5:
            start = rnd.randrange(10)
            add(store, name, kinds[name], range(start, start + rnd.randrange(1, 6)))
        elif key is not None and what < 0.65:
            assert isinstance(key.value, Hash | Set | ZSet)
            remove(store, name, next(iter(key.value)))
            if not key.value:
                database.remove(key)
        elif key is not None and what < 0.7:
            database.remove(key)
        elif key is not None and what < 0.75 and not store.keyspace.open_ops:
            store.fold()
            if store.folding.is_clean(key.id):
                store.keyspace.evict(key)
        elif what < 0.77:
            database.flush()
        if rnd.random() < 0.6:
            store.commit()
        for _ in range(rnd.choice([0, 0, 1, 3, 10])):
            store.fold_step()
        if rnd.random() < 0.05:
            store.commit()
            with refusing_writes(store, rnd.choice(["redis_sizes", "redis_set_members"])):
                try:
                    store.fold()
                except StorageError:
                    pass  # there may be nothing to write to it
        if rnd.random() < 0.05:
            store.commit()
            store.abandon()
            store = FileStore(store.path)
            store.keyspace.fold_state.large_from = 3
        check_rows(store.path)
    store.commit()
    store.fold()
    lengths = {
        name: len(key.value)
        for name in kinds
        if (key := store.keyspace.databases[0].find(name)) is not None
    }
    store.close()
    check_settled(store.path)
    store = FileStore(store.path)
    for name, kind in kinds.items():
        assert store.keyspace.databases[0].read_size(name, kind) == lengths.get(name, 0)
    store.close()
