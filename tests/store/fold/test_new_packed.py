"""New keys that are packed when they are made: the fold writes them from their records. None is
lost, whatever a client does with it meanwhile, and wherever a pass breaks off."""

import random
from pathlib import Path

import pytest

from holdfast.errors import StorageError
from holdfast.store.change.fold_state import ASKED_KEYS, MOST_NAMES, PROBED_KEYS, PROBES
from holdfast.store.check import check_file
from holdfast.store.memory.database import Database
from holdfast.store.memory.key import Key
from holdfast.store.memory.packed_keys import MOST_FIELDS
from holdfast.store.memory.packing import LONGEST_STRING
from holdfast.store.memory.savepoint import Savepoint
from holdfast.store.memory.scanning import names, scan
from holdfast.store.store import FileStore
from holdfast.store.values.hash import Hash
from holdfast.store.values.list import List
from tests.store.consistency import check_counts, check_rows, check_settled
from tests.store.refusal import refusing_writes

FAR_MS = 1 << 50
KEYS = 1300  # more than the names of two runs


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    return FileStore(tmp_path / "a.db")


def fill(store: FileStore) -> dict[bytes, object]:
    """Strings and hashes, and a list now and then. Returns what a reader sees."""
    database, seen = store.keyspace.databases[0], dict[bytes, object]()
    for number in random.Random(1).sample(range(KEYS), KEYS):
        name = b"%d" % number
        if number % 100 == 99:
            database.find_or_create_as(name, List).push_right([name], store.keyspace)
        elif number % 2:
            database.put_string(name, name * 2)
        else:
            words = [b"f", name, b"g", b"w"][: 4 if number % 3 else 2]
            assert database.add_hash([b"HSET", name, *words]) == len(words) // 2
    for name in names(store.keyspace, database.space):
        seen[name] = None
    assert len(seen) == len(database) == KEYS
    packed = database.space.packed_count
    assert packed == KEYS - KEYS // 100
    store.commit()
    for number in range(KEYS):
        name = b"%d" % number
        if number % 100 == 99:
            seen[name] = ("list", [name])
        elif number % 2:
            seen[name] = ("string", name * 2)
        else:
            seen[name] = ("hash", {b"f": name} | ({b"g": b"w"} if number % 3 else {}))
    return seen


def content(database: Database) -> dict[bytes, object]:
    found: dict[bytes, object] = {}
    for name in list(names(database.keyspace, database.space)):
        key = database.find(name)
        assert key is not None
        value = key.value
        if isinstance(value, Hash):
            found[name] = (key.type_name, value.items)
        elif isinstance(value, List):
            found[name] = (key.type_name, list(value.range(0, 99)))
        else:
            found[name] = (key.type_name, value)
    return found


def key_of(database: Database, name: bytes) -> Key:
    key = database.find_row(name)
    assert key is not None
    return key


def assert_complete(store: FileStore, seen: dict[bytes, object]) -> None:
    """Fold, close and read all of it."""
    check_counts(store.keyspace)
    store.fold()
    check_counts(store.keyspace)
    store.close()
    check_settled(store.path)
    assert check_file(store.path) == []
    store = FileStore(store.path)
    assert content(store.keyspace.databases[0]) == seen
    store.close()


def use_some(store: FileStore, seen: dict[bytes, object]) -> None:
    """All that clients can do with a key."""
    database, keyspace = store.keyspace.databases[0], store.keyspace
    database.set_string(b"1", b"new")
    database.put_string(b"3", b"new")
    seen[b"1"] = seen[b"3"] = ("string", b"new")
    database.set_expiry(key_of(database, b"5"), FAR_MS)
    fields = database.find_value(b"2", Hash)
    assert fields is not None
    fields.set(b"h", b"new", keyspace)
    fields.remove(b"f", keyspace)
    seen[b"2"] = ("hash", {b"g": b"w", b"h": b"new"})
    many = database.find_value(b"4", Hash)
    assert many is not None
    for number in range(200):
        many.set(b"%d" % number, b"v", keyspace)
    seen[b"4"] = ("hash", {b"f": b"4", b"g": b"w"} | {b"%d" % at: b"v" for at in range(200)})
    assert database.find(b"6") is not None  # a read, too, makes an object of a hash
    for name in (b"8", b"9"):
        database.remove(key_of(database, name))
        del seen[name]
    for name in (b"10", b"11"):
        database.remove(key_of(database, name))
        database.put_string(name, b"again")
        seen[name] = ("string", b"again")
    database.move(key_of(database, b"12"), database, b"8")
    seen[b"8"] = seen.pop(b"12")
    database.move(key_of(database, b"13"), store.keyspace.databases[1], b"13")
    del seen[b"13"]
    assert database.replace_as(b"15", Hash).set(b"f", b"v", keyspace)
    seen[b"15"] = ("hash", {b"f": b"v"})
    assert database.add_hash([b"HSET", b"late", b"f", b"v"]) == 1
    seen[b"late"] = ("hash", {b"f": b"v"})
    store.commit()


