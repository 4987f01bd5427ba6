"""After a failed sync the content of the disk is unknown: no acknowledgement and no second try."""

import asyncio
import errno
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import apsw
import pytest

import holdfast
from holdfast.embedded import LocalDatabase
from holdfast.errors import CommandError, StorageError
from holdfast.server.core.cron import Cron
from holdfast.store.check import check_file
from holdfast.store.store import FileStore
from tests.harness import RawClient

Test = Callable[[LocalDatabase, FileStore], Awaitable[None]]


def run(path: Path, test: Test, **options: str) -> None:
    async def main() -> None:
        async with holdfast.open(path, **options) as database:
            store = database.engine.store
            assert isinstance(store, FileStore)
            await test(database, store)

    asyncio.run(main())


def broken() -> None:
    raise OSError(errno.EIO, "Input/output error")


async def refused(database: LocalDatabase, *args: str) -> bool:
    with pytest.raises(CommandError) as caught:
        await database.execute(*args)
    return caught.value.code == b"MISCONF"


def test_nothing_is_acknowledged_or_committed_after_it(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    fatal: list[StorageError] = []

    async def test(database: LocalDatabase, store: FileStore) -> None:
        database.engine.on_fatal = fatal.append
        await database.execute("SET", "before", "1")
        sync, store.journal.sync = store.journal.sync, broken  # type: ignore[method-assign]
        writes = [refused(database, "SET", f"k{n}", "x") for n in range(5)]
        assert all(await asyncio.gather(*writes))
        store.journal.sync = sync  # type: ignore[method-assign]
        lsn = store.lsn
        # Reads may have seen data that is not on disk, so they get no reply either.
        assert await refused(database, "GET", "before")
        assert await refused(database, "SET", "later", "x")
        assert store.lsn == lsn
        assert not database.engine.turn.may_fold
        assert await refused(database, "SAVE")

    run(path, test)
    assert [str(error) for error in fatal] == [
        "cannot sync the journal: [Errno 5] Input/output error"
    ]
    assert check_file(path) == []

    async def reopened(database: LocalDatabase, store: FileStore) -> None:
        assert await database.execute("GET", "before") == b"1"
        assert await database.execute("GET", "later") is None

    run(path, reopened)


def test_everysec_stops_too(tmp_path: Path) -> None:
    async def test(database: LocalDatabase, store: FileStore) -> None:
        stopped = asyncio.get_running_loop().create_future()
        database.engine.on_fatal = stopped.set_result
        store.journal.sync = broken  # type: ignore[method-assign]
        await database.execute("SET", "k", "v")  # acknowledged before it is synced, as promised
        database.engine.turn.sync_beside()
        await stopped
        assert await refused(database, "SET", "k", "w")

    run(tmp_path / "x.db", test, appendfsync="everysec")


def test_a_checkpoint_that_cannot_sync_is_fatal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.server.core.turn.CHECKPOINT_PAGES", 1)

    async def test(database: LocalDatabase, store: FileStore) -> None:
        stopped = asyncio.get_running_loop().create_future()
        database.engine.on_fatal = stopped.set_result
        monkeypatch.setattr(store._checkpointer, "checkpoint", broken)
        await database.execute("SET", "k", "v")
        await stopped

    run(tmp_path / "x.db", test)


def test_an_idle_server_that_folds_checkpoints_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(database: LocalDatabase, store: FileStore) -> None:
        outgoing, cron = database.engine.outgoing, Cron(database.engine)
        await database.execute("SET", "k", "v")
        cron.tick()
        assert not outgoing.is_scheduled
        monkeypatch.setattr("holdfast.server.core.turn.CHECKPOINT_PAGES", 1)
        cron.tick()
        assert outgoing.is_scheduled

    run(tmp_path / "x.db", test)


def test_a_checkpoint_that_cannot_write_is_put_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.server.core.turn.CHECKPOINT_PAGES", 1)

    async def test(database: LocalDatabase, store: FileStore) -> None:
        tried = 0

        def full() -> None:
            nonlocal tried
            tried += 1
            raise StorageError("cannot checkpoint: database or disk is full")

        with monkeypatch.context() as patch:
            patch.setattr(store._checkpointer, "checkpoint", full)
            for n in range(20):
                assert await database.execute("SET", "k", str(n))
        assert tried == 1
        database.engine.turn.retry()
        while not database.engine.turn.checkpoints:
            assert await database.execute("SET", "k", "again")

    run(tmp_path / "x.db", test)


def test_a_fold_that_fails_harms_no_client(tmp_path: Path) -> None:
    path = tmp_path / "x.db"

    async def test(database: LocalDatabase, store: FileStore) -> None:
        for n in range(300):
            await database.execute("RPUSH", f"k{n}", "v")
        writes = 0

        def full(parts: object) -> None:
            nonlocal writes
            writes += 1
            raise apsw.FullError("database or disk is full")

        write = store.folding._write_slice
        store.folding._write_slice = full  # type: ignore[method-assign]
        with pytest.raises(CommandError, match="disk is full"):
            await database.execute("SAVE")
        assert writes == 1
        assert await database.execute("SET", "k0", "new") == b"OK"
        store.folding._write_slice = write  # type: ignore[method-assign]
        assert await database.execute("SAVE") == b"OK"
        assert store.folded_lsn == store.lsn

    run(path, test)
    assert check_file(path) == []


def test_a_file_that_cannot_be_read_back_is_fatal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(database: LocalDatabase, store: FileStore) -> None:
        fatal: list[StorageError] = []
        database.engine.on_fatal = fatal.append

        def full(ops: object) -> int:
            raise StorageError("cannot write the journal: disk is full")

        def unreadable(*_: object) -> int:
            raise StorageError("cannot read the file")

        store.journal.append = full  # type: ignore[method-assign]
        monkeypatch.setattr("holdfast.store.store.recover", unreadable)
        assert await refused(database, "SET", "k", "v")
        assert len(fatal) == 1
        assert await refused(database, "GET", "k")

    run(tmp_path / "x.db", test)


LAUNCHER = """
import errno, os, sys
real, left = os.fdatasync, [6]  # a start takes four
def fdatasync(fd):
    left[0] -= 1
    if left[0] < 0:
        raise OSError(errno.EIO, "Input/output error")
    real(fd)
os.fdatasync = fdatasync
from holdfast.cli.main import main
sys.exit(main(["serve", "--port", "0", "--db", "x.db", "--unixsocket", "x.sock"]))
"""


def test_the_server_stops_with_one_sentence(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", LAUNCHER],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert "ready on" in process.stdout.readline()
        with RawClient.connect_unix(str(tmp_path / "x.sock")) as client:
            while (reply := client.command("SET", "k", "v")) == b"+OK\r\n":
                pass
        _, stderr = process.communicate(timeout=30)
    assert reply.startswith(b"-MISCONF ")
    assert process.returncode == 1
    assert stderr.splitlines()[-1].startswith("holdfast: cannot sync the journal: ")
    assert "Traceback" not in stderr
    assert check_file(tmp_path / "x.db") == []


def test_a_transaction_that_meets_an_unreadable_row_did_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x.db"

    async def prepare(database: LocalDatabase, store: FileStore) -> None:
        for name in ("a", "b", "c"):
            await database.execute("SET", name, "old")

    run(path, prepare)

    async def test(database: LocalDatabase, store: FileStore) -> None:
        tables = store.keyspace.tables
        assert tables is not None
        value = tables.value

        def unreadable(*args: object) -> object:
            tables.value = value  # type: ignore[method-assign]
            raise apsw.IOError("disk I/O error")

        async with database.session() as session:
            await session.execute("MULTI")
            await session.execute("SET", "new", "x")
            await session.execute("APPEND", "b", "x")
            await session.execute("SET", "newer", "x")
            tables.value = unreadable  # type: ignore[method-assign, assignment]
            with pytest.raises(CommandError, match="MISCONF"):
                await session.execute("EXEC")
            assert await session.execute("ECHO", "x") == b"x"  # not QUEUED
        assert await database.execute("GET", "b") == b"old"
        for name in ("new", "newer"):
            assert await database.execute("EXISTS", name) == 0
        assert await refused(database, "SET", "a", "x")
        database.engine.storage_recovered()
        assert await database.execute("SET", "a", "x") == b"OK"
        assert await database.execute("DBSIZE") == 3

    run(path, test)
    assert check_file(path) == []
