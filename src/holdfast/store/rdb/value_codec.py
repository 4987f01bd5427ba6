"""A value as bytes, in redis-server's own serialisation: for DUMP and RESTORE, and in RDB files.

Values are written in the plainest form of each type, which every redis-server since 4.0 reads.
There are two exceptions: hashes whose fields expire need Redis 7.4, and streams need 7.0, or 8.8 in
a DUMP of a stream with parts that only 8.8 knows. All forms are read that Redis 2 to 8 and Valkey
up to 9 write. Values here are plain: see plain.py. Streams are in stream_codec.py.
"""

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Final

from holdfast.store.rdb import packed, stream_codec
from holdfast.store.rdb.crc64 import crc64
from holdfast.store.rdb.plain import Field, Plain
from holdfast.store.rdb.primitives import Reader, Steps, finished, length, one, rows, string

# The versions that DUMP writes: that of Redis 7.0; that of 7.4 for hashes with fields that expire;
# that of 8.8 for streams with returned entries or idempotent ids.
VERSION, VERSION_OF_FIELD_EXPIRY, VERSION_OF_STREAM_5 = 10, 12, 14
LATEST_FIELD_MS = (1 << 48) - 1

STRING, LIST, SET, ZSET_AS_TEXT, HASH, ZSET = range(6)
HASH_ZIPMAP, LIST_ZIPLIST, SET_INTSET, ZSET_ZIPLIST, HASH_ZIPLIST = range(9, 14)
LIST_QUICKLIST, STREAM_1, HASH_LISTPACK, ZSET_LISTPACK, LIST_QUICKLIST_2 = range(14, 19)
STREAM_2, SET_LISTPACK, STREAM_3 = range(19, 22)
# From this number on Redis and Valkey give the same numbers to different forms.
HASH_EXPIRING_RC, HASH_LISTPACK_EXPIRING_RC = 22, 23  # of release candidates of Redis 7.4
HASH_EXPIRING, HASH_LISTPACK_EXPIRING, STREAM_4, STREAM_5 = range(24, 28)
VALKEY_HASH_EXPIRING = 22
FIRST_OF_VALKEY = 80  # versions of Valkey begin here
LIBRARY = 245

PLAIN_NODE, PACKED_NODE = 1, 2  # of a quicklist; a plain one is one long element
NO_EXPIRY: Final = -1  # of a field, in Valkey
_FOOTER = struct.Struct("<HQ")
_DOUBLE = struct.Struct("<d")


class RdbError(Exception):
    """The bytes are not a serialised value."""


class ChecksumError(RdbError):
    """The checksum is wrong, the bytes are incomplete, or their version is unknown."""


class UnknownFormError(RdbError):
    """The value is of a type that Holdfast does not have: of a module, or newer."""


class EmptyError(ValueError):
    """A collection without elements. Older versions of Redis wrote such values; Redis skips them
    when it loads a file, and refuses to RESTORE them."""


# -- writing ----------------------------------------------------------------------------------


def form_of(plain: Plain, expiring: int = HASH_EXPIRING) -> int:
    """The number of the form in which a value is written. `expiring` is the form for hashes with
    fields that expire."""
    return expiring if has_expiring_fields(plain) else PLAIN_FORMS[plain.type]


def has_expiring_fields(plain: Plain) -> bool:
    return plain.type == "hash" and any(at_ms is not None for _, _, at_ms in plain.content)


def pieces(content: Any, form: int) -> Iterator[bytes]:
    """The content of a `Plain` in pieces, without the number of its form."""
    if form == STRING:
        yield length(len(content))
        yield content
    elif form in (LIST, SET):
        yield length(len(content))
        yield from map(string, content)
    elif form == ZSET:
        yield length(len(content))
        for member, score in content:
            yield string(member) + _DOUBLE.pack(score)
    elif form in (STREAM_2, STREAM_5):
        yield from stream_codec.pieces(content, version=5 if form == STREAM_5 else 2)
    elif form == HASH:
        yield length(len(content))
        for name, value, _ in content:
            yield string(name) + string(value)
    elif form == HASH_EXPIRING:
        yield from _expiring_pieces(content)
    else:
        assert form == VALKEY_HASH_EXPIRING
        yield length(len(content))
        for name, value, at_ms in content:
            expiry = NO_EXPIRY if at_ms is None else at_ms
            yield string(name) + string(value) + expiry.to_bytes(8, "little", signed=True)


PLAIN_FORMS = {
    "string": STRING,
    "list": LIST,
    "set": SET,
    "zset": ZSET,
    "hash": HASH,
    "stream": STREAM_2,
}


