"""The serialisation's parts by themselves; tests/wire/test_oracle_dump.py asks redis-server."""

import random

import pytest

from holdfast.store.change.change_log import ChangeLog
from holdfast.store.rdb import packed, value_codec
from holdfast.store.rdb.crc64 import crc64
from holdfast.store.rdb.plain import Plain, plain_of
from holdfast.store.rdb.primitives import Reader, finished, length
from holdfast.store.values import stream_producers
from holdfast.store.values.stream import Stream
from holdfast.store.values.stream_id import id_of, to_row


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


def stream_of_redis_8(form: int, group_end: bytes, end: bytes) -> bytes:
    """An empty stream with a group `g` that has two pending entries, one of the consumer `c`."""
    entries = length(0) * 8  # no nodes, no entries; the last, the first and the deleted id; added
    pending = b"".join([to_row(number) + bytes(8) + length(number) for number in (1, 2)])
    consumer = b"\x01c" + bytes(8) + bytes(8) + length(1) + to_row(1)
    group = b"\x01g" + length(0) * 3 + length(2) + pending + length(1) + consumer + group_end
    body = bytes([form]) + entries + length(0) + length(1) + group + end
    body += (14).to_bytes(2, "little")
    return body + crc64(body).to_bytes(8, "little")


IDEMPOTENCE = length(7) + length(8) + length(1) + b"\x01p" + length(1) + b"\x03iid"
IDEMPOTENCE += length(5) + length(6) + length(9) + length(10)


def test_a_stream_of_redis_8_8_has_returned_entries_and_idempotent_ids() -> None:
    returned = length(1) + to_row(2)
    data = value_codec.load(stream_of_redis_8(27, returned, IDEMPOTENCE)).content
    (group,) = data.groups
    assert group.pending == [(1, b"c", 0, 1)]
    assert group.returned == [(2, 2)]
    assert data.idempotence == (7, 8, 9, 10)
    assert data.iids == [(b"p", b"iid", id_of(5, 6))]


@pytest.mark.parametrize(
    "broken",
    [
        stream_of_redis_8(26, b"", IDEMPOTENCE),  # 8.6 has no returned entries
        stream_of_redis_8(27, length(0), IDEMPOTENCE),
        stream_of_redis_8(27, length(1) + to_row(3), IDEMPOTENCE),
        stream_of_redis_8(27, length(2) + to_row(2) + to_row(1), IDEMPOTENCE),
        stream_of_redis_8(27, length(1) + to_row(2), IDEMPOTENCE[:-2]),
        stream_of_redis_8(27, length(1) + to_row(2), length(0) + IDEMPOTENCE[1:]),
    ],
)
def test_a_pending_entry_has_a_consumer_or_was_returned(broken: bytes) -> None:
    with pytest.raises(value_codec.RdbError):
        value_codec.load(broken)


def test_only_a_stream_that_needs_it_has_the_form_of_redis_8_8() -> None:
    stream, log = Stream(1), ChangeLog()
    stream.set_group(b"g", 0, 0, log)
    assert value_codec.dump(plain_of(stream))[0] == 19
    for number in (7, 5, 6):
        stream.hand_back(stream.groups[b"g"], to_row(number), 3, log)
    dumped = value_codec.dump(plain_of(stream))
    assert dumped[0] == 27
    data = value_codec.load(dumped).content
    assert data.groups[0].returned == [(7, 3), (5, 3), (6, 3)]
    assert data.idempotence is None
    stream_producers.begin(stream, 100, 50, log)
    stream_producers.record(stream, b"p", b"1", id_of(9, 9), 9, log)
    data = value_codec.load(value_codec.dump(plain_of(stream))).content
    assert data.idempotence == (100, 50, 1, 0)
    assert data.iids == [(b"p", b"1", id_of(9, 9))]


def test_in_the_form_of_redis_7_a_returned_entry_can_still_be_claimed() -> None:
    """RDB files have that form: the entry belongs to a consumer without a name, since ever."""
    stream, log = Stream(1), ChangeLog()
    stream.set_group(b"g", 0, 0, log)
    stream.hand_back(stream.groups[b"g"], to_row(7), 3, log)
    plain = plain_of(stream)
    body = b"".join(value_codec.pieces(plain.content, value_codec.form_of(plain)))
    data = finished(value_codec.LOADERS[value_codec.STREAM_2](Reader(body))).content
    assert data.groups[0].consumers == [(b"", 0)]
    assert data.groups[0].pending == [(7, b"", 0, 3)]
