"""Snapshots for replicas: another process writes them, and this one sends them.

The process reads the database file by itself, at one moment, while this server goes on. Its first
line says which batch of the journal was the last at that moment.
"""

import asyncio
import os
import sys
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import StorageError
from holdfast.server.config.config import Config
from holdfast.server.primary.backlog import new_id
from holdfast.server.primary.replica import FUNCTIONS, Replica
from holdfast.server.sessions.session import Session
from holdfast.server.version import REDIS_VERSION
from holdfast.store.rdb.file_writer import FORMATS, RdbWriter

if TYPE_CHECKING:
    from holdfast.server.primary.primary import Primary

PIECE_BYTES = 1 << 18
AHEAD_BYTES = 1 << 22  # given to the socket and not sent
LOOK_EVERY_S = 0.005
MODULE = "holdfast.migration.snapshot"


class SnapshotFile:
    """A snapshot on disk. Its name is gone already; it is freed when the last replica has it."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._readers = 0
        self.is_complete = False

    @property
    def nbytes(self) -> int:
        """So far, if it is not complete."""
        return os.fstat(self._fd).st_size

    def acquire(self) -> "SnapshotFile":
        self._readers += 1
        return self

    def release(self) -> None:
        self._readers -= 1
        if not self._readers:
            os.close(self._fd)

    def read(self, at: int) -> bytes:
        return os.pread(self._fd, PIECE_BYTES, at)


class SnapshotProcess:
    def __init__(self, primary: "Primary", path: Path, config: Config) -> None:
        self._primary = primary
        self._path = path
        self._config = config
        self._process: asyncio.subprocess.Process | None = None
        self._is_dropped = False  # the snapshot; its process may not have started yet
        self._file: SnapshotFile | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def take(self, *, has_field_times: bool) -> None:
        self._is_dropped = False
        self._start(self._take("valkey9" if has_field_times else "redis7"))

    def drop(self) -> None:
        self._is_dropped = True
        if self._process is not None and self._process.returncode is None:
            self._process.kill()

    def send(self, replica: Replica) -> None:
        assert self._file is not None
        self._start(self._send(replica, self._file.acquire()))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    def _start(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _take(self, form: str) -> None:
        """The file has no name while it is written, so nothing of it can be left behind."""
        primary, file = self._primary, None
        try:
            fd, name = tempfile.mkstemp(prefix=".snapshot-", suffix=".rdb", dir=self._path.parent)
            file = self._file = SnapshotFile(fd).acquire()
            os.unlink(name)
            await self._write(fd, form)
        except Exception as error:  # noqa: BLE001 - replicas would wait for ever
            primary.failed(error)
        else:
            file.is_complete = True
            primary.written()
        finally:
            if file is not None:
                file.release()

    async def _write(self, fd: int, form: str) -> None:
        """Raises StorageError or OSError."""
        delay_us = str(self._config.rdb_key_save_delay)
        argv = (sys.executable, "-P", "-m", MODULE, str(self._path), str(fd), delay_us, form)
        pipe = asyncio.subprocess.PIPE
        self._process = process = await asyncio.create_subprocess_exec(
            *argv, stdin=pipe, stdout=pipe, stderr=pipe, pass_fds=(fd,)
        )
        if self._is_dropped:
            process.kill()
        assert process.stdout is not None
        assert process.stderr is not None
        lsn = await process.stdout.readline()
        if lsn:
            self._primary.cut(int(lsn))
        said = await process.stderr.read()
        if await process.wait():
            lines = said.decode(errors="replace").strip().splitlines()
            raise StorageError(lines[-1] if lines else "the process that writes it has died")

    def _without_keys(self, parts: frozenset[bytes]) -> bytes:
        """For `redis-cli --functions-rdb`. The libraries are those of this moment, because such a
        replica does not go on with the stream."""
        blocks: list[bytes] = []
        writer = RdbWriter(blocks.append, FORMATS["redis7"])
        writer.begin({b"redis-ver": REDIS_VERSION.encode(), b"redis-bits": b"64"})
        for code in self._primary.libraries() if FUNCTIONS in parts else ():
            writer.library(code)
        writer.end()
        return b"".join(blocks)

    async def _send(self, replica: Replica, file: SnapshotFile) -> None:
        session, mark = replica.session, b""
        try:
            if replica.parts is not None:
                data = self._without_keys(replica.parts)
                session.deliver([b"$%d\r\n" % len(data), data])
            elif file.is_complete:
                session.deliver([b"$%d\r\n" % file.nbytes])
                await self._send_pieces(session, file)
            else:
                mark = new_id()
                session.deliver([b"$EOF:%b\r\n" % mark])
                await self._send_pieces(session, file)
                session.deliver([mark])
        finally:
            file.release()
        if not session.closing:
            self._primary.sent(replica, has_mark=bool(mark))

    async def _send_pieces(self, session: Session, file: SnapshotFile) -> None:
        """Send the bytes of the file, while another process still writes it. If that process writes
        no more, the primary closes the session."""
        at, silent_s = 0, 0.0
        while not session.closing:
            is_last = file.is_complete
            waiting_bytes = session.output_bytes
            if waiting_bytes <= AHEAD_BYTES:
                piece = file.read(at)
                if piece:
                    session.deliver([piece])
                    self._primary.sent_bytes += len(piece)
                    at += len(piece)
                    await asyncio.sleep(0)
                    continue
                if is_last:
                    return
            await asyncio.sleep(LOOK_EVERY_S)
            is_silent = 0 < waiting_bytes <= session.output_bytes
            silent_s = silent_s + LOOK_EVERY_S if is_silent else 0.0
            if silent_s > self._config.repl_timeout:  # the replica takes in nothing
                session.abort()
