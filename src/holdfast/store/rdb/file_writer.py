"""Writes an RDB file or stream: records in, bytes out, in blocks of a steady size.

The caller has the content of one moment. The writer keeps in memory one block and the value that it
is writing.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from holdfast.store.rdb.crc64 import crc64
from holdfast.store.rdb.file_reader import AUX, DATABASE, END, EXPIRY_MS, SIZES
from holdfast.store.rdb.in_c import IN_C
from holdfast.store.rdb.plain import Plain
from holdfast.store.rdb.primitives import length, string
from holdfast.store.rdb.records import Keys
from holdfast.store.rdb.value_codec import (
    HASH_EXPIRING,
    LIBRARY,
    PLAIN_FORMS,
    VALKEY_HASH_EXPIRING,
    form_of,
    has_expiring_fields,
    pieces,
)

BLOCK_BYTES: Final = 1 << 17  # the length for which the checksum is fastest


class RdbFormat(NamedTuple):
    """A version of the format. `expiring_hash` is the form of hashes with fields that expire; None:
    readers of this version do not know such hashes."""

    name: str
    header: bytes
    expiring_hash: int | None
    readers: str


# All can read that of Redis 7.0: Redis since 7.0, Valkey since 7.2, and Holdfast.
FORMATS: Final = {
    each.name: each
    for each in (
        RdbFormat("redis7", b"REDIS0010", None, "Redis 7.0, and all newer Redis and Valkey"),
        RdbFormat("redis8", b"REDIS0012", HASH_EXPIRING, "Redis 7.4 and newer"),
        RdbFormat("valkey9", b"VALKEY080", VALKEY_HASH_EXPIRING, "Valkey 9 and newer"),
    )
}


class FieldExpiryError(Exception):
    """A hash has fields that expire, and the format has no place for that."""


class RdbWriter:
    """Hands blocks of bytes to `sink`, in order. After `end` the file is complete."""

    def __init__(self, sink: Callable[[bytes], object], rdb_format: RdbFormat) -> None:
        self._sink = sink
        self._format = rdb_format
        self._pieces: list[bytes] = []
        self._nbytes = 0  # the size of all pieces
        self._sum = 0

    def begin(self, remarks: Mapping[bytes, bytes]) -> None:
        """Write the header, and remarks about the file: see `Aux`."""
        self._put([self._format.header])
        for name, value in remarks.items():
            self._put([bytes([AUX]), string(name), string(value)])

    def library(self, code: bytes) -> None:
        """Write a library of functions. They come before all keys, as in Redis."""
        self._put([bytes([LIBRARY]), string(code)])

    def database(self, index: int, keys: int, expiring: int) -> None:
        """The entries that follow are in this database. `keys` and `expiring` are estimates, for
        which a reader makes room; 0: unknown."""
        self._put([bytes([DATABASE]), length(index)])
        if keys:
            self._put([bytes([SIZES]), length(keys), length(expiring)])

    def entry(self, name: bytes, value: Plain, expires_at_ms: int | None) -> None:
        """Write a key. Raises FieldExpiryError, and then writes nothing."""
        expiring = self._format.expiring_hash
        if expiring is None:
            if has_expiring_fields(value):
                raise FieldExpiryError
            expiring = HASH_EXPIRING
        form = form_of(value, expiring)
        if expires_at_ms is not None:
            self._put([_expiry(expires_at_ms)])
        self._put([bytes([form]), string(name)])
        self._put(pieces(value.content, form))

    def keys(self, record: Keys) -> None:
        """Write many keys, in a fraction of the time that `entry` takes."""
        columns = (record.names, record.values, record.times)
        pack = packed_keys if IN_C is None else IN_C.packed
        self._put([pack(*columns, PLAIN_FORMS[record.type], EXPIRY_MS)])

    def end(self) -> None:
        self._put([bytes([END])])
        self._flush()
        self._sink(self._sum.to_bytes(8, "little"))

    def _put(self, pieces: Iterable[bytes]) -> None:
        for piece in pieces:
            self._pieces.append(piece)
            self._nbytes += len(piece)
            if self._nbytes >= BLOCK_BYTES:
                self._flush()

    def _flush(self) -> None:
        """Join small pieces into a block. A large piece goes out as it is, without a copy."""
        *small, last = self._pieces or [b""]
        blocks = [b"".join(small), last] if len(last) >= BLOCK_BYTES else [b"".join(self._pieces)]
        for block in filter(None, blocks):
            self._sum = crc64(block, self._sum)
            self._sink(block)
        self._pieces, self._nbytes = [], 0


def packed_keys(
    names: list[bytes], values: list[Any], times: list[int | None], form: int, expiry: int
) -> bytes:
    """`packed` of _rdb.c in Python, for systems without C."""
    parts: list[bytes] = []
    for name, value, at_ms in zip(names, values, times, strict=True):
        if at_ms is not None:
            parts.append(bytes([expiry]) + at_ms.to_bytes(8, "little", signed=True))
        parts.append(bytes([form]) + string(name))
        parts += pieces(value, form)
    return b"".join(parts)


def _expiry(at_ms: int) -> bytes:
    return bytes([EXPIRY_MS]) + at_ms.to_bytes(8, "little", signed=True)
