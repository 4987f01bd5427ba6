"""DEBUG DIGEST: a number for a data set, the same that redis-server computes.

Two servers with the same data have the same digest, in whatever order they keep it. As in Redis,
two things are left out: the groups of streams, and the time at which a key expires.
"""

import hashlib
import struct
from collections.abc import Iterable

from holdfast.store.memory import scanning
from holdfast.store.memory.database import Database
from holdfast.store.memory.key import Key
from holdfast.store.memory.keyspace import Keyspace
from holdfast.store.values.hash import Hash
from holdfast.store.values.list import List
from holdfast.store.values.registry import Value
from holdfast.store.values.set import Set
from holdfast.store.values.stream import Stream
from holdfast.store.values.stream_id import parts_of
from holdfast.store.values.zset import ZSet

TYPE_NUMBERS: dict[type, int] = {bytes: 0, List: 1, Set: 2, ZSet: 3, Hash: 4, Stream: 6}


class Digest:
    """Twenty bytes, to which texts are added."""

    def __init__(self) -> None:
        self._number = 0

    def add(self, text: bytes) -> None:
        """Add a text whose place among the others does not matter."""
        self._number ^= int.from_bytes(hashlib.sha1(text).digest())

    def append(self, text: bytes) -> None:
        """Add a text that comes after the texts so far."""
        self.add(text)
        self._number = int.from_bytes(hashlib.sha1(bytes(self)).digest())

    def __bytes__(self) -> bytes:
        return self._number.to_bytes(20)


def of_data(keyspace: Keyspace) -> bytes:
    """The digest of all databases. Loads every key of the file."""
    whole = Digest()
    for database in keyspace.databases:
        if not len(database):
            continue
        whole.append(struct.pack(">I", database.index))
        for name in list(scanning.names(keyspace, database.space)):
            key = database.find(name)
            if key is not None:
                digest = Digest()
                digest.append(name)
                _add_value(digest, key)
                whole.add(bytes(digest))
    return bytes(whole)


def of_value(database: Database, name: bytes) -> bytes:
    """The digest of one value, without its name. Zeros if there is no key."""
    digest = Digest()
    key = database.find(name)
    if key is not None:
        _add_value(digest, key)
    return bytes(digest)


def _add_value(digest: Digest, key: Key) -> None:
    value = key.value
    digest.append(struct.pack(">I", TYPE_NUMBERS[type(value)]))
    for text in _in_order(value):
        digest.append(text)
    for text in _in_any_order(value):
        digest.add(text)
    if key.expires_at_ms is not None:
        digest.add(b"!!expire!!")


def _in_order(value: Value) -> Iterable[bytes]:
    if isinstance(value, bytes):
        yield value
    elif isinstance(value, List):
        yield from value.range(0, -1)
    elif isinstance(value, Stream):
        for entry_id, fields in value.range(0):
            yield b"%d.%d" % parts_of(entry_id)
            yield from fields


def _in_any_order(value: Value) -> Iterable[bytes]:
    if isinstance(value, Set):
        yield from value
    elif isinstance(value, ZSet):
        for member, score in value.items():
            yield _pair(member, b"%.17g" % score)
    elif isinstance(value, Hash):
        for name, text in value.items.items():
            yield _pair(name, text)


def _pair(first: bytes, second: bytes) -> bytes:
    pair = Digest()
    pair.append(first)
    pair.append(second)
    return bytes(pair)
