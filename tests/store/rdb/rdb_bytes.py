"""RDB files made by hand: for versions of Redis and Valkey that the tests cannot start."""

from holdfast.store.rdb.crc64 import crc64
from holdfast.store.rdb.file_reader import RdbReader
from holdfast.store.rdb.module_values import LETTERS
from holdfast.store.rdb.primitives import length
from holdfast.store.rdb.records import Record

REDIS_7, REDIS_74, REDIS_86, REDIS_88 = (b"REDIS%04d" % version for version in (10, 12, 13, 14))
VALKEY_9 = b"VALKEY080"


def rdb(*records: bytes, header: bytes = REDIS_7, checksum: bytes | None = None) -> bytes:
    """A whole file."""
    data = b"".join([header, *records, b"\xff"])
    return data + (crc64(data).to_bytes(8, "little") if checksum is None else checksum)


def records_of(data: bytes, step: int | None = None, *, knows_size: bool = True) -> list[Record]:
    """The records of a file that comes in pieces of this size."""
    reader = RdbReader(len(data) if knows_size else None)
    step = step or len(data)
    found = [
        record for at in range(0, len(data), step) for record in reader.feed(data[at : at + step])
    ]
    if not reader.is_at_end:
        reader.end()
    return found


def module_id(name: str, version: int = 1) -> bytes:
    """The number of a module's type of nine letters."""
    number = 0
    for letter in name:
        number = number << 6 | LETTERS.index(letter)
    return length(number << 10 | version)
