"""Each key expires once, at its time, however often its time was changed before."""

import random
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.store.memory import expiry
from holdfast.store.memory.expiry import (
    FEWEST_TO_SWEEP,
    MOVES_PER_PUSH,
    SEARCH_AGAIN_MS,
    ExpiryHeap,
    expire_due,
    is_searching,
)
from holdfast.store.memory.key import Key
from holdfast.store.store import FileStore, MemoryStore
from tests.harness.in_process import InProcess


@pytest.fixture
def store(tmp_path: Path) -> Iterator[FileStore]:
    store = FileStore(tmp_path / "a.db")
    yield store
    store.close()


def test_a_key_that_got_the_same_time_twice_expires_once() -> None:
    setting = InProcess({"notify-keyspace-events": "Ex"})
    listener, peer = setting.peer(), setting.peer()
    listener.command("SUBSCRIBE", "__keyevent@0__:expired")
    peer.command("SET", "k", "v", "EX", 10)
    peer.command("EXPIRE", "k", 10)
    setting.clock.advance(10)
    setting.engine.refresh_clock()
    assert expire_due(setting.engine.keyspace, 10) == 1
    assert setting.engine.keyspace.expired == 1
    assert len(listener.replies()) == 1


def test_a_key_that_is_prolonged_for_ever_has_one_entry() -> None:
    keyspace = MemoryStore().keyspace
    database = keyspace.databases[0]
    key = database.set_string(b"k", b"v", 1000)
    for at_ms in range(1000, 100_000, 500):
        keyspace.now_ms = at_ms - 500
        database.set_expiry(key, at_ms)
        assert expire_due(keyspace, 10) == 0
        assert len(keyspace.expiring) == 1
    keyspace.now_ms = 100_000
    assert expire_due(keyspace, 10) == 1


def test_a_key_whose_time_goes_back_and_forth_leaves_few_entries() -> None:
    keyspace = MemoryStore().keyspace
    database = keyspace.databases[0]
    key = database.set_string(b"k", b"v", 1 << 40)
    for number in range(50_000):
        database.set_expiry(key, (1 << 40) - number % 2)
    assert len(keyspace.expiring) <= 10_000


