"""Follows a server by PSYNC into a database file: first its snapshot, then its commands, until the
file has all that the server had acknowledged at some moment.

The position of the file in the stream (`Position`) is a key in an additional database of the file.
It is written in one transaction with the commands before it. So a process that was killed, at any
point after the snapshot, goes on exactly there: no command runs twice, and none is missing.

The clock stands still at the time of the snapshot, as for append-only files: the server says which
keys have expired.
"""

import asyncio
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from holdfast.client.transport.options import ClientOptions
from holdfast.clock import ManualClock
from holdfast.errors import CommandError
from holdfast.migration.append_only import delivery_ms
from holdfast.migration.database_target import DatabaseTarget, load_library
from holdfast.migration.errors import MigrationError, UnfitError
from holdfast.migration.live_server import PAUSE_S, LiveServer
from holdfast.migration.placing import remove_database
from holdfast.migration.replay import (
    Replies,
    engine_on,
    is_replayed,
    seconds_of,
    without_idempotence,
)
from holdfast.migration.report import about_unknown
from holdfast.progress import BYTES, Progress
from holdfast.psync.events import (
    Command,
    Commands,
    Continues,
    Event,
    FullResync,
    PsyncError,
    SnapshotBegins,
    SnapshotEnds,
    SnapshotPiece,
    TooLargeError,
)
from holdfast.psync.follower import Follower, acknowledgement
from holdfast.psync.handshake import Introduction
from holdfast.psync.open_commands import check_open
from holdfast.server.core.engine import Engine
from holdfast.store.rdb.file_reader import RdbFileError, RdbReader, printable
from holdfast.store.rdb.records import Aux, Entry, Library, Record, Unknown

PIECE_BYTES: Final = 1 << 18
BATCH_COMMANDS: Final = 1000
BATCH_BYTES: Final = 4 << 20
ACKNOWLEDGE_S: Final = 1.0
POSITION: Final = b"holdfast:position"
SNAPSHOT, STREAM = "loading the snapshot", "following"

Argv = list[bytes]


class PsyncRefusedError(MigrationError):
    """The server refuses PSYNC. Its data may be read in another way."""


class _StartOverError(Exception):
    """The file has data already, and a snapshot must come. The text is the reason."""


class Position(NamedTuple):
    """How much of the stream with this id the file has, and which database was selected there."""

    replication_id: bytes
    offset: int
    selected: int

    def encoded(self) -> bytes:
        return b"%b %d %d" % self

    @classmethod
    def decoded(cls, text: bytes) -> "Position":
        replication_id, offset, selected = text.split()
        return cls(replication_id, int(offset), int(selected))


class Following:
    """`left_out` is called with a sentence about each part that cannot be imported. It raises if
    nothing may be left out. With `follows`, the import goes on until SIGINT or SIGTERM."""

    def __init__(
        self,
        server: LiveServer,
        path: Path,
        databases: int,
        *,
        left_out: Callable[[str], None],
        note: Callable[[str], None],
        progress: Progress,
        follows: bool = False,
    ) -> None:
        self._server = server
        self._path = path
        self._databases = databases
        self._left_out = left_out
        self._note = note
        self._progress = progress
        self._follows = follows

    def run(self) -> None:
        """Raises MigrationError and StorageError. After a return the database file is complete.
        After an error the next `run` goes on with the file if it can."""
        while True:
            attempt = Attempt(self._server, self._path, self._databases, self._follows)
            attempt.left_out, attempt.progress = self._left_out, self._progress
            try:
                asyncio.run(attempt.run())
                return
            except _StartOverError as reason:
                self._note(f"{reason}, so the import began again")
                remove_database(self._path)
            except PsyncError as error:
                raise self._refusal(error) from None

    def _refusal(self, error: PsyncError) -> MigrationError:
        return PsyncRefusedError(f"{self._server.address}: {error}")


