"""_rdb.c does the same as the functions in Python that have the same names."""

import random
from typing import Any

import pytest

from holdfast.store.rdb import primitives
from holdfast.store.rdb.crc64 import plain_crc64
from holdfast.store.rdb.file_reader import EXPIRY_MS
from holdfast.store.rdb.file_writer import packed_strings
from holdfast.store.rdb.packed import plain_lzf
from holdfast.store.rdb.primitives import Reader
from holdfast.store.rdb.value_codec import STRING

in_c: Any = pytest.importorskip("holdfast.store.rdb._rdb")

LENGTHS = (0, 1, 7, 8, 63, 64, 255, 16_383, 16_384, 70_000)


@pytest.mark.parametrize("length", [*LENGTHS, 300_000])
def test_checksums(length: int) -> None:
    rng = random.Random(length)
    data, before = rng.randbytes(length), rng.getrandbits(64)
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
        for length in (rng.randrange(40), *range(4, 60)):
            there = outcome(plain_lzf, data, length)
            assert outcome(in_c.lzf, data, length) == there
            found.add(there == "damaged")
    assert found == {True, False}


def some_strings(rng: random.Random) -> tuple[list[bytes], list[bytes], list[int | None]]:
    count = rng.randrange(5)
    texts = [rng.randbytes(rng.choice(LENGTHS)) for _ in range(2 * count)]
    times = [rng.choice([None, 0, -5, 1 << 40]) for _ in range(count)]
    return texts[:count], texts[count:], times


@pytest.mark.parametrize("seed", range(20))
def test_strings_are_written_and_read(seed: int) -> None:
    rng = random.Random(seed)
    columns = some_strings(rng)
    data = in_c.packed(*columns, STRING, EXPIRY_MS)
    assert data == packed_strings(*columns, STRING, EXPIRY_MS)
    assert in_c.strings(data, 0, STRING, EXPIRY_MS) == (*columns, len(data))


@pytest.mark.parametrize("seed", range(20))
def test_both_read_as_much_of_what_is_cut_off_or_damaged(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(primitives, "IN_C", None)
    rng = random.Random(seed)
    for _ in range(200):
        start = rng.randbytes(rng.randrange(3))
        # A number of 1, 2 or 4 bytes; a compressed string; one that is followed by something else.
        special = rng.choice([b"\xc0\xff", b"\xc1\x01\x80", b"\xc2\xff\xff\xff\x80", b"\xc4"])
        lzf = b"\xc3\x04\x05\x00aaaa"[: rng.randrange(9)] + b"\xc3\x05\x07\x01ab\x60\x01"
        data = bytearray(
            start
            + in_c.packed(*some_strings(rng), STRING, EXPIRY_MS)
            + rng.choice([b"", b"\x00" + special + special, b"\x00" + lzf + special])
            + rng.choice(
                [b"", b"\xfe\x01", b"\xfc", b"\xfc" + bytes(8), b"\xfc" + bytes(8) + b"\x01"]
            )
        )
        if data and rng.random() < 0.7:
            data[rng.randrange(len(data))] = rng.randrange(256)
        whole = bytes(data[: rng.randrange(len(data) + 1)] if rng.random() < 0.5 else data)
        reader = Reader(whole, to_come=None)
        reader.take(min(len(start), len(whole)))
        *columns, at = in_c.strings(whole, reader.position, STRING, EXPIRY_MS)
        assert (reader.strings(STRING, EXPIRY_MS) or ([], [], [])) == tuple(columns)
        assert reader.position == at


def test_calls_that_make_no_sense() -> None:
    for args in (
        (bytearray(), 0, STRING, EXPIRY_MS),
        (b"", 0, STRING),
        (b"", 0, STRING, None),
    ):
        with pytest.raises(TypeError):
            in_c.strings(*args)
    with pytest.raises(ValueError, match="not in the bytes"):
        in_c.strings(b"", 1, STRING, EXPIRY_MS)
    with pytest.raises(ValueError, match="one length"):
        in_c.packed([b"a"], [], [], STRING, EXPIRY_MS)
    with pytest.raises(TypeError):
        in_c.packed([b"a"], ["a"], [None], STRING, EXPIRY_MS)
    with pytest.raises(OverflowError):
        in_c.packed([b"a"], [b"a"], [1 << 70], STRING, EXPIRY_MS)
    with pytest.raises(ValueError, match="length"):
        in_c.lzf(b"", -1)
