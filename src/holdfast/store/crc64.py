"""The checksum under what DUMP writes: CRC-64 with Jones' polynomial, as redis-server has it."""

from functools import cache
from struct import iter_unpack

POLYNOMIAL = 0x95AC9329AC4BC9B5  # reflected, as all here: the lowest bit is the highest power

# x to the 7004th leaves this remainder, which few bits are set in (a search found it). In this
# field x^(7004·s) leaves the same with each power times s, for every s that is a power of two.
FOLD_BITS = 7004
FOLD_POWERS = tuple(power for power in range(64) if 0xA484014419141218 >> 63 - power & 1)

SLICE = 1 << 17  # what fits a cache


def crc64(data: bytes) -> int:
    """Long data is folded, as large numbers, to a kilobyte or two with the same remainder: 100 MB
    a second instead of 15. No module in C that we have knows this polynomial."""
    if len(data) > 2 * FOLD_BITS // 8:
        rest = b""
        for at in range(0, len(data), SLICE):
            rest = _folded(rest + data[at : at + SLICE])
        data = rest
    a, b, c, d, e, f, g, h = _tables()
    crc = 0
    whole = len(data) & ~7
    for (word,) in iter_unpack("<Q", memoryview(data)[:whole]):
        crc ^= word
        crc = (
            h[crc & 0xFF]
            ^ g[crc >> 8 & 0xFF]
            ^ f[crc >> 16 & 0xFF]
            ^ e[crc >> 24 & 0xFF]
            ^ d[crc >> 32 & 0xFF]
            ^ c[crc >> 40 & 0xFF]
            ^ b[crc >> 48 & 0xFF]
            ^ a[crc >> 56]
        )
    for byte in data[whole:]:
        crc = crc >> 8 ^ a[(crc ^ byte) & 0xFF]
    return crc


def _folded(data: bytes) -> bytes:
    number, nbits = int.from_bytes(data, "little"), len(data) * 8
    while nbits > 2 * FOLD_BITS:
        scale = 1 << (nbits * 2 // 3 // FOLD_BITS).bit_length() - 1  # a third at least goes
        fold = FOLD_BITS * scale
        head_bits = min(nbits - fold, fold - 64 * scale) & ~7
        head = number & ((1 << head_bits) - 1)
        number >>= head_bits
        nbits -= head_bits
        for power in FOLD_POWERS:
            number ^= head << (fold - head_bits - power * scale)
    return number.to_bytes(nbits // 8, "little")


@cache
def _tables() -> list[list[int]]:
    """For each of eight bytes in a row, what it contributes. 2048 numbers, made when needed."""
    first = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (POLYNOMIAL if crc & 1 else 0)
        first.append(crc)
    tables = [first]
    for _ in range(7):
        tables.append([crc >> 8 ^ first[crc & 0xFF] for crc in tables[-1]])
    return tables
