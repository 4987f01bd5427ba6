"""_rdb.c does the same as the functions in Python that have the same names."""

import random
import struct
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.store.rdb import primitives
from holdfast.store.rdb.crc64 import plain_crc64
from holdfast.store.rdb.file_reader import EXPIRY_MS
from holdfast.store.rdb.file_writer import packed_keys
from holdfast.store.rdb.packed import packed_listpack, plain_lzf
from holdfast.store.rdb.primitives import MOST_BYTES, Reader, finished, length, string
from holdfast.store.rdb.value_codec import (
    HASH,
    HASH_LISTPACK,
    LIST,
    LIST_QUICKLIST_2,
    REDIS_LOADERS,
    SET,
    SET_INTSET,
    SET_LISTPACK,
    STRING,
    ZSET,
    ZSET_LISTPACK,
)

in_c: Any = pytest.importorskip("holdfast.store.rdb._rdb")

LENGTHS = (0, 1, 7, 8, 63, 64, 255, 16_383, 16_384, 70_000)


@pytest.mark.parametrize("size", [*LENGTHS, 300_000])
def test_checksums(size: int) -> None:
    rng = random.Random(size)
    data, before = rng.randbytes(size), rng.getrandbits(64)
    assert in_c.crc64(data, 0) == plain_crc64(data, 0)
    assert in_c.crc64(data, before) == plain_crc64(data, before)


def outcome(function: Any, *args: Any) -> Any:
    try:
        return function(*args)
    except (ValueError, IndexError):
        return "damaged"


@pytest.mark.parametrize("seed", range(20))
def test_compressed_strings_and_damaged_ones(seed: int) -> None:
    """Most random bytes are damaged. Those with short steps back are not."""
    rng = random.Random(seed)
    found = set()
    for _ in range(500):
        data = bytes([rng.randrange(3)]) + rng.randbytes(rng.randrange(12))
        if rng.random() < 0.7:
            data = b"\x03abcd" + b"".join(
                bytes([rng.randrange(1, 8) << 5, *([rng.randrange(9)] * rng.randrange(1, 3))])
                for _ in range(rng.randrange(4))
            )
        for size in (rng.randrange(40), *range(4, 60)):
            there = outcome(plain_lzf, data, size)
            assert outcome(in_c.lzf, data, size) == there
            found.add(there == "damaged")
    assert found == {True, False}


Columns = tuple[list[bytes], list[Any], list[int | None]]

NUMBERS = (0, -1, 127, 128, -4096, 4095, -32_768, 1 << 22, -(1 << 31), 1 << 62, -(1 << 63))
SCORES = (0.0, -1.5, 1e300, float("inf"), float("-inf"))


def some_bytes(rng: random.Random) -> bytes:
    return rng.randbytes(rng.choice(LENGTHS if rng.random() < 0.1 else LENGTHS[:5]))


def some_names(rng: random.Random) -> list[bytes]:
    return list({some_bytes(rng): None for _ in range(rng.choice([1, 2, 5, 40]))})


VALUES: dict[int, Callable[[random.Random], Any]] = {
    STRING: some_bytes,
    LIST: some_names,
    SET: some_names,
    HASH: lambda rng: [(name, some_bytes(rng), None) for name in some_names(rng)],
    ZSET: lambda rng: [(name, rng.choice(SCORES)) for name in some_names(rng)],
}


def some_keys(rng: random.Random, form: int) -> Columns:
    count = rng.randrange(5)
    names = [rng.randbytes(rng.choice(LENGTHS)) for _ in range(count)]
    times = [rng.choice([None, 0, -5, 1 << 40]) for _ in range(count)]
    return names, [VALUES[form](rng) for _ in range(count)], times


def elements(rng: random.Random) -> list[int | bytes]:
    count = rng.choice([1, 2, 3, 6, 40])
    kinds: list[Callable[[], int | bytes]] = [
        lambda: rng.choice(NUMBERS),
        lambda: rng.randbytes(rng.choice(LENGTHS[:8])),
    ]
    return [rng.choice(kinds)() for _ in range(count)]


