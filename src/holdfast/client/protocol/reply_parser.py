"""Replies from bytes: bytes in, Python values out. No sockets, no futures, no commands.

There are two readers. `ExactReader` defines what a reply is: incremental, right at every byte, and
bounded. A reply that is too large is read and dropped, and an error takes its place, so that others
keep theirs. hiredis is several times as fast, but has five defects: it reserves memory for as many
elements as a header announces, returns an attribute as a reply, keeps the last of two equal keys of
a map, and knows neither bulk errors nor limits. So hiredis gets the bytes where none of these
matters, and `ExactReader` gets the rest. A reply that is too large is noticed by its header, or
when a line is too long by one read. hiredis is less strict in one harmless way: it does not check
the two bytes after a bulk string.

| on the wire | here |
|---|---|
| `+` `$` `=` | bytes |
| `:` `(` | int |
| `,` `#` | float, bool |
| `_` `$-1` `*-1` | None |
| `-` `!` | ServerError |
| `*` `~` | list |
| `%` | dict; a list or dict as key becomes a tuple |
| `>` | Push |
| `|` | skipped: an attribute of the next value, and no value itself |
"""

import re
from typing import Any, Final

import hiredis

from holdfast.client.errors import ReplyTooLargeError, ServerError
from holdfast.errors import ProtocolError

MAX_BULK_BYTES = 512 << 20
MAX_ELEMENTS = 1 << 20
MAX_LINE_BYTES = 64 << 10
MAX_DEPTH = 128

# Bytes of an unfinished reply that hiredis may hold before `ExactReader` takes over.
_MAX_HELD_BYTES = MAX_LINE_BYTES
# No real reply announces that much, so it is not read to its end.
_ABSURD = 1 << 32

Push = hiredis.PushNotification
_MISSING: Final = object()
_PROBE = b":1\r\n"
_BULK = re.compile(rb"\$([0-9]{1,8})\r\n").match
_INTS = {b"%d" % n: n for n in range(-1, 1024)}


class ReplyParser:
    """`feed` bytes, get the replies and pushes they complete. An error is final."""

    __slots__ = ("_count", "_exact", "_held", "_max_bytes", "_max_elements", "_reader")

    def __init__(self, max_elements: int = MAX_ELEMENTS, max_bytes: int = MAX_BULK_BYTES) -> None:
        self._max_elements = max_elements
        self._max_bytes = max_bytes
        self._reader = _reader()
        self._held = b""  # bytes given to hiredis since it last was between two replies
        self._count = 0  # replies that hiredis has returned since then
        self._exact: ExactReader | None = None

    def feed(self, data: bytes) -> list[Any]:
        replies: list[Any] | None
        if self._exact is not None:
            return self._feed_exactly(data)
        if not data:
            return []
        held = self._held
        if held:
            data = held + data
            # The overlap is longer than any header that begins in the bytes before.
            if len(data) > _MAX_HELD_BYTES or _is_risky(data[max(0, len(held) - 32) :]):
                return self._hand_over(data)
            fed = data[len(held) :]
        elif data[0] in _RISKY_FIRST or _is_risky(data) or _has_long_line(data):
            replies = _read_map_first(data)
            return self._hand_over(data) if replies is None else replies
        else:
            fed = data
        reader = self._reader
        replies = []
        try:
            reader.feed(fed)
            gets = reader.gets
            while (reply := gets()) is not _MISSING:
                replies.append(reply)
            if not reader.has_data() and fed[-1] == 0x0A:  # \n
                # All bytes are used; the probe shows whether a reply lacks elements.
                reader.feed(_PROBE)
                if gets() == 1:
                    self._held = b""
                    self._count = 0
                    return replies
                self._replay(data)
        except (hiredis.HiredisError, TypeError) as error:  # TypeError: a map's key is a list
            raise ProtocolError(str(error)) from None
        if _LONG_BULK(data) is not None:
            return self._hand_over(data)
        self._held = data
        self._count += len(replies)
        return replies

    @property
    def is_between_replies(self) -> bool:
        return not self._held and self._exact is None

    def _replay(self, data: bytes) -> None:
        """Give the bytes to a new reader, which has not seen the probe. It is also the quicker one
        if most bytes are in a few long bulk strings, which it skips. => It is also the faster one
        if most bytes are in a few long bulk strings, which it skips."""
        self._reader = reader = _reader()
        reader.feed(data)
        while reader.gets() is not _MISSING:
            pass

    def _hand_over(self, data: bytes) -> list[Any]:
        done, self._count = self._count, 0
        self._exact = ExactReader(self._max_elements, self._max_bytes, drops=True)
        self._held = b""
        self._reader = _reader()
        return self._feed_exactly(data)[done:]

    def _feed_exactly(self, data: bytes) -> list[Any]:
        assert self._exact is not None
        replies = self._exact.feed(data)
        if self._exact.is_between_replies:
            self._exact = None
        return replies


