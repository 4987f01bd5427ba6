"""Bytes become requests: bytes in, argvs out. No sockets, no replies, no commands.

There are two readers. `RequestParser._next` defines what a request is: it is incremental, and
correct wherever the bytes are split. `_read_plain` is several times as quick, but reads only whole
commands in the usual form. It stops at the first byte that it is not sure of.
"""

import re
from typing import TYPE_CHECKING, Final

from holdfast.errors import ProtocolError

if TYPE_CHECKING:
    from mypy_extensions import i64  # a machine word when compiled; only an annotation when not

_MAX_LINE = 64 * 1024
_UNAUTHENTICATED_MAX_ARGS = 10
_UNAUTHENTICATED_MAX_BULK_LEN = 16 * 1024

_COUNT = re.compile(rb"\*(0|-?[1-9][0-9]{0,18})\r.", re.DOTALL).match
_LENGTH = re.compile(rb"\$(0|[1-9][0-9]{0,18})\r.", re.DOTALL).match
_INT64_MIN = -(2**63)

# One inline argument: blanks, plain text, then at most one quoted part, which ends the argument.
# `*+` never gives back the characters it took, so an escaped quote cannot close the string.
# Compiled when first used: only people who type into telnet or netcat send such requests.
_INLINE_ARG = (
    rb"""(?s)[ \t\n\v\f\r]*+([^ \t\n\r"']*+)"""
    rb"""(?:"((?:\\.|[^"\\])*+)"(?=[ \t\n\v\f\r]|\Z)|'((?:\\'|[^'])*+)'(?=[ \t\n\v\f\r]|\Z))?"""
)
_INLINE_ESCAPE = rb"(?s)\\(?:x([0-9a-fA-F]{2})|(.))"
_INLINE_CONTROLS = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"a": b"\a"}


def _unescape(escape: re.Match[bytes]) -> bytes:
    code, letter = escape.groups()
    return bytes([int(code, 16)]) if code else _INLINE_CONTROLS.get(letter, letter)


def _split_inline(line: bytes) -> list[bytes]:
    """The arguments of an inline command, quoted and escaped as in redis-cli."""
    if not (b'"' in line or b"'" in line or b"\v" in line or b"\f" in line):
        return line.split()  # 20 times as quick; \v and \f are blanks only between arguments
    argument = re.compile(_INLINE_ARG).match
    args: list[bytes] = []
    pos = 0
    while pos < len(line):
        found = argument(line, pos)
        assert found is not None, "every part of the pattern may be empty"
        pos = found.end()
        if line[pos : pos + 1] in (b'"', b"'"):
            raise ProtocolError("Protocol error: unbalanced quotes in request")
        arg, double, single = found.groups()
        if double is not None:
            arg += re.sub(_INLINE_ESCAPE, _unescape, double)
        elif single is not None:
            arg += single.replace(b"\\'", b"'")
        elif not arg:
            break  # the rest is blanks
        args.append(arg)
    return args


_STAR: Final = ord("*")
_DOLLAR: Final = ord("$")
_ZERO: Final = ord("0")
_CR: Final = ord("\r")
_PLAIN_MAX_BYTES: Final = 256 * 1024
# The most commands that are read slowly at once: 16 KB may hold 8,000, which would take 20 ms.
MOST_AT_ONCE: Final = 256
_PLAIN_MAX_ARGS: Final = _PLAIN_MAX_BYTES // len(b"$0\r\n\r\n")


def _plain_number(data: bytes, pos: "i64") -> "tuple[i64, i64]":
    """The number at a position, and the start of the next line. -1 if the number is unusual.

    Raises IndexError if the data ends too early. It reads byte by byte, which in compiled code
    takes a third of the instructions that `split` takes.
    """
    number: i64 = data[pos] - _ZERO
    if not 0 <= number <= 9:
        return -1, pos
    pos += 1
    byte: i64 = data[pos]
    while byte != _CR:
        digit: i64 = byte - _ZERO
        if not 0 <= digit <= 9 or not 0 < number < _PLAIN_MAX_BYTES:
            return -1, pos
        number = 10 * number + digit
        pos += 1
        byte = data[pos]
    return number, pos + 2  # any byte may follow the CR, as in `_COUNT`