def some_listpack(rng: random.Random) -> bytes:
    return string(packed_listpack(elements(rng)))


def some_pairs(rng: random.Random) -> bytes:
    """A listpack in which most names are different, and most values are scores."""
    flat: list[int | bytes] = []
    for number in range(rng.choice([1, 3, 20])):
        names: list[int | bytes] = [number, b"name %d" % number, b"again"]
        values: list[int | bytes] = [number, b"-1.5", b"inf", b"nan", b"1_0", b"x"]
        flat += [rng.choice(names), rng.choice(values)]
    return string(packed_listpack(flat))


def some_intset(rng: random.Random) -> bytes:
    size = rng.choice([2, 4, 8, 3])
    numbers = [rng.randbytes(size) for _ in range(rng.randrange(4))]
    return string(struct.pack("<II", size, len(numbers)) + b"".join(numbers))


def some_quicklist(rng: random.Random) -> bytes:
    nodes = [
        rng.choice([b"\x01" + string(some_bytes(rng)), b"\x02" + some_listpack(rng)])
        for _ in range(rng.randrange(3))
    ]
    return length(len(nodes)) + b"".join(nodes)


# Forms that Holdfast only reads.
PACKED: dict[int, Callable[[random.Random], bytes]] = {
    SET_INTSET: some_intset,
    SET_LISTPACK: some_listpack,
    HASH_LISTPACK: some_pairs,
    ZSET_LISTPACK: some_pairs,
    LIST_QUICKLIST_2: some_quicklist,
}


def value_of(form: int) -> Callable[[Reader], Any]:
    return lambda reader: finished(REDIS_LOADERS[form](reader)).content


def read_by_twin(data: bytes, start: int, form: int) -> tuple[Columns, int]:
    reader = Reader(data, to_come=None)
    reader.take(start)
    columns = reader.keys(form, EXPIRY_MS, value_of(form))
    return columns or ([], [], []), reader.position


@pytest.mark.parametrize("form", VALUES)
@pytest.mark.parametrize("seed", range(10))
def test_keys_are_written_and_read(seed: int, form: int) -> None:
    columns = some_keys(random.Random(seed), form)
    data = in_c.packed(*columns, form, EXPIRY_MS)
    assert data == packed_keys(*columns, form, EXPIRY_MS)
    assert in_c.keys(data, 0, form, EXPIRY_MS) == (*columns, len(data))


