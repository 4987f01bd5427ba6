"""One transport, from its first byte to its last. A connection that breaks gets a new one.

Only the link touches the transport. It knows replies and pushes, not requests.
"""

import asyncio
import ipaddress
import os
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeAlias, cast

from holdfast.client.protocol.reply_parser import ExactReader, ReplyParser
from holdfast.client.transport.deadlines import deadline
from holdfast.client.transport.options import ClientOptions
from holdfast.clock import Clock
from holdfast.errors import ProtocolError

Factory: TypeAlias = Callable[[], "Link"]
# Connects the protocol that the factory makes to a transport.
Dial: TypeAlias = Callable[[Factory], Awaitable[object]]
_WRITE_BUFFER_BYTES = 1 << 20
_READ_BYTES = 256 << 10


class Owner(Protocol):
    """The actor that a link belongs to."""

    def on_replies(self, replies: list[Any]) -> None:
        """Takes replies and pushes, in order. ProtocolError: a reply belongs to no request."""
        ...

    def on_writable(self) -> None: ...

    def on_lost(self, link: "Link", error: Exception) -> None:
        """The link has ended. Called at most once per link."""
        ...


class _Inbox(threading.local):
    """The buffer for reading, one for all links of a thread: bytes are copied out at once.

    Without it asyncio allocates 256 kB for each read. malloc gets and returns them by system calls,
    which take as long as the rest of a round trip.
    """

    def __init__(self) -> None:
        self.view = memoryview(bytearray(_READ_BYTES))


_inbox = _Inbox()


class Link(asyncio.BufferedProtocol):
    __slots__ = (
        "_ended",
        "_keepalive_s",
        "_owner",
        "_parser",
        "_transport",
        "is_writable",
        "reads",
    )

    def __init__(
        self,
        owner: Owner,
        keepalive_s: int | None,
        parser: ReplyParser | ExactReader | None = None,
    ) -> None:
        self._owner = owner
        self._keepalive_s = keepalive_s
        self._parser = parser or ReplyParser()
        self._transport: asyncio.Transport | None = None
        self._ended = False
        self.is_writable = False
        self.reads = 0

    # -- from the transport -------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclass of asyncio's.
        self._transport = transport = cast(asyncio.Transport, transport)
        transport.set_write_buffer_limits(high=_WRITE_BUFFER_BYTES)
        self.is_writable = True
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family != socket.AF_UNIX:
            _set_options(sock, self._keepalive_s)

    def get_buffer(self, sizehint: int) -> memoryview:
        return _inbox.view

    def buffer_updated(self, nbytes: int) -> None:
        self.data_received(bytes(_inbox.view[:nbytes]))

    def data_received(self, data: bytes) -> None:
        if self._ended:
            return
        self.reads += 1
        try:
            self._owner.on_replies(self._parser.feed(data))
        except ProtocolError as error:
            self._end(error)

    def pause_writing(self) -> None:
        self.is_writable = False

    def resume_writing(self) -> None:
        self.is_writable = True
        if not self._ended:
            self._owner.on_writable()

    def eof_received(self) -> None:
        self._end(ConnectionResetError("the server closed the connection"))

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(exc or ConnectionResetError("the connection was closed"))

    # -- from the owner -----------------------------------------------------------------------

    @property
    def unwritten_bytes(self) -> int:
        """Bytes that the kernel has not taken yet."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    @property
    def peer(self) -> object:
        """The address of the other end, in the form of the system."""
        return None if self._transport is None else self._transport.get_extra_info("peername")

    def write(self, data: bytes) -> None:
        if self._transport is not None and not self._ended:
            self._transport.write(data)

    def close(self) -> None:
        """Close on behalf of the owner, which is then not told of the end."""
        self._ended = True
        if self._transport is not None:
            self._transport.abort()

    def _end(self, error: Exception) -> None:
        if not self._ended:
            self.close()
            self._owner.on_lost(self, error)


def _set_options(sock: socket.socket, keepalive_s: int | None) -> None:
    """Set TCP_NODELAY and keep-alive: a vanished peer is noticed after twice that time."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if not keepalive_s:
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (  # not every system has all of them
        ("TCP_KEEPIDLE", keepalive_s),
        ("TCP_KEEPINTVL", max(1, keepalive_s // 3)),
        ("TCP_KEEPCNT", 3),
        ("TCP_USER_TIMEOUT", 2000 * keepalive_s),
    ):
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def dialer(options: ClientOptions, clock: Clock) -> Dial:
    """A function that connects to the server of the options."""

    async def dial(factory: Factory) -> object:
        loop = asyncio.get_running_loop()
        if options.path is not None:
            return await loop.create_unix_connection(factory, options.path)
        server_hostname = options.host if options.tls else None
        error: OSError = OSError(f"{options.host} has no address")
        hosts = await _resolve(options, clock)
        patience_s = options.connect_timeout_s if len(hosts) > 1 else None
        if patience_s is not None:
            patience_s /= len(hosts)  # a host that does not answer must leave time for the others
        for host in hosts:
            try:
                async with deadline(clock, patience_s, f"{host} did not answer"):
                    return await loop.create_connection(
                        factory,
                        host,
                        options.port,
                        ssl=options.tls,
                        server_hostname=server_hostname,
                    )
            except OSError as failure:
                error = failure
        raise error

    return dial


async def _resolve(options: ClientOptions, clock: Clock) -> list[str]:
    host = options.host
    try:
        ipaddress.ip_address(host)
    except ValueError:
        loop = asyncio.get_running_loop()
        resolving = loop.getaddrinfo(host, options.port, type=socket.SOCK_STREAM)
        async with deadline(clock, options.resolve_timeout_s, f"resolving {host} took too long"):
            try:
                found = await resolving
            except ValueError:  # a label is empty, too long for DNS, or contains a zero byte
                raise OSError(f"{host!r:.80} cannot be a host's name") from None
            return list(dict.fromkeys(str(info[4][0]) for info in found))
    return [host]


def reason_of(cause: Exception) -> str:
    """Why a server cannot be reached. Of a refused connection asyncio says "[Errno 111] Connect
    call failed", and the address once more."""
    if isinstance(cause, ssl.SSLError) or not isinstance(cause, OSError) or not cause.errno:
        return str(cause)
    is_of_resolver = cause.errno < 0
    return str(cause.strerror) if is_of_resolver else os.strerror(cause.errno)
