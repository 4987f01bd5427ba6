"""A small key that waits is packed, and nobody can tell the difference."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.store.change.change_log import ChangeLog
from holdfast.store.memory import expiry
from holdfast.store.memory.database import Database
from holdfast.store.memory.lazy_free import Freeing
from holdfast.store.memory.packing import LONGEST_STRING, body_of, value_of
from holdfast.store.memory.savepoint import Savepoint
from holdfast.store.memory.scanning import names, scan
from holdfast.store.rdb.plain import plain_of
from holdfast.store.store import FileStore
from holdfast.store.values.hash import Hash
from holdfast.store.values.list import List
from holdfast.store.values.packed_form import LONGEST_PACKED, MOST_PACKED
from holdfast.store.values.set import Set
from holdfast.store.values.stream import Stream
from holdfast.store.values.zset import ZSet
from tests.store.consistency import check_counts, check_settled
from tests.store.list_rows import KEY_ID

NAMES = [b"", b"a", b"\xff\0", b"field", b"12", b"x" * LONGEST_PACKED]
EXPIRED_MS = 5000


# -- values ---------------------------------------------------------------------------------------


def filled(seed: int) -> list[Any]:
    """With gaps between the ordinals, where elements were removed; one of each kind."""
    rng, log = random.Random(seed), ChangeLog()
    fields, members, scores, elements = Hash(KEY_ID), Set(KEY_ID), ZSet(KEY_ID), List(KEY_ID)
    for _ in range(rng.randrange(1, 12)):
        name = rng.choice(NAMES)
        if rng.random() < 0.7:
            fields.set(name, rng.choice(NAMES), log)
            members.add(name, log)
            scores.put(name, rng.choice([-1.5, 0.0, float("inf"), 1e300]), log)
            (elements.push_left if rng.random() < 0.5 else elements.push_right)([name], log)
        else:
            fields.remove(name, log)
            members.remove(name, log)
            scores.remove(name, log)
            if elements:
                elements.pop_left(1, log)
    return [fields, members, scores, elements]


def seen_of(value: Any) -> list[object]:
    """All that a reader can find out."""
    seen: list[object] = [len(value), value.nbytes, plain_of(value)]
    if isinstance(value, List):
        return [*seen, list(value.rows()), value.index(-1)]
    seen += [[name in value for name in NAMES], sorted(value.scan(0, 99)[1])]
    if isinstance(value, ZSet):
        return [*seen, value.slice(0, 99), value.longest, [value.rank(name) for name in NAMES]]
    seen += [list(value), value.rows(NAMES), value.scan(0, 2), value.dirty_in_fold]
    if isinstance(value, Set):
        return [*seen, value.has_only_integers]
    return [*seen, value.flat, value.next_expiry_ms, value.longest]


@pytest.mark.parametrize("seed", range(60))
def test_a_value_that_was_packed_answers_and_changes_as_before(seed: int) -> None:
    rng = random.Random(seed)
    for plain in filled(seed):
        packed = body_of(plain)
        assert (packed is None) == (len(plain) == 0)
        if packed is None:
            continue
        twin: Any = value_of(packed[0], KEY_ID, packed[1])
        assert type(twin) is type(plain)
        expected = seen_of(plain)
        if isinstance(plain, Hash):  # what it was when it was larger is forgotten
            expected[-1] = twin.longest
        elif isinstance(plain, ZSet):
            expected[-2] = twin.longest
        assert seen_of(twin) == expected
        logs = ChangeLog(), ChangeLog()
        name, text, does_remove = rng.choice(NAMES), rng.choice(NAMES), rng.random() < 0.4
        for value, log in zip((plain, twin), logs, strict=True):
            if isinstance(value, List):
                value.pop_right(1, log) if does_remove else value.push_left([text], log)
            elif does_remove:
                value.remove(name, log)
            elif isinstance(value, Hash):
                value.set(name, text, log)
            elif isinstance(value, Set):
                value.add(name, log)
            else:
                value.put(name, 7.0, log)
        assert plain_of(plain) == plain_of(twin)
        assert logs[0].used_bytes == logs[1].used_bytes
        if isinstance(plain, List | ZSet):  # others may give the ordinal of one that is gone
            assert logs[0].ops == logs[1].ops


def a_hash(fields: int = 3, value: bytes = b"v") -> Hash:
    made, log = Hash(KEY_ID), ChangeLog()
    for number in range(fields):
        made.set(b"%d" % number, value, log)
    return made


def an_expiring_hash() -> Hash:
    made = a_hash()
    made.set_expiry(b"1", EXPIRED_MS, ChangeLog())
    return made


def a_list_with_an_insertion() -> List:
    made, log = List(KEY_ID), ChangeLog()
    made.push_right([b"a", b"c"], log)
    made.insert(b"c", b"b", True, log)
    return made


@pytest.mark.parametrize(
    "value",
    [
        a_hash(MOST_PACKED + 1),
        a_hash(1, b"v" * (LONGEST_PACKED + 1)),
        an_expiring_hash(),
        a_list_with_an_insertion(),
        Hash(KEY_ID),
        Set(KEY_ID),
        ZSet(KEY_ID),
        List(KEY_ID),
        Stream(KEY_ID),
        b"v" * (LONGEST_STRING + 1),
    ],
    ids=lambda value: f"{type(value).__name__} {len(value)}",
)
def test_large_and_special_values_are_not_packed(value: Any) -> None:
    assert body_of(value) is None


# -- keys -----------------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path) -> Iterator[FileStore]:
    store = FileStore(tmp_path / "a.db")
    store.keyspace.now_ms, store.keyspace.now_s = 1000, 1
    yield store
    check_counts(store.keyspace)
    store.close()
    check_settled(tmp_path / "a.db")


def fill(store: FileStore) -> Database:
    """A key of each kind, and one that expires; all of them packed."""
    keyspace, database = store.keyspace, store.keyspace.databases[0]
    database.set_string(b"string", b"s")
    database.set_string(b"session", b"s", EXPIRED_MS)
    database.find_or_create_as(b"hash", Hash).set(b"f", b"v", keyspace)
    database.find_or_create_as(b"set", Set).add(b"m", keyspace)
    database.find_or_create_as(b"zset", ZSet).put(b"m", 1.5, keyspace)
    database.find_or_create_as(b"list", List).push_left([b"e"], keyspace)
    store.commit()
    store.fold()
    check_counts(keyspace)
    assert packed(database) == ALL
    return database


ALL = [b"hash", b"list", b"session", b"set", b"string", b"zset"]


def packed(database: Database) -> list[bytes]:
    return [] if database.space.packed is None else sorted(database.space.packed.names())


def test_the_fold_packs_new_keys_that_are_small(store: FileStore) -> None:
    database = fill(store)
    assert not database.space.keys
    assert len(database) == len(ALL)
    assert sorted(names(store.keyspace, database.space)) == ALL
    assert sorted(name for name, _ in scan(store.keyspace, database.space, 0, 100)[1]) == ALL


def test_a_walk_names_the_expired_keys_that_it_meets(store: FileStore) -> None:
    database = fill(store)
    database.set_string(b"young", b"s", EXPIRED_MS)
    store.keyspace.now_ms = EXPIRED_MS
    expired: list[bytes] = []
    found = scan(store.keyspace, database.space, 0, 100, expired)[1]
    assert sorted(name for name, _ in found) == [name for name in ALL if name != b"session"]
    assert sorted(expired) == [b"session", b"young"]
    for name in expired:
        assert database.find_row(name) is None
    assert len(database) == len(ALL) - 1
    store.commit()


def test_a_string_that_is_read_stays_packed(store: FileStore) -> None:
    database = fill(store)
    store.keyspace.now_s = 9
    assert database.read_string(b"string") == b"s"
    assert database.read_strings([b"string", b"session", b"none"]) == [b"s", b"s", None]
    assert packed(database) == ALL
    assert store.keyspace.hits == 3
    key = database.peek(b"string")
    assert key is not None
    assert key.accessed_s == 9


USES: list[Callable[[Database, bytes], object]] = [
    Database.find,
    Database.find_row,
    Database.peek,
    Database.read,
    Database.read_row,
    lambda database, name: database.is_being_loaded(name),
    lambda database, name: database.keyspace.begin_load(database.space, name),
    lambda database, name: database.set_string(name, b"new"),
]
OVERWRITES = len(USES) - 1


@pytest.mark.parametrize("use", range(len(USES)))
def test_any_other_use_unpacks_a_key_for_good(store: FileStore, use: int) -> None:
    database = fill(store)
    for name in ALL:
        USES[use](database, name)
        assert name not in packed(database)
        check_counts(store.keyspace)
    store.commit()
    for number in range(3):
        database.set_string(b"other:%d" % number, b"v")
        store.commit()
        store.fold()
    if use != OVERWRITES:  # it makes new keys of those that were no strings
        assert {*ALL} <= database.space.keys.keys()


def test_a_name_that_is_not_there_needs_no_query(store: FileStore) -> None:
    database = fill(store)
    tables = store.keyspace.tables
    assert tables is not None
    try:
        store.keyspace.tables = None  # a query would fail
        assert database.find(b"none") is None
        assert database.find_row(b"none") is None
        assert database.read_row(b"none") is None
    finally:
        store.keyspace.tables = tables


def test_a_key_that_changes_during_the_pass_is_not_packed(store: FileStore) -> None:
    keyspace, database = store.keyspace, store.keyspace.databases[0]
    value = database.find_or_create_as(b"h", Hash)
    value.set(b"f", b"1", keyspace)
    database.find_or_create_as(b"z", ZSet).put(b"m", 1.0, keyspace)
    database.set_string(b"s", b"1")
    moved = database.set_string(b"old", b"1")
    store.commit()
    store.fold_step()  # the pass begins
    value.set(b"f", b"2", keyspace)
    database.find_or_create_as(b"z", ZSet).put(b"n", 2.0, keyspace)
    database.set_string(b"s", b"2")
    database.move(moved, database, b"new")
    store.commit()
    while keyspace.fold_state.created:
        store.fold_step()
        check_counts(keyspace)
    store.fold()
    assert packed(database) == []
    store.reload()
    assert database.read_string(b"s") == b"2"
    assert database.read_string(b"new") == b"1"
    assert database.find(b"old") is None
    found = database.read_as(b"z", ZSet)
    assert found is not None
    assert len(found) == 2


@pytest.mark.parametrize("steps", range(12))
def test_nothing_is_packed_while_a_batch_is_open(store: FileStore, steps: int) -> None:
    """Wherever in the pass the batch begins."""
    database, keyspace = store.keyspace.databases[0], store.keyspace
    value = database.find_or_create_as(b"z", ZSet)
    value.put(b"m", 1.0, keyspace)
    store.commit()
    for _ in range(steps):
        store.fold_step()
    value = database.find_or_create_as(b"z", ZSet)
    value.put(b"m", 2.0, keyspace)  # no journal has this
    for _ in range(50):
        store.fold_step()
    assert database.space.keys[b"z"].value is value
    store.commit()
    store.fold()
    store.reload()
    found = database.read_as(b"z", ZSet)
    assert found is not None
    assert found.score(b"m") == 2.0


def test_a_packed_key_is_renamed_removed_and_overwritten(store: FileStore) -> None:
    database = fill(store)
    key = database.find_row(b"hash")
    assert key is not None
    database.move(key, store.keyspace.databases[1], b"moved")
    removed = database.find_row(b"set")
    assert removed is not None
    database.remove(removed)
    database.set_string(b"zset", b"now a string")
    store.commit()
    check_counts(store.keyspace)
    store.fold()
    store.reload()
    assert database.find(b"hash") is None
    assert database.find(b"set") is None
    assert database.read_string(b"zset") == b"now a string"
    moved = store.keyspace.databases[1].read_as(b"moved", Hash)
    assert moved is not None
    assert moved.items == {b"f": b"v"}


def test_a_packed_key_expires(store: FileStore) -> None:
    database = fill(store)
    store.keyspace.now_ms = EXPIRED_MS - 1
    assert expiry.expire_due(store.keyspace, 10) == 0
    assert database.read_string(b"session") == b"s"
    store.keyspace.now_ms = EXPIRED_MS
    assert database.read_strings([b"session"]) == [None]
    store.reload()
    store.commit()


def test_a_packed_key_expires_although_no_client_asks(store: FileStore) -> None:
    database = fill(store)
    store.keyspace.now_ms = EXPIRED_MS
    assert expiry.expire_due(store.keyspace, 10) == 1
    assert packed(database) == [name for name in ALL if name != b"session"]
    store.commit()


def test_a_script_that_fails_leaves_packed_keys_as_they_were(store: FileStore) -> None:
    database, keyspace = fill(store), store.keyspace
    savepoint = Savepoint(keyspace)
    database.find_or_create_as(b"hash", Hash).set(b"f", b"changed", keyspace)
    database.set_string(b"string", b"changed")
    database.flush()
    assert len(database) == 0
    savepoint.roll_back()
    check_counts(keyspace)
    assert len(database) == len(ALL)
    assert database.read_string(b"string") == b"s"
    assert database.read_string(b"session") == b"s"
    found = database.read_as(b"hash", Hash)
    assert found is not None
    assert found.items == {b"f": b"v"}


def test_a_flushed_database_gives_packed_keys_back_in_slices(store: FileStore) -> None:
    database, freeing = fill(store), store.keyspace.freeing
    space = database.space
    assert database.flush() == len(ALL)
    assert store.keyspace.used_bytes == 0
    assert freeing.pending == len(ALL)
    free_all(freeing)
    assert freeing.freed == len(ALL)
    assert space.packed is None
    store.commit()


def free_all(freeing: Freeing) -> None:
    while freeing.step():
        pass


def test_above_maxmemory_packed_keys_are_forgotten_and_come_back(store: FileStore) -> None:
    database = store.keyspace.databases[0]
    for number in range(2000):
        database.set_string(b"%d" % number, b"v")
    store.commit()
    store.fold()
    assert len(packed(database)) == 2000
    store.max_bytes = store.keyspace.used_bytes // 4
    for _ in range(200):
        store.make_room()
    assert store.keyspace.used_bytes <= store.max_bytes
    assert 0 < len(packed(database)) < 1000
    assert len(database) == 2000
    check_counts(store.keyspace)
    assert all(database.read_string(b"%d" % number) == b"v" for number in range(2000))


def test_a_policy_that_deletes_keeps_keys_as_they_are(store: FileStore) -> None:
    store.keyspace.may_pack = False
    database = store.keyspace.databases[0]
    database.set_string(b"a", b"v")
    store.commit()
    store.fold()
    assert list(database.space.keys) == [b"a"]


def test_after_many_keys_the_dict_is_small_again(store: FileStore) -> None:
    """A dict of Python does not shrink when keys leave it."""
    database = store.keyspace.databases[0]
    database.set_string(b"used", b"v")
    for number in range(1000):
        database.set_string(b"%d" % number, b"v")
    store.commit()
    store.fold()
    key = database.find(b"used")
    for number in range(1000):
        database.set_string(b"again:%d" % number, b"v")
    store.commit()
    store.fold()
    assert database.space.keys == {b"used": key}
    assert database.space.keys.__sizeof__() < 1000