@pytest.mark.parametrize("form", [*VALUES, *PACKED])
@pytest.mark.parametrize("seed", range(5))
def test_both_read_as_much_of_what_is_cut_off_or_damaged(
    seed: int, form: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(primitives, "IN_C", None)
    rng = random.Random(seed)
    read = 0
    for _ in range(200):
        start = rng.randbytes(rng.randrange(3))
        # A number of 1, 2 or 4 bytes; a compressed string; one that is followed by something else.
        special = rng.choice([b"\xc0\xff", b"\xc1\x01\x80", b"\xc2\xff\xff\xff\x80", b"\xc4"])
        lzf = b"\xc3\x04\x05\x00aaaa"[: rng.randrange(9)] + b"\xc3\x05\x07\x01ab\x60\x01"
        if form in PACKED:
            keys = b"".join(bytes([form]) + string(b"k") + PACKED[form](rng) for _ in range(2))
        else:
            keys = in_c.packed(*some_keys(rng, form), form, EXPIRY_MS)
        data = bytearray(
            start
            + keys
            + rng.choice([b"", bytes([form]) + special + special, bytes([form]) + lzf + special])
            + rng.choice(
                [b"", b"\xfe\x01", b"\xfc", b"\xfc" + bytes(8), b"\xfc" + bytes(8) + b"\x01"]
            )
        )
        for _ in range(rng.randrange(3) if data else 0):
            data[rng.randrange(len(data))] = rng.randrange(256)
        whole = bytes(data[: rng.randrange(len(data) + 1)] if rng.random() < 0.5 else data)
        at = min(len(start), len(whole))
        *columns, end = in_c.keys(whole, at, form, EXPIRY_MS)
        assert (tuple(columns), end) == read_by_twin(whole, at, form)
        read += len(columns[0])
    assert read > 0


@pytest.mark.parametrize(
    ("form", "value"),
    [
        (HASH, b"\x02\x01a\x011\x01a\x012"),  # a name twice
        (SET, b"\x00"),  # no members
        (SET, b"\x02\x01a\x01a"),
        (ZSET, b"\x01\x01a" + struct.pack("<d", float("nan"))),
        (ZSET_LISTPACK, string(packed_listpack([b"a", b"nan"]))),
        (ZSET_LISTPACK, string(packed_listpack([b"a", b"x"]))),
        (HASH_LISTPACK, string(packed_listpack([b"a"]))),  # no value
        (LIST_QUICKLIST_2, b"\x01\x03\x01a"),  # a node of an unknown kind
        (SET_INTSET, string(struct.pack("<II", 2, 2) + b"\x01\x00\x01\x00")),
        (LIST, b"\x81" + b"\xff" * 8),
        (HASH, b"\x81\x80" + b"\x00" * 7),  # twice as many strings are none in 64 bits
    ],
)
def test_a_value_that_is_wrong_is_left_to_the_reader_of_parts(
    form: int, value: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = bytes([form]) + string(b"k") + value
    assert in_c.keys(data, 0, form, EXPIRY_MS) == ([], [], [], 0)
    monkeypatch.setattr(primitives, "IN_C", None)
    assert read_by_twin(data, 0, form) == (([], [], []), 0)


def test_both_leave_a_large_collection_to_the_reader_of_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    small, large = [b"x" * (MOST_BYTES - 100)], [b"x" * MOST_BYTES]
    data = packed_keys([b"a", b"b"], [small, large], [None, None], LIST, EXPIRY_MS)
    there = in_c.keys(data, 0, LIST, EXPIRY_MS)
    assert there[:3] == ([b"a"], [small], [None])
    monkeypatch.setattr(primitives, "IN_C", None)
    assert read_by_twin(data, 0, LIST) == (there[:3], there[3])


def test_calls_that_make_no_sense() -> None:
    for args in (
        (bytearray(), 0, STRING, EXPIRY_MS),
        (b"", 0, STRING),
        (b"", 0, STRING, None),
    ):
        with pytest.raises(TypeError):
            in_c.keys(*args)
    with pytest.raises(ValueError, match="not in the bytes"):
        in_c.keys(b"", 1, STRING, EXPIRY_MS)
    with pytest.raises(ValueError, match="one length"):
        in_c.packed([b"a"], [], [], STRING, EXPIRY_MS)
    with pytest.raises(TypeError):
        in_c.packed(["a"], [b"a"], [None], STRING, EXPIRY_MS)
    for form, value in (
        (STRING, "a"),
        (STRING, [b"a"]),
        (LIST, (b"a",)),
        (SET, ["a"]),
        (HASH, [(b"a", b"b")]),
        (HASH, [(b"a", b"b", 5)]),
        (HASH, [(b"a", "b", None)]),
        (HASH, [[b"a", b"b", None]]),
        (ZSET, [(b"a", 1)]),
        (ZSET, [("a", 1.0)]),
        (SET_LISTPACK, [b"a"]),
    ):
        with pytest.raises(TypeError):
            in_c.packed([b"a"], [value], [None], form, EXPIRY_MS)
    with pytest.raises(TypeError):
        in_c.packed([b"a"], [b"a"], [1.5], STRING, EXPIRY_MS)
    with pytest.raises(OverflowError):
        in_c.packed([b"a"], [b"a"], [1 << 70], STRING, EXPIRY_MS)
    with pytest.raises(ValueError, match="length"):
        in_c.lzf(b"", -1)
