"""Ids of stream entries. In memory an id is one number, `milliseconds << 64 | sequence`, so that
ids compare and count on as numbers do; in rows it is the 16 bytes of that number, big-endian.
"""

from typing import Final

SEQUENCE_BITS: Final = 64
MAX_SEQUENCE: Final = (1 << SEQUENCE_BITS) - 1
MAX_ID: Final = (1 << 128) - 1


def id_of(ms: int, sequence: int) -> int:
    return ms << SEQUENCE_BITS | sequence


def parts_of(entry_id: int) -> tuple[int, int]:
    """Milliseconds and sequence."""
    return entry_id >> SEQUENCE_BITS, entry_id & MAX_SEQUENCE


def text_of(entry_id: int) -> bytes:
    """As clients read it."""
    # Not by `%`, which takes twice as long.
    return f"{entry_id >> SEQUENCE_BITS}-{entry_id & MAX_SEQUENCE}".encode()


NO_ROW: Final = bytes(16)


def to_row(entry_id: int) -> bytes:
    return entry_id.to_bytes(16, "big") if entry_id else NO_ROW


def from_row(row: bytes) -> int:
    return int.from_bytes(row, "big")


def signed(number: int) -> int:
    """What is left of a counter in 64 bits: Redis's too begin at the other end when they overflow,
    and the file has no larger numbers."""
    if -(1 << 60) < number < 1 << 60:
        return number
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)
