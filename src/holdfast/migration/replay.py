"""Runs append-only files: loads the base and runs the commands, on a temporary database file. Its
content is then read as that of any database file.

The clock stands still at the time of the base, and moves only where the files say so. So no key
expires that a later command still uses, as in a Redis that loads its files.
"""

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from holdfast import all_commands as all_commands
from holdfast.clock import Clock, ManualClock
from holdfast.commands.streams.stream_args import options_of_xadd
from holdfast.commands.table import TABLE
from holdfast.errors import CommandError, StorageError
from holdfast.migration.append_only import (
    AppendOnlyFiles,
    TimeMark,
    TruncatedError,
    begins_with_rdb,
    commands,
)
from holdfast.migration.database_target import DatabaseTarget, load_library
from holdfast.migration.errors import MigrationError, UnfitError
from holdfast.migration.rdb_files import RdbFile
from holdfast.migration.report import about_unknown
from holdfast.progress import BYTES, Progress
from holdfast.server.config.config import Config
from holdfast.server.core.engine import Engine
from holdfast.server.sessions.out_of_band import Output
from holdfast.server.sessions.session import Session
from holdfast.store.rdb.file_reader import printable
from holdfast.store.rdb.records import Aux, Entry, Library, Unknown

BATCH_COMMANDS = 500
BATCH_BYTES = 4 << 20
MEMORY = "256mb"
WORK = "replaying"
# Commands that such a file has, although they do not write by themselves.
BESIDE_WRITES = {"select", "multi", "exec", "script"}
SCRIPT_MS = 60_000  # a script that takes longer never ends
MOST_DIGITS = 12  # of a time in seconds
LOOK_S = 0.1  # how often to look whether a batch can go on
IDEMPOTENCE = {b"IDMP", b"IDMPAUTO"}


class Replay:
    """`left_out` is called with a sentence about each part that cannot be imported. It raises if
    nothing may be left out. `note` gets a sentence about a command that was cut off."""

    def __init__(
        self,
        files: AppendOnlyFiles,
        scratch: Path,
        databases: int,
        *,
        left_out: Callable[[str], None],
        note: Callable[[str], None],
        progress: Progress,
    ) -> None:
        self._files = files
        self._scratch = scratch
        self._databases = databases
        self._left_out = left_out
        self._note = note
        self._progress = progress
        self._done, self._total = 0, files.nbytes
        self._clock = ManualClock(1)

    def run(self) -> None:
        """Raises MigrationError and StorageError. Then the database file is complete."""
        target = DatabaseTarget(self._scratch, self._databases, self._clock)
        try:
            start = self._load_base(target)
            asyncio.run(self._run_commands(target, start))
        except BaseException:
            target.abandon()
            raise
        target.close()

    # -- the base -----------------------------------------------------------------------------

    def _load_base(self, target: DatabaseTarget) -> int:
        """Returns where the commands of the first file begin."""
        if not self._files.paths or not begins_with_rdb(self._files.paths[0]):
            return 0
        base = RdbFile(self._files.paths[0], self._progress, WORK)
        for record in base.records(may_have_more=True):
            try:
                if isinstance(record, Entry):
                    target.put(record, record.database)
                elif isinstance(record, Library):
                    load_library(record.code, target.store, self._clock)
                elif isinstance(record, Unknown):
                    raise UnfitError(about_unknown(record))
                elif isinstance(record, Aux) and record.name == b"ctime":
                    self._pass_time_to(seconds_of(record.value) * 1000)
            except UnfitError as error:
                self._left_out(str(error))
        target.finish()
        return base.end

    def _pass_time_to(self, unix_ms: int) -> None:
        now_ms = self._clock.now_ms()
        if unix_ms > now_ms:
            self._clock.advance((unix_ms - now_ms) / 1000)

    # -- the commands -------------------------------------------------------------------------

    async def _run_commands(self, target: DatabaseTarget, start: int) -> None:
        engine = engine_on(target, self._databases, self._clock)
        engine.turn.start(asyncio.get_running_loop())
        try:
            for path in self._files.paths:
                is_last = path == self._files.paths[-1]
                await self._run_file(path, start, Replies(engine), is_last)
                start = 0
            await engine.turn.drain()
        finally:
            engine.turn.stop()

    async def _run_file(self, path: Path, start: int, replies: "Replies", is_last: bool) -> None:
        """Each file begins with database 0, and no transaction goes on in the next."""
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(start)
            try:
                for batch in _batches(commands(file, path)):
                    if isinstance(batch, TimeMark):
                        self._pass_time_to(batch.unix_ms)
                        continue
                    batch = [argv for argv in batch if self._belongs(path, argv)]
                    for argv, error in await replies.run(batch) if batch else ():
                        self._refused(path, argv, error)
                    self._progress(WORK, self._done + file.tell(), self._total, BYTES)
            except TruncatedError as error:
                self._ends_inside(path, "a command", is_last)
                self._note(f"the last {size - error.at:,} bytes of {path} are left out")
        if replies.session.multi is not None:
            self._ends_inside(path, "a transaction", is_last)
        replies.leave()
        self._done += size

    def _belongs(self, path: Path, argv: list[bytes]) -> bool:
        if is_replayed(argv):
            return True
        self._left_out(f"the command {printable(argv[0])} of {path} belongs to no such file")
        return False

    def _ends_inside(self, path: Path, what: str, is_last: bool) -> None:
        """As Redis: the end of the last file may be missing, because Redis was killed."""
        sentence = f"{path} ends inside of {what}"
        if not is_last:
            raise MigrationError(f"{sentence}, and is not the last file")
        self._note(f"{sentence}, which is left out")

    def _refused(self, path: Path, argv: list[bytes], error: CommandError) -> None:
        self._left_out(f"the command {printable(argv[0])} of {path} is refused: {error}")


