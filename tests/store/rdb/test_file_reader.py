"""RDB files of all versions, made by hand. tests/migration reads files of Redis and Valkey."""

import random
import struct
import tracemalloc

import pytest

from holdfast.store.rdb.file_reader import RdbFileError, RdbReader, UnknownTypeError
from holdfast.store.rdb.file_writer import FORMATS, RdbWriter
from holdfast.store.rdb.packed import packed_listpack
from holdfast.store.rdb.plain import Plain
from holdfast.store.rdb.primitives import LARGE, length, string
from holdfast.store.rdb.records import Aux, End, Entry, Library, Record, Sizes, Unknown
from holdfast.store.values.stream_id import id_of, to_row
from tests.store.rdb.rdb_bytes import (
    REDIS_7,
    REDIS_74,
    REDIS_86,
    REDIS_88,
    VALKEY_9,
    module_id,
    rdb,
    records_of,
)

STRING_RECORD = b"\x00" + string(b"s") + string(b"text")
STRING_ENTRY = Entry(0, b"s", Plain("string", b"text"))


def entries(data: bytes) -> list[Record]:
    """The records, without the end."""
    *found, end = records_of(data)
    assert isinstance(end, End)
    return found


# -- the stream -------------------------------------------------------------------------------


def test_records_that_are_no_keys() -> None:
    data = rdb(
        b"\xfa" + string(b"redis-ver") + string(b"7.0.15"),
        b"\xf5" + string(b"#!lua name=l\n"),
        b"\xfe\x03",
        b"\xfb\x05\x02",
        STRING_RECORD,
    )
    assert records_of(data) == [
        Aux(b"redis-ver", b"7.0.15"),
        Library(b"#!lua name=l\n"),
        Sizes(3, 5, 2),
        STRING_ENTRY._replace(database=3),
        End(10, True),
    ]


def test_attributes_belong_to_the_next_key_only() -> None:
    data = rdb(
        b"\xfc" + struct.pack("<q", 1_700_000_000_123) + b"\xf8\x40\x50" + STRING_RECORD,
        b"\xfd" + struct.pack("<i", 1_700_000_000) + b"\xf9\xff" + STRING_RECORD,
        STRING_RECORD,
    )
    assert entries(data) == [
        STRING_ENTRY._replace(expires_at_ms=1_700_000_000_123, idle_s=80),
        STRING_ENTRY._replace(expires_at_ms=1_700_000_000_000, frequency=255),
        STRING_ENTRY,
    ]


@pytest.mark.parametrize("step", [1, 2, 3, 7, 64, 10_000])
def test_pieces_of_any_size_give_the_same_records(rng: random.Random, step: int) -> None:
    written: list[bytes] = []
    writer = RdbWriter(written.append, FORMATS["redis8"])
    writer.begin({b"ctime": b"1"})
    writer.database(1, 4, 0)
    writer.entry(b"list", Plain("list", [rng.randbytes(n) for n in range(100)]), 5)
    writer.entry(b"zset", Plain("zset", [(b"m%d" % n, n / 7) for n in range(100)]), None)
    writer.entry(b"hash", Plain("hash", [(b"f%d" % n, b"v", n or None) for n in range(9)]), None)
    writer.entry(b"text", Plain("string", rng.randbytes(20_000)), None)
    writer.end()
    data = b"".join(written)
    assert records_of(data, step) == records_of(data, step, knows_size=False) == records_of(data)
    assert len(entries(data)) == 6


def test_the_end_leaves_the_bytes_behind_it() -> None:
    """Commands of an append-only file, or the mark at the end of a replication."""
    data = rdb(STRING_RECORD) + b"*1\r\n$4\r\nPING\r\n"
    reader = RdbReader()
    assert len(list(reader.feed(data))) == 2
    assert reader.is_at_end
    assert reader.rest() == b"*1\r\n$4\r\nPING\r\n"


def test_a_checksum_may_be_missing() -> None:
    assert records_of(rdb(STRING_RECORD, checksum=bytes(8)))[-1] == End(10, False)
    before_checksums = rdb(STRING_RECORD, header=b"REDIS0004", checksum=b"")
    assert records_of(before_checksums)[-1] == End(4, False)