def test_they_are_written_once_and_stay_packed(store: FileStore) -> None:
    seen = fill(store)
    database = store.keyspace.databases[0]
    store.fold()
    assert (database.space.packed_count, len(database.space.keys)) == (KEYS, 0)
    assert not store.keyspace.fold_state.created
    assert_complete(store, seen)


def test_keys_between_others_share_slices(store: FileStore) -> None:
    """A transaction for each of them would take long."""
    database, keyspace = store.keyspace.databases[0], store.keyspace
    for number in range(300):
        database.put_string(b"%d" % number, b"v")
        database.find_or_create_as(b"l%d" % number, List).push_right([b"e"], keyspace)
        keyspace.databases[1].put_string(b"%d" % number, b"v")
    store.commit()
    slices = store.folding.slices
    store.fold()
    assert store.folding.slices - slices < 40
    store.close()
    check_settled(store.path)


@pytest.mark.parametrize("steps", range(0, 24, 2))
def test_uses_before_and_during_a_pass_are_not_lost(store: FileStore, steps: int) -> None:
    seen = fill(store)
    for _ in range(steps):
        store.fold_step()
    use_some(store, seen)
    assert sorted(names(store.keyspace, store.keyspace.databases[0].space)) == sorted(seen)
    assert_complete(store, seen)


