"""Memory is a cache: keys are forgotten above maxmemory and come back when they are used."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.server.core.cron import Cron
from holdfast.store.store import FileStore
from holdfast.store.values.list import List
from tests.harness.in_process import InProcess


@pytest.fixture
def store(tmp_path: Path) -> Iterator[FileStore]:
    store = FileStore(tmp_path / "a.db")
    yield store
    store.close()


def fill(store: FileStore, count: int) -> None:
    database = store.keyspace.databases[0]
    for number in range(count):
        database.set_string(b"key:%d" % number, b"%d" % number * 100)
    store.commit()


def make_all_room(store: FileStore) -> None:
    for _ in range(10_000):
        before = (store.keyspace.used_bytes, store.keyspace.forgotten)
        was_idle = store.folding.is_idle
        store.make_room()
        if store.keyspace.used_bytes <= store.max_bytes:
            return
        if (store.keyspace.used_bytes, store.keyspace.forgotten) == before and was_idle:
            return


def test_memory_goes_below_the_limit_and_every_key_is_still_there(store: FileStore) -> None:
    fill(store, 2000)
    store.max_bytes = store.keyspace.used_bytes // 4
    make_all_room(store)
    database = store.keyspace.databases[0]
    assert store.keyspace.used_bytes <= store.max_bytes
    assert len(database) == 2000
    assert len(database.space.keys) < 1000
    for number in range(2000):
        assert database.read_string(b"key:%d" % number) == b"%d" % number * 100
    assert database.space.cold == 0


def test_without_a_limit_nothing_is_forgotten(store: FileStore) -> None:
    fill(store, 100)
    store.fold()
    store.make_room()
    assert store.keyspace.forgotten == 0


def test_what_an_open_batch_changed_is_not_forgotten(store: FileStore) -> None:
    fill(store, 100)
    store.fold()
    database = store.keyspace.databases[0]
    database.set_string(b"key:7", b"changed")
    store.max_bytes = 1
    make_all_room(store)
    assert database.space.keys[b"key:7"].value == b"changed"
    store.commit()
    make_all_room(store)
    assert database.space.keys == {}
    assert database.read_string(b"key:7") == b"changed"


def test_what_is_only_in_the_journal_is_folded_before_it_is_forgotten(store: FileStore) -> None:
    fill(store, 50)
    store.max_bytes = 1
    make_all_room(store)
    database = store.keyspace.databases[0]
    assert database.space.keys == {}
    assert database.read_string(b"key:49") == b"49" * 100


def test_keys_used_lately_stay(store: FileStore) -> None:
    fill(store, 1000)
    store.fold()
    database = store.keyspace.databases[0]
    store.keyspace.now_s += 100
    for number in range(100):
        database.find(b"key:%d" % number)
    store.max_bytes = store.keyspace.used_bytes // 2
    make_all_room(store)
    kept = sum(b"key:%d" % number in database.space.keys for number in range(100))
    assert kept > 90


def test_a_list_is_forgotten_whole_and_loaded_again(store: FileStore) -> None:
    database = store.keyspace.databases[0]
    count = 900  # too short to be packed
    _, value = database.create_as(b"q", List)
    value.push_right([b"%d" % number for number in range(count)], store.keyspace)
    store.commit()
    used = store.keyspace.used_bytes
    store.max_bytes = 1
    make_all_room(store)
    assert store.keyspace.used_bytes == 0
    reloaded = database.read_as(b"q", List)
    assert reloaded is not None
    assert reloaded.range(0, -1) == tuple(b"%d" % number for number in range(count))
    assert store.keyspace.used_bytes == used


def test_a_forgotten_key_expires(store: FileStore) -> None:
    database = store.keyspace.databases[0]
    database.set_string(b"k", b"v", expires_at_ms=1000)
    store.commit()
    store.max_bytes = 1
    make_all_room(store)
    store.keyspace.now_ms = 2000
    assert database.find(b"k") is None
    assert len(database) == 0


def test_however_much_a_turn_brings_memory_stays_near_the_limit(store: FileStore) -> None:
    """Both written and reloaded keys, a thousand at a time."""
    store.max_bytes = 200_000
    database = store.keyspace.databases[0]
    most = 0

    def end_turn() -> None:
        nonlocal most
        store.keep_up(store.commit())
        store.make_room()
        most = max(most, store.keyspace.used_bytes)

    for turn in range(40):
        for number in range(1000):
            database.set_string(b"key:%d" % (turn * 1000 + number), b"x" * 100)
        end_turn()
    assert most < 2_000_000  # of 15 MB
    store.fold()
    most = 0
    for turn in range(40):
        for number in range(1000):
            assert database.read_string(b"key:%d" % (turn * 1000 + number)) == b"x" * 100
        end_turn()
    assert most < 2_000_000


def test_keys_that_a_hurry_left_go_when_the_server_is_idle(store: FileStore) -> None:
    setting = InProcess({"appendfsync": "no"}, store)
    fill(store, 5000)
    store.max_bytes = 100_000
    cron = Cron(setting.engine)
    for _ in range(200):
        cron.tick()
    assert store.keyspace.used_bytes <= store.max_bytes
