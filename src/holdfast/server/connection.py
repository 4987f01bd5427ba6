"""One client's socket: bytes to argvs on the way in, replies to bytes on the way out."""

import asyncio
import socket
from typing import TYPE_CHECKING, cast

from holdfast.errors import CommandError
from holdfast.resp import RequestParser
from holdfast.server.session import NEEDS_AUTH, Session

if TYPE_CHECKING:
    from holdfast.server.engine import Engine


MAX_OUTPUT_BYTES = 256 << 20


class Connection(asyncio.Protocol):
    """The sink of its session."""

    __slots__ = ("_engine", "_parser", "_transport", "_waiting_bytes", "session")

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine
        self._parser = RequestParser()
        self._waiting_bytes = 0

    # -- from the socket ----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclass of asyncio's.
        self._transport = transport = cast(asyncio.Transport, transport)
        engine = self._engine
        # A pipelining client may send all before it reads; asyncio's own flow control would
        # stop reading then and deadlock it. The hard cap on output is in `deliver`.
        transport.set_write_buffer_limits(high=1 << 30)
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            keepalive_s = engine.config.tcp_keepalive
            if keepalive_s:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, keepalive_s)
        session = self.session = Session(
            engine,
            self,
            _address(transport.get_extra_info("peername"), engine.config.unixsocket),
            _address(transport.get_extra_info("sockname"), engine.config.unixsocket),
        )
        engine.connected(session)
        self._parser.max_bulk_len = engine.config.proto_max_bulk_len
        self._parser.max_buffered = engine.config.client_query_buffer_limit
        if len(engine.sessions) > engine.config.maxclients:
            session.send(CommandError("ERR max number of clients reached"))
            session.closing = True

    def data_received(self, data: bytes) -> None:
        session = self.session
        if session.closing:
            return
        parser = self._parser
        parser.authenticated = not session.gate & NEEDS_AUTH
        argvs = parser.feed(data)
        if argvs:
            self._engine.receive(session, argvs)
            while parser.held:  # behind an AUTH
                parser.authenticated = not session.gate & NEEDS_AUTH
                self._engine.receive(session, parser.feed(b""))
        if session.is_waiting:
            # Commands behind one that waits are kept; a client cannot pile them up for ever.
            self._waiting_bytes += len(data)
            if self._waiting_bytes > parser.max_buffered:
                self.close()
        else:
            self._waiting_bytes = 0
        if parser.error is not None and not session.closing:
            session.send(CommandError(b"ERR " + str(parser.error).encode("latin-1")))
            self._engine.disconnected(session)

    def eof_received(self) -> None:
        # Not only when the connection is lost, a moment later: what is pushed until then
        # must not go to somebody who has left.
        self._engine.disconnected(self.session)

    def connection_lost(self, exc: Exception | None) -> None:
        self._engine.disconnected(self.session)

    # -- to the socket ------------------------------------------------------------------------

    @property
    def output_bytes(self) -> int:
        return self._transport.get_write_buffer_size()

    def deliver(self, replies: list[bytes]) -> None:
        transport = self._transport
        if transport.is_closing():
            return
        transport.write(replies[0] if len(replies) == 1 else b"".join(replies))
        if self.session.closing:
            transport.close()
        elif transport.get_write_buffer_size() > MAX_OUTPUT_BYTES:
            self.close()  # it reads too slowly for what it asks

    def close(self) -> None:
        """At once, whatever it still waits for."""
        self._engine.disconnected(self.session)
        self._transport.abort()


def _address(name: object, unixsocket: str) -> str:
    if isinstance(name, tuple):
        host, port = name[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return f"{unixsocket}:0"
