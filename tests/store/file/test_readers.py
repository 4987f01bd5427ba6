"""Another program reads the file, perhaps for ever: that holds up no write and no shutdown."""

import logging
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from holdfast.server.core import turn
from holdfast.store.check import check_file
from holdfast.store.store import FileStore
from tests.harness.in_process import InProcess

pytestmark = pytest.mark.source_only


def reader(path: Path) -> apsw.Connection:
    """One with an open transaction, as Litestream's."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    connection.execute("BEGIN; SELECT count(*) FROM redis_keys").fetchall()
    return connection


def write(store: FileStore, *names: bytes) -> None:
    for name in names:
        store.keyspace.databases[0].set_string(name, b"v")
    store.commit()


def names(path: Path) -> set[bytes]:
    with closing(FileStore(path)) as store:
        return {name for name in (b"a", b"b", b"c") if store.keyspace.databases[0].find(name)}


@pytest.mark.parametrize("is_old", [True, False])
def test_a_store_closes_while_another_program_reads(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, is_old: bool
) -> None:
    path = tmp_path / "a.db"
    store = FileStore(path)
    write(store, b"a")
    if is_old:
        reading = reader(path)
        write(store, b"b")
    else:
        write(store, b"b")
        store.fold()
        reading = reader(path)
    with caplog.at_level(logging.INFO, "holdfast"):
        store.close()
    assert "another program reads" in caplog.text
    assert (tmp_path / "a.db-mark").exists(), "the next start has to know what the WAL must have"
    assert check_file(path) == []
    assert names(path) == {b"a", b"b"}, "while the other program still reads"
    reading.close()
    assert names(path) == {b"a", b"b"}
    assert not (tmp_path / "a.db-wal").exists()
    assert not (tmp_path / "a.db-mark").exists()


def test_a_reader_may_stay_for_several_starts(tmp_path: Path) -> None:
    """The file itself then has the id of an earlier start."""
    path = tmp_path / "a.db"
    FileStore(path).close()
    reading = reader(path)
    for name in (b"a", b"b", b"c"):
        store = FileStore(path)
        write(store, name)
        store.sync()
        store.close()
    store = FileStore(path)
    write(store, b"a")
    store.abandon()  # killed
    assert check_file(path) == []
    assert names(path) == {b"a", b"b", b"c"}
    reading.close()
    assert names(path) == {b"a", b"b", b"c"}


def test_the_wal_that_is_left_is_missed_when_it_goes(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    store = FileStore(path)
    reading = reader(path)
    write(store, b"a")
    store.close()
    reading.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    reading.close()
    (tmp_path / "a.db-wal").unlink()
    assert check_file(path) != []


def test_a_store_closes_while_another_program_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was committed is in the journal. The next start folds it."""
    monkeypatch.setattr("holdfast.store.store.BUSY_MS", 1)
    path = tmp_path / "a.db"
    store = FileStore(path)
    write(store, b"a")
    with closing(apsw.Connection(str(path))) as writer:
        writer.execute("BEGIN IMMEDIATE")
        store.close()
    assert names(path) == {b"a"}


def test_an_external_checkpoint_that_truncates_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    store = FileStore(path)
    write(store, b"a")
    with closing(apsw.Connection(str(path))) as other:
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    write(store, b"b")
    store.sync()
    store.abandon()
    assert check_file(path) == []
    assert names(path) == {b"a", b"b"}


# -- while it runs --------------------------------------------------------------------------------


class Loop:
    """As much of an event loop as a turn needs. Workers have done their jobs at once."""

    def __init__(self, setting: InProcess) -> None:
        self.jobs = 0
        turn = setting.engine.turn
        turn._loop = self  # type: ignore[assignment]
        turn._submit = self._do  # type: ignore[method-assign]

    def call_soon(self, callback: object, *args: object) -> None: ...

    def _do(self, worker: int, job: turn.Job, done: turn.Done) -> None:
        self.jobs += 1
        job()
        done(None)


def test_a_wal_that_a_reader_keeps_is_not_emptied_in_every_turn_and_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "holdfast")
    monkeypatch.setattr(turn, "CHECKPOINT_PAGES", 10)
    path = tmp_path / "a.db"
    store = FileStore(path)
    setting = InProcess({"appendfsync": "no"}, store)
    peer = setting.peer()
    loop = Loop(setting)
    reading = reader(path)
    for number in range(200):
        peer.command("SET", f"k{number}", "v")
    assert store.wal_pages > 100
    assert loop.jobs == 2, "one beside the commits, one for the rest"
    assert caplog.text.count("cannot be emptied") == 1
    setting.engine.turn.retry()
    for number in range(20):
        peer.command("SET", f"k{number}", "v")
    assert loop.jobs == 4, "once a second"
    assert caplog.text.count("cannot be emptied") == 2, "it has doubled"
    assert "emptied again" not in caplog.text
    reading.close()
    setting.engine.turn.retry()
    for number in range(3):
        peer.command("SET", f"k{number}", "v")
    assert store.wal_pages < 10
    for number in range(20):
        peer.command("SET", f"k{number}", "v")
    assert "emptied again" in caplog.text
    setting.engine.turn._loop = None
    store.close()


def test_a_killed_server_starts_again_after_a_reader_has_copied_the_rest_of_its_wal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last program that closes the file copies its WAL and removes it, if it may write."""
    monkeypatch.setattr(turn, "CHECKPOINT_PAGES", 10)
    path = tmp_path / "a.db"
    store = FileStore(path)
    setting = InProcess({"appendfsync": "no"}, store)
    peer = setting.peer()
    loop = Loop(setting)
    reading = apsw.Connection(str(path))
    reading.execute("BEGIN; SELECT count(*) FROM redis_keys").fetchall()
    for number in range(200):
        peer.command("SET", f"k{number}", "v")
    assert loop.jobs == 2
    setting.engine.turn._loop = None
    store.abandon()
    reading.execute("COMMIT")
    reading.close()
    assert not (tmp_path / "a.db-wal").exists()
    with closing(FileStore(path)) as store:
        assert len(store.keyspace.databases[0]) == 200
