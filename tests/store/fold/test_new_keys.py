"""New keys: a pass reads them from memory and writes their names last. None is lost, wherever a
pass breaks off."""

import random
from pathlib import Path

import pytest

from holdfast.errors import StorageError
from holdfast.store.check import check_file
from holdfast.store.memory.key import Key
from holdfast.store.store import FileStore
from holdfast.store.values.hash import Hash
from holdfast.store.values.list import List
from holdfast.store.values.set import Set
from tests.store.consistency import check_counts, check_rows, check_settled
from tests.store.refusal import refusing_writes

FAR_MS = 1 << 50


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    return FileStore(tmp_path / "a.db")


def keys_of_every_kind(store: FileStore) -> set[bytes]:
    """In two databases, in no order of names, some of which expire."""
    for database in store.keyspace.databases[:2]:
        for number in random.Random(1).sample(range(300), 300):
            name = b"%d" % number
            if number % 5 == 0:
                database.set_string(name, b"v")
            elif number % 5 == 1:
                database.set_string(name, b"v", FAR_MS)
            elif number % 5 == 2:
                database.find_or_create_as(name, Hash).set(b"f", name, store.keyspace)
            elif number % 5 == 3:
                database.find_or_create_as(name, Set).add(name, store.keyspace)
            else:
                database.find_or_create_as(name, List).push_right([name], store.keyspace)
        database.set_expiry(database.space.keys[b"2"], FAR_MS)
        database.set_expiry(database.space.keys[b"1"], None)
    store.commit()
    return {b"%d" % number for number in range(300)}


def names_shown(store: FileStore) -> list[bytes]:
    rows = store._connection.execute("SELECT CAST(key AS BLOB) FROM keys WHERE db = 0")
    return [name for (name,) in rows]


def assert_complete(store: FileStore, names: set[bytes]) -> None:
    """Fold, close and read all of it."""
    store.fold()
    check_counts(store.keyspace)
    assert sorted(names_shown(store)) == sorted(names)
    store.close()
    check_settled(store.path)
    assert check_file(store.path) == []
    store = FileStore(store.path)
    for database in store.keyspace.databases[:1]:
        assert len(database) == len(names)
        assert all(database.find(name) is not None for name in names)
    store.close()


def test_keys_of_every_kind_are_written_once_with_their_names(store: FileStore) -> None:
    assert_complete(store, keys_of_every_kind(store))


def test_the_views_show_a_key_when_all_of_it_is_written(store: FileStore) -> None:
    keys_of_every_kind(store)
    while not (shown := names_shown(store)):
        assert store.fold_step()
    strings = store._connection.execute("SELECT count(*) FROM redis_strings").get
    fields = store._connection.execute("SELECT count(*) FROM redis_hash_fields").get
    assert (strings, fields) == (240, 120)
    assert shown
    store.close()


def test_names_are_written_in_their_own_order(store: FileStore) -> None:
    """Each slice has the names that follow those of the slice before."""
    database = store.keyspace.databases[0]
    names = [b"%06d" % number for number in range(3000)]
    random.Random(1).shuffle(names)
    for name in names:
        database.set_string(name, b"v")
    store.commit()
    seen: list[list[bytes]] = []
    while store.fold_step():
        if (shown := names_shown(store)) and (not seen or len(shown) > len(seen[-1])):
            seen.append(shown)
    assert len(seen) > 3
    for some in seen:
        assert some == sorted(names)[: len(some)]
    store.close()


def test_a_key_that_goes_before_the_pass_leaves_nothing(store: FileStore) -> None:
    database = store.keyspace.databases[0]
    names = keys_of_every_kind(store)
    for name in [b"0", b"1", b"2", b"3", b"4"]:
        database.remove(database.space.keys[name])
        names.remove(name)
    store.commit()
    assert_complete(store, names)


def test_a_flushed_database_leaves_nothing(store: FileStore) -> None:
    keys_of_every_kind(store)
    store.keyspace.databases[0].flush()
    store.commit()
    store.keyspace.databases[0].set_string(b"k", b"v")
    store.commit()
    assert_complete(store, {b"k"})


