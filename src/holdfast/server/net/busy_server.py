"""Answers clients while a script runs for too long: they get the error BUSY, and can kill it.

The loop is inside of Lua then and cannot be entered a second time. So sockets are read and written
here, directly, a few times a second. When the script has ended, the loop continues with the sockets
as if nothing had happened. The reasons are in docs/decisions/0004-lua.md. Clients that connected
with TLS before have to wait, because only the loop has their keys.
"""

import asyncio
import contextlib
import select
import socket
import ssl
from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any, cast

from holdfast.server.core.engine import Engine
from holdfast.server.core.turn import Batch
from holdfast.server.net.wire_connection import Connection
from holdfast.server.sessions.bounded_session import WireSession

PERIOD_S = 0.01
READ_BYTES = 64 * 1024
ACCEPTS = 64  # at a time


def _itself(connection: Connection) -> asyncio.Protocol:
    return cast(asyncio.Protocol, connection)


class Guest:
    """The transport of a client that was accepted here, because the loop could not do it."""

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

    def pause_reading(self) -> None: ...  # `BusyServer` asks the connection whether it `is_paused`

    def resume_reading(self) -> None: ...

    def close(self) -> None:
        self._closing = True

    abort = close

    def hand_over(self, transport: asyncio.Transport) -> None:
        if self._unsent:
            transport.write(self._unsent)
        if self._closing:
            transport.close()


class TlsGuest(Guest):
    """A client that speaks TLS. Its connection cannot be handed over to the loop, so it is closed
    when the script has ended. It exists so that a script can be killed where clients need TLS."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext) -> None:
        super().__init__(sock)
        self._context = context
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._has_shaken_hands = False

    def get_extra_info(self, name: str, default: object = None) -> Any:
        return self._context if name == "sslcontext" else super().get_extra_info(name, default)

    def decrypted(self, data: bytes) -> bytes:
        """The decrypted bytes of the client, after these encrypted bytes have come."""
        self._incoming.write(data)
        said = b""
        try:
            if not self._has_shaken_hands:
                self._tls.do_handshake()
                self._has_shaken_hands = True
            while part := self._tls.read(READ_BYTES):
                said += part
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError:
            self.close()
        super().write(self._outgoing.read())
        return said

    def write(self, data: bytes) -> None:
        with contextlib.suppress(ssl.SSLError):  # nothing can be sent before the handshake
            self._tls.write(data)
        super().write(self._outgoing.read())


class BusyServer:
    def __init__(
        self,
        engine: Engine,
        sockets: list[socket.socket],
        tls_sockets: list[socket.socket],
    ) -> None:
        self._engine = engine
        self._listening = {sock.fileno(): (sock, False) for sock in sockets}
        self._listening |= {sock.fileno(): (sock, True) for sock in tls_sockets}
        self._guests: list[Connection] = []
        self._is_open = False
        self._tasks: set[asyncio.Task[object]] = set()
        self._next_s = 0.0
        engine.scripts.on_slow = self.serve
        engine.scripts.on_slow_end = self.close

    # -- while the script runs ----------------------------------------------------------------

    def serve(self) -> None:
        """Answer clients that have sent something. The script calls this very often; the work is
        done once in `PERIOD_S`."""
        now_s = perf_counter()
        if now_s < self._next_s:
            return
        self._next_s = now_s + PERIOD_S
        if not self._is_open:
            self._is_open = True
            self._send_earlier_replies()
        poll = select.poll()
        for fd in self._listening:
            poll.register(fd, select.POLLIN)
        clients = {connection.session.fd: connection for connection in self._clients()}
        self._answer_runnable(clients)
        for fd, connection in clients.items():
            if not connection.is_paused:
                poll.register(fd, select.POLLIN)
        for fd, events in poll.poll(0):
            if not events & select.POLLIN:
                continue
            if fd in self._listening:
                self._accept(*self._listening[fd])
            else:
                self._read(clients[fd])
        self._answer_runnable(clients)

    def _send_earlier_replies(self) -> None:
        """Send the replies of other clients of the turn in which the script began."""
        turn, running = self._engine.turn, self._engine.scripts.running
        assert running is not None
        batch: Batch = []
        self._engine.pubsub.flush()
        running.savepoint.let_earlier_go(lambda: batch.extend(turn.end_early()))
        for session, out in batch:
            if isinstance(session.sink, Connection):
                self._send(session.sink, out)
            else:
                session.deliver(out)

    def _clients(self) -> list[Connection]:
        """Clients that can be answered out of turn: no earlier reply of theirs is still to come."""
        running = self._engine.scripts.running
        assert running is not None
        connections = [
            session.sink
            for session in self._engine.sessions.values()
            if session is not running.caller
            and isinstance(session.sink, Connection)
            and isinstance(session, WireSession)
            and not (session.held_bytes or session.is_waiting or session.closing)
        ]
        return [
            connection
            for connection in connections
            if connection.has_plain_socket or isinstance(connection.transport, TlsGuest)
        ]

    def _answer_runnable(self, clients: dict[int, Connection]) -> None:
        """Run the share of each client whose commands came before the script began, or just now.
        Sessions that cannot be answered stay, in order."""
        runnable = self._engine.runnable
        for _ in range(len(runnable)):
            session = runnable.popleft()
            connection = clients.get(session.fd)
            if connection is None or connection.session is not session:
                runnable.append(session)
                continue
            session.is_runnable = False
            if session.proceed():
                self._engine.make_runnable(session)
            self._send(connection, self._engine.turn.take(session))

    def _read(self, connection: Connection) -> None:
        session = connection.session
        sock = socket.socket(fileno=session.fd)
        try:
            data = sock.recv(READ_BYTES, socket.MSG_DONTWAIT)
            if not data:
                return  # the loop handles the end of the connection
        except OSError:
            return  # the loop will get the same error
        finally:
            sock.detach()
        transport: Any = connection.transport
        if isinstance(transport, TlsGuest):
            data = transport.decrypted(data)
        if data:
            connection.data_received(data)

    def _send(self, connection: Connection, replies: list[bytes]) -> None:
        """Send to the socket directly, if that is possible. The rest takes the usual way."""
        session = connection.session
        joined = b"".join(replies)
        if joined and connection.has_plain_socket and not session.closing:
            sock = socket.socket(fileno=session.fd)
            try:
                sent = sock.send(joined, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
                self._engine.meter.output_bytes += sent
                session.delivered(sent)
                joined = joined[sent:]
            except OSError:
                pass
            finally:
                sock.detach()
        if joined:
            connection.deliver([joined])

    def _accept(self, listening: socket.socket, with_tls: bool) -> None:
        for _ in range(ACCEPTS):
            try:
                sock, _ = listening.accept()
            except OSError:
                return
            sock.setblocking(False)
            guest = Guest(sock)
            if with_tls:
                assert self._engine.tls is not None
                guest = TlsGuest(sock, self._engine.tls)
            connection = Connection(self._engine)
            # A guest has those methods of a transport that a connection uses.
            connection.connection_made(cast(asyncio.BaseTransport, guest))
            self._guests.append(connection)

    # -- afterwards ---------------------------------------------------------------------------

    def close(self) -> None:
        """Hand over to the loop, because the script has ended."""
        self._is_open = False
        loop = asyncio.get_running_loop()
        guests, self._guests = self._guests, []
        for connection in guests:
            transport: Any = connection.transport
            if isinstance(transport, TlsGuest):
                connection.connection_lost(None)
                transport.sock.close()
                continue
            factory = partial(_itself, connection)
            task = loop.create_task(loop.connect_accepted_socket(factory, transport.sock))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