def _read_map_first(data: bytes) -> list[Any] | None:
    """The replies, if they are one map and then replies that hiredis gets right, all complete.

    hiredis is given the map as an array: that takes a seventh of the time of `ExactReader`.
    """
    start = data.find(b"\r\n") + 2
    if data[0] != 0x25 or not 2 < start < 9 or not data[1 : start - 2].isdigit():  # %
        return None
    if _is_risky(data[start - 1 :]):
        return None
    parser = ReplyParser()
    replies = parser.feed(b"*%d\r\n%b" % (2 * int(data[1 : start - 2]), data[start:]))
    if not replies or not parser.is_between_replies:
        return None
    replies[0] = _to_map(replies[0])
    return replies


_RISKY_FIRST = b"|!%("


def _is_risky(data: bytes) -> bool:
    """Whether hiredis might get this wrong. Bulk strings may hold anything, so: *might*.

    A search for single bytes runs at memory speed, and most data has none of them.
    """
    return (
        (0x7C in data and b"\n|" in data)
        or (0x21 in data and b"\n!" in data)
        or (0x25 in data and b"\n%" in data)
        or (0x28 in data and b"\n(" in data)
        or (0x2A in data and _MANY_STAR(data) is not None)
        or (0x7E in data and _MANY_TILDE(data) is not None)
        or (0x3E in data and _MANY_GREATER(data) is not None)
    )


# A bulk string that must be checked before it is complete: always the last one.
_LONG_BULK = re.compile(rb"[$=][0-9]{9}").search


def _has_long_line(data: bytes) -> bool:
    """Whether a line might be too long; it might also be a part of a bulk string."""
    return len(data) > MAX_LINE_BYTES and max(map(len, data.split(b"\r\n"))) > MAX_LINE_BYTES


# Headers for which hiredis would reserve memory before it has seen an element. There are three
# patterns, because a pattern that begins with a class of bytes is ten times slower.
_MANY_STAR = re.compile(rb"\*[0-9]{6}").search
_MANY_TILDE = re.compile(rb"~[0-9]{6}").search
_MANY_GREATER = re.compile(rb">[0-9]{6}").search


def _reader() -> hiredis.Reader:
    return hiredis.Reader(notEnoughData=_MISSING, replyError=ServerError)


class _Aggregate:
    """An array, map, set, push or attribute whose elements are still coming."""

    __slots__ = ("items", "kind", "missing")

    def __init__(self, kind: int, missing: int) -> None:
        self.kind = kind
        self.missing = missing
        self.items: list[Any] = []

    def finish(self) -> Any:
        items = self.items
        if self.kind == 0x25:  # %
            return _to_map(items)
        return Push(items) if self.kind == 0x3E else items  # >


