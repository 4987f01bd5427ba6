"""Lengths and strings as redis-server serialises them, and how to read them while bytes arrive.

`Reader` reads one item at a time, whole or not at all. `one` and `rows` wait for items that have
not arrived yet: they are generators, which yield when bytes are missing. value_codec.py and
stream_codec.py read values with them, file_reader.py reads whole files.
"""

from collections.abc import Callable, Generator, Sequence
from io import BytesIO
from math import inf, nan
from typing import Any, Never, TypeVar

from holdfast.store.rdb import packed
from holdfast.store.rdb.crc64 import crc64
from holdfast.store.rdb.in_c import IN_C

T = TypeVar("T")
Columns = tuple[list[bytes], list[Any], list[int | None]]
Steps = Generator[None, None, T]  # yields when bytes are missing; the result is the item

ENDS_EARLY = "the data ends early"

# A string of this size or more gets a buffer of its own while it arrives, so that memory holds it
# once: joining pieces at the end would take twice its size.
LARGE = 1 << 20

# Larger collections are not read with others in a row.
MOST_BYTES = 1 << 20

# The most that LZF compresses: 3 bytes stand for 264.
LZF_MOST = 264 // 3

SPECIAL_NUMBERS = {255: -inf, 254: inf, 253: nan}  # keyed by the length byte in place of the text


def length(number: int) -> bytes:
    if number < 1 << 6:
        return bytes([number])
    if number < 1 << 14:
        return (0x4000 | number).to_bytes(2, "big")
    if number < 1 << 32:
        return b"\x80" + number.to_bytes(4, "big")
    return b"\x81" + number.to_bytes(8, "big")


def string(text: bytes) -> bytes:
    return length(len(text)) + text


def strings(texts: Sequence[bytes]) -> bytes:
    return b"".join([length(len(texts)), *map(string, texts)])


class IncompleteError(Exception):
    """A part of the item has not arrived yet. The position of the reader is unchanged: try again
    later."""


