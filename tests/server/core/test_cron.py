"""The work that the server does by itself."""

from pathlib import Path

import pytest

from holdfast.server.core.cron import EXPIRE_BREAK_S, EXPIRE_SLICE, Cron
from holdfast.store.memory import lazy_free
from holdfast.store.store import FileStore
from holdfast.store.values.hash import Hash
from tests.harness.in_process import InProcess

SLICES = 6


def with_expiring_keys(setting: InProcess) -> None:
    peer = setting.peer()
    for number in range(SLICES * EXPIRE_SLICE):
        peer.command("SET", f"key:{number}", "v", "PX", 1000)
    peer.command("SET", "stays", "v", "PX", 5000)


def test_many_keys_whose_time_has_come_go_soon_and_not_all_at_once() -> None:
    setting = InProcess()
    with_expiring_keys(setting)
    cron = Cron(setting.engine)
    setting.clock.advance(1)
    cron.tick()
    database = setting.engine.keyspace.databases[0]
    assert len(database) == (SLICES - 1) * EXPIRE_SLICE + 1
    setting.clock.advance(0.1)  # before the next tick
    assert len(database) == 1
    cron.stop()
    assert not setting.clock.pending_timers


def test_so_do_those_that_are_only_in_the_file(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "a.db")
    with_expiring_keys(InProcess({"appendfsync": "no"}, store))
    store.close()
    store = FileStore(tmp_path / "a.db")
    setting = InProcess({"appendfsync": "no"}, store)
    database = setting.engine.keyspace.databases[0]
    cron = Cron(setting.engine)
    setting.clock.advance(1)
    cron.tick()
    setting.clock.advance(0.1)
    assert len(database) == 1
    # Until they are folded the file has them still; later ones are found behind them.
    setting.clock.advance(4)
    cron.tick()
    setting.clock.advance(0.1)
    assert len(database) == 0
    setting.engine.turn.end()
    store.close()


def test_fields_of_a_hash_go_in_slices_too() -> None:
    setting = InProcess()
    peer = setting.peer()
    fields = [f"field:{number}" for number in range(SLICES * EXPIRE_SLICE)]
    peer.command("HSET", "h", "stays", "v", *(word for field in fields for word in (field, "v")))
    peer.command("HPEXPIRE", "h", 1000, "FIELDS", len(fields), *fields)
    cron = Cron(setting.engine)
    setting.clock.advance(1)
    cron.tick()
    value = setting.engine.keyspace.databases[0].space.keys[b"h"].value
    assert len(value) == (SLICES - 1) * EXPIRE_SLICE + 1
    setting.clock.advance(0.1)
    assert len(value) == 1
    cron.stop()


def test_hashes_that_are_only_in_the_file_are_found_behind_others(tmp_path: Path) -> None:
    """The file has expired keys until they are folded; a later command must not wait for that."""
    store = FileStore(tmp_path / "a.db")
    peer = InProcess({"appendfsync": "no"}, store).peer()
    for number in range(2 * EXPIRE_SLICE):
        peer.command("HSET", f"h:{number}", "f", "v")
        peer.command("HPEXPIRE", f"h:{number}", 1000, "FIELDS", 1, "f")
    peer.command("HSET", "late", "f", "v", "stays", "v")
    peer.command("HPEXPIRE", "late", 3000, "FIELDS", 1, "f")
    store.close()
    store = FileStore(tmp_path / "a.db")
    setting = InProcess({"appendfsync": "no"}, store)
    database = setting.engine.keyspace.databases[0]
    cron = Cron(setting.engine)
    for at_s, left in ((1, 1), (3, 1)):
        setting.clock.advance(at_s)
        cron.tick()
        setting.clock.advance(0.2)
        assert len(database) == left
    late = database.space.keys[b"late"].value
    assert isinstance(late, Hash)
    assert list(late) == [b"stays"]
    cron.stop()
    setting.engine.turn.end()
    store.close()


def test_a_million_keys_would_expire_in_slices_that_leave_time_for_others() -> None:
    """Counted: so many keys in a slice, so many slices in a second."""
    setting = InProcess()
    peer = setting.peer()
    keys = 40 * EXPIRE_SLICE
    for first in range(0, keys, 1000):
        peer.pipeline(
            *(("SET", f"{number}", "v", "PX", 1) for number in range(first, first + 1000))
        )
    peer.replies()
    database = setting.engine.keyspace.databases[0]
    cron = Cron(setting.engine)
    setting.clock.advance(1)
    cron.tick()
    left = len(database)
    assert left == keys - EXPIRE_SLICE
    ticks = 0
    while len(database):
        setting.clock.advance(EXPIRE_BREAK_S)
        ticks += 1
        assert left - len(database) <= EXPIRE_SLICE
        left = len(database)
    assert ticks <= 41  # 500 keys every 3 ms: a million in six seconds
    cron.stop()


@pytest.mark.source_only
def test_memory_goes_back_when_less_is_used_or_no_client_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With a large heap, it takes long to give memory back. What is used again soon is kept."""
    asked: list[bool] = []

    def trim(is_idle: bool) -> bool:
        asked.append(is_idle)
        return is_idle

    monkeypatch.setattr(lazy_free, "trim", trim)
    setting = InProcess()
    peer, cron = setting.peer(), Cron(setting.engine)
    freeing = setting.engine.keyspace.freeing

    def tick(*argv: str) -> None:
        if argv:
            peer.command(*argv)
        cron.tick()

    tick("SET", "key", "x" * 1000)
    freeing.note_done(lazy_free.MANY)
    tick("PING")
    assert asked == []  # not less is used
    tick()
    tick()
    assert asked == [True]
    freeing.note_done(lazy_free.MANY)
    tick("PING")
    tick()
    assert asked == [True]  # as much is used as before
    tick("DEL", "key")
    tick("PING")
    assert asked == [True, False, False]
    tick()
    tick()
    assert asked == [True, False, False, True]
    assert freeing.trims == 2
    cron.stop()