def _expiring_pieces(fields: Sequence[Field]) -> Iterator[bytes]:
    """Fields with times. The times are relative to the earliest one, plus 1, because 0 stands for a
    field that does not expire."""
    first_ms = min(at_ms for _, _, at_ms in fields if at_ms is not None)
    yield first_ms.to_bytes(8, "little") + length(len(fields))
    for name, value, at_ms in fields:
        after = length(0 if at_ms is None else at_ms - first_ms + 1)
        yield after + string(name) + string(value)


def dump(plain: Plain, *, for_redis_7: bool = False) -> bytes:
    """Serialise a value, for DUMP. With `for_redis_7`, a stream is written without the parts that
    Redis 7 does not know: see `stream_codec.pieces`."""
    form = form_of(plain)
    if form == STREAM_2 and plain.content.needs_version_5 and not for_redis_7:
        form = STREAM_5
    version = _VERSIONS.get(form, VERSION)
    return _sealed(b"".join([bytes([form]), *pieces(plain.content, form)]), version)


_VERSIONS = {HASH_EXPIRING: VERSION_OF_FIELD_EXPIRY, STREAM_5: VERSION_OF_STREAM_5}


def dump_libraries(codes: Iterable[bytes]) -> bytes:
    """Serialise libraries of functions, for FUNCTION DUMP."""
    return _sealed(b"".join([bytes([LIBRARY]) + string(code) for code in codes]), VERSION)


def _sealed(data: bytes, version: int) -> bytes:
    data += version.to_bytes(2, "little")
    return data + crc64(data).to_bytes(8, "little")


# -- reading ----------------------------------------------------------------------------------


def load(payload: bytes) -> Plain:
    """Read a value. Raises ChecksumError or RdbError."""
    reader = _unsealed(payload)
    try:
        return finished(LOADERS[reader.byte()](reader))
    except (ValueError, IndexError, KeyError, OverflowError) as error:
        raise RdbError(str(error)) from None


def load_foreign(payload: bytes) -> Plain:
    """Read the DUMP of another server, which may be a Valkey, or newer than the versions that
    RESTORE reads. Raises ChecksumError and RdbError, the latter also for a form that belongs to no
    type of ours."""
    reader, version = _unsealed_foreign(payload)
    loaders = VALKEY_LOADERS if version >= FIRST_OF_VALKEY else REDIS_LOADERS
    try:
        form = reader.byte()
        if form not in loaders:
            raise UnknownFormError(f"form {form} is unknown")
        return finished(loaders[form](reader))
    except (ValueError, IndexError, OverflowError) as error:
        raise RdbError(str(error)) from None


def load_foreign_libraries(payload: bytes) -> Iterator[bytes]:
    """Read the FUNCTION DUMP of another server."""
    return _libraries(_unsealed_foreign(payload)[0])