@pytest.mark.source_only
def test_a_sweep_takes_a_few_steps_of_each_push(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of locks that were taken and freed, the heap keeps as many entries as there are keys."""
    keyspace = MemoryStore().keyspace
    database, heap = keyspace.databases[0], keyspace.expiring
    looks = 0
    current_ms = ExpiryHeap._current_ms

    def counted(self: ExpiryHeap, key: Key) -> int | None:
        nonlocal looks
        looks += 1
        return current_ms(self, key)

    monkeypatch.setattr(ExpiryHeap, "_current_ms", counted)
    for number in range(9_000):
        database.set_string(b"%d" % number, b"v", 1 << 40)
    most = 0
    for _ in range(40_000):
        looks = 0
        database.remove(database.set_string(b"lock", b"v", 1 << 40))
        most = max(most, looks)
    assert most == MOVES_PER_PUSH
    assert 9_000 <= len(heap) <= 2 * 9_000 + FEWEST_TO_SWEEP
    keyspace.now_ms = 1 << 40
    assert expire_due(keyspace, 100_000) == 9_000


def test_a_sweep_keeps_no_value_in_memory(store: FileStore) -> None:
    """Clients stop in the middle of a sweep, and the keys expire."""
    keyspace, heap = store.keyspace, store.keyspace.expiring
    value = bytes(2000)  # too long to be packed
    references = sys.getrefcount(value)
    number = FEWEST_TO_SWEEP + FEWEST_TO_SWEEP // 10
    for at in range(number):
        keyspace.databases[0].set_string(b"%d" % at, value, 1000 + at)
    store.commit()
    assert heap._old
    assert heap._moved
    assert sys.getrefcount(value) >= references + number
    keyspace.now_ms = 100_000
    assert expire_due(keyspace, 100_000) == number
    store.commit()
    store.fold()
    while keyspace.freeing.step():
        pass
    assert heap.first_ms > 100_000
    assert not heap._moved
    assert sys.getrefcount(value) <= references + 1


def test_many_entries_are_moved_in_slices() -> None:
    keyspace = MemoryStore().keyspace
    database = keyspace.databases[0]
    for number in range(100):
        database.set_expiry(database.set_string(b"%d" % number, b"v", 1000), 3000)
    database.set_string(b"last", b"v", 2000)
    keyspace.now_ms = 2000
    found = [expire_due(keyspace, 10)]
    while is_searching(keyspace):
        found.append(expire_due(keyspace, 10))
    assert len(found) > 3
    assert found[-1] == sum(found) == 1
    assert len(database) == 100


@pytest.mark.parametrize("number", range(20))
def test_random_lives(rng: random.Random, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside a dict with the time of each key, and with sweeps all the time. (Compiled, only the
    first sweep is early.)"""
    monkeypatch.setattr(expiry, "FEWEST_TO_SWEEP", 8)
    keyspace = MemoryStore().keyspace
    keyspace.expiring._sweep_at = 8
    database = keyspace.databases[0]
    times: dict[bytes, int | None] = {}
    expired = 0
    for _ in range(2000):
        keyspace.now_ms += rng.randrange(4)
        name = b"%d" % rng.randrange(50)
        at_ms = rng.choice([None, keyspace.now_ms + rng.randrange(1, 100)])
        key = database.space.keys.get(name)
        if key is None:
            database.set_string(name, b"v", at_ms)
            times[name] = at_ms
        elif rng.random() < 0.1:
            database.remove(key)
            del times[name]
        elif rng.random() < 0.9:
            database.set_expiry(key, at_ms)
            times[name] = at_ms
        elif number % 2 or rng.random() < 0.3:
            while expire_due(keyspace, 7) or is_searching(keyspace):
                pass
            gone = [each for each, at in times.items() if at is not None and at <= keyspace.now_ms]
            expired += len(gone)
            for each in gone:
                del times[each]
            assert database.space.keys.keys() == times.keys()
            assert keyspace.expired == expired


def test_the_first_time_is_that_of_a_key() -> None:
    keyspace = MemoryStore().keyspace
    database = keyspace.databases[0]
    key = database.set_string(b"k", b"v", 1000)
    database.set_string(b"other", b"v", 2000)
    database.set_expiry(key, 3000)
    assert keyspace.expiring.first_ms == 2000


# -- in the file ----------------------------------------------------------------------------------


def cold_key(store: FileStore, name: bytes, expires_at_ms: int) -> None:
    keyspace = store.keyspace
    key = keyspace.databases[0].set_string(name, b"v" * 2000, expires_at_ms)
    store.commit()
    store.fold()
    keyspace.evict(key)


def test_keys_in_the_file_are_found_at_their_time_and_looked_at_once(store: FileStore) -> None:
    keyspace = store.keyspace
    for number in range(1, 6):
        cold_key(store, b"%d" % number, 1000 * number)
    cursors = []
    for number in range(1, 6):
        keyspace.now_ms = 1000 * number - 1
        assert expire_due(keyspace, 10) == 0
        keyspace.now_ms += 1
        assert expire_due(keyspace, 10) == 1
        assert not is_searching(keyspace)
        cursors.append(keyspace.expiry_cursor[0])
    assert cursors == [1000, 2000, 3000, 4000, 5000]
    store.commit()


def test_a_search_that_found_as_many_as_it_may_goes_on(store: FileStore) -> None:
    for number in range(5):
        cold_key(store, b"%d" % number, 1000)
    store.keyspace.now_ms = 1000
    assert expire_due(store.keyspace, 2) == 2
    assert is_searching(store.keyspace)
    assert expire_due(store.keyspace, 2) == 2
    assert expire_due(store.keyspace, 2) == 1
    assert not is_searching(store.keyspace)
    store.commit()


@pytest.mark.parametrize("waited_ms", [SEARCH_AGAIN_MS, -1])
def test_keys_behind_the_search_are_found_a_minute_later(store: FileStore, waited_ms: int) -> None:
    keyspace = store.keyspace
    cold_key(store, b"later", 1_000_000)
    keyspace.now_ms = 500_000
    assert expire_due(keyspace, 10) == 0
    cold_key(store, b"behind", 400_000)  # as if it had left memory while it expired
    assert expire_due(keyspace, 10) == 0
    keyspace.now_ms += waited_ms
    assert expire_due(keyspace, 10) == 1
    assert [len(database) for database in keyspace.databases[:1]] == [1]
    store.commit()
