"""One client's socket: bytes to argvs on the way in, replies to bytes on the way out."""

import asyncio
import ipaddress
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, cast

from holdfast.errors import CommandError
from holdfast.resp import RequestParser, encode2
from holdfast.server.output import WireSession
from holdfast.server.session import NEEDS_AUTH

if TYPE_CHECKING:
    from holdfast.server.engine import Engine

JOIN_BYTES: Final = 1 << 20  # more is not worth a second copy
LINK_BULK_BYTES: Final = 512 << 20  # what links may say: the limits of clients, by default
LINK_INPUT_BYTES: Final = 1 << 30

TOO_MANY_CLIENTS = CommandError("ERR max number of clients reached")
PROTECTED = CommandError(
    "DENIED Redis is running in protected mode because protected mode is enabled and no password"
    " is set for the default user. In this mode connections are only accepted from the loopback"
    " interface. If you want to connect from external computers to Redis you may adopt one of the"
    " following solutions: 1) Just disable protected mode sending the command 'CONFIG SET"
    " protected-mode no' from the loopback interface by connecting to Redis from the same host the"
    " server is running, however MAKE SURE Redis is not publicly accessible from internet if you do"
    " so. Use CONFIG REWRITE to make this change permanent. 2) Alternatively you can just disable"
    " the protected mode by editing the Redis configuration file, and setting the protected mode"
    " option to 'no', and then restarting the server. 3) If you started the server manually just"
    " for testing, restart it with the '--protected-mode no' option. 4) Setup a an authentication"
    " password for the default user. NOTE: You only need to do one of the above things in order for"
    " the server to start accepting connections from the outside."
)