class ExactReader:
    """The reader that defines the format.

    It is also the quicker one if most bytes are in a few long bulk strings, which it skips.
    """

    def __init__(
        self,
        max_elements: int = MAX_ELEMENTS,
        max_bytes: int = MAX_BULK_BYTES,
        *,
        drops: bool = False,
    ) -> None:
        """`drops`: a reply that is too large becomes a ReplyTooLargeError; else ProtocolError."""
        self._max_elements = max_elements
        self._max_bytes = max_bytes
        self._drops = drops
        self._dropping: ReplyTooLargeError | None = None  # the error in place of the reply
        self._bytes_to_drop = 0
        self._buffer = bytearray()
        self._pos = 0
        self._open: list[_Aggregate] = []
        self._bulk_kind = 0
        self._bulk_len = -1
        self._attribute_done = False

    @property
    def is_between_replies(self) -> bool:
        idle = not self._buffer and not self._open and self._bulk_len < 0
        return idle and not self._attribute_done and not self._bytes_to_drop

    def feed(self, data: bytes) -> list[Any]:
        self._buffer += data
        replies: list[Any] = []
        while (value := self._next()) is not _MISSING:
            replies.append(value)
        del self._buffer[: self._pos]
        self._pos = 0
        return replies

    def _next(self) -> Any:
        """One whole reply or push."""
        while True:
            if self._open and self._bulk_len < 0:
                self._take_bulks(self._open[-1])
            value = self._scalar_or_start()
            if value is _MISSING:
                return _MISSING
            while True:
                self._attribute_done = False
                if type(value) is _Aggregate:
                    if value.missing:
                        if len(self._open) >= MAX_DEPTH:
                            raise ProtocolError("a reply is nested too deeply")
                        self._open.append(value)
                        break
                    if value.kind == 0x7C:  # | is an attribute of a value
                        self._attribute_done = True
                        break
                    value = value.finish() if self._dropping is None else None
                if not self._open:
                    if self._dropping is not None:
                        value, self._dropping = self._dropping, None
                    return value
                top = self._open[-1]
                if self._dropping is None:
                    top.items.append(value)
                top.missing -= 1
                if top.missing:
                    break
                value = self._open.pop()

    def _take_bulks(self, top: _Aggregate) -> None:
        """Read bulk strings at the beginning of an aggregate, except the last element."""
        buffer, pos, missing = self._buffer, self._pos, top.missing
        while missing > 1 and (header := _BULK(buffer, pos)):
            end = header.end() + int(header[1])
            if end - header.end() > self._max_bytes:
                break
            if buffer[end : end + 2] != b"\r\n":
                break  # incomplete or malformed: the slow way decides
            if self._dropping is None:
                top.items.append(bytes(buffer[header.end() : end]))
            pos = end + 2
            missing -= 1
        self._pos, top.missing = pos, missing

    def _scalar_or_start(self) -> Any:
        if self._bytes_to_drop:
            return self._drop_bytes()
        if self._bulk_len >= 0:
            return self._bulk()
        line = self._line()
        if line is None:
            return _MISSING
        if not line:
            raise ProtocolError("an empty line where a reply begins")
        kind, text = line[0], line[1:]
        if kind in b"$=!":
            length = _int(text)
            if length == -1 and kind == 0x24:
                return None
            if not 0 <= length <= self._max_bytes:
                limit = f"max_reply_bytes={self._max_bytes}"
                self._drop(length, f"a string of {length} bytes", limit)
                self._bytes_to_drop = length + 2
                return self._drop_bytes()
            self._bulk_kind, self._bulk_len = kind, length
            return self._bulk()
        if kind in b"*~>%|":
            count = _int(text)
            if count == -1 and kind == 0x2A:
                return None
            if kind in b"%|":
                count *= 2
            if not 0 <= count <= self._max_elements:
                limit = f"max_reply_elements={self._max_elements}"
                self._drop(count, f"{count} elements in one reply", limit, kind)
            return _Aggregate(kind, count)
        return _scalar(kind, text)

    def _drop(self, size: int, what: str, limit: str, kind: int = 0) -> None:
        """Keep nothing more of the present reply. Raises ProtocolError if it cannot be a reply."""
        first = self._open[0].kind if self._open else kind
        if not self._drops or not 0 <= size < _ABSURD or first == 0x3E:  # >
            raise ProtocolError(what)
        self._dropping = ReplyTooLargeError(f"{what}; {limit} allows no more")
        for aggregate in self._open:
            aggregate.items.clear()

    def _drop_bytes(self) -> Any:
        count = min(self._bytes_to_drop, len(self._buffer) - self._pos)
        self._pos += count
        self._bytes_to_drop -= count
        return _MISSING if self._bytes_to_drop else None

    def _line(self) -> bytes | None:
        end = self._buffer.find(b"\r\n", self._pos, self._pos + MAX_LINE_BYTES + 2)
        if end < 0:
            if len(self._buffer) - self._pos > MAX_LINE_BYTES + 1:
                raise ProtocolError(f"a line of more than {MAX_LINE_BYTES} bytes")
            return None
        line = bytes(self._buffer[self._pos : end])
        self._pos = end + 2
        return line

    def _bulk(self) -> Any:
        end = self._pos + self._bulk_len
        if len(self._buffer) < end + 2:
            return _MISSING
        if self._buffer[end : end + 2] != b"\r\n":
            raise ProtocolError("a bulk string is longer than its header says")
        with memoryview(self._buffer) as view:
            text = bytes(view[self._pos : end])
        self._pos = end + 2
        self._bulk_len = -1
        if self._bulk_kind == 0x21:  # !
            return ServerError(text)
        return (
            text[4:] if self._bulk_kind == 0x3D else text
        )  # a verbatim string begins with its format


def _scalar(kind: int, text: bytes) -> Any:
    if kind == 0x2B:  # +
        return text
    if kind == 0x2D:  # -
        return ServerError(text)
    if kind == 0x3A:  # :
        return _int(text)
    if kind == 0x28:  # (
        return _big_int(text)
    if kind == 0x5F and not text:  # _
        return None
    if kind == 0x23 and text in (b"t", b"f"):  # #
        return text == b"t"
    if kind == 0x2C:  # ,
        try:
            return float(text)
        except ValueError:
            pass
    raise ProtocolError(f"not the beginning of a reply: {(bytes([kind]) + text)[:64]!r}")


def _int(text: bytes) -> int:
    number = _INTS.get(text)
    if number is None:
        number = _big_int(text) if len(text) <= 20 else 2**63
        if not -(2**63) <= number < 2**63:
            raise ProtocolError(f"not a 64-bit integer: {text[:64]!r}")
    return number


def _big_int(text: bytes) -> int:
    digits = text[1:] if text[:1] == b"-" else text
    if not digits.isdigit() or len(digits) > 4000:  # Python's own limit is 4,300
        raise ProtocolError(f"not an integer: {text[:64]!r}")
    return int(text)


def _to_map(items: list[Any]) -> dict[Any, Any]:
    pairs = {_hashable(key): items[2 * n + 1] for n, key in enumerate(items[::2])}
    if 2 * len(pairs) != len(items):
        raise ProtocolError("a map has the same key twice")
    return pairs


def _hashable(key: Any) -> Any:
    if isinstance(key, list):  # a push is a list, too, though it should not be here
        return tuple(map(_hashable, key))
    if isinstance(key, dict):
        return tuple((name, _hashable(value)) for name, value in key.items())
    return key
