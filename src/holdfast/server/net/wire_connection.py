"""One client's socket: bytes to argvs on the way in, replies to bytes on the way out."""

import asyncio
import ipaddress
import socket
from collections import deque
from contextlib import suppress
from typing import Any, Final, cast

from holdfast.errors import CommandError
from holdfast.resp import RequestParser, encode2
from holdfast.server.core.engine import Engine
from holdfast.server.sessions.bounded_session import Wire, WireSession
from holdfast.server.sessions.session import IS_LOADING, LINK, NEEDS_AUTH, REPLIES_OFF

JOIN_BYTES: Final = 1 << 20  # larger output is not joined, because that would copy it
LINK_BULK_BYTES: Final = 512 << 20  # the limits of links are the default limits of clients
LINK_INPUT_BYTES: Final = 1 << 30
UNAUTHENTICATED_INPUT_BYTES: Final = 1 << 20  # as redis-server
CLOSED_BY_CLIENT: Final = "it has closed the connection"
# The requests of a client are short if no more commands and bytes than these come at once.
SHORT_COMMANDS: Final = 2
SHORT_BYTES: Final = 1024
SHARE_BYTES: Final = 16 * 1024  # of a client, before the next one; redis-server reads as many
AHEAD_BYTES: Final = 128 * 1024  # if more bytes have come and not run, the socket is not read

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