@pytest.mark.parametrize("steps", range(24))
def test_a_crash_during_a_pass_loses_nothing(store: FileStore, steps: int) -> None:
    seen = fill(store)
    for _ in range(steps // 2):
        store.fold_step()
    use_some(store, seen)
    for _ in range(steps):
        store.fold_step()
    store.abandon()
    check_rows(store.path)
    store = FileStore(store.path)
    assert content(store.keyspace.databases[0]) == seen
    assert_complete(store, seen)


TABLES = ["redis_keys", "redis_names", "redis_strings", "redis_hash_fields", "journal"]


@pytest.mark.parametrize("ends", ["fold", "crash", "use", "used before", "flush"])
@pytest.mark.parametrize("table", TABLES)
def test_a_pass_that_breaks_off_is_done_again(store: FileStore, table: str, ends: str) -> None:
    seen = fill(store)
    database = store.keyspace.databases[0]
    if ends == "used before":
        use_some(store, seen)
    with refusing_writes(store, table), pytest.raises(StorageError):
        store.fold()
    check_rows(store.path)
    assert check_file(store.path) == []
    if ends == "crash":
        store.abandon()
        store = FileStore(store.path)
    if ends == "use":
        use_some(store, seen)
    if ends == "flush":
        database.flush()
        while store.keyspace.freeing.step():
            pass
        database.put_string(b"k", b"v")
        seen = {b"k": ("string", b"v")}
    store.commit()
    assert_complete(store, seen)


@pytest.mark.parametrize("steps", [0, 1, 3, 6, 9, 12])
@pytest.mark.parametrize("frees", [False, True])
def test_a_flushed_database_leaves_nothing(store: FileStore, steps: int, frees: bool) -> None:
    fill(store)
    database = store.keyspace.databases[0]
    for _ in range(steps):
        store.fold_step()
    database.flush()
    if frees:
        while store.keyspace.freeing.step():
            pass
    store.commit()
    database.put_string(b"k", b"v")
    store.commit()
    assert_complete(store, {b"k": ("string", b"v")})


def test_two_databases_that_are_swapped(store: FileStore) -> None:
    seen = fill(store)
    first, second = store.keyspace.databases[:2]
    second.put_string(b"other", b"v")
    first.swap(second)
    first.put_string(b"and", b"v")
    store.commit()
    assert sorted(names(store.keyspace, first.space)) == [b"and", b"other"]
    assert content(second) == seen
    assert_complete(store, {b"and": ("string", b"v"), b"other": ("string", b"v")})


def test_a_walk_sees_each_key_once_wherever_it_is(store: FileStore) -> None:
    seen = fill(store)
    use_some(store, seen)
    keyspace, space = store.keyspace, store.keyspace.databases[0].space
    for limit in (1, 7, MOST_NAMES, 10 * KEYS):
        cursor, found = 0, list[bytes]()
        while True:
            cursor, some = scan(keyspace, space, cursor, limit)
            found += [name for name, _ in some]
            if not cursor:
                break
        # A renamed key may be seen twice (see Renamed).
        assert set(found) == set(seen)
        assert len(found) <= len(seen) + 1
    store.close()


def test_a_key_that_was_used_is_packed_again_when_the_file_has_it(store: FileStore) -> None:
    """As if it had been an object from the beginning."""
    fill(store)
    database = store.keyspace.databases[0]
    assert database.find(b"2") is not None
    assert database.find(b"1") is not None
    assert sorted(database.space.keys)[:2] == [b"1", b"1099"]
    store.fold()
    assert not database.space.keys
    check_counts(store.keyspace)
    store.close()


def test_memory_forgets_no_key_that_the_file_lacks(store: FileStore) -> None:
    seen = fill(store)
    store.max_bytes = 1
    keyspace = store.keyspace
    keyspace.forget_packed(10_000, 9, 1 << 32)
    assert keyspace.databases[0].space.packed_count == KEYS - KEYS // 100
    while store.make_room():  # this folds
        check_counts(keyspace)
    assert keyspace.databases[0].space.packed_count < KEYS // 2
    store.max_bytes = 0
    assert content(keyspace.databases[0]) == seen
    assert_complete(store, seen)


def test_a_script_that_fails_takes_its_keys_along(store: FileStore) -> None:
    seen = fill(store)
    keyspace, database = store.keyspace, store.keyspace.databases[0]
    savepoint = Savepoint(keyspace)
    database.put_string(b"x", b"v")
    assert database.add_hash([b"HSET", b"y", b"f", b"v"]) == 0
    database.put_string(b"1", b"new")
    database.remove(key_of(database, b"2"))
    savepoint.roll_back()
    check_counts(keyspace)
    assert content(database) == seen
    store.commit()
    assert_complete(store, seen)


def test_only_small_keys_are_packed_at_once(store: FileStore) -> None:
    database = store.keyspace.databases[0]
    database.put_string(b"long", b"v" * (LONGEST_STRING + 1))
    words = [word for at in range(MOST_FIELDS + 1) for word in (b"%d" % at, b"v")]
    assert database.add_hash([b"HSET", b"many", *words]) == 0
    assert database.add_hash([b"HSET", b"twice", b"f", b"v", b"f", b"w"]) == 0
    assert [*database.space.keys] == [b"long"]
    store.commit()
    store.close()


def test_keys_that_are_used_again_soon_are_objects(store: FileStore) -> None:
    """Sessions, for example: each gets its expiry in the next command."""
    database, keyspace = store.keyspace.databases[0], store.keyspace

    def make(count: int, *, is_used: bool) -> int:
        """Returns how many were packed at once."""
        packed = 0
        for _ in range(count):
            name = b"%d" % keyspace.next_id
            database.put_string(name, b"v")
            packed += name not in database.space.keys
            if is_used:
                database.set_expiry(key_of(database, name), FAR_MS)
        return packed

    assert make(ASKED_KEYS, is_used=True) == ASKED_KEYS
    assert make(2 * PROBED_KEYS, is_used=True) == 2 * PROBES
    store.commit()
    store.fold()
    assert make(2 * PROBED_KEYS, is_used=True) == 2 * PROBES
    make(2 * ASKED_KEYS // PROBES * PROBED_KEYS, is_used=False)
    assert make(ASKED_KEYS, is_used=False) == ASKED_KEYS
    store.commit()
    check_counts(keyspace)
    store.fold()
    check_counts(keyspace)
    store.close()
    check_settled(store.path)


def test_a_client_that_waits_for_a_name_gets_a_key(store: FileStore) -> None:
    database = store.keyspace.databases[0]
    database.awaited[b"k"] = object()
    database.put_string(b"k", b"v")
    assert database.add_hash([b"HSET", b"h", b"f", b"v"]) == 0
    assert [*database.space.keys] == [b"k"]
    assert store.keyspace.ready == [(database, b"k")]
    store.commit()
    store.close()


def test_a_policy_that_deletes_keeps_new_keys_as_objects(store: FileStore) -> None:
    store.keyspace.may_pack = False
    database = store.keyspace.databases[0]
    database.put_string(b"k", b"v")
    assert database.add_hash([b"HSET", b"h", b"f", b"v"]) == 0
    assert [*database.space.keys] == [b"k"]
    store.commit()
    store.close()


def test_a_key_that_is_made_and_changed_in_one_batch(store: FileStore) -> None:
    database, keyspace = store.keyspace.databases[0], store.keyspace
    database.add_string(b"n", b"1")
    found = database.find_string(b"n")
    assert found is not None
    database.replace(found[0], b"2", found[1])
    assert database.find_value(b"n2", Hash) is None
    assert database.add_hash([b"HSET", b"n2", b"f", b"1"]) == 1
    value = database.find_value(b"n2", Hash)
    assert value is not None
    value.set(b"f", b"2", keyspace)
    store.commit()
    assert_complete(store, {b"n": ("string", b"2"), b"n2": ("hash", {b"f": b"2"})})