@pytest.mark.parametrize("steps", range(12))
def test_changes_during_a_pass_are_not_lost(store: FileStore, steps: int) -> None:
    """Whether the pass has read the keys or not, has written them or not, and has packed them or
    not."""
    database = store.keyspace.databases[0]
    names = keys_of_every_kind(store)
    for _ in range(steps):
        store.fold_step()

    def key_of(name: bytes) -> Key:
        key = database.find_row(name)
        assert key is not None
        return key

    database.set_expiry(key_of(b"0"), FAR_MS)
    database.set_string(b"5", b"new")
    database.remove(key_of(b"2"))
    database.remove(key_of(b"10"))
    database.move(key_of(b"3"), database, b"2")
    database.set_string(b"10", b"another")
    database.find_or_create_as(b"7", Hash).set(b"g", b"new", store.keyspace)
    names -= {b"3"}
    store.commit()
    store.fold()
    assert_complete(store, names)
    store = FileStore(store.path)
    database = store.keyspace.databases[0]
    assert database.read_strings([b"0", b"5", b"10"]) == [b"v", b"new", b"another"]
    first, renamed, filled = (database.find(name) for name in (b"0", b"2", b"7"))
    assert first is not None
    assert first.expires_at_ms == FAR_MS
    assert renamed is not None
    assert isinstance(renamed.value, Set)
    assert filled is not None
    assert isinstance(filled.value, Hash)
    assert filled.value.items == {b"f": b"7", b"g": b"new"}
    store.close()


TABLES = ["redis_keys", "redis_names", "redis_strings", "redis_hash_fields", "journal"]


@pytest.mark.parametrize("ends", ["fold", "crash", "change", "flush"])
@pytest.mark.parametrize("table", TABLES)
def test_a_pass_that_breaks_off_is_done_again(store: FileStore, table: str, ends: str) -> None:
    names = keys_of_every_kind(store)
    with refusing_writes(store, table), pytest.raises(StorageError):
        store.fold()
    check_rows(store.path)
    assert check_file(store.path) == []
    if ends == "crash":
        store.abandon()
        store = FileStore(store.path)
    database = store.keyspace.databases[0]
    if ends == "change":
        database.remove(database.space.keys[b"0"])
        database.move(database.space.keys[b"2"], database, b"0")
        database.set_expiry(database.space.keys[b"3"], FAR_MS)
        names.remove(b"2")
    if ends == "flush":
        database.flush()
        while store.keyspace.freeing.step():
            pass
        database.set_string(b"k", b"v")
        names = {b"k"}
    store.commit()
    assert_complete(store, names)


def test_a_name_that_another_key_had_before_belongs_to_the_new_key(store: FileStore) -> None:
    """All in one batch: the row of the other key must not come after that of the new one."""
    keyspace, database = store.keyspace, store.keyspace.databases[0]
    database.set_string(b"other", b"v")
    store.commit()
    database.find_or_create_as(b"a", Set).add(b"m", keyspace)
    database.move(database.space.keys[b"other"], database, b"b")
    database.remove(database.space.keys[b"b"])
    database.find_or_create_as(b"b", Set).add(b"m", keyspace)
    store.commit()
    store.abandon()
    store = FileStore(store.path)
    assert_complete(store, {b"a", b"b"})


def test_two_keys_of_one_name_in_a_pass_are_both_found_later(store: FileStore) -> None:
    """The row of an older key is as old as its batch, that of a newer key as new as memory."""
    database = store.keyspace.databases[0]
    database.set_string(b"a", b"old")
    store.commit()
    store.fold()
    database.set_string(b"x", b"new")
    older = database.find(b"a")
    assert older is not None
    database.move(older, database, b"b")
    store.commit()
    store.fold_step()  # the pass has the row of the older key
    database.move(database.space.keys[b"b"], database, b"c")
    database.move(database.space.keys[b"x"], database, b"b")
    store.commit()
    store.fold()
    assert_complete(store, {b"b", b"c"})