def load_libraries(payload: bytes) -> Iterator[bytes]:
    """The code of each library. Raises ChecksumError at once. Raises RdbError, with Redis's
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
    reader, version = _unsealed_foreign(payload)
    if version > VERSION_OF_STREAM_5:
        raise ChecksumError
    return reader


def _unsealed_foreign(payload: bytes) -> tuple[Reader, int]:
    """The reader of the content, and the version of its form."""
    if len(payload) < _FOOTER.size:
        raise ChecksumError
    version, checksum = _FOOTER.unpack(payload[-_FOOTER.size :])
    if crc64(payload[:-8]) != checksum:
        raise ChecksumError
    return Reader(payload[: -_FOOTER.size]), version


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
    if any(not 0 <= (expires_at_ms or 0) <= LATEST_FIELD_MS for _, _, expires_at_ms in fields):
        raise ValueError("a field expires too late")
    return Plain("hash", _not_empty(fields))


def _zset(members: Sequence[bytes], scores: Sequence[float]) -> Plain:
    _check_distinct(members)
    if any(score != score for score in scores):
        raise ValueError("a score is not a number")
    return Plain("zset", _not_empty(list(zip(members, scores, strict=True))))


def _flat_zset(flat: Sequence[bytes]) -> Plain:
    return _zset(flat[::2], [float(score) for score in flat[1::2]])


def _expiring_listpack(data: bytes) -> Plain:
    flat = packed.listpack(data)
    fields = zip(flat[::3], flat[1::3], map(int, flat[2::3]), strict=True)
    return _expiring_hash([(name, value, at_ms or None) for name, value, at_ms in fields])


def _not_empty(elements: Sequence[Any]) -> Sequence[Any]:
    if not elements:
        raise EmptyError("empty")
    return elements


def _check_distinct(names: Sequence[bytes]) -> None:
    if len(set(names)) < len(names):
        raise ValueError("something is there twice")


def _score(r: Reader) -> float:
    return float(_DOUBLE.unpack(r.take(8))[0])


Loader = Callable[[Reader], Steps[Plain]]


def _packed(value: Callable[[bytes], Plain]) -> Loader:
    """The loader of a form that is one packed string; `value` makes a value of it."""

    def load(r: Reader) -> Steps[Plain]:
        return value((yield from one(r, Reader.string)))

    return load


def _counted(value: Callable[[list[Any]], Plain], *items: Callable[[Reader], Any]) -> Loader:
    """The loader of a form that is a count and so many rows of these items; `value` gets all
    items."""

    def load(r: Reader) -> Steps[Plain]:
        count = yield from one(r, Reader.length)
        return value((yield from rows(r, count, *items)))

    return load


def _quicklist_2(r: Reader) -> Steps[Plain]:
    elements: list[bytes] = []
    for _ in range((yield from one(r, Reader.length))):
        kind, node = yield from rows(r, 1, Reader.length, Reader.string)
        if kind not in (PLAIN_NODE, PACKED_NODE):
            raise ValueError("no node of a list is like this")
        elements += [node] if kind == PLAIN_NODE else packed.listpack(node)
    return _list(elements)


def _hash_with_expiries(r: Reader) -> Steps[Plain]:
    first_ms = yield from one(r, _time)
    count = yield from one(r, Reader.length)
    flat = yield from rows(r, count, Reader.length, Reader.string, Reader.string)
    expiries = [first_ms + after - 1 if after else None for after in flat[::3]]
    return _expiring_hash(list(zip(flat[1::3], flat[2::3], expiries, strict=True)))


def _hash_with_absolute_expiries(flat: list[Any]) -> Plain:
    expiries = [at_ms or None for at_ms in flat[::3]]
    return _expiring_hash(list(zip(flat[1::3], flat[2::3], expiries, strict=True)))


def _valkey_hash(flat: list[Any]) -> Plain:
    expiries = [None if at_ms == NO_EXPIRY else at_ms for at_ms in flat[2::3]]
    return _expiring_hash(list(zip(flat[::3], flat[1::3], expiries, strict=True)))


def _listpack_with_expiries(r: Reader) -> Steps[Plain]:
    yield from one(r, _time)  # skip the earliest time, because the fields have their own
    return _expiring_listpack((yield from one(r, Reader.string)))


def _time(r: Reader) -> int:
    return r.number(8)


def _signed_time(r: Reader) -> int:
    return int.from_bytes(r.take(8), "little", signed=True)


def _stream(version: int) -> Loader:
    def load(r: Reader) -> Steps[Plain]:
        return Plain("stream", (yield from stream_codec.load(r, version)))

    return load


# The forms that RESTORE reads: all forms of Redis 7.4.
LOADERS: dict[int, Loader] = {
    STRING: _packed(lambda text: Plain("string", text)),
    LIST: _counted(_list, Reader.string),
    SET: _counted(_set, Reader.string),
    HASH: _counted(_hash, Reader.string, Reader.string),
    ZSET: _counted(lambda flat: _zset(flat[::2], flat[1::2]), Reader.string, _score),
    ZSET_AS_TEXT: _counted(
        lambda flat: _zset(flat[::2], flat[1::2]), Reader.string, Reader.text_number
    ),
    LIST_ZIPLIST: _packed(lambda data: _list(packed.ziplist(data))),
    LIST_QUICKLIST: _counted(
        lambda nodes: _list(chain.from_iterable(nodes)), lambda r: packed.ziplist(r.string())
    ),
    LIST_QUICKLIST_2: _quicklist_2,
    SET_INTSET: _packed(lambda data: _set(packed.intset(data))),
    SET_LISTPACK: _packed(lambda data: _set(packed.listpack(data))),
    ZSET_ZIPLIST: _packed(lambda data: _flat_zset(packed.ziplist(data))),
    ZSET_LISTPACK: _packed(lambda data: _flat_zset(packed.listpack(data))),
    HASH_ZIPMAP: _packed(lambda data: _hash(packed.zipmap(data))),
    HASH_ZIPLIST: _packed(lambda data: _hash(packed.ziplist(data))),
    HASH_LISTPACK: _packed(lambda data: _hash(packed.listpack(data))),
    STREAM_1: _stream(1),
    STREAM_2: _stream(2),
    STREAM_3: _stream(3),
    STREAM_4: _stream(4),
    STREAM_5: _stream(5),
    HASH_EXPIRING: _hash_with_expiries,
    HASH_LISTPACK_EXPIRING: _listpack_with_expiries,
}

# The forms in files of Redis, and in files of Valkey from 9 on.
REDIS_LOADERS: dict[int, Loader] = LOADERS | {
    HASH_EXPIRING_RC: _counted(
        _hash_with_absolute_expiries, Reader.length, Reader.string, Reader.string
    ),
    HASH_LISTPACK_EXPIRING_RC: _packed(_expiring_listpack),
}
VALKEY_LOADERS: dict[int, Loader] = {
    form: loader for form, loader in LOADERS.items() if form <= STREAM_3
} | {VALKEY_HASH_EXPIRING: _counted(_valkey_hash, Reader.string, Reader.string, _signed_time)}
