"""The link to a primary: dials it, again and again, and hands over its snapshot and its commands.

A primary that is silent for `repl-timeout` is given up: its process may be stopped, its machine
gone, or the network may lose everything. While this server itself is busy (it loads a snapshot, or
runs commands), it reads nothing, so the silence of the primary does not count.
"""

import asyncio
import logging
import os
import socket
import ssl
from collections.abc import Awaitable
from contextlib import suppress
from time import perf_counter_ns
from typing import Protocol

from holdfast.errors import ConfigError, StorageError
from holdfast.psync.events import (
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
from holdfast.psync.follower import Follower
from holdfast.psync.handshake import NO_OFFSET, Introduction
from holdfast.server.config.tls import tls_to_peers
from holdfast.server.core.engine import Engine
from holdfast.server.replica.link_states import LinkState, after
from holdfast.server.replica.position import Position
from holdfast.server.replica.primary_session import PrimarySession
from holdfast.server.replica.snapshot_load import SnapshotLoad
from holdfast.server.sessions.out_of_band import Output

log = logging.getLogger(__name__)

PIECE_BYTES = 1 << 18
MOST_WAITING_BYTES = 8 << 20  # of commands that have not run; more is not read
LOOK_EVERY_S = 0.005
RETRY_S = 1.0
MOST_RETRY_S = 60.0  # between attempts that fail at the same place of the stream
STEADY_S = 1.0  # a link that was up for so long is dialed again without a pause
TICK_S = 1.0
FAILURES = (OSError, PsyncError, StorageError, ConfigError, ssl.SSLError, asyncio.TimeoutError)


class Owner(Protocol):
    """The role of replica, as the link needs it."""

    def introduction(self) -> Introduction: ...

    def accepted(self) -> None:
        """The primary has answered PSYNC."""
        ...

    def link_failed(self, reason: str) -> None: ...

    def state_changed(self) -> None: ...

    def continues(self, replication_id: bytes) -> Position: ...

    def new_load(self) -> SnapshotLoad: ...

    def replace_data(self, load: SnapshotLoad) -> Awaitable[Position]: ...


class Link:
    def __init__(
        self, engine: Engine, owner: Owner, host: str, port: int, down_since_s: float | None = None
    ) -> None:
        """`down_since_s`: when the link to another primary ended; None: there was none."""
        self._engine = engine
        self._owner = owner
        self.host = host
        self.port = port
        self.state = LinkState.WAITING
        self.session: PrimarySession | None = None
        self.load: SnapshotLoad | None = None
        self.down_since_s = down_since_s
        self.heard_s = engine.clock.monotonic_s()
        self._up_since_s = 0.0
        self._writer: asyncio.StreamWriter | None = None
        self._position: Position | None = None  # of the snapshot that comes
        self._needs_snapshot = False  # the commands from the position on cannot be taken
        self._listens_since_s: float | None = None
        self._has_room = asyncio.Event()
        self._reason = ""  # why the last attempt failed
        self._cut_because = ""  # why this server has ended the attempt, if it has
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        """For good."""
        if self._task is not None:
            self._task.cancel()
        self._hang_up()

    def cut(self, reason: str) -> None:
        """Begin again, from the position that the file has. The reason is for people."""
        self._cut_because = reason
        if self._writer is not None:
            _shut(self._writer)
            self._writer.transport.abort()
        if self.session is not None:
            self.session.closing = True  # commands that came and have not run will be sent again
        self._has_room.set()  # the link may wait for commands to run, and they will not

    # -- one attempt after the other ----------------------------------------------------------

    async def _run(self) -> None:
        pause_s, unreadable = RETRY_S, ""
        while True:
            self._cut_because = reason = ""
            unreadable_before, unreadable = unreadable, ""  # the place of the stream
            try:
                await self._follow()
                reason = "the primary has closed the connection"
            except FAILURES as error:
                reason = str(error) or type(error).__name__
                if isinstance(error, TooLargeError):
                    self._needs_snapshot = True
                    reason += ", so the next attempt begins with a snapshot"
                if isinstance(error, PsyncError) and self.session is not None:
                    unreadable = reason
            except Exception as error:  # a bug must not end replication for good
                log.error("the link to the primary failed", exc_info=error)
                reason = "an error in this server"
            self._hang_up()
            reason = self._cut_because or reason
            # If the primary sends the same again, each attempt may cost much, and leads nowhere.
            is_same = unreadable != "" and unreadable == unreadable_before
            pause_s = min(2 * pause_s, MOST_RETRY_S) if is_same else RETRY_S
            if reason != self._reason:
                log.warning("primary %s:%d is lost: %s", self.host, self.port, reason)
            self._reason = reason
            was_steady = self._was_steady and not unreadable
            self._enter(LinkState.WAITING)
            self._owner.link_failed(reason)
            if not was_steady:
                await asyncio.sleep(pause_s)

    def _hang_up(self) -> None:
        if self._writer is not None:
            self._writer.transport.abort()
            self._writer = None
        if self.session is not None:
            self._engine.disconnected(self.session)
            self.session = None
        if self.load is not None:
            self.load.stop()
            self.load = None

    @property
    def _was_steady(self) -> bool:
        """Whether the link was up, and not for a moment only."""
        up_s = self._engine.clock.monotonic_s() - self._up_since_s
        return self.state is LinkState.FOLLOWING and up_s >= STEADY_S

    def _enter(self, state: LinkState) -> None:
        now_s = self._engine.clock.monotonic_s()
        was_up = self.state is LinkState.FOLLOWING
        self.state = after(self.state, state)
        if state is LinkState.FOLLOWING:
            self._up_since_s, self.down_since_s, self._reason = now_s, None, ""
        elif was_up:
            self.down_since_s = now_s
        self._owner.state_changed()

    async def _follow(self) -> None:
        engine, config = self._engine, self._engine.config
        if engine.condition.failure is not None:
            raise StorageError("the database file cannot be written")
        while engine.keyspace.open_ops:  # noqa: ASYNC110 - rarely, and the position is not known
            await asyncio.sleep(LOOK_EVERY_S)
        self._enter(LinkState.DIALING)
        tls = None
        if config.tls_replication:
            tls = tls_to_peers(config)
            tls.check_hostname = False  # as Redis: the authority counts, not the name
        reader, self._writer = await asyncio.wait_for(
            asyncio.open_connection(self.host, self.port, ssl=tls, limit=PIECE_BYTES),
            config.repl_timeout,
        )
        self._enter(LinkState.GREETING)
        introduction = self._owner.introduction()
        if self._needs_snapshot:
            introduction = introduction._replace(replication_id=b"", offset=NO_OFFSET)
        # Only a snapshot can be the answer. So the process that loads it starts while the primary
        # writes it. After a failed attempt it starts when the primary announces the snapshot.
        if introduction.offset < 0 and not self._reason:
            await self._start_load()
        follower = Follower(introduction)
        ticks = asyncio.get_running_loop().create_task(self._tick())
        try:
            await self._talk(reader, follower)
        finally:
            ticks.cancel()

    async def _talk(self, reader: asyncio.StreamReader, follower: Follower) -> None:
        clock = self._engine.clock
        while self._writer is not None and not self._writer.is_closing():  # else `cut` was called
            self._writer.write(follower.to_send())
            self._listens_since_s = clock.monotonic_s()
            data = await reader.read(PIECE_BYTES)
            self._listens_since_s, self.heard_s = None, clock.monotonic_s()
            if not data:
                return
            self._engine.meter.input_bytes += len(data)
            self._engine.meter.repl_input_bytes += len(data)
            for event in follower.receive(data):
                await self._take(event)

    async def _take(self, event: Event) -> None:
        match event:
            case FullResync(replication_id, offset):
                self._position = Position(replication_id, offset, 0)
                self._owner.accepted()
                log.info("primary %s:%d sends a snapshot", self.host, self.port)
                self._enter(LinkState.LOADING)
                if self.load is None:
                    await self._start_load()
            case SnapshotBegins(nbytes):
                assert self._position is not None
                assert self.load is not None
                await self.load.begin(self._position, nbytes)
            case SnapshotPiece(data):
                assert self.load is not None
                await self.load.feed(data)
            case SnapshotEnds():
                assert self.load is not None
                await self.load.finish()
                self._be_online(await self._owner.replace_data(self.load))
                self._needs_snapshot = False
                self.load.stop()
                self.load = None
            case Continues(replication_id):
                self._owner.accepted()
                self._be_online(self._owner.continues(replication_id))
            case Commands():
                await self._hand_over(event)

    async def _start_load(self) -> None:
        self.load = self._owner.new_load()
        await self.load.start()

    def _be_online(self, position: Position) -> None:
        assert self._writer is not None
        address = f"{self.host}:{self.port}"
        local = self._writer.get_extra_info("sockname") or ("", 0)
        self.session = session = PrimarySession(
            self._engine, self, address, f"{local[0]}:{local[1]}", position, perf_counter_ns
        )
        session.on_room = self._has_room.set
        self._engine.connected(session)
        session.sign_in()
        log.info("follows %s:%d from offset %d on", self.host, self.port, position.offset)
        self._enter(LinkState.FOLLOWING)
        session.acknowledge()

    async def _hand_over(self, commands: Commands) -> None:
        session = self.session
        assert session is not None
        session.take(commands)
        while session.waiting_bytes > MOST_WAITING_BYTES and not session.closing:
            self._has_room.clear()
            await self._has_room.wait()

    async def _tick(self) -> None:
        """Once a second: say how far this server is, and notice a primary that is silent."""
        while True:
            await asyncio.sleep(TICK_S)
            now_s = self._engine.clock.monotonic_s()
            since_s, limit_s = self._listens_since_s, self._engine.config.repl_timeout
            if since_s is not None and now_s - since_s > limit_s:
                self.cut(f"it was silent for {limit_s} s")
            elif self.session is not None:
                self.session.acknowledge()
            elif self.state is LinkState.LOADING:
                self._write(b"\n")  # the primary must not take the silence for a failure

    # -- the sink of the session --------------------------------------------------------------

    @property
    def output_bytes(self) -> int:
        return 0 if self._writer is None else self._writer.transport.get_write_buffer_size()

    def deliver(self, replies: list[Output]) -> None:
        self._write(b"".join(replies))

    def _write(self, data: bytes) -> None:
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(data)

    def close(self) -> None:
        """CLIENT KILL: the link is dialed again."""
        self.cut("a client of this server has closed the link")


def _shut(writer: asyncio.StreamWriter) -> None:
    """Let the primary know at once that the link has ended, and not when the loop has time. (The
    sockets of uvloop have no `shutdown`.)"""
    fd = writer.get_extra_info("socket").fileno()
    with suppress(OSError), socket.socket(fileno=os.dup(fd)) as same:
        same.shutdown(socket.SHUT_RDWR)