# -- damage -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", "not an RDB file"),
        (b"REDIS", "not an RDB file"),
        (b"SQLite format 3\0", "not an RDB file"),
        (b"REDIS00x1 ", "not an RDB file"),
        (b"REDIS0099\xff", "an RDB file of version 99 of Redis, which this Holdfast does not know"),
        (b"VALKEY079\xff", "an RDB file of version 79 of Valkey"),
        (rdb(STRING_RECORD)[:-1], "damaged at byte 18, in its checksum: the data ends early"),
        (rdb(STRING_RECORD)[:14], "in key 's' of database 0: the data ends early"),
        (rdb(STRING_RECORD, checksum=b"12345678"), "damaged: its checksum is wrong"),
        (rdb(b"\xf0"), "damaged at byte 10, in its next record: no record begins with 240"),
        (rdb(b"\x00\xbf"), "in the name of a key: not a length"),
        (rdb(b"\x02" + string(b"k") + b"\x02\x01a\x01a"), "in key 'k' of database 0: something is"),
        (rdb(b"\x00" + string(b"x" * 500) + b"\xff"), "in key 'xxx"),
    ],
)
def test_a_damaged_file_gives_one_sentence(data: bytes, error: str) -> None:
    for knows_size in (True, False):
        with pytest.raises(RdbFileError) as raised:
            records_of(data, 3, knows_size=knows_size)
        assert error in str(raised.value)
        assert len(str(raised.value)) < 200


@pytest.mark.parametrize("knows_size", [True, False])
@pytest.mark.parametrize("form", [0, 1, 2, 4, 5, 13, 14, 18, 19, 24])
def test_a_damaged_length_reserves_no_memory(form: int, knows_size: bool) -> None:
    huge = b"\x81" + (1 << 60).to_bytes(8, "big")
    data = rdb(bytes([form]) + string(b"k") + huge * 2)
    tracemalloc.start()
    try:
        with pytest.raises(RdbFileError):
            records_of(data, knows_size=knows_size)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20


def test_a_compressed_string_cannot_claim_more_than_it_can_hold() -> None:
    claim = b"\xc3" + length(3) + length(1 << 40)
    with pytest.raises(RdbFileError, match="not of the length that it says"):
        records_of(rdb(b"\x00" + string(b"k") + claim + b"\xe0\xff\x00"))


