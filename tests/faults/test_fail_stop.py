"""A disk that fails: no reply acknowledges a write that is not on it, memory never has more than
the file, and after a failed sync nothing is acknowledged any more."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import apsw
import hiredis
import pytest

from holdfast.server.core import turn
from holdfast.store.fold import fold
from holdfast.store.store import FileStore
from tests.faults.disk import Disk
from tests.faults.simulation import Client, Simulation
from tests.store.consistency import check_counts


@pytest.fixture
def simulation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Simulation]:
    simulation = Simulation(Disk(), tmp_path, monkeypatch)
    yield simulation
    simulation.disk.sync_error = False
    simulation.disk.write_error = None
    simulation.stop()


@pytest.fixture
def client(simulation: Simulation) -> Client:
    return simulation.client()


def is_misconf(reply: Any) -> bool:
    return isinstance(reply, hiredis.ReplyError) and str(reply).startswith("MISCONF ")


def reopened(simulation: Simulation, tmp_path: Path) -> FileStore:
    """The content of the file, read by another store."""
    for suffix in ("", "-wal"):
        content = (tmp_path / f"a.db{suffix}").read_bytes()
        (tmp_path / f"b.db{suffix}").write_bytes(content)
    return FileStore(tmp_path / "b.db")


# -- a sync fails -----------------------------------------------------------------------------


def test_nothing_is_acknowledged_by_a_sync_that_failed(
    simulation: Simulation, client: Client
) -> None:
    other = simulation.client()
    simulation.disk.sync_error = True
    client.send([b"SET", b"a", b"1"], [b"GET", b"a"])
    other.send([b"GET", b"a"])  # the value is not on the disk, so it gets no reply either
    simulation.run()
    assert len(client.replies) == 2
    assert all(map(is_misconf, [*client.replies, *other.replies]))
    assert len(simulation.fatal) == 1


def test_commands_that_came_during_the_failing_sync_fail_too(
    simulation: Simulation, client: Client
) -> None:
    other = simulation.client()
    simulation.disk.sync_error = True
    client.send([b"SET", b"a", b"1"])
    while simulation.loop.soon:
        simulation.loop.soon.popleft()()
    other.send([b"SET", b"b", b"1"], [b"GET", b"a"])  # the sync is under way
    simulation.run()
    assert all(map(is_misconf, [*client.replies, *other.replies]))
    assert len(other.replies) == 2


def test_after_a_failed_sync_there_is_no_success_even_if_the_disk_recovers(
    simulation: Simulation, client: Client
) -> None:
    simulation.disk.sync_error = True
    client.send([b"SET", b"a", b"1"])
    simulation.run()
    simulation.disk.sync_error = False  # as after fsyncgate: the next sync says it is all well
    for argv in ([b"SET", b"b", b"1"], [b"GET", b"a"], [b"PING"]):
        assert is_misconf(simulation.call(client, *argv))
    for _ in range(3):
        simulation.clock.advance(1.0)
        simulation.run()
    assert is_misconf(simulation.call(client, b"SET", b"b", b"1"))
    assert len(simulation.fatal) == 1


def test_after_a_failed_sync_the_file_is_left_alone(
    simulation: Simulation, client: Client, tmp_path: Path
) -> None:
    simulation.disk.sync_error = True
    client.send([b"SET", b"a", b"1"])
    simulation.run()
    simulation.disk.sync_error = False
    files = [tmp_path / "a.db", tmp_path / "a.db-wal"]
    before = [path.read_bytes() for path in files]
    client.send([b"SET", b"b", b"1"])
    simulation.run()
    simulation.store.close()
    simulation.is_stopped = True
    assert [path.read_bytes() for path in files] == before


def test_a_waiter_served_by_a_push_that_was_not_synced_gets_an_error(
    simulation: Simulation, client: Client
) -> None:
    waiter = simulation.client()
    waiter.send([b"BLPOP", b"q", b"0"])
    simulation.run()
    assert waiter.replies == []
    simulation.disk.sync_error = True
    client.send([b"RPUSH", b"q", b"x"])
    simulation.run()
    assert is_misconf(waiter.replies[0])
    assert is_misconf(client.replies[0])


def test_everysec_stops_as_well_when_its_sync_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulation = Simulation(Disk(), tmp_path, monkeypatch, "everysec")
    client = simulation.client()
    assert simulation.call(client, b"SET", b"a", b"1") == b"OK"
    simulation.disk.sync_error = True
    simulation.clock.advance(1.0)
    simulation.run()
    simulation.disk.sync_error = False
    assert is_misconf(simulation.call(client, b"SET", b"a", b"2"))
    assert len(simulation.fatal) == 1
    simulation.stop()


# -- a write fails ----------------------------------------------------------------------------


@pytest.mark.parametrize("error", [apsw.FullError, apsw.IOError])
def test_a_batch_that_cannot_be_written_never_happened(
    simulation: Simulation, client: Client, error: type[apsw.Error], tmp_path: Path
) -> None:
    other = simulation.client()
    assert simulation.call(client, b"SET", b"a", b"1") == b"OK"
    assert simulation.call(client, b"RPUSH", b"q", b"x", b"y") == 2
    simulation.disk.write_error = error
    client.send([b"SET", b"a", b"2"], [b"LPOP", b"q"], [b"SET", b"new", b"1"])
    other.send([b"GET", b"a"])
    simulation.run()
    assert all(map(is_misconf, [*client.replies, *other.replies]))
    assert len(client.replies) == 3
    client.replies.clear()
    # Reading goes on, and shows the content of the file.
    assert simulation.call(client, b"GET", b"a") == b"1"
    assert simulation.call(client, b"LRANGE", b"q", b"0", b"-1") == [b"x", b"y"]
    assert simulation.call(client, b"EXISTS", b"new") == 0
    assert is_misconf(simulation.call(client, b"SET", b"a", b"3"))
    assert simulation.fatal == []
    check_counts(simulation.store.keyspace)
    file = reopened(simulation, tmp_path)
    assert file.keyspace.databases[0].read_string(b"a") == b"1"
    file.abandon()


def test_writing_goes_on_when_it_works_again(simulation: Simulation, client: Client) -> None:
    assert simulation.call(client, b"SET", b"a", b"1") == b"OK"
    simulation.disk.write_error = apsw.FullError
    assert is_misconf(simulation.call(client, b"SET", b"a", b"2"))
    simulation.clock.advance(3.0)
    simulation.run()
    assert is_misconf(simulation.call(client, b"SET", b"a", b"3"))
    simulation.disk.write_error = None
    simulation.clock.advance(1.0)
    simulation.run()
    assert simulation.call(client, b"GET", b"a") == b"1"
    assert simulation.call(client, b"SET", b"a", b"4") == b"OK"
    simulation.store.reload()
    assert simulation.call(client, b"GET", b"a") == b"4"


class Broken:
    """Replaces the object that sends records to peers."""

    def committed(self) -> None:
        raise ValueError("of a bug")


def test_a_write_that_cannot_be_sent_to_peers_is_not_acknowledged(
    simulation: Simulation, client: Client
) -> None:
    """The batch is committed by then. (A batch that cannot become a record is not:
    tests/replication.)"""
    assert simulation.call(client, b"SET", b"a", b"1") == b"OK"
    simulation.engine.peers = cast("Any", Broken())
    assert is_misconf(simulation.call(client, b"SET", b"a", b"2"))
    simulation.engine.peers = None
    simulation.clock.advance(1.0)
    simulation.run()
    assert simulation.call(client, b"GET", b"a") == b"2"
    assert simulation.call(client, b"SET", b"a", b"3") == b"OK"


def test_a_transaction_queued_before_the_failure_does_not_slip_through(
    simulation: Simulation, client: Client
) -> None:
    other = simulation.client()
    client.send([b"MULTI"], [b"SET", b"a", b"1"])
    simulation.run()
    simulation.disk.write_error = apsw.FullError
    assert is_misconf(simulation.call(other, b"SET", b"b", b"1"))
    reply = simulation.call(client, b"EXEC")
    assert isinstance(reply, hiredis.ReplyError)
    assert simulation.call(client, b"EXISTS", b"a") == 0


def test_a_pop_that_never_happened_leaves_no_client_waiting_beside_its_element(
    simulation: Simulation, client: Client
) -> None:
    waiter = simulation.client()
    assert simulation.call(client, b"RPUSH", b"q", b"x") == 1
    simulation.disk.write_error = apsw.FullError
    client.send([b"LPOP", b"q"])
    waiter.send([b"BLPOP", b"q", b"0"])
    simulation.run()
    assert is_misconf(client.replies[0])
    assert waiter.replies == []
    simulation.disk.write_error = None
    simulation.clock.advance(1.0)
    simulation.run()
    assert waiter.replies == [[b"q", b"x"]]


@pytest.mark.parametrize("error", [apsw.FullError, apsw.IOError])
def test_a_fold_that_fails_harms_no_client(
    simulation: Simulation,
    client: Client,
    error: type[apsw.Error],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fold, "SLICE_ROWS", 3)
    for number in range(20):
        assert simulation.call(client, b"SET", b"key:%d" % number, b"1") == b"OK"
    simulation.store.fold_step()
    simulation.store.fold_step()
    assert simulation.call(client, b"RENAME", b"key:1", b"key:2") == b"OK"
    assert simulation.call(client, b"DEL", b"key:3") == 1
    write_slice = fold.Fold._write_slice
    monkeypatch.setattr(fold.Fold, "_write_slice", _failing(error))
    with pytest.raises(Exception, match="cannot write the tables"):
        simulation.store.fold()
    monkeypatch.setattr(fold.Fold, "_write_slice", write_slice)
    assert simulation.call(client, b"DBSIZE") == 18
    assert simulation.call(client, b"EXISTS", b"key:1", b"key:3") == 0
    check_counts(simulation.store.keyspace)
    simulation.store.fold()
    assert simulation.call(client, b"DBSIZE") == 18
    assert simulation.store.folding.is_idle
    check_counts(simulation.store.keyspace)


def _failing(error: type[apsw.Error]) -> Any:
    def fail(*args: object) -> None:
        raise error("the disk says no")

    return fail


def test_a_checkpoint_that_cannot_write_is_put_off(
    simulation: Simulation, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn, "CHECKPOINT_PAGES", 1)
    simulation.disk.write_error = apsw.FullError
    simulation.disk.failing_name = "a.db"  # the WAL still grows
    assert simulation.call(client, b"SET", b"a", b"1") == b"OK"
    assert simulation.call(client, b"SET", b"a", b"2") == b"OK"
    assert simulation.engine.turn.checkpoints == 0
    simulation.disk.write_error = None
    simulation.clock.advance(1.0)
    assert simulation.call(client, b"SET", b"a", b"3") == b"OK"
    assert simulation.engine.turn.checkpoints == 1
    assert simulation.fatal == []
