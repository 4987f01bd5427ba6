"""A value as bytes, in redis-server's own serialisation, for DUMP and RESTORE.

`dump` writes the plainest form of each type, which every redis-server since 4.0 reads (streams:
7.0; hashes whose fields expire: 7.4). `load` reads all forms that Redis 7.4 and older write.
Values here are plain: bytes, lists of bytes, pairs. Streams are in stream_codec.py.
"""

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from holdfast.store.rdb import packed, stream_codec
from holdfast.store.rdb.crc64 import crc64
from holdfast.store.rdb.primitives import Reader, length, string, strings
from holdfast.store.values.stream import Stream

# The versions that DUMP writes: that of Redis 7.0; for hashes with fields that expire that of 7.4.
VERSION, VERSION_OF_FIELD_EXPIRY = 10, 12
LATEST_FIELD_MS = (1 << 48) - 1

STRING, LIST, SET, ZSET_AS_TEXT, HASH, ZSET = range(6)
HASH_ZIPMAP, LIST_ZIPLIST, SET_INTSET, ZSET_ZIPLIST, HASH_ZIPLIST = range(9, 14)
LIST_QUICKLIST, STREAM_1, HASH_LISTPACK, ZSET_LISTPACK, LIST_QUICKLIST_2 = range(14, 19)
STREAM_2, SET_LISTPACK, STREAM_3 = range(19, 22)
HASH_EXPIRING, HASH_LISTPACK_EXPIRING = 24, 25
LIBRARY = 245

PLAIN_NODE = 1  # of a quicklist: one long element
_FOOTER = struct.Struct("<HQ")
_DOUBLE = struct.Struct("<d")

Field = tuple[bytes, bytes, int | None]  # name, value, expires_at_ms


class RdbError(Exception):
    """These bytes are not a serialised value."""


class ChecksumError(RdbError):
    """The checksum is wrong, the bytes are incomplete, or their version is unknown."""


class Plain(NamedTuple):
    """A type and its content: bytes for a string; a list of bytes for a list or a set; `Field`s for
    a hash; pairs of member and score for a sorted set; a `StreamData` for a stream."""

    type: str
    content: Any


# -- writing ----------------------------------------------------------------------------------


def dump_string(text: bytes) -> bytes:
    return _finished(STRING, string(text))


def dump_list(elements: Sequence[bytes]) -> bytes:
    return _finished(LIST, strings(elements))


def dump_set(members: Sequence[bytes]) -> bytes:
    return _finished(SET, strings(members))


def dump_zset(entries: Sequence[tuple[bytes, float]]) -> bytes:
    parts = [string(member) + _DOUBLE.pack(score) for member, score in entries]
    return _finished(ZSET, length(len(parts)) + b"".join(parts))


def dump_stream(stream: Stream) -> bytes:
    return _finished(STREAM_2, stream_codec.body(stream))


def dump_hash(fields: Sequence[Field]) -> bytes:
    expiries = [expires_at_ms for _, _, expires_at_ms in fields if expires_at_ms is not None]
    if not expiries:
        parts = [string(name) + string(value) for name, value, _ in fields]
        return _finished(HASH, length(len(parts)) + b"".join(parts))
    first_ms = min(expiries)
    parts = [
        length(0 if expires_at_ms is None else expires_at_ms - first_ms + 1)
        + string(name)
        + string(value)
        for name, value, expires_at_ms in fields
    ]
    body = first_ms.to_bytes(8, "little") + length(len(parts)) + b"".join(parts)
    return _finished(HASH_EXPIRING, body, VERSION_OF_FIELD_EXPIRY)


def dump_libraries(codes: Iterable[bytes]) -> bytes:
    """Serialise libraries of functions, for FUNCTION DUMP."""
    return _sealed(b"".join([bytes([LIBRARY]) + string(code) for code in codes]))


def _finished(form: int, body: bytes, version: int = VERSION) -> bytes:
    return _sealed(bytes([form]) + body, version)


def _sealed(data: bytes, version: int = VERSION) -> bytes:
    data += version.to_bytes(2, "little")
    return data + crc64(data).to_bytes(8, "little")


# -- reading ----------------------------------------------------------------------------------


def load(payload: bytes) -> Plain:
    """Read a value. Raises ChecksumError or RdbError."""
    reader = _unsealed(payload)
    try:
        return _LOADERS[reader.take(1)[0]](reader)
    except (ValueError, IndexError, KeyError, OverflowError) as error:
        raise RdbError(str(error)) from None


def load_libraries(payload: bytes) -> Iterator[bytes]:
    """The code of each library. Raises ChecksumError at once; raises RdbError, with Redis's
    message, when it reaches the faulty library."""
    return _libraries(_unsealed(payload))


def _libraries(reader: Reader) -> Iterator[bytes]:
    while not reader.is_at_end:
        if reader.number(1) != LIBRARY:
            raise RdbError("given type is not a function")
        try:
            code = reader.string()
        except (ValueError, IndexError, OverflowError):
            raise RdbError("Failed loading library payload") from None
        yield code


