"""Files that are written are read again, in all formats. tests/migration has Redis load them."""

import random

import pytest

from holdfast.store.change.change_log import ChangeLog
from holdfast.store.rdb.file_writer import BLOCK_BYTES, FORMATS, FieldExpiryError, RdbWriter
from holdfast.store.rdb.plain import Plain, plain_of
from holdfast.store.rdb.records import Aux, End, Entry, Library, Record, Sizes
from holdfast.store.values.stream import Stream
from tests.store.rdb.rdb_bytes import records_of

FIELDS = [(b"a", b"1", None), (b"b", b"2", 1_800_000_000_000), (b"c", b"3", 1_700_000_000_000)]


def a_stream() -> Stream:
    log = ChangeLog()
    stream = Stream(1)
    for number in range(1, 250):
        stream.add(number << 64, (b"field", b"%d" % number) * (1 + number % 2), log)
    stream.set_group(b"g", 100 << 64, 100, log)
    stream.set_group(b"h", 0, None, log)
    group = stream.groups[b"g"]
    for name in (b"one", b"two"):
        stream.see_consumer(group, name, 1234, log)
        for number in range(1, 50, len(name)):
            stream.assign(group, number << 64, (name, 77, number), log)
    return stream


def all_values(rng: random.Random) -> list[Plain]:
    return [
        Plain("string", b""),
        Plain("string", rng.randbytes(3 * BLOCK_BYTES)),
        Plain("list", [b"", b"a", *(rng.randbytes(size) for size in (1, 63, 64, 20_000))]),
        Plain("list", [b"%d" % number for number in range(40_000)]),
        Plain("set", [b"1", b"2", b"three"]),
        Plain("zset", [(b"a", 1.5), (b"b", float("inf")), (b"c", float("-inf"))]),
        Plain("hash", [(b"f", b"v", None)]),
        plain_of(a_stream()),
        plain_of(Stream(2)),
    ]


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_written_is_read(rng: random.Random, name: str) -> None:
    written: list[bytes] = []
    writer = RdbWriter(written.append, FORMATS[name])
    writer.begin({b"redis-ver": b"7.2.0"})
    writer.library(b"#!lua name=l\n")
    expected: list[Record] = [Aux(b"redis-ver", b"7.2.0"), Library(b"#!lua name=l\n")]
    values = all_values(rng)
    if name != "redis7":
        values.append(Plain("hash", FIELDS))
    for database in (0, 9):
        writer.database(database, len(values), 1)
        expected.append(Sizes(database, len(values), 1))
        for number, value in enumerate(values):
            expires_at_ms = number or None
            writer.entry(b"key %d" % number, value, expires_at_ms)
            expected.append(Entry(database, b"key %d" % number, value, expires_at_ms))
    writer.end()
    *found, end = records_of(b"".join(written), 70_000)
    assert found == expected
    assert end == End({"redis7": 10, "redis8": 12, "valkey9": 80}[name], True)


def test_blocks_have_a_steady_size(rng: random.Random) -> None:
    """Memory holds one block, and a large string leaves as it is."""
    written: list[bytes] = []
    writer = RdbWriter(written.append, FORMATS["redis7"])
    writer.begin({})
    writer.entry(b"many", Plain("list", [b"x" * 100] * 10_000), None)
    large = rng.randbytes(5 * BLOCK_BYTES)
    writer.entry(b"large", Plain("string", large), None)
    writer.end()
    assert any(block is large for block in written)
    assert max(len(block) for block in written if block is not large) <= BLOCK_BYTES + 200
    assert len(written) < 20


def test_a_format_without_expiring_fields_refuses_them() -> None:
    written: list[bytes] = []
    writer = RdbWriter(written.append, FORMATS["redis7"])
    writer.begin({})
    with pytest.raises(FieldExpiryError):
        writer.entry(b"h", Plain("hash", FIELDS), 5)
    writer.entry(b"s", Plain("string", b"x"), None)
    writer.end()
    assert records_of(b"".join(written)) == [Entry(0, b"s", Plain("string", b"x")), End(10, True)]
