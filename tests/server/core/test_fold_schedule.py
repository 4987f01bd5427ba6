"""Changes reach the tables by their age, on an idle server and on a busy one."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from holdfast.errors import StorageError
from holdfast.server.core import fold_schedule
from holdfast.server.core.cron import PERIOD_S, Cron
from holdfast.server.core.fold_schedule import FoldSchedule
from holdfast.store.fold import fold
from holdfast.store.fold.fold import Fold
from holdfast.store.store import FileStore
from tests.harness.in_process import InProcess, Peer
from tests.store.tables import rows

pytestmark = pytest.mark.source_only

AGE = "holdfast_unfolded_age_ms"


class Running:
    """A server whose clock the test moves."""

    def __init__(self, path: Path, **config: str) -> None:
        self.store = FileStore(path)
        settings = {"appendfsync": "no"} | {
            name.replace("_", "-"): value for name, value in config.items()
        }
        self.setting = InProcess(settings, self.store)
        self.peer: Peer = self.setting.peer()
        self.cron = Cron(self.setting.engine)
        self.cron.start()

    def advance(self, seconds: float) -> None:
        self.setting.clock.advance(seconds)
        self.peer.replies()

    def in_view(self, key: str) -> bool:
        return bool(rows(self.store, f"SELECT 1 FROM strings WHERE key = '{key}'"))

    @property
    def age_ms(self) -> int:
        info = self.peer.command("INFO", "persistence").decode()
        [age] = [line for line in info.splitlines() if line.startswith(AGE)]
        return int(age.partition(":")[2])

    def close(self) -> None:
        self.cron.stop()
        self.store.close()


@pytest.fixture(autouse=True)
def idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server takes itself for idle: a test that moves the clock leaves it no time."""
    monkeypatch.setattr(FoldSchedule, "_measure", lambda self: None)


