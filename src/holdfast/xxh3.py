"""XXH3, a hash function of 64 bits that is quick and not cryptographic. DIGEST of Redis 8.4 shows
it, so clients compute the same number with any library that has it.

Imports nothing of ours but _xxh3.c, if that is compiled. Without it, built-in functions of Python,
which run in C, compute the sums of each block of 1 KB: a megabyte takes about 15 ms.
"""

from collections.abc import Iterator
from operator import mul
from struct import unpack_from
from typing import Any, Final

try:
    from holdfast._xxh3 import absorb
except ImportError:  # it is compiled where that is possible
    IN_C: Any = None
else:
    IN_C = absorb

BITS_64: Final = (1 << 64) - 1
BITS_32: Final = (1 << 32) - 1

P32_1, P32_2, P32_3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
P64_1, P64_2, P64_3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
P64_4, P64_5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
MIX_1, MIX_2 = 0x165667919E3779F9, 0x9FB21C651E98DF25

SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578"
    "825ad07dccff7221b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea3"
    "71644897a20df94e3819ef46a9deacd8a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931"
    "c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e"
    "2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
LANES: Final = 8
STRIPE: Final = 64  # bytes: one word of 64 bits for each lane
BLOCK: Final = 1024  # each of its 16 stripes is combined with the secret at another place
STRIPES_OF_BLOCK: Final = BLOCK // STRIPE


def digest(data: bytes) -> int:
    """The hash of the data, without a seed."""
    length = len(data)
    if length > 240:
        return _of_long(data)
    if length > 128:
        return _of_240(data)
    if length > 16:
        return _of_128(data)
    if length > 8:
        low = _word(data, 0) ^ _word(SECRET, 24) ^ _word(SECRET, 32)
        high = _word(data, length - 8) ^ _word(SECRET, 40) ^ _word(SECRET, 48)
        turned = int.from_bytes(low.to_bytes(8, "little"), "big")
        return _avalanche(length + turned + high + _folded(low, high))
    if length > 3:
        first, last = unpack_from("<I", data)[0], unpack_from("<I", data, length - 4)[0]
        return _mixed_twice((last + (first << 32)) ^ _word(SECRET, 8) ^ _word(SECRET, 16), length)
    if length:
        first, middle, last = data[0], data[length >> 1], data[-1]
        word = first << 16 | middle << 24 | last | length << 8
        low, high = unpack_from("<II", SECRET)
        return _avalanche_64(word ^ low ^ high)
    return _avalanche_64(_word(SECRET, 56) ^ _word(SECRET, 64))


def hex_digest(data: bytes) -> bytes:
    """The hash as DIGEST shows it: sixteen hexadecimal digits."""
    return b"%016x" % digest(data)


# -- up to 240 bytes --------------------------------------------------------------------------