def engine_on(target: DatabaseTarget, databases: int, clock: Clock) -> Engine:
    """An engine that runs the commands of another server on the file. They have run there, so some
    forms are allowed that clients may not send, and no key has expired. No batch waits for the
    disk: the source has the commands until the file is complete."""
    config = Config(
        {
            "maxmemory": MEMORY,
            "databases": databases,
            "lua_hard_time_limit": SCRIPT_MS,
            "appendfsync": "everysec",
        }
    )
    engine = Engine(target.store, config, clock)
    engine.keyspace.obeys_primary = True
    return engine


def is_replayed(argv: list[bytes]) -> bool:
    """Whether Redis writes such a command to its files and replicas. Others could stop the replay:
    they ask for no reply, wait, or end the connection."""
    name = argv[0].decode("latin-1").lower()
    entry = TABLE.get(name)
    if entry is not None and entry.subcommands and len(argv) > 1:
        entry = entry.subcommands.get(argv[1].decode("latin-1").lower())
    if entry is None or name in BESIDE_WRITES:
        return True  # the engine refuses commands that it does not know
    return entry.is_write or "may_replicate" in entry.flags


class Replies:
    """A client that waits for the replies of a batch of commands."""

    output_bytes = 0

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._replies: list[Output] = []
        self._awaited = 0
        self._arrived: asyncio.Future[None] | None = None
        self.session = Session(engine, self, "local:0", "local:0")
        self.session.encode = _as_it_is
        engine.connected(self.session)

    async def run(self, argvs: list[list[bytes]]) -> list[tuple[list[bytes], CommandError]]:
        """Run commands; returns those that were refused, each with its error. Raises StorageError
        if the file could not be written: then none of the commands counts."""
        self._awaited = len(argvs)
        self._arrived = asyncio.get_running_loop().create_future()
        self._engine.receive(self.session, argvs)
        arrived = self._arrived
        while not (await asyncio.wait({arrived}, timeout=LOOK_S))[0]:
            if self.session.waiter is not None:
                raise MigrationError("a command waits for a key, which none in such a file does")
        arrived.result()
        replies, self._replies = self._replies, []
        if self._engine.condition.failure is not None:
            raise StorageError(self._engine.last_storage_error)
        while self._engine.keyspace.freeing.step():
            pass
        return [
            (argv, error)
            for argv, reply in zip(argvs, replies, strict=True)
            for error in (reply if isinstance(reply, list) else [reply])
            if isinstance(error, CommandError)
        ]

    def leave(self) -> None:
        self._engine.disconnected(self.session)

    def deliver(self, replies: list[Output]) -> None:
        self._replies += replies
        if len(self._replies) >= self._awaited and self._arrived is not None:
            self._arrived.set_result(None)
            self._arrived = None

    def close(self) -> None:
        if self._arrived is not None:
            self._arrived.set_exception(MigrationError("a command ended the replay"))


def _as_it_is(value: Output) -> Output:
    return value


def seconds_of(text: bytes) -> int:
    """0 if the text is no time. Then the file is damaged there, but no data is."""
    return int(text) if text.isdigit() and len(text) <= MOST_DIGITS else 0


def without_idempotence(argv: list[bytes]) -> list[bytes] | None:
    """The command without idempotent ids, which are forgotten soon; None if nothing is left of it.
    Redis 8.6 writes them beside the id that an entry got. An XADD without such an id is a message
    that came again."""
    name = argv[0].upper()
    if name in (b"XIDMPRECORD", b"XCFGSET"):
        return None
    if name != b"XADD" or not any(word.upper() in IDEMPOTENCE for word in argv[2:]):
        return argv
    try:
        options, id_at = options_of_xadd(argv)
    except IndexError:
        return argv  # it is refused
    for word in IDEMPOTENCE & options.keys():
        if argv[id_at] == b"*":
            return None
        place = options[word]
        return argv[: place.start] + argv[place.stop :]
    return argv


def _batches(items: Iterator[list[bytes] | TimeMark]) -> Iterator[list[list[bytes]] | TimeMark]:
    """Commands in groups. When the file is cut off, the commands before the cut come first."""
    batch: list[list[bytes]] = []
    nbytes = now_ms = 0
    try:
        for item in items:
            if isinstance(item, TimeMark):
                if item.unix_ms > now_ms:
                    if batch:
                        yield batch
                    batch, nbytes, now_ms = [], 0, item.unix_ms
                    yield item
                continue
            argv = without_idempotence(item)
            if argv is None:
                continue
            batch.append(argv)
            nbytes += sum(map(len, argv))
            if len(batch) >= BATCH_COMMANDS or nbytes >= BATCH_BYTES:
                yield batch
                batch, nbytes = [], 0
    except TruncatedError:
        if batch:
            yield batch
        raise
    if batch:
        yield batch
