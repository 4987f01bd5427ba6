"""A blocking client that returns replies as the bytes that came over the wire.

It knows where a RESP2 or RESP3 reply ends, and nothing else: no conversion, no commands. It shares
no code with holdfast.resp, because tests compare the two.
"""

import select
import socket
from types import TracebackType
from typing import Self

Argument = bytes | str | int | float

_LINES = b"+-:_,#("  # the whole reply is one line
_BLOBS = b"$=!"  # a length, then that many bytes
_ITEMS_PER_COUNT = {b"*": 1, b"~": 1, b">": 1, b"%": 2, b"|": 2}


def encode_command(*args: Argument) -> bytes:
    """A command as an array of bulk strings."""
    parts = [b"*%d\r\n" % len(args)]
    for arg in args:
        data = arg if isinstance(arg, bytes) else str(arg).encode()
        parts.append(b"$%d\r\n%s\r\n" % (len(data), data))
    return b"".join(parts)


class RawClient:
    """One connection. If a read takes longer than timeout_s, the test fails and shows the bytes so
    far."""

    def __init__(self, sock: socket.socket, timeout_s: float = 20.0, chunk: int = 65536) -> None:
        self._sock = sock
        self._sock.settimeout(timeout_s)
        self._chunk = chunk
        self._buffer = bytearray()
        self._at = 0  # bytes of the buffer that were returned already

    @classmethod
    def connect(cls, port: int, timeout_s: float = 20.0) -> Self:
        return cls(socket.create_connection(("127.0.0.1", port), timeout_s), timeout_s)

    @classmethod
    def connect_unix(cls, path: str, timeout_s: float = 20.0) -> Self:
        sock = socket.socket(socket.AF_UNIX)
        try:
            sock.connect(path)
        except OSError:
            sock.close()
            raise
        return cls(sock, timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._sock.close()

    def send(self, data: bytes) -> None:
        self._sock.sendall(data)

    def send_command(self, *args: Argument) -> None:
        self.send(encode_command(*args))

    def command(self, *args: Argument) -> bytes:
        """Send a command and return its reply, or a push message that came before it."""
        self.send_command(*args)
        return self.read_reply()

    def read_reply(self) -> bytes:
        """The bytes of exactly one reply or push message; an attribute comes with its reply."""
        parts: list[bytes] = []
        wanted = 1
        while wanted:
            line = self._read_line()
            parts.append(line)
            wanted -= 1
            kind = line[:1]
            if kind in _LINES:
                continue
            if kind not in _ITEMS_PER_COUNT and kind not in _BLOBS:
                raise AssertionError(f"not a reply: {line!r}")
            count = int(line[1:-2])
            if count < 0:  # RESP2's null bulk string and null array
                continue
            if kind in _BLOBS:
                parts.append(self.read_raw(count + 2))
            else:
                wanted += count * _ITEMS_PER_COUNT[kind]
                wanted += kind == b"|"  # an attribute is about the value after it
        return b"".join(parts)

    def read_replies(self, count: int) -> list[bytes]:
        return [self.read_reply() for _ in range(count)]

    def read_raw(self, count: int) -> bytes:
        """Exactly `count` bytes, without parsing them."""
        while len(self._buffer) - self._at < count:
            self._receive()
        return self._take(self._at + count)

    def read_until_closed(self) -> bytes:
        """All bytes until the server closes the connection."""
        try:
            while data := self._recv():
                self._buffer += data
        except ConnectionResetError:  # closed by us, or by the death of the server
            pass
        return self._take(len(self._buffer))

    def is_quiet(self) -> bool:
        """Whether nothing unread has arrived *so far*.

        This is meaningful only after something else, such as a reply on another connection, has
        proved that the server had the opportunity to send.
        """
        if self._at < len(self._buffer):
            return False
        return not select.select([self._sock], [], [], 0)[0]

    def _read_line(self) -> bytes:
        while (end := self._buffer.find(b"\r\n", self._at)) < 0:
            self._receive()
        return self._take(end + 2)

    def _take(self, end: int) -> bytes:
        data = bytes(self._buffer[self._at : end])
        self._at = end
        if end == len(self._buffer):
            self._buffer.clear()
            self._at = 0
        return data

    def _receive(self) -> None:
        data = self._recv()
        if not data:
            raise AssertionError(f"connection closed; unread: {self._unread()!r}")
        self._buffer += data

    def _recv(self) -> bytes:
        try:
            return self._sock.recv(self._chunk)
        except TimeoutError:
            raise AssertionError(
                f"no answer within {self._sock.gettimeout()} s; unread: {self._unread()!r}"
            ) from None

    def _unread(self) -> bytes:
        return bytes(self._buffer[self._at :])