class Attempt:
    """One attempt: from an empty file, or from the position of the file, to the end."""

    left_out: Callable[[str], None]
    progress: Progress

    def __init__(self, server: LiveServer, path: Path, databases: int, follows: bool) -> None:
        self._server = server
        self._databases = databases
        self._follows = follows
        self._clock = ManualClock(1)
        self._target = DatabaseTarget(path, databases + 1, self._clock)
        if self._stored_position() is None:
            # It may have a part of a snapshot, with keys that the server has no more.
            self._target.abandon()
            remove_database(path)
            self._target = DatabaseTarget(path, databases + 1, self._clock)
        self._rdb: RdbReader | None = None
        self._snapshot_bytes = 0
        self._engine: Engine | None = None
        self._replies: Replies | None = None
        self.position = self._stored_position()
        self._first_offset = self.position.offset if self.position else 0
        self._goal: int | None = None  # an offset that the server had
        self._is_ending = not follows
        self._is_complete = False
        self.begin_link()
        self._progress_s = time.monotonic()  # when something came the last time

    def begin_link(self) -> None:
        """A link goes on at the position. What came after that comes again, such as the beginning
        of a transaction without its end."""
        self._batch: list[Argv] = []
        self._batch_bytes = self._batch_arguments = 0
        self._selected = self.position.selected if self.position else 0
        self._is_in_transaction = False
        self._is_asked = False  # for an acknowledgement

    def _stored_position(self) -> Position | None:
        key = self._target.store.keyspace.databases[self._databases].find(POSITION)
        text = None if key is None else key.value
        return Position.decoded(text) if isinstance(text, bytes) else None

    # -- links --------------------------------------------------------------------------------

    async def run(self) -> None:
        try:
            if self.position is not None:
                await self._begin_stream(self.position)
            while not self._is_complete:
                await self._follow_or_pause()
            await self.finish()
        except BaseException:
            if self._engine is not None:
                self._engine.turn.stop()
            self._target.abandon()
            raise

    async def _follow_or_pause(self) -> None:
        """One link, until it breaks or all is there."""
        if self._rdb is not None:
            raise MigrationError(f"{self._server.address} ended the link inside of its snapshot")
        if self._replies is None:
            self.position = None  # a snapshot was promised, and nothing of it came
        try:
            await self._follow()
        except (OSError, asyncio.IncompleteReadError) as error:
            if time.monotonic() - self._progress_s > self._server.patience_s:
                text = str(error) or "it does not answer"
                raise MigrationError(f"{self._server.address} is away: {text}") from None
            await asyncio.sleep(PAUSE_S)
        except TooLargeError as error:
            raise _StartOverError(str(error)) from None
        except PsyncError as error:
            if (
                not error.is_temporary
                or time.monotonic() - self._progress_s > self._server.patience_s
            ):
                raise
            await asyncio.sleep(PAUSE_S)

    async def _follow(self) -> None:
        options = self._server.options
        reader, writer = await _connected(options)
        try:
            self.begin_link()
            follower = Follower(self._introduction(options))
            writer.write(follower.to_send())
            acknowledged_s = heard_s = time.monotonic()
            while not self._is_complete:
                try:
                    data = await asyncio.wait_for(reader.read(PIECE_BYTES), ACKNOWLEDGE_S)
                except TimeoutError:
                    data = None
                    silence_s = options.request_timeout_s
                    if silence_s is not None and time.monotonic() - heard_s > silence_s:
                        raise TimeoutError(f"nothing came for {silence_s:g} s") from None
                if data == b"":
                    raise ConnectionResetError("it closed the connection")
                if data:
                    heard_s = self._progress_s = time.monotonic()
                    for event in follower.receive(data):
                        await self.take(event)
                    writer.write(follower.to_send())
                if follower.is_agreed:
                    self._look_for_the_end()
                now_s = time.monotonic()
                if self._replies is not None and (
                    self._is_asked or now_s - acknowledged_s >= ACKNOWLEDGE_S
                ):
                    assert self.position is not None
                    writer.write(acknowledgement(self.position.offset))
                    self._is_asked, acknowledged_s = False, now_s
                await writer.drain()
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    def _introduction(self, options: ClientOptions) -> Introduction:
        login = ((options.password or "").encode(), (options.username or "").encode())
        if self.position is None:
            return Introduction(*login)
        return Introduction(
            *login, replication_id=self.position.replication_id, offset=self.position.offset
        )

    # -- events -------------------------------------------------------------------------------

    async def take(self, event: Event) -> None:
        match event:
            case FullResync(replication_id, offset):
                if self.position is not None:
                    raise _StartOverError("the server did not go on where the import was")
                self.position = Position(replication_id, offset, 0)
                self._first_offset = offset
            case SnapshotBegins(nbytes):
                self._rdb = RdbReader(nbytes)
                self._snapshot_bytes = nbytes or 0
            case SnapshotPiece(data):
                self._load(data)
            case SnapshotEnds():
                assert self._rdb is not None
                assert self.position is not None
                if not self._rdb.is_at_end:
                    self._rdb_call(self._rdb.end)
                self._rdb = None
                self._target.finish()
                await self._begin_stream(self.position)
                await self._commit(self.position.offset)
                self._is_asked = True
            case Continues(replication_id):
                assert self.position is not None
                self.position = self.position._replace(replication_id=replication_id)
            case Commands(_, commands):
                await self._apply(commands)

    # -- the snapshot -------------------------------------------------------------------------

    def _load(self, data: bytes) -> None:
        reader = self._rdb
        assert reader is not None
        try:
            for record in reader.feed(data):
                self._put(record)
            if reader.is_at_end and reader.rest():
                raise RdbFileError("damaged: its data ends, and more follows", reader.position)
        except RdbFileError as error:
            raise MigrationError(f"the snapshot of {self._server.address} is {error}") from None
        self.progress(SNAPSHOT, reader.position, self._snapshot_bytes, BYTES)

    def _rdb_call(self, end: Callable[[], object]) -> None:
        try:
            end()
        except RdbFileError as error:
            raise MigrationError(f"the snapshot of {self._server.address} is {error}") from None

    def _put(self, record: Record) -> None:
        try:
            if isinstance(record, Entry):
                if record.database >= self._databases:
                    raise UnfitError(self._about_database(record.database))
                self._target.put(record, record.database)
            elif isinstance(record, Library):
                load_library(record.code, self._target.store, self._clock)
            elif isinstance(record, Unknown):
                raise UnfitError(about_unknown(record))
            elif isinstance(record, Aux) and record.name == b"ctime":
                self._pass_time_to(seconds_of(record.value) * 1000)
        except UnfitError as error:
            self.left_out(str(error))

    def _about_database(self, database: int) -> str:
        return (
            f"{self._server.address} has keys in database {database}, and the file has"
            f" {self._databases}: see --databases"
        )

    def _pass_time_to(self, unix_ms: int) -> None:
        now_ms = self._clock.now_ms()
        if unix_ms > now_ms:
            self._clock.advance((unix_ms - now_ms) / 1000)

    # -- the commands -------------------------------------------------------------------------

    async def _begin_stream(self, position: Position) -> None:
        loop = asyncio.get_running_loop()
        engine = engine_on(self._target, self._databases + 1, self._clock)
        engine.turn.start(loop)
        self._engine, self._replies = engine, Replies(engine)
        await self._replies.run([[b"SELECT", b"%d" % position.selected]])
        if self._follows and threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, self._end)

    def _end(self) -> None:
        """SIGINT or SIGTERM: end when the file has all that the server has acknowledged up to
        now."""
        self._is_ending, self._goal = True, None

    def _look_for_the_end(self) -> None:
        if self._replies is None or not self._is_ending or self._is_in_transaction:
            return
        assert self.position is not None
        if self._goal is None:
            told = self._server.info("replication").get("master_repl_offset", "")
            self._goal = int(told) if told.isdigit() else self.position.offset
        self._is_complete = self.position.offset >= self._goal

    async def _apply(self, commands: list[Command]) -> None:
        """The commands may begin or end in the middle of a transaction."""
        for argv, offset in commands:
            name = argv[0].upper()
            if name == b"MULTI":
                self._is_in_transaction = True
            elif name == b"EXEC":
                self._is_in_transaction = False
            elif name == b"REPLCONF":
                self._is_asked = True
            elif name == b"SELECT":
                self._selected = self._checked_database(argv)
                self._batch.append(argv)
            elif name != b"PING":
                self._add(argv)
            is_full = len(self._batch) >= BATCH_COMMANDS or self._batch_bytes >= BATCH_BYTES
            if is_full and not self._is_in_transaction:
                await self._commit(offset)
        if commands and not self._is_in_transaction:
            await self._commit(commands[-1].offset)
        assert self.position is not None
        total = (self._goal or 0) - self._first_offset
        self.progress(STREAM, self.position.offset - self._first_offset, max(total, 0), BYTES)

    def _checked_database(self, argv: Argv) -> int:
        """Commands after this one would go into the wrong database, so it cannot be left out."""
        index = int(argv[1]) if len(argv) == 2 and argv[1].isdigit() else -1
        if not 0 <= index < self._databases:
            raise MigrationError(self._about_database(index))
        return index

    def _add(self, argv: Argv) -> None:
        command = without_idempotence(argv)
        if command is None:
            return
        if not is_replayed(command):
            self.left_out(f"the command {printable(argv[0])} belongs to no stream")
            return
        self._pass_time_to(delivery_ms(command))
        self._batch.append(command)
        self._batch_bytes += sum(map(len, command))
        self._batch_arguments += len(command)
        if self._is_in_transaction:
            check_open(self._batch_bytes, self._batch_arguments, "a transaction of the server")

    async def _commit(self, offset: int) -> None:
        """Run the batch, and note in the same transaction that it has run."""
        assert self.position is not None
        position = self.position._replace(offset=offset, selected=self._selected)
        batch, self._batch, self._batch_bytes, self._batch_arguments = self._batch, [], 0, 0
        noting = [
            [b"SELECT", b"%d" % self._databases],
            [b"SET", POSITION, position.encoded()],
            [b"SELECT", b"%d" % position.selected],
        ]
        while True:
            failed = await self._run([[b"MULTI"], *batch, *noting, [b"EXEC"]])
            unknown = [argv for argv, error in failed if argv in batch]
            for argv, error in failed:
                if not error.message.startswith(b"EXECABORT"):
                    self.left_out(f"the command {printable(argv[0])} is refused: {error}")
            if not any(error.message.startswith(b"EXECABORT") for _, error in failed):
                break
            batch = [argv for argv in batch if argv not in unknown]  # and nothing has run
        self.position = position

    async def _run(self, argvs: list[Argv]) -> list[tuple[Argv, CommandError]]:
        assert self._replies is not None
        return await self._replies.run(argvs)

    async def finish(self) -> None:
        await self._run([[b"SELECT", b"%d" % self._databases], [b"FLUSHDB"]])
        assert self._engine is not None
        await self._engine.turn.drain()
        self._engine.turn.stop()
        self._target.close()


async def _connected(options: ClientOptions) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    connecting = (
        asyncio.open_unix_connection(options.path)
        if options.path is not None
        else asyncio.open_connection(options.host, options.port, ssl=options.tls)
    )
    return await asyncio.wait_for(connecting, options.connect_timeout_s)
