"""Replies become bytes: the wire format of each type that a handler may return.

The content of a reply is decided elsewhere. This module has no state and knows no connections.
"""

from collections.abc import Callable
from itertools import chain
from types import NoneType
from typing import Any, Final, TypeAlias

from holdfast.errors import CommandError
from holdfast.resp.constants import OK, QUEUED
from holdfast.resp.kinds import (
    Attributed,
    BigNumber,
    HumanFloat,
    Map,
    NullArray,
    Pairs,
    Push,
    Reply,
    SetReply,
    Several,
    Simple,
    Verbatim,
)

# Prepared bytes: the headers of short texts and arrays, and small numbers.
SHORT: Final = 1024
_BULK_HEADERS: Final = [b"$%d\r\n" % length for length in range(SHORT)]
_NEXT_BULK_HEADERS: Final = [b"\r\n" + header for header in _BULK_HEADERS]  # ends the text before
SHORT_ARRAY: Final = 16
_ARRAY_HEADERS: Final = [b"*%d\r\n" % length for length in range(SHORT_ARRAY)]
_INTEGERS: Final = [b":%d\r\n" % number for number in range(SHORT)]
_THOUSANDS: Final = [b":%d" % number for number in range(1000)]
_REST: Final = [b"%03d\r\n" % number for number in range(1000)]


def double_text(number: float) -> bytes:
    """A double with all its digits. Whole numbers, the most common, take a quicker way."""
    if -1e15 < number < 1e15:
        whole = int(number)
        if whole == number and whole:  # -0 has a sign
            return str(whole).encode()  # takes half as long as `%`
    return b"%.17g" % number


