"""The serialisation's parts by themselves; tests/wire/test_oracle_dump.py asks redis-server."""

import random

import pytest

from holdfast.store.rdb import packed, value_codec
from holdfast.store.rdb.crc64 import crc64
from holdfast.store.rdb.plain import Plain
from holdfast.store.rdb.primitives import Reader, length


def bitwise(data: bytes) -> int:
    crc = 0
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x95AC9329AC4BC9B5 if crc & 1 else 0)
    return crc


def test_the_checksum_of_the_usual_nine_digits() -> None:
    assert crc64(b"123456789") == 0xE9C6D914C4B8D9CA


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 1750, 1751, 1752, 3502, 3503, 14_009, 140_000])
def test_folding_leaves_the_checksum_as_it_is(rng: random.Random, length: int) -> None:
    data = rng.randbytes(length)
    assert crc64(data) == bitwise(data)


def test_a_listpack_holds_what_was_put_in(rng: random.Random) -> None:
    numbers = [
        sign * (1 << bits) + off for bits in range(63) for sign in (1, -1) for off in (-1, 0)
    ]
    texts = [rng.randbytes(length) for length in (0, 1, 63, 64, 4095, 4096, 16_380, 16_400, 70_000)]
    elements: list[int | bytes] = [*numbers, *texts]
    rng.shuffle(elements)
    expected = [element if isinstance(element, bytes) else b"%d" % element for element in elements]
    assert packed.listpack(packed.packed_listpack(elements)) == expected


@pytest.mark.parametrize("number", [0, 63, 64, 16_383, 16_384, 2**32 - 1, 2**32, 2**64 - 1])
def test_lengths(number: int) -> None:
    assert Reader(length(number)).length() == number


def test_any_damage_is_noticed(rng: random.Random) -> None:
    payload = value_codec.dump(Plain("list", [b"a", b"b", rng.randbytes(5000)]))
    for _ in range(200):
        at, bit = rng.randrange(len(payload)), 1 << rng.randrange(8)
        damaged = payload[:at] + bytes([payload[at] ^ bit]) + payload[at + 1 :]
        with pytest.raises(value_codec.ChecksumError):
            value_codec.load(damaged)


def test_nonsense_is_an_error_of_ours(rng: random.Random) -> None:
    """Any bytes with a correct checksum give a value or RdbError."""
    for _ in range(3000):
        data = bytes([rng.randrange(26)]) + rng.randbytes(rng.randrange(40)) + b"\x0a\x00"
        try:
            value_codec.load(data + crc64(data).to_bytes(8, "little"))
        except value_codec.ChecksumError:
            raise
        except value_codec.RdbError:
            pass