class Connection(Wire):
    """The sink of its session. It has all methods of an `asyncio.Protocol`, but is no subclass: in
    compiled code, attributes are slower if the base class is not compiled."""

    __slots__ = (
        "_engine",
        "_has_ended",
        "_is_forgotten",
        "_is_lost",
        "_is_watched",
        "_later",
        "_parser",
        "_transport",
        "_unread",
        "_unread_at",
        "_unread_bytes",
        "_why_lost",
        "is_open",
        "is_paused",
        "session",
    )
    __deletable__ = ("session",)

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._transport: asyncio.Transport
        self._parser = RequestParser()
        # The bytes that the client has sent and the parser has not got: the first piece, of which
        # the parser has got the bytes before `_unread_at`, and the other pieces.
        self._unread = b""
        self._unread_at = 0
        self._later: deque[bytes] = deque()
        self._unread_bytes = 0
        self.is_open = False
        self.is_paused = False  # the socket is not read
        self._has_ended = False  # the client sends no more bytes
        self._is_lost = False  # the client can receive no more bytes
        self._why_lost = ""
        self._is_forgotten = False  # the session is disconnected
        self._is_watched = False  # by `ShortRequests`

    # -- from the socket ----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclass of asyncio's.
        transport = cast(asyncio.Transport, transport)
        if self.is_open:  # accepted while a script ran: see busy_server.py
            guest: Any = self._transport
            guest.hand_over(transport)
            self._transport = transport
            if self.is_paused and not transport.is_closing():
                transport.pause_reading()
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
            with suppress(OSError):  # as in Redis, an error here is no reason to refuse a client
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
        """Keep the bytes. Commands run at the end of the turn, together with those of other
        clients. This makes all of them a tenth faster: no call of the kernel comes between them, so
        the interpreter stays in the caches of the processor."""
        session = self.session
        self._unread_bytes += len(data)
        if self._unread:
            self._later.append(data)
        else:
            self._unread = data
        if session.waiter is not None or session.parked:
            # The socket is still read: otherwise the server would not notice that the client
            # leaves. But the client must not send any number of commands.
            if session.load_state == IS_LOADING:
                if self._unread_bytes > AHEAD_BYTES:
                    self.pause_reading()  # the command runs soon, even if the client leaves
            elif self._unread_bytes > self._parser.max_buffered:
                session.abort()
            return
        if not session.is_runnable:
            if session.is_short and self._engine.has_long_turns and len(data) <= SHORT_BYTES:
                self._engine.make_runnable_first(session)
            else:
                self._engine.make_runnable(session)
        if self._unread_bytes > AHEAD_BYTES:
            self.pause_reading()

    def proceed(self, session: WireSession) -> bool:
        """Run the client's share of commands. Returns whether more of them could run."""
        is_more = not session.closing and self._run_share(session)
        if session.closing and self._is_lost:
            self._forget(session)
        return is_more

    def _run_share(self, session: WireSession) -> bool:
        parser = self._parser
        if session.backlog:
            self._engine.work_off(session)
        elif parser.held or self._unread:
            self._parse(session)
        if session.closing:
            return False
        if session.waiter is not None or session.parked:
            if session.load_state == IS_LOADING:
                return False
            if self._has_ended:
                self._leave()
            else:
                self.resume_reading()
            return False
        if session.backlog:
            return True
        if parser.error is not None:
            session.send(CommandError(b"ERR " + str(parser.error).encode("latin-1")))
            session.closing = True
            return False
        if parser.held or self._unread:
            return True
        self.resume_reading()
        if self._has_ended:
            self._leave()
        return False

    def _parse(self, session: WireSession) -> None:
        engine, parser = self._engine, self._parser
        session.last_active_s = engine.now_s
        parser.authenticated = not session.modes & NEEDS_AUTH
        argvs = parser.feed(b"" if parser.held else self._share())
        if argvs:
            is_short = session.is_short = len(argvs) <= SHORT_COMMANDS
            if is_short != self._is_watched:
                self._watch(is_short)
            engine.receive(session, argvs)
        elif session.kind == LINK:
            engine.primary.heard(session)

    def _watch(self, is_short: bool) -> None:
        """Let short requests of this client end the turns of others early, while those are long."""
        engine = self._engine
        if not is_short:
            self._is_watched = False
            engine.short_requests.forget(self.session.fd)
        elif engine.has_long_turns and not self._is_lost:
            self._is_watched = True
            engine.short_requests.watch(self.session.fd)

    def _share(self) -> bytes:
        """The next bytes for the parser."""
        data, at = self._unread, self._unread_at
        if len(data) - at <= SHARE_BYTES:
            self._unread = self._later.popleft() if self._later else b""
            self._unread_at = 0
            if at:
                data = data[at:]
        else:
            self._unread_at = at + SHARE_BYTES
            data = data[at : at + SHARE_BYTES]
        self._unread_bytes -= len(data)
        self._engine.meter.input_bytes += len(data)
        return data

    def _leave(self) -> None:
        """End the session of a client that has left. Replies that it may still read are sent first.
        If it waits for an element, it gets none: an element that is pushed from now on must not go
        to a client that has left."""
        session = self.session
        session.closing = True
        if not self._is_lost and (session.is_waiting or not session.held_bytes):
            self._engine.disconnected(session, CLOSED_BY_CLIENT)
            self._transport.close()
        # Else `deliver` closes, or `proceed` forgets it.

    def _forget(self, session: WireSession) -> None:
        if not self._is_forgotten:
            self._is_forgotten = True
            self._engine.disconnected(session, self._why_lost)
            # Other objects may still refer to the session, and the session refers to this
            # connection. Without this line the two would keep each other in memory.
            del self.session

    def pause_reading(self) -> None:
        if not (self.is_paused or self._transport.is_closing()):
            self.is_paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self.is_paused and not self._transport.is_closing():
            self.is_paused = False
            self._transport.resume_reading()

    def pause_writing(self) -> None:
        """Never called: `WireSession` cuts the client off before."""

    def resume_writing(self) -> None: ...

    def eof_received(self) -> bool:
        """The client sends no more bytes. Its commands still get replies, unless it waits."""
        session = self.session
        self._has_ended = True
        will_run = session.is_runnable or session.load_state == IS_LOADING
        if will_run or (session.held_bytes and not session.is_waiting):
            session.closing = session.closing or not will_run
            return True  # the transport stays; `_leave` or `deliver` closes it
        session.closing = True
        self._engine.disconnected(session, CLOSED_BY_CLIENT)
        return False  # asyncio closes

    def connection_lost(self, exc: Exception | None) -> None:
        if self._is_lost:
            return
        self._is_lost = self._has_ended = True
        if self._is_watched:
            self._watch(False)
        self._why_lost = str(exc or CLOSED_BY_CLIENT)
        session = self.session
        will_run = session.is_runnable or session.load_state == IS_LOADING
        if will_run and not session.closing:
            session.reply_mode = REPLIES_OFF  # its commands still run, in their turn
        else:
            self._forget(session)

    @property
    def input_bytes(self) -> int:
        """The approximate size of the commands that have not run, as the client sent them."""
        backlog = self.session.backlog
        parsed_bytes = sum([4 + sum([6 + len(arg) for arg in argv]) for argv in backlog])
        return parsed_bytes + self._unread_bytes + self._parser.buffered_bytes

    def limit_input(self, session: WireSession) -> None:
        parser = self._parser
        if session.kind == LINK:  # messages of links are short and must not be refused
            parser.max_bulk_len, parser.max_buffered = LINK_BULK_BYTES, LINK_INPUT_BYTES
            return
        config = self._engine.config
        parser.max_bulk_len = config.proto_max_bulk_len
        parser.max_buffered = config.client_query_buffer_limit
        if session.modes & NEEDS_AUTH:  # for all commands together; the parser bounds each of them
            parser.max_buffered = min(parser.max_buffered, UNAUTHENTICATED_INPUT_BYTES)

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
        return 0 if self._is_lost else self._transport.get_write_buffer_size()

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
        self._engine.meter.output_bytes += nbytes
        session.delivered(nbytes)
        if session.closing and not session.out:
            transport.close()

    def finish(self) -> None:
        """Send the remaining output, then close."""
        self._transport.close()

    def close(self) -> None:
        self._transport.abort()


def accept(engine: Engine) -> asyncio.Protocol:
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