class Connection:
    """The sink of its session, and an `asyncio.Protocol` but for the name: a compiled class whose
    base is not compiled has slower attributes."""

    __slots__ = (
        "_engine",
        "_is_lost",
        "_parser",
        "_transport",
        "_waiting_bytes",
        "is_open",
        "session",
    )
    __deletable__ = ("session",)

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine
        self._transport: asyncio.Transport
        self._parser = RequestParser()
        self._waiting_bytes = 0
        self.is_open = False
        self._is_lost = False

    # -- from the socket ----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclass of asyncio's.
        transport = cast(asyncio.Transport, transport)
        if self.is_open:  # it was accepted at the busy desk
            guest: Any = self._transport
            guest.hand_over(transport)
            self._transport = transport
            return
        self._transport = transport
        self.is_open = True
        engine = self._engine
        # A pipelining client may send all before it reads; asyncio's own flow control would
        # stop reading then and deadlock it. `WireSession` bounds the output.
        transport.set_write_buffer_limits(high=1 << 30)
        unix_path = engine.config.unixsocket
        peer = transport.get_extra_info("peername")
        session = self.session = WireSession(
            engine,
            self,
            _address(peer, unix_path),
            _address(transport.get_extra_info("sockname"), unix_path),
        )
        session.is_local = not isinstance(peer, tuple) or _is_loopback(peer[0])
        sock = transport.get_extra_info("socket")
        session.fd = sock.fileno()
        if sock.family == socket.AF_UNIX:
            session.flags.add("U")
        else:
            with suppress(OSError):  # as Redis: they are no reason to refuse anybody
                _set_tcp_options(sock, engine.config.tcp_keepalive)
        refusal = self._refusal()
        if refusal is not None:
            engine.meter.rejected_connections += 1
            session.closing = True
            transport.write(encode2(refusal))
            transport.close()
            return
        engine.meter.connections += 1
        engine.connected(session)

    def _refusal(self) -> CommandError | None:
        config = self._engine.config
        if len(self._engine.sessions) >= config.maxclients:
            return TOO_MANY_CLIENTS
        is_open = self._engine.users.default.nopass
        if config.protected_mode and is_open and not self.session.is_local:
            return PROTECTED
        return None

    def data_received(self, data: bytes) -> None:
        """Read at the end of the turn, with what others have sent. A tenth is gained by all: the
        interpreter stays in the processor's caches while the kernel is not called in between."""
        inbox = self._engine.inbox
        if not inbox:
            self._engine.turn.schedule()
        inbox.append((self, data))

    def read(self, data: bytes) -> None:
        if self._is_lost:
            return
        session = self.session
        if session.closing:
            return
        engine = self._engine
        session.last_active_s = engine.now_s
        engine.meter.input_bytes += len(data)
        parser = self._parser
        parser.authenticated = not session.gate & NEEDS_AUTH
        argvs = parser.feed(data)
        if argvs:
            engine.receive(session, argvs)
            while parser.held and not session.closing:  # behind an AUTH
                parser.authenticated = not session.gate & NEEDS_AUTH
                engine.receive(session, parser.feed(b""))
        if session.waiter is not None or session.parked:
            # Commands behind one that waits are kept; a client cannot pile them up for ever.
            self._waiting_bytes += len(data)
            if self._waiting_bytes > parser.max_buffered:
                self._waiting_bytes = self.input_bytes  # some have been answered meanwhile
                if self._waiting_bytes > parser.max_buffered:
                    session.abort()
        else:
            self._waiting_bytes = 0
        if parser.error is not None:
            session.last_words = CommandError(b"ERR " + str(parser.error).encode("latin-1"))
            session.say_last_words()

    def pause_writing(self) -> None:
        """Never before `WireSession` cuts the client off."""

    def resume_writing(self) -> None: ...

    def eof_received(self) -> bool:
        """The client has said all. What it has asked is still answered, unless it waits: what
        is pushed from now on must not go to somebody who has left."""
        self._engine.read_inbox()
        session = self.session
        owes_replies = session.held_bytes > 0 and not session.is_waiting
        session.closing = True
        if not owes_replies:
            self._engine.disconnected(session, "it has closed the connection")
        return owes_replies  # False lets asyncio close; else `deliver` does

    def connection_lost(self, exc: Exception | None) -> None:
        if self._is_lost:
            return
        self._engine.read_inbox()
        self._engine.disconnected(self.session, str(exc or "it has closed the connection"))
        # Whoever still has something for the session finds the way here, but not back: the two
        # would keep each other in memory.
        self._is_lost = True
        del self.session

    @property
    def input_bytes(self) -> int:
        """Of commands that wait behind another, as they would be sent, about."""
        return sum([4 + sum([6 + len(arg) for arg in argv]) for argv in self.session.backlog])

    def limit_input(self, *, is_link: bool) -> None:
        if is_link:  # what it says is short, and not to be cut off
            self._parser.max_bulk_len, self._parser.max_buffered = LINK_BULK_BYTES, LINK_INPUT_BYTES
            return
        config = self._engine.config
        self._parser.max_bulk_len = config.proto_max_bulk_len
        self._parser.max_buffered = config.client_query_buffer_limit

    @property
    def transport(self) -> asyncio.Transport:
        return self._transport

    @property
    def has_plain_socket(self) -> bool:
        """Whether bytes on the socket are bytes of the protocol, and none wait to be sent."""
        transport = self._transport
        return not (
            transport.is_closing()
            or transport.get_write_buffer_size()
            or transport.get_extra_info("sslcontext") is not None
        )

    # -- to the socket ------------------------------------------------------------------------

    @property
    def output_bytes(self) -> int:
        return self._transport.get_write_buffer_size()

    def deliver(self, replies: list[bytes]) -> None:
        if self._is_lost:
            return
        transport, session = self._transport, self.session
        if session.closing and transport.is_closing():
            return
        if len(replies) == 1:
            nbytes = len(replies[0])
            transport.write(replies[0])
        else:
            nbytes = 0
            for reply in replies:
                nbytes += len(reply)
            if nbytes > JOIN_BYTES:
                transport.writelines(replies)
            else:
                transport.write(b"".join(replies))
        session.delivered(nbytes)
        if session.closing and not session.out:
            transport.close()

    def finish(self) -> None:
        """Send what there is, then close."""
        self._transport.close()

    def close(self) -> None:
        self._transport.abort()


def accept(engine: "Engine") -> asyncio.Protocol:
    return cast(asyncio.Protocol, Connection(engine))


def _set_tcp_options(sock: socket.socket, keepalive_s: int) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if keepalive_s:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, keepalive_s)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, max(keepalive_s // 3, 1))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)


def _is_loopback(host: str) -> bool:
    return ipaddress.ip_address(host.partition("%")[0]).is_loopback


def _address(name: object, unixsocket: str) -> str:
    if isinstance(name, tuple):
        host, port = name[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return f"{unixsocket}:0"