def _unsealed(payload: bytes) -> Reader:
    if len(payload) < _FOOTER.size:
        raise ChecksumError
    version, checksum = _FOOTER.unpack(payload[-_FOOTER.size :])
    if version > VERSION_OF_FIELD_EXPIRY or crc64(payload[:-8]) != checksum:
        raise ChecksumError
    return Reader(payload[: -_FOOTER.size])


def _list(elements: Iterable[bytes]) -> Plain:
    return Plain("list", _not_empty(list(elements)))


def _set(members: Sequence[bytes]) -> Plain:
    _check_distinct(members)
    return Plain("set", _not_empty(members))


def _hash(flat: Sequence[bytes]) -> Plain:
    """A hash from names and values in turn."""
    return _expiring_hash([(*pair, None) for pair in zip(flat[::2], flat[1::2], strict=True)])


def _expiring_hash(fields: list[Field]) -> Plain:
    _check_distinct([name for name, _, _ in fields])
    if any((expires_at_ms or 0) > LATEST_FIELD_MS for _, _, expires_at_ms in fields):
        raise ValueError("a field expires too late")
    return Plain("hash", _not_empty(fields))


def _zset(entries: Sequence[tuple[bytes, float]]) -> Plain:
    _check_distinct([member for member, _ in entries])
    if any(score != score for _, score in entries):
        raise ValueError("a score is not a number")
    return Plain("zset", _not_empty(entries))


def _flat_zset(flat: Sequence[bytes]) -> Plain:
    return _zset([(m, float(score)) for m, score in zip(flat[::2], flat[1::2], strict=True)])


def _not_empty(elements: Sequence[Any]) -> Sequence[Any]:
    if not elements:
        raise ValueError("empty")
    return elements


def _check_distinct(names: Sequence[bytes]) -> None:
    if len(set(names)) < len(names):
        raise ValueError("something is there twice")


def _quicklist(r: Reader) -> Plain:
    return _list(e for _ in range(r.length()) for e in packed.ziplist(r.string()))


def _quicklist_2(r: Reader) -> Plain:
    elements: list[bytes] = []
    for _ in range(r.length()):
        is_plain = r.length() == PLAIN_NODE
        node = r.string()
        elements += [node] if is_plain else packed.listpack(node)
    return _list(elements)


def _score_as_text(r: Reader) -> float:
    size = r.take(1)[0]
    special = {255: "-inf", 254: "inf", 253: "nan"}
    return float(special[size]) if size in special else float(r.take(size))


def _zset_of(score: Callable[[Reader], float]) -> Callable[[Reader], Plain]:
    return lambda r: _zset([(r.string(), score(r)) for _ in range(r.length())])


def _hash_with_expiries(r: Reader) -> Plain:
    first_ms, fields = r.number(8), []
    for _ in range(r.length()):
        after = r.length()
        name, value = r.string(), r.string()
        fields.append((name, value, first_ms + after - 1 if after else None))
    return _expiring_hash(fields)


def _listpack_with_expiries(r: Reader) -> Plain:
    r.number(8)
    flat = packed.listpack(r.string())
    fields = zip(flat[::3], flat[1::3], map(int, flat[2::3]), strict=True)
    return _expiring_hash([(name, value, at_ms or None) for name, value, at_ms in fields])


_LOADERS: dict[int, Callable[[Reader], Plain]] = {
    STRING: lambda r: Plain("string", r.string()),
    LIST: lambda r: _list(r.strings()),
    SET: lambda r: _set(r.strings()),
    HASH: lambda r: _hash(r.strings(2)),
    ZSET: _zset_of(lambda r: float(_DOUBLE.unpack(r.take(8))[0])),
    ZSET_AS_TEXT: _zset_of(_score_as_text),
    LIST_ZIPLIST: lambda r: _list(packed.ziplist(r.string())),
    LIST_QUICKLIST: _quicklist,
    LIST_QUICKLIST_2: _quicklist_2,
    SET_INTSET: lambda r: _set(packed.intset(r.string())),
    SET_LISTPACK: lambda r: _set(packed.listpack(r.string())),
    ZSET_ZIPLIST: lambda r: _flat_zset(packed.ziplist(r.string())),
    ZSET_LISTPACK: lambda r: _flat_zset(packed.listpack(r.string())),
    HASH_ZIPMAP: lambda r: _hash(packed.zipmap(r.string())),
    HASH_ZIPLIST: lambda r: _hash(packed.ziplist(r.string())),
    HASH_LISTPACK: lambda r: _hash(packed.listpack(r.string())),
    STREAM_1: lambda r: Plain("stream", stream_codec.load(r, version=1)),
    STREAM_2: lambda r: Plain("stream", stream_codec.load(r, version=2)),
    STREAM_3: lambda r: Plain("stream", stream_codec.load(r, version=3)),
    HASH_EXPIRING: _hash_with_expiries,
    HASH_LISTPACK_EXPIRING: _listpack_with_expiries,
}