def _integer(number: int) -> bytes:
    if 0 <= number < SHORT:
        return _INTEGERS[number]
    if 0 < number < 1_000_000:  # joining two texts takes a third of the time of formatting
        return b"%b%b" % (_THOUSANDS[number // 1000], _REST[number % 1000])
    return b":%d\r\n" % number


def _simple(status: bytes) -> bytes:
    return b"+%b\r\n" % status


def _bulk(text: bytes) -> bytes:
    length = len(text)
    header = _BULK_HEADERS[length] if length < SHORT else b"$%d\r\n" % length
    return b"%b%b\r\n" % (header, text)


def bulks_in_python(texts: tuple[object, ...] | list[object]) -> bytes | None:
    """An array of bulk strings; None if one of them is of another type."""
    parts = [b"*%d" % len(texts)]
    for text in texts:
        if type(text) is not bytes:
            return None
        length = len(text)
        parts.append(_NEXT_BULK_HEADERS[length] if length < SHORT else b"\r\n$%d\r\n" % length)
        parts.append(text)
    parts.append(b"\r\n")
    return b"".join(parts)


try:
    from holdfast.resp._bulks import bulks as bulks_in_c
except ImportError:  # it is compiled where that is possible
    bulks: Any = bulks_in_python
else:
    bulks = bulks_in_c


def _bulks(texts: tuple[bytes, ...]) -> bytes:
    reply: bytes | None = bulks(texts)
    return reply if reply is not None else bulks([bytes(text) for text in texts])


def _error(error: CommandError) -> bytes:
    return b"-%b\r\n" % error.message


_OK: Final = _simple(OK)
_QUEUED: Final = _simple(QUEUED)

Writers: TypeAlias = dict[type, Callable[[Any], bytes]]


def _array(items: list[Reply], writers: Writers) -> bytes:
    length = len(items)
    header = _ARRAY_HEADERS[length] if length < SHORT_ARRAY else b"*%d\r\n" % length
    if length == 1:  # entries of streams are arrays of one and of two
        return header + written(items[0], writers)
    if length == 2:
        return b"%b%b%b" % (header, written(items[0], writers), written(items[1], writers))
    if length and type(items[0]) is bytes and type(items[-1]) is bytes:
        reply: bytes | None = bulks(items)
        if reply is not None:
            return reply
    return header + b"".join([written(item, writers) for item in items])


def written(reply: Reply, writers: Writers) -> bytes:
    """The bytes of a reply in one version of the protocol. The most common types look the same in
    both versions, so they are written here without a lookup."""
    if type(reply) is bytes:
        return _bulk(reply)
    if reply is OK:
        return _OK
    if type(reply) is int:
        return _integer(reply)
    if type(reply) is tuple:
        return _bulks(reply)
    if type(reply) is list:
        return _array(reply, writers)
    if reply is QUEUED:
        return _QUEUED
    return writers[type(reply)](reply)


def _writers(resp3: bool) -> Writers:
    """The function that writes each type in one version of the protocol."""
    writers: Writers = {}

    def array(mark: bytes) -> Callable[[list[Reply]], bytes]:
        def write(items: list[Reply]) -> bytes:
            header = mark + b"%d\r\n" % len(items)
            return header + b"".join([written(item, writers) for item in items])

        return write

    def flat(pairs: dict[bytes, Reply]) -> bytes:
        return writers[list](list(chain.from_iterable(pairs.items())))

    def mapping(pairs: dict[bytes, Reply]) -> bytes:
        items = [written(item, writers) for pair in pairs.items() for item in pair]
        return b"%%%d\r\n%b" % (len(pairs), b"".join(items))

    def attributed(items: list[Reply]) -> bytes:
        facts = b"|" + written(items[0], writers)[1:] if resp3 else b""
        return facts + written(items[1], writers)

    def bare(items: list[Reply]) -> bytes:
        return b"".join([written(item, writers) for item in items])

    null = b"_\r\n" if resp3 else b"$-1\r\n"
    null_array = null if resp3 else b"*-1\r\n"
    true, false = (b"#t\r\n", b"#f\r\n") if resp3 else (b":1\r\n", b":0\r\n")
    writers |= {
        bytes: _bulk,
        tuple: _bulks,
        Simple: _simple,
        int: _integer,
        bool: lambda flag: true if flag else false,
        NoneType: lambda _: null,
        NullArray: lambda _: null_array,
        CommandError: _error,
        list: lambda items: _array(items, writers),
        Several: bare,
        Attributed: attributed,
    }
    if resp3:
        writers |= {
            float: lambda number: b",%b\r\n" % double_text(number),
            HumanFloat: lambda number: b",%b\r\n" % bytes(number),
            dict: mapping,
            SetReply: array(b"~"),
            Pairs: lambda pairs: (
                b"%%%d\r\n" % len(pairs)
                + b"".join([written(item, writers) for pair in pairs for item in pair])
            ),
            Map: lambda items: (
                b"%%%d\r\n" % (len(items) // 2)
                + b"".join([written(item, writers) for item in items])
            ),
            Push: array(b">"),
            Verbatim: lambda text: b"=%d\r\n%b:%b\r\n" % (len(text) + 4, text.fmt, text),
            BigNumber: lambda number: b"(%b\r\n" % number,
        }
    else:
        writers |= {
            float: lambda number: _bulk(double_text(number)),
            HumanFloat: lambda number: _bulk(bytes(number)),
            dict: flat,
            SetReply: writers[list],
            Pairs: writers[list],
            Map: writers[list],
            Push: writers[list],
            Verbatim: _bulk,
            BigNumber: writers[bytes],
        }
    return writers


WRITERS2: Final = _writers(resp3=False)
WRITERS3: Final = _writers(resp3=True)


def encode2(reply: Reply) -> bytes:
    return written(reply, WRITERS2)


def encode3(reply: Reply) -> bytes:
    return written(reply, WRITERS3)


def encode(reply: Reply, resp3: bool) -> bytes:
    """The bytes of a reply. Code that knows the protocol calls `encode2` or `encode3`."""
    return encode3(reply) if resp3 else encode2(reply)
