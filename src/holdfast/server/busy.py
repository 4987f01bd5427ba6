"""The desk that stays open while a script runs for too long: others hear BUSY, and can kill it.

The loop is inside Lua then and cannot be entered a second time, so sockets are read and written
here, directly, a few times a second. When the script has ended, the loop finds them as if
nothing had been there. Why so: docs/decisions/0004-lua.md.
"""

import asyncio
import contextlib
import logging
import select
import signal
import socket
from collections.abc import Callable
from functools import partial
from time import perf_counter
from types import FrameType
from typing import TYPE_CHECKING, Any

from holdfast.server.connection import Connection
from holdfast.server.output import WireSession
from holdfast.server.turn import Batch

if TYPE_CHECKING:
    from holdfast.server.engine import Engine

log = logging.getLogger(__name__)

PERIOD_S = 0.01
READ_BYTES = 64 * 1024
ACCEPTS = 64  # at a time


def _itself(connection: Connection) -> Connection:
    return connection


class Guest:
    """The transport of a client that was accepted while the loop could not do it."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._unsent = b""
        self._closing = False

    def get_extra_info(self, name: str, default: object = None) -> Any:
        info: dict[str, Callable[[], object]] = {
            "socket": lambda: self.sock,
            "peername": self.sock.getpeername,
            "sockname": self.sock.getsockname,
        }
        return info[name]() if name in info else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def get_write_buffer_size(self) -> int:
        return len(self._unsent)

    def is_closing(self) -> bool:
        return self._closing

    def write(self, data: bytes) -> None:
        self._unsent += data
        with contextlib.suppress(OSError):
            self._unsent = self._unsent[self.sock.send(self._unsent) :]

    def writelines(self, parts: list[bytes]) -> None:
        self.write(b"".join(parts))

    def close(self) -> None:
        self._closing = True

    abort = close

    def hand_over(self, transport: asyncio.Transport) -> None:
        if self._unsent:
            transport.write(self._unsent)
        if self._closing:
            transport.close()


class BusyDesk:
    def __init__(
        self, engine: "Engine", sockets: list[socket.socket], stop: Callable[[], None]
    ) -> None:
        self._engine = engine
        self._listening = {sock.fileno(): sock for sock in sockets}
        self._stop = stop
        self._guests: list[Connection] = []
        self._handlers: dict[int, Any] = {}
        self._tasks: set[asyncio.Task[object]] = set()
        self._next_s = 0.0
        engine.scripts.on_slow = self.serve
        engine.scripts.on_slow_end = self.close

    # -- while the script runs ----------------------------------------------------------------

    def serve(self) -> None:
        """Answer who has asked something. Called again and again; does something now and then."""
        now_s = perf_counter()
        if now_s < self._next_s:
            return
        self._next_s = now_s + PERIOD_S
        if not self._handlers:
            self._take_signals()
            self._let_earlier_go()
        poll = select.poll()
        for fd in self._listening:
            poll.register(fd, select.POLLIN)
        clients = {connection.session.fd: connection for connection in self._clients()}
        self._empty_inbox(list(clients.values()))
        for fd in clients:
            poll.register(fd, select.POLLIN)
        for fd, events in poll.poll(0):
            if not events & select.POLLIN:
                continue
            if fd in self._listening:
                self._accept(self._listening[fd])
            else:
                self._read(clients[fd])

    def _let_earlier_go(self) -> None:
        """The turn in which the script began: others were answered in it, and wait."""
        turn, running = self._engine.turn, self._engine.scripts.running
        assert running is not None
        batch: Batch = []
        self._engine.pubsub.flush()
        running.savepoint.let_earlier_go(lambda: batch.extend(turn.end_early()))
        for session, out in batch:
            if isinstance(session.sink, Connection):
                self._send(session.sink, out)
            else:
                session.sink.deliver(out)

    def _clients(self) -> list[Connection]:
        """Those who can be answered out of turn: nothing is owed to them that must come first."""
        running = self._engine.scripts.running
        assert running is not None
        connections = [
            session.sink
            for session in self._engine.sessions.values()
            if session is not running.caller
            and isinstance(session.sink, Connection)
            and isinstance(session, WireSession)
            and not (session.held_bytes or session.is_waiting or session.backlog or session.closing)
        ]
        return [connection for connection in connections if connection.has_plain_socket]

    def _empty_inbox(self, clients: list[Connection]) -> None:
        """Who came in the turn in which the script began, and is not read yet, is answered first.
        Others stay, in order."""
        inbox = self._engine.inbox
        for _ in range(len(inbox)):
            reader, data = inbox.popleft()
            if isinstance(reader, Connection) and reader in clients:
                self._answer(reader, data)
            else:
                inbox.append((reader, data))

    def _answer(self, connection: Connection, data: bytes) -> None:
        connection.read(data)
        self._send(connection, self._engine.turn.take(connection.session))

    def _read(self, connection: Connection) -> None:
        session = connection.session
        sock = socket.socket(fileno=session.fd)
        try:
            data = sock.recv(READ_BYTES, socket.MSG_DONTWAIT)
            if not data:
                return  # that it left is for the loop to hear
        except OSError:
            return  # the loop will see it, too
        finally:
            sock.detach()
        self._answer(connection, data)

    def _send(self, connection: Connection, replies: list[bytes]) -> None:
        """Past the loop, if that is possible; the rest goes the usual way."""
        session = connection.session
        joined = b"".join(replies)
        if joined and connection.has_plain_socket and not session.closing:
            sock = socket.socket(fileno=session.fd)
            try:
                sent = sock.send(joined, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
                session.delivered(sent, 0)
                joined = joined[sent:]
            except OSError:
                pass
            finally:
                sock.detach()
        if joined:
            connection.deliver([joined])

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(ACCEPTS):
            try:
                sock, _ = listening.accept()
            except OSError:
                return
            sock.setblocking(False)
            connection = Connection(self._engine)
            connection.connection_made(Guest(sock))  # type: ignore[arg-type]
            self._guests.append(connection)

    # -- signals ------------------------------------------------------------------------------

    def _take_signals(self) -> None:
        """The loop's own handlers would run when the loop does: never."""
        for number in (signal.SIGTERM, signal.SIGINT):
            self._handlers[number] = signal.signal(number, self._signalled)

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        log.warning("stopping in the middle of a script: what it has written is taken back")
        self._engine.scripts.kill_for_shutdown()
        self._stop()

    # -- afterwards ---------------------------------------------------------------------------

    def close(self) -> None:
        """The script has ended: the loop takes over."""
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._handlers = {}
        loop = asyncio.get_running_loop()
        guests, self._guests = self._guests, []
        for connection in guests:
            transport: Any = connection.transport
            factory = partial(_itself, connection)
            task = loop.create_task(loop.connect_accepted_socket(factory, transport.sock))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