def _of_128(data: bytes) -> int:
    """17 to 128 bytes: pairs of words from both ends."""
    length = len(data)
    total = length * P64_1
    for at in range((length - 1) // 32, -1, -1):
        total += _mixed(data, 16 * at, 32 * at)
        total += _mixed(data, length - 16 * (at + 1), 32 * at + 16)
    return _avalanche(total)


def _of_240(data: bytes) -> int:
    """129 to 240 bytes: pairs of words one after the other."""
    length = len(data)
    total = _avalanche(length * P64_1 + sum(_mixed(data, 16 * at, 16 * at) for at in range(8)))
    total += sum(_mixed(data, 16 * at, 16 * (at - 8) + 3) for at in range(8, length // 16))
    return _avalanche(total + _mixed(data, length - 16, 136 - 17))


def _mixed(data: bytes, at: int, secret_at: int) -> int:
    low = _word(data, at) ^ _word(SECRET, secret_at)
    return _folded(low, _word(data, at + 8) ^ _word(SECRET, secret_at + 8))


# -- longer ones ------------------------------------------------------------------------------


def _keys(secret_at: int, stripes: int) -> int:
    """The parts of the secret for this number of stripes, as one number to combine with their
    data."""
    parts = [SECRET[secret_at + 8 * n : secret_at + 8 * n + STRIPE] for n in range(stripes)]
    return int.from_bytes(b"".join(parts), "little")


_BLOCK_KEYS = _keys(0, STRIPES_OF_BLOCK)
_FIRST_LANES = (P32_3, P64_1, P64_2, P64_3, P64_4, P32_2, P64_5, P32_1)
_SCRAMBLE_KEYS = unpack_from("<8Q", SECRET, len(SECRET) - STRIPE)


def _of_long(data: bytes) -> int:
    length = len(data)
    view = memoryview(data)
    begin = (length - 1) // BLOCK * BLOCK
    lanes: list[int] = (IN_C or _absorb)(view[:begin], SECRET, _FIRST_LANES)
    stripes = (length - 1 - begin) // STRIPE
    for part, keys in (
        (view[begin : begin + stripes * STRIPE], _keys(0, stripes)),
        (view[length - STRIPE :], _keys(len(SECRET) - STRIPE - 7, 1)),
    ):
        for at, addend in enumerate(_sums(part, keys)):
            lanes[at] = lanes[at] + addend & BITS_64
    secrets = unpack_from("<8Q", SECRET, 11)
    total = length * P64_1
    for at in range(0, LANES, 2):
        total += _folded(lanes[at] ^ secrets[at], lanes[at + 1] ^ secrets[at + 1])
    return _avalanche(total)


def _absorb(blocks: memoryview, _secret: bytes, first_lanes: tuple[int, ...]) -> list[int]:
    """The lanes after whole blocks. `absorb` in _xxh3.c does the same."""
    lanes = list(first_lanes)
    for begin in range(0, len(blocks), BLOCK):
        for at, addend in enumerate(_sums(blocks[begin : begin + BLOCK], _BLOCK_KEYS)):
            lane = lanes[at] + addend & BITS_64
            lane ^= lane >> 47 ^ _SCRAMBLE_KEYS[at]
            lanes[at] = lane * P32_1 & BITS_64
    return lanes


def _sums(part: memoryview, keys: int) -> Iterator[int]:
    """The numbers that stripes add to each lane: its products, and the words of the lane beside
    it."""
    words = unpack_from(f"<{len(part) // 8}Q", part)
    keyed = (int.from_bytes(part, "little") ^ keys).to_bytes(len(part), "little")
    halves = unpack_from(f"<{len(part) // 4}I", keyed)
    products = list(map(mul, halves[::2], halves[1::2]))
    for lane in range(LANES):
        yield sum(products[lane::LANES]) + sum(words[lane ^ 1 :: LANES])


# -- parts ------------------------------------------------------------------------------------


def _word(data: bytes, at: int) -> int:
    word: int = unpack_from("<Q", data, at)[0]
    return word


def _folded(a: int, b: int) -> int:
    """The two halves of a product, combined."""
    product = (a & BITS_64) * (b & BITS_64)
    return (product ^ product >> 64) & BITS_64


def _avalanche(number: int) -> int:
    number &= BITS_64
    number ^= number >> 37
    number = number * MIX_1 & BITS_64
    return number ^ number >> 32


def _avalanche_64(number: int) -> int:
    number &= BITS_64
    number = (number ^ number >> 33) * P64_2 & BITS_64
    number = (number ^ number >> 29) * P64_3 & BITS_64
    return number ^ number >> 32


def _mixed_twice(number: int, length: int) -> int:
    number ^= (_turned(number, 49)) ^ _turned(number, 24)
    number = number * MIX_2 & BITS_64
    number = (number ^ (number >> 35) + length) * MIX_2 & BITS_64
    return number ^ number >> 28


def _turned(number: int, by: int) -> int:
    return (number << by | number >> 64 - by) & BITS_64