def test_a_large_string_is_held_once() -> None:
    size = 40 * LARGE
    start = REDIS_7 + b"\x00" + string(b"k") + length(size)
    piece = bytes(range(256)) * 1024
    reader = RdbReader(len(start) + size + 1)
    found: list[Record] = []
    tracemalloc.start()
    try:
        found += reader.feed(start)
        for _ in range(size // len(piece)):
            found += reader.feed(piece)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    [entry] = found
    assert isinstance(entry, Entry)
    assert entry.value.content == piece * (size // len(piece))
    assert peak < size * 1.3


# -- forms of versions ------------------------------------------------------------------------


def test_hashes_with_expiring_fields_of_all_servers() -> None:
    fields = [(b"a", b"1", None), (b"b", b"2", 1_800_000_000_000)]
    flat: list[int | bytes] = [b"a", b"1", 0, b"b", b"2", 1_800_000_000_000]
    first = struct.pack("<Q", 1_800_000_000_000)
    late = length(1_800_000_000_000)
    forms = {
        (REDIS_74, 24): first + b"\x02\x00\x01a\x011" + b"\x01\x01b\x012",
        (REDIS_74, 25): first + string(packed_listpack(flat)),
        (REDIS_74, 22): b"\x02\x00\x01a\x011" + late + b"\x01b\x012",
        (REDIS_74, 23): string(packed_listpack(flat)),
        (VALKEY_9, 22): b"\x02\x01a\x011" + b"\xff" * 8 + b"\x01b\x012" + first,
    }
    for (header, form), body in forms.items():
        data = rdb(bytes([form]) + string(b"h") + body, header=header)
        assert entries(data) == [Entry(0, b"h", Plain("hash", fields))], form


def stream_body(version: int) -> tuple[bytes, int]:
    """A stream of one entry, which a consumer has, without what follows the groups; its id."""
    entry_id = id_of(1000, 1)
    id_row = to_row(entry_id)
    node = packed_listpack([1, 0, 1, b"f", 0, 2, 0, 0, b"v", 4])
    stream_id, count = length(1000) + length(1), length(1)
    body = count + string(id_row) + string(node) + count + stream_id
    if version > 1:
        body += stream_id + length(0) + length(0) + count
    body += count + string(b"g") + stream_id
    if version > 1:
        body += count
    body += count + id_row + struct.pack("<q", 77) + length(3)
    body += count + string(b"me") + struct.pack("<q", 88)
    if version > 2:
        body += struct.pack("<q", 99)
    return body + count + id_row, entry_id


@pytest.mark.parametrize(("version", "form"), [(1, 15), (2, 19), (3, 21), (4, 26), (5, 27)])
def test_streams_of_all_versions(version: int, form: int) -> None:
    body, entry_id = stream_body(version)
    if version > 4:
        body += length(0)
    if version > 3:  # one producer with two ids, and the counters of producers
        body += length(100) + length(10) + length(1) + string(b"p") + length(2)
        body += (string(b"iid") + length(1000) + length(1)) * 2 + length(2) + length(0)
    [entry] = entries(rdb(bytes([form]) + string(b"x") + body, header=REDIS_88))
    assert isinstance(entry, Entry)
    data = entry.value.content
    assert data.entries == [(entry_id, (b"f", b"v"))]
    [group] = data.groups
    assert (group.name, group.consumers) == (b"g", [(b"me", 88)])
    assert group.pending == [(entry_id, b"me", 77, 3)]
    assert group.entries_read == 1  # the first version has no count; it follows from the last id


def test_entries_of_a_stream_that_were_returned() -> None:
    body, entry_id = stream_body(5)
    body = body[: -len(length(1)) - 16] + length(0)  # the consumer has nothing …
    body += length(1) + to_row(entry_id)  # … because the entry was returned
    body += length(100) * 2 + length(0) * 3
    data = rdb(b"\x1b" + string(b"x") + body, STRING_RECORD, header=REDIS_88)
    stream, string_entry = entries(data)
    assert string_entry == STRING_ENTRY
    assert isinstance(stream, Entry)
    [group] = stream.value.content.groups
    assert (group.pending, group.returned) == ([], [(entry_id, 3)])
    assert stream.value.content.idempotence is None


def test_values_of_modules_are_named_and_passed_over() -> None:
    value = b"\x02\x05" + b"\x01\x05" + b"\x03abcd" + b"\x04abcdefgh" + b"\x05" + string(b"text")
    data = rdb(
        b"\xf7" + module_id("ReJSON-RL") + b"\x02\x01" + value + b"\x00",
        b"\xf3\x01" + b"spec" + value + b"\x00",
        b"\x07" + string(b"v") + module_id("vectorset") + value + b"\x00",
        STRING_RECORD,
        header=REDIS_86,
    )
    assert entries(data) == [Unknown(0, b"v", "vectorset of a module"), STRING_ENTRY]


def test_clusters_of_redis_and_valkey() -> None:
    assert entries(rdb(b"\xf4\x01\x02\x03", STRING_RECORD)) == [STRING_ENTRY]
    slots = b"\xf3" + string(b"job") + b"\x02" + b"\x00\x05" + b"\x07\x09"
    assert entries(rdb(slots, STRING_RECORD, header=VALKEY_9)) == [STRING_ENTRY]


def test_a_library_of_a_release_candidate_is_named() -> None:
    for description in (b"\x00", b"\x01" + string(b"text")):
        old = b"\xf6" + string(b"lib") + string(b"LUA") + description + string(b"code")
        kind = "library of a release candidate of Redis 7.0"
        assert entries(rdb(old, STRING_RECORD)) == [Unknown(0, b"lib", kind), STRING_ENTRY]


@pytest.mark.parametrize(
    ("header", "form", "kind"),
    [
        (REDIS_88, 28, "array (of Redis 8.8)"),
        (REDIS_88, 99, "number 99"),
        (REDIS_88, 6, "module (of a release candidate of Redis 4.0)"),
        (VALKEY_9, 24, "number 24"),
    ],
)
def test_a_type_without_a_known_end_stops_the_reader(header: bytes, form: int, kind: str) -> None:
    data = rdb(bytes([form]) + string(b"key") + b"\x01\x02", header=header)
    with pytest.raises(UnknownTypeError) as raised:
        records_of(data)
    assert f"key 'key' of database 0 is of the type {kind}, which" in str(raised.value)


@pytest.mark.parametrize("form", [1, 2, 4, 5])
def test_a_collection_without_elements_is_passed_over(form: int) -> None:
    """Redis once wrote such by mistake, and passes over them, too."""
    empty = bytes([form]) + string(b"empty") + b"\x00"
    assert entries(rdb(empty, STRING_RECORD)) == [STRING_ENTRY]
