"""What the server does by itself."""

from pathlib import Path

from holdfast.server.cron import EXPIRE_SLICE, Cron
from holdfast.store.store import FileStore
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
    cron.run()
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
    cron.run()
    setting.clock.advance(0.1)
    assert len(database) == 1
    # Until they are folded the file has them still; later ones are found behind them.
    setting.clock.advance(4)
    cron.run()
    setting.clock.advance(0.1)
    assert len(database) == 0
    setting.engine.turn.end()
    store.close()
