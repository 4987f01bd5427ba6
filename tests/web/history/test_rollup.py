"""A week of samples: right at the edges of each bucket and each chart, and bounded."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from subprocess import PIPE, Popen
from threading import Thread

import apsw
import pytest

from holdfast.errors import StorageError
from holdfast.figures.view import View
from holdfast.web.history.history_file import HistoryFile
from holdfast.web.history.rollup import (
    RANGES,
    RESOLUTIONS,
    Bucket,
    Rollup,
    Stat,
    points,
    values_of,
)
from tests.harness import wait_until

WEEK_S = 7 * 86_400
BEGIN_S = 1_699_999_200  # a full hour: what begins here lies at the edge of every bucket


def fill(history: HistoryFile, begin_s: int, end_s: int, every_s: int = 5) -> None:
    """A counter that says the time since the begin, so that each point tells its own place."""
    rollup = Rollup()
    for at_s in range(begin_s, end_s, every_s):
        ended = rollup.add(at_s, {"ops_per_s": float(at_s - begin_s), "keys": 7.0})
        if ended:
            history.merge(ended)
    history.merge(rollup.flush())


@pytest.fixture(scope="module")
def week() -> HistoryFile:
    history = HistoryFile(None)
    rollup = Rollup()
    pending = []
    at_s = BEGIN_S
    while at_s < BEGIN_S + WEEK_S:
        pending += rollup.add(at_s, {"ops_per_s": float(at_s - BEGIN_S)})
        at_s += every_s(at_s)
    history.merge([*pending, *rollup.flush()])
    return history


def every_s(at_s: int) -> int:
    """The samples of the last two hours are denser: a page was open."""
    return 5 if at_s >= BEGIN_S + WEEK_S - 7200 else 30


@pytest.mark.parametrize("name", RANGES)
def test_each_point_is_the_mean_of_its_own_bucket(week: HistoryFile, name: str) -> None:
    span = RANGES[name]
    now_s = BEGIN_S + WEEK_S - 1
    drawn = list(points(week.buckets(span, now_s), "ops_per_s", span, now_s))
    assert len(drawn) == span.seconds // span.step_s
    for point in drawn:
        if point is not None:
            first, every = point.at_s - BEGIN_S, every_s(point.at_s)
            assert point.mean == first + (span.step_s - every) / 2
            assert point.most == first + span.step_s - every


@pytest.mark.parametrize("name", RANGES)
def test_a_chart_begins_and_ends_where_it_says(week: HistoryFile, name: str) -> None:
    span = RANGES[name]
    for now_s in (BEGIN_S + WEEK_S - 1, BEGIN_S + WEEK_S - span.step_s):
        drawn = list(points(week.buckets(span, now_s), "ops_per_s", span, now_s))
        known = [point for point in drawn if point is not None]
        assert known[-1] is drawn[-1]
        assert known[-1].at_s == now_s // span.step_s * span.step_s
        assert known[-1].at_s + span.step_s > now_s
        first_s = max(BEGIN_S, known[-1].at_s - span.seconds + span.step_s)
        assert known[0].at_s == first_s


def test_the_time_before_the_first_sample_is_a_gap(week: HistoryFile) -> None:
    span, now_s = RANGES["month"], BEGIN_S + WEEK_S - 1
    drawn = list(points(week.buckets(span, now_s), "ops_per_s", span, now_s))
    hours = WEEK_S // 3600
    assert all(point is None for point in drawn[:-hours])
    assert all(point is not None for point in drawn[-hours:])


def test_a_week_is_bounded(week: HistoryFile) -> None:
    assert week.rows() <= sum(keep for _, keep in RESOLUTIONS)
    assert week.rows() >= 720 + 1440 + 168


def test_the_file_of_a_long_time_stays_small(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    history = HistoryFile(path)
    view = View("h", 0.0, ops_per_s=1e6, p50_us=1.5, p99_us=3.25, memory_bytes=1 << 40, keys=10**9)
    rollup = Rollup()
    pending = []
    for at_s in range(BEGIN_S, BEGIN_S + 120 * 86_400, 600):
        pending += rollup.add(at_s, values_of(view))
        if len(pending) > 1000:
            history.merge(pending)
            pending = []
    history.close()
    assert path.stat().st_size < 4 << 20


def test_a_restart_in_the_middle_of_a_bucket_loses_no_sample(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    span, now_s = RANGES["day"], BEGIN_S + 119
    once = HistoryFile(None)
    fill(once, BEGIN_S, BEGIN_S + 120)
    for begin_s, end_s in ((BEGIN_S, BEGIN_S + 45), (BEGIN_S + 45, BEGIN_S + 120)):
        history = HistoryFile(path)
        rollup = Rollup()
        for at_s in range(begin_s, end_s, 5):
            history.merge(rollup.add(at_s, {"ops_per_s": float(at_s - BEGIN_S), "keys": 7.0}))
        history.merge(rollup.flush())
        history.close()
    found = HistoryFile(path).buckets(span, now_s)
    assert found == once.buckets(span, now_s)


def test_a_clock_that_is_set_back_costs_no_history() -> None:
    history = HistoryFile(None)
    fill(history, BEGIN_S, BEGIN_S + 600)
    fill(history, BEGIN_S + 10**8, BEGIN_S + 10**8 + 60)  # years ahead
    fill(history, BEGIN_S + 300, BEGIN_S + 900)  # and back
    span, now_s = RANGES["hour"], BEGIN_S + 899
    drawn = list(points(history.buckets(span, now_s), "keys", span, now_s))
    known = [point for point in drawn if point is not None]
    assert [point.at_s for point in known] == list(range(BEGIN_S, BEGIN_S + 900, 10))


def test_a_clock_that_was_ahead_for_long_does_not_stop_the_history() -> None:
    history = HistoryFile(None)
    ahead_s = BEGIN_S + 10**8
    fill(history, ahead_s, ahead_s + 4 * 3600)  # more than is kept
    fill(history, BEGIN_S, BEGIN_S + 600)
    span, now_s = RANGES["hour"], BEGIN_S + 599
    drawn = points(history.buckets(span, now_s), "keys", span, now_s)
    assert len([point for point in drawn if point is not None]) == 60
    assert history.rows() <= sum(keep for _, keep in RESOLUTIONS)


def test_several_dashboards_write_into_one_file(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    history = HistoryFile(path)
    script = (
        "import sys; from pathlib import Path\n"
        "from holdfast.web.history.history_file import HistoryFile\n"
        "from holdfast.web.history.rollup import Bucket, Stat\n"
        "history = HistoryFile(Path(sys.argv[1])); print(flush=True); input()\n"
        f"for _ in range(200): history.merge([Bucket(10, {BEGIN_S}, {{'keys': Stat(1, 1, 1)}})])"
    )
    with ExitStack() as stack:
        writers = [
            stack.enter_context(
                Popen([sys.executable, "-c", script, path], stdin=PIPE, stdout=PIPE)
            )
            for _ in range(2)
        ]
        for writer in writers:
            assert writer.stdout is not None
            writer.stdout.readline()  # it has opened the file
        for writer in writers:
            assert writer.stdin is not None
            writer.stdin.write(b"\n")
            writer.stdin.flush()
        assert [writer.wait() for writer in writers] == [0, 0]
    (found,) = history.buckets(RANGES["hour"], BEGIN_S + 5).values()
    assert found["keys"].samples == 400
    history.close()


def test_a_file_that_is_deleted_while_it_is_used_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    history = HistoryFile(path)
    fill(history, BEGIN_S, BEGIN_S + 60)
    path.unlink()
    fill(history, BEGIN_S + 60, BEGIN_S + 120)
    path.unlink()
    history.audit(1.0, "ada", "h", "delete key", "DEL a")
    history.close()
    again = HistoryFile(path)
    assert [each.action for each in again.audited(None, 10)] == ["delete key"]
    again.close()


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[apsw.Connection]:
    """The file of a history that another process is writing."""
    HistoryFile(tmp_path / "history.db").close()
    other = apsw.Connection(str(tmp_path / "history.db"))
    other.execute("begin immediate")
    yield other
    other.close()


def test_pages_do_not_wait_while_another_process_has_the_file(
    tmp_path: Path, locked: apsw.Connection
) -> None:
    history = HistoryFile(tmp_path / "history.db")
    bucket = Bucket(10, BEGIN_S, {"keys": Stat(1, 1, 1)})
    writer = Thread(target=history.merge, args=([bucket],))
    writer.start()

    def waits() -> bool:
        if is_free := history._lock.acquire(blocking=False):
            history._lock.release()
        return not is_free

    wait_until(waits, "it waits for the file")
    assert history.buckets(RANGES["hour"], BEGIN_S) == {}
    assert history.audited(None, 1) == []
    assert writer.is_alive()
    locked.execute("rollback")
    writer.join()
    assert len(history.buckets(RANGES["hour"], BEGIN_S)) == 1
    history.close()


def test_a_metric_that_the_server_did_not_say_is_a_gap() -> None:
    history, rollup = HistoryFile(None), Rollup()
    history.merge(rollup.add(BEGIN_S, {"keys": 1.0}))
    history.merge(rollup.add(BEGIN_S + 10, {}))
    history.merge(rollup.add(BEGIN_S + 20, {"keys": 3.0}))
    history.merge(rollup.flush())
    span, now_s = RANGES["hour"], BEGIN_S + 29
    drawn = list(points(history.buckets(span, now_s), "keys", span, now_s))
    assert [None if p is None else p.mean for p in drawn[-3:]] == [1.0, None, 3.0]


def test_a_file_that_is_no_database_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    path.write_bytes(b"no database at all" * 100)
    with pytest.raises(StorageError, match=r"cannot open .*history\.db"):
        HistoryFile(path)


def test_a_file_of_a_later_version_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    history = HistoryFile(path)
    history._db.pragma("user_version", 99)
    history.close()
    before = path.read_bytes()
    with pytest.raises(StorageError, match="later version"):
        HistoryFile(path)
    assert path.read_bytes() == before


def test_the_file_is_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "history.db"
    HistoryFile(path).close()
    assert path.stat().st_mode & 0o777 == 0o600