@pytest.fixture
def busy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients leave the server no time."""
    monkeypatch.setattr(FoldSchedule, "_has_time", False)


def test_a_write_is_in_the_views_soon_although_writes_go_on(tmp_path: Path) -> None:
    running = Running(tmp_path / "a.db")
    running.peer.command("SET", "first", "v")
    for number in range(4):  # 1.6 s, with no second in which nothing is written
        assert running.in_view("first") is (number == 3)
        running.peer.command("SET", "heartbeat", number)
        running.advance(0.4)
    assert running.in_view("first")
    running.close()


def test_an_idle_server_folds_without_a_break(tmp_path: Path) -> None:
    running = Running(tmp_path / "a.db")
    for first in range(0, 20_000, 1000):
        running.peer.pipeline(*(("SET", f"{n}", "v") for n in range(first, first + 1000)))
        running.peer.replies()
    running.advance(1.2)
    assert rows(running.store, "SELECT count(*) FROM strings") == [(20_000,)]
    assert running.store.folding.is_idle
    running.close()


def test_clients_are_served_between_two_slices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fold, "SLICE_ROWS", 4)
    running = Running(tmp_path / "a.db")
    for number in range(100):
        running.peer.command("SET", f"{number}", "v")
    running.setting.clock.advance(1.05)
    steps = 0
    while not running.store.folding.is_idle:
        running.peer.command("PING")
        before = running.store.folding.slices
        running.setting.clock.advance(fold_schedule.BREAK_S)
        assert running.store.folding.slices - before <= 2, "one, or one more at a tick"
        steps += 1
    assert steps > 20
    running.close()


@pytest.mark.usefixtures("busy")
def test_a_busy_server_folds_a_little_at_each_tick_and_is_done_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fold, "SLICE_ROWS", 4)
    monkeypatch.setattr(fold, "SLICES_PER_OP", 0.5)
    running = Running(tmp_path / "a.db")
    for number in range(300):
        running.peer.command("SET", f"{number}", "v")
    seen, most = [], 0
    for _ in range(12 + fold.PASS_TICKS):
        before = running.store.folding.slices
        for _ in range(20):
            running.peer.command("SET", "hot", "v")
        running.advance(PERIOD_S)
        most = max(most, running.store.folding.slices - before)
        seen.append(rows(running.store, "SELECT count(*) FROM redis_strings")[0][0])
    assert seen[9] == 0, "nothing is a second old"
    assert rows(running.store, "SELECT count(*) FROM strings")[0][0] >= 300
    assert 0 < seen[60] < 300, "it is spread over the ticks"
    assert most < 20
    running.close()


def test_how_old_changes_may_become_is_a_parameter(tmp_path: Path) -> None:
    running = Running(tmp_path / "a.db", fold_age_ms="5000")
    running.peer.command("SET", "key", "v")
    running.advance(4)
    assert not running.in_view("key")
    assert running.peer.command("CONFIG", "SET", "fold-age-ms", "100") == b"+OK\r\n"
    running.advance(0.3)
    assert running.in_view("key")
    running.close()


def test_info_has_the_age_of_the_oldest_change_that_the_tables_lack(tmp_path: Path) -> None:
    running = Running(tmp_path / "a.db", fold_age_ms="10000")
    assert running.age_ms == 0
    running.peer.command("SET", "key", "v")
    running.advance(3)
    running.peer.command("SET", "other", "v")
    running.advance(1)
    assert 3800 <= running.age_ms <= 4000
    running.peer.command("SAVE")
    assert running.age_ms == 0
    running.close()


def test_a_clock_that_is_set_back_changes_no_age(tmp_path: Path) -> None:
    running = Running(tmp_path / "a.db")
    running.peer.command("SET", "key", "v")
    running.advance(0.5)
    running.setting.clock._now_us -= 3600 * 1_000_000
    running.advance(0.7)
    assert running.in_view("key")
    running.close()


def test_a_flushed_database_does_not_hold_up_what_is_written_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its dead rows go in slices; a pass that still removes them must end for newer changes."""
    monkeypatch.setattr(fold, "SLICE_ROWS", 2)
    running = Running(tmp_path / "a.db")
    running.peer.pipeline(*(("SET", f"{number}", "v") for number in range(2000)))
    running.peer.replies()
    running.peer.command("SAVE")
    running.peer.command("FLUSHALL")
    monkeypatch.setattr(Fold, "_empty_space", lambda self, space: None)  # it never ends
    running.advance(PERIOD_S)
    for _ in range(30):
        running.peer.command("SET", "after", "v")
        running.setting.clock._move_to(running.setting.clock._elapsed_us + 100_000)
        running.cron.tick()
        for _ in range(50):
            running.store.fold_step()
    assert running.in_view("after")
    running.cron.stop()
    running.store.abandon()


def test_time_that_clients_or_the_disk_take_is_time_that_the_fold_has_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wall_s = cpu_s = 0.0
    monkeypatch.undo()
    monkeypatch.setattr(
        fold_schedule, "time", SimpleNamespace(monotonic=lambda: wall_s, thread_time=lambda: cpu_s)
    )
    setting = InProcess(None, FileStore(tmp_path / "a.db"))
    schedule = FoldSchedule(setting.engine)
    for took_cpu_s, syncs, has_time in ((0.02, 0, True), (0.09, 0, False), (0.02, 90, False)):
        wall_s += 0.1
        cpu_s += took_cpu_s
        for _ in range(syncs):
            setting.engine.turn.sync_times.record(800_000)
        setting.engine.turn.usual_sync_s = 0.0008
        schedule.tick()
        assert schedule._has_time is has_time
    setting.engine.store.close()


def test_a_disk_that_stays_full_is_said_once_a_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The log may be on the same disk."""
    running = Running(tmp_path / "a.db")
    full = StorageError("cannot write the tables: database or disk is full")

    def fail(self: Fold) -> bool:
        raise full

    with monkeypatch.context() as patch:
        patch.setattr(Fold, "step", fail)
        running.peer.command("SET", "k", "v")
        for _ in range(150):
            running.advance(1.0)
    said = [record.message for record in caplog.records]
    assert said == [f"{full}; the journal keeps growing"] * 3
    for _ in range(5):
        running.advance(1.0)
    assert running.in_view("k")
    running.close()