class Reader:
    """Reads one item after the other from bytes that arrive in pieces.

    An item is read whole. If bytes are missing, the position stays and IncompleteError is raised;
    or ValueError, if the rest of the file is too short for the item. `to_come` is the number of
    bytes that will still be fed; None if it is unknown.
    """

    def __init__(self, data: bytes = b"", to_come: int | None = 0) -> None:
        self._data = data
        self._at = 0
        self._to_come = to_come
        self._passed = 0  # bytes before `_data`
        self._sum, self._summed = 0, 0  # the checksum of all bytes before this index in `_data`
        # A large string that comes after `_data`: its buffer while it arrives, the whole string
        # after that, and the bytes that follow it.
        self._arriving: BytesIO | None = None
        self._missing = 0
        self._large: bytes | None = None
        self._behind = b""

    # -- bytes in -----------------------------------------------------------------------------

    def feed(self, data: bytes) -> None:
        if self._to_come is not None:
            self._to_come = max(self._to_come - len(data), 0)
        if self._arriving is not None:
            self._collect(data)
        elif self._large is not None:
            self._behind += data
        else:
            self._add_to_sum()
            self._passed += self._at
            self._data = self._data[self._at :] + data
            self._at = self._summed = 0

    def end(self) -> None:
        """Note that no more bytes come."""
        self._to_come = 0

    def _collect(self, data: bytes) -> None:
        assert self._arriving is not None
        part = data[: self._missing]
        self._arriving.write(part)
        self._missing -= len(part)
        if not self._missing:
            # without a copy, because nothing else uses the buffer
            self._large = self._arriving.getvalue()
            self._arriving = None
            self._behind = data[len(part) :]

    # -- items out ----------------------------------------------------------------------------

    @property
    def is_at_end(self) -> bool:
        return self._at >= len(self._data)

    @property
    def position(self) -> int:
        """How many bytes were read."""
        return self._passed + self._at

    @property
    def checksum(self) -> int:
        """The checksum of all bytes that were read."""
        self._add_to_sum()
        return self._sum

    def rest(self) -> bytes:
        """The bytes that were fed and not read."""
        return self._data[self._at :]

    def take(self, count: int) -> bytes:
        return self._part(self._at, count)

    def byte(self) -> int:
        at = self._at
        if at >= len(self._data):
            self._lack(at, 1)
        self._at = at + 1
        return self._data[at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "little")

    def length(self) -> int:
        number, self._at = self._plain_length(self._at)
        return number

    def string(self) -> bytes:
        number, at = self._length(self._at)
        if number >= 0:
            return self._part(at, number)
        kind = ~number
        if kind < 3:
            return b"%d" % int.from_bytes(self._part(at, 1 << kind), "little", signed=True)
        if kind > 3:
            raise ValueError("no string is written like this")
        size, at = self._plain_length(at)
        whole, at = self._plain_length(at)
        if whole > size * LZF_MOST:
            raise ValueError("not of the length that it says")
        return packed.lzf(self._part(at, size), whole)

    def form(self, expiry: int) -> int:
        """The byte before the next key. There may be a time before it, which begins with the byte
        `expiry`. -1: it has not arrived."""
        at = self._at
        if at < len(self._data) and self._data[at] == expiry:
            at += 9
        return self._data[at] if at < len(self._data) else -1

    def keys(self, form: int, expiry: int, value: Callable[["Reader"], Any]) -> Columns | None:
        """All keys of a form from here on: their names, their values, and the times at which they
        expire. `form` is the byte before such a key, `expiry` the byte before a time. Without C,
        `value` reads a value. None: the next key is incomplete, damaged or large. Then the caller
        reads part by part, which raises the right error."""
        if IN_C is None:
            columns = self._keys(form, expiry, value)
        else:
            names, values, times, self._at = IN_C.keys(self._data, self._at, form, expiry)
            columns = (names, values, times)
        return columns if columns[0] else None

    def _keys(self, form: int, expiry: int, value: Callable[["Reader"], Any]) -> Columns:
        """`keys` without C."""
        names: list[bytes] = []
        values: list[Any] = []
        times: list[int | None] = []
        while True:
            start, at_ms = self._at, None
            try:
                code = self.byte()
                if code == expiry:
                    at_ms = int.from_bytes(self.take(8), "little", signed=True)
                    code = self.byte()
                if code != form:
                    break
                name, before = self.string(), self._at
                found = value(self)
            except (IncompleteError, ValueError, IndexError, OverflowError):
                break
            if self._at - before > MOST_BYTES and not isinstance(found, bytes):
                break
            names.append(name)
            values.append(found)
            times.append(at_ms)
        self._at = start
        return names, values, times

    def text_number(self) -> float:
        """A score as the first versions wrote it: as text, after its length."""
        at = self._at
        if at >= len(self._data):
            self._lack(at, 1)
        size = self._data[at]
        if size in SPECIAL_NUMBERS:
            self._at = at + 1
            return SPECIAL_NUMBERS[size]
        return float(self._part(at + 1, size))

    def _plain_length(self, at: int) -> tuple[int, int]:
        number, at = self._length(at)
        if number < 0:
            raise ValueError("not a length")
        return number, at

    def _length(self, at: int) -> tuple[int, int]:
        """A length, and the index after it. For a special encoding of strings, the length is the
        number of the encoding, inverted, and so negative."""
        data = self._data
        here = len(data) - at
        if here < 1:
            self._lack(at, 1)
        first = data[at]
        if first < 0x40:
            return first, at + 1
        if first < 0x80:
            if here < 2:
                self._lack(at, 2)
            return (first & 0x3F) << 8 | data[at + 1], at + 2
        if first >= 0xC0:
            return ~(first & 0x3F), at + 1
        if first not in (0x80, 0x81):
            raise ValueError("not a length")
        end = at + (5 if first == 0x80 else 9)
        if end > len(data):
            self._lack(at, end - at)
        return int.from_bytes(data[at + 1 : end], "big"), end

    def _part(self, at: int, count: int) -> bytes:
        """Take bytes from an index on, and set the position after them."""
        end = at + count
        if end <= len(self._data):
            self._at = end
            return self._data[at:end]
        large = self._large
        if large is None or at != len(self._data) or count != len(large):
            self._lack(at, count)
        self._at = at
        self._add_to_sum()
        self._sum = crc64(large, self._sum)
        self._passed += at + count
        self._data, self._behind, self._large = self._behind, b"", None
        self._at = self._summed = 0
        return large

    def _lack(self, at: int, count: int) -> Never:
        missing = at + count - len(self._data) if self._arriving is None else self._missing
        if self._to_come is not None and missing > self._to_come:
            raise ValueError(ENDS_EARLY)
        if count >= LARGE and self._arriving is None and self._large is None:
            self._arriving = BytesIO()
            self._arriving.write(memoryview(self._data)[at:])
            self._data, self._missing = self._data[:at], missing
        raise IncompleteError

    def _add_to_sum(self) -> None:
        if self._at > self._summed:
            self._sum = crc64(self._data[self._summed : self._at], self._sum)
            self._summed = self._at


# -- waiting for items ------------------------------------------------------------------------


def one(r: Reader, item: Callable[[Reader], T]) -> Steps[T]:
    while True:
        try:
            return item(r)
        except IncompleteError:
            yield


def rows(r: Reader, count: int, *items: Callable[[Reader], Any]) -> Steps[list[Any]]:
    """Read these items so many times, all into one list. Memory grows with the bytes that arrive: a
    wrong count reserves nothing."""
    flat: list[Any] = []
    width = len(items)
    while len(flat) < count * width:
        try:
            # A loop, not a comprehension: the items so far must stay if the next one is missing.
            for item in items[len(flat) % width :]:
                flat.append(item(r))  # noqa: PERF401
            for _ in range(count - len(flat) // width):
                for item in items:
                    flat.append(item(r))  # noqa: PERF401
        except IncompleteError:
            yield
    return flat


def finished(steps: Steps[T]) -> T:
    """Run the steps of an item whose bytes are all there."""
    try:
        next(steps)
    except StopIteration as done:
        item: T = done.value
        return item
    raise ValueError(ENDS_EARLY)