class RequestParser:
    """Splits a stream of bytes into the same commands as redis-server.

    For lines over 64 KB the result of redis-server depends on how many bytes one read returned.
    This parser then gives the result of bytes that arrive one at a time.
    """

    def __init__(self, authenticated: bool = True) -> None:
        self.max_bulk_len = 512 * 1024 * 1024
        self.max_args = 1024 * 1024
        self.max_buffered = 1024 * 1024 * 1024
        self.authenticated = authenticated
        # The reason why the stream ended. Each byte of the peer in it is one character of Latin-1.
        self.error: ProtocolError | None = None
        # The parser stopped before the end of its input. The caller runs the commands so far, sets
        # `authenticated`, and calls `feed(b"")`. There are two reasons to stop. Either the next
        # command is too long for a client that has not authenticated, or so many commands were
        # read slowly that other clients must have their turn.
        self.held = False
        self._buffer = bytearray()
        self._pos = 0  # the buffer is parsed up to here
        self._argv: list[bytes] = []
        self._argv_len = 0  # bytes in `_argv`
        self._missing_args = 0
        self._bulk_len = -1

    @property
    def buffered_bytes(self) -> int:
        """The bytes of a command that is not complete."""
        return len(self._buffer) + self._argv_len

    def feed(self, data: bytes) -> list[list[bytes]]:
        """The commands that these bytes complete. None is empty. Sets `error` and `held`."""
        if self.error is not None:
            return []
        commands: list[list[bytes]] = []
        if self._buffer or self._missing_args:
            self._buffer += data
            if not self._parse(commands, once=True):
                return commands
            data = bytes(self._buffer)
            self._buffer.clear()
        if (
            self.authenticated
            and len(data) <= _PLAIN_MAX_BYTES <= self.max_bulk_len
            and self.max_args >= _PLAIN_MAX_ARGS
        ):
            data = self._read_plain(data, commands)
        if data:
            self._buffer += data
            self._parse(commands)
        return commands

    def _read_plain(self, data: bytes, commands: list[list[bytes]]) -> bytes:
        """Move commands to the list; return the rest, from the first one that is incomplete or not
        in the usual form."""
        end: i64 = len(data)
        start: i64 = 0
        try:
            while start < end and data[start] == _STAR:
                count, pos = _plain_number(data, start + 1)
                argv: list[bytes] = []
                while count > 0 and data[pos] == _DOLLAR:
                    length, pos = _plain_number(data, pos + 1)
                    after = pos + length
                    if length < 0 or after + 2 > end:
                        break
                    argv.append(data[pos:after])
                    pos = after + 2  # any two bytes may stand here, as in `_next`
                    count -= 1
                if count or not argv:
                    break
                commands.append(argv)
                start = pos
        except IndexError:
            pass  # the rest of the command has not arrived yet
        return data[start:] if start else data

    def _parse(self, commands: list[list[bytes]], once: bool = False) -> bool:
        """Move all commands, or only one, from the buffer to the list. Returns whether the last one
        was complete."""
        self.held = False
        whole = False
        try:
            left = MOST_AT_ONCE
            while self._pos < len(self._buffer):
                if not left:
                    self.held = True
                    break
                left -= 1
                argv = self._next(may_hold=bool(commands))
                whole = argv is not None
                if argv:
                    commands.append(argv)
                if once or not whole:
                    break
            del self._buffer[: self._pos]
            self._pos = 0
            if len(self._buffer) + self._argv_len > self.max_buffered:
                raise ProtocolError("Protocol error: too big request")
        except ProtocolError as error:
            self.error = error.with_traceback(None)  # its frames would keep the data alive
            self._buffer.clear()
            self._argv.clear()
        return whole and self.error is None

    def _next(self, may_hold: bool) -> list[bytes] | None:
        """One command from the buffer. Empty if it is to be ignored, None if it is incomplete."""
        buffer = self._buffer
        if not self._missing_args:
            if buffer[self._pos] != ord("*"):
                end = self._line_end(b"\n", "too big inline request")
                if end < 0:
                    return None
                line = bytes(buffer[self._pos : end]).removesuffix(b"\r")
                self._pos = end + 1
                return _split_inline(line)
            header = _COUNT(buffer, self._pos)
            if header is None:
                self._check_header(b"*", "too big mbulk count string", "multibulk length")
                return None
            count = int(header[1])
            if not _INT64_MIN <= count <= self.max_args:
                raise ProtocolError("Protocol error: invalid multibulk length")
            if count > _UNAUTHENTICATED_MAX_ARGS and not self.authenticated:
                self._hold(may_hold, "multibulk length")
                return None
            self._pos = header.end()
            if count <= 0:
                return []
            self._missing_args = count
        with memoryview(buffer) as view:
            while self._missing_args:
                if self._bulk_len < 0:
                    header = _LENGTH(buffer, self._pos)
                    if header is None:
                        self._check_header(b"$", "too big bulk count string", "bulk length")
                        return None
                    length = int(header[1])
                    if length > self.max_bulk_len:
                        raise ProtocolError("Protocol error: invalid bulk length")
                    if length > _UNAUTHENTICATED_MAX_BULK_LEN and not self.authenticated:
                        self._hold(may_hold, "bulk length")
                        return None
                    self._bulk_len = length
                    self._pos = header.end()
                end = self._pos + self._bulk_len
                if len(buffer) < end + 2:
                    return None
                self._argv.append(bytes(view[self._pos : end]))
                self._argv_len += self._bulk_len
                self._pos = end + 2  # any two bytes may stand here: redis-server ignores them
                self._bulk_len = -1
                self._missing_args -= 1
        argv, self._argv, self._argv_len = self._argv, [], 0
        return argv

    def _line_end(self, newline: bytes, too_big: str) -> int:
        """The end of the line at the position, or -1."""
        limit = self._pos + _MAX_LINE + 1
        end = self._buffer.find(newline, self._pos, limit)
        # redis-server does not see the bytes that follow a NUL in its buffer.
        if end >= 0 and self._buffer.find(b"\0", self._pos, end) < 0:
            return end
        if len(self._buffer) >= limit:
            raise ProtocolError(f"Protocol error: {too_big}")
        return -1

    def _check_header(self, mark: bytes, too_big: str, what: str) -> None:
        """Raise the error of the header at the position, unless the header is incomplete."""
        end = self._line_end(b"\r", too_big)
        if end < 0 or end + 2 > len(self._buffer):
            return
        got = self._buffer[self._pos : self._pos + 1]
        if got != mark:
            raise ProtocolError(f"Protocol error: expected '$', got '{got.decode('latin-1')}'")
        raise ProtocolError(f"Protocol error: invalid {what}")

    def _hold(self, may_hold: bool, what: str) -> None:
        """Refuse a command that is too long for a client that has not authenticated. If earlier
        commands have not run yet, hold it instead: one of them may authenticate."""
        if not may_hold:
            raise ProtocolError(f"Protocol error: unauthenticated {what}")
        self.held = True
