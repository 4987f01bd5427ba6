"""Two protocols joined in memory, as if by a socket. asyncio only; knows neither side."""

import asyncio
import socket
from typing import Any, Protocol


class NoSocket:
    """Stands for the socket of a transport: local, and without a descriptor."""

    family = socket.AF_UNIX

    def fileno(self) -> int:
        return -1


class Receiver(Protocol):
    """The methods of a protocol that are used here. A link is no `asyncio.Protocol`."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None: ...

    def data_received(self, data: bytes) -> None: ...

    def connection_lost(self, exc: Exception | None) -> None: ...


class DuplexEnd(asyncio.Transport):
    """One of two joined transports.

    Bytes that one side writes in a turn of the loop reach the other side in the next turn, in one
    piece. If the other side has paused reading, they reach it when it reads again.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._loop = loop
        self._parts: list[bytes] = []
        self._size = 0
        self.has_closed = False
        self.is_lost = False
        self._is_paused = False  # this side does not read
        self.peer: DuplexEnd | None = None
        self.protocol: Receiver | None = None

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self.has_closed or not data:
            return
        if not self._parts:
            self._loop.call_soon(self._pass_on)
        self._parts.append(bytes(data))
        self._size += len(data)

    def _pass_on(self) -> None:
        if self._is_held_up:
            return
        data, self._parts, self._size = b"".join(self._parts), [], 0
        peer = self.peer
        if data and peer is not None and peer.protocol is not None and not peer.is_lost:
            peer.protocol.data_received(data)

    @property
    def _is_held_up(self) -> bool:
        """Whether there are bytes that the other side will read later."""
        peer = self.peer
        return bool(self._parts) and not (peer is None or peer.is_reading() or peer.is_lost)

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        self._is_paused = False
        if self.peer is not None:
            self._loop.call_soon(self.peer.go_on)

    def is_reading(self) -> bool:
        return not self._is_paused

    def go_on(self) -> None:
        """The other side reads again."""
        self._pass_on()
        if self.has_closed:
            self.lose()

    def close(self) -> None:
        """Close. Written bytes still arrive."""
        if not self.has_closed:
            self.has_closed = True
            self._loop.call_soon(self.lose)

    def abort(self) -> None:
        self._parts, self._size = [], 0
        self.close()

    def lose(self) -> None:
        if self.is_lost or self._is_held_up:
            return
        self.is_lost = True
        if self.protocol is not None:
            self.protocol.connection_lost(None)
        if self.peer is not None:
            self.peer.has_closed = True
            self.peer.lose()

    def is_closing(self) -> bool:
        return self.has_closed

    def get_write_buffer_size(self) -> int:
        return self._size

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass  # the other side takes everything in the next turn

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return NoSocket() if name == "socket" else default


def join(one: Receiver, other: Receiver) -> DuplexEnd:
    """Connect two protocols. Returns the transport of the first one."""
    loop = asyncio.get_running_loop()
    a, b = DuplexEnd(loop), DuplexEnd(loop)
    a.peer, b.peer = b, a
    a.protocol, b.protocol = one, other
    other.connection_made(b)
    one.connection_made(a)
    return a
