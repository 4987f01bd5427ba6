"""Ids of stream entries. In memory an id is one number, `milliseconds << 64 | sequence`, so that
ids compare and count on as numbers do; in rows it is the 16 bytes of that number, big-endian.
"""

from typing import Final

SEQUENCE_BITS: Final = 64
MAX_SEQUENCE: Final = (1 << SEQUENCE_BITS) - 1
MAX_ID: Final = (1 << 128) - 1
SMALL: Final = 1 << 61  # two of them are no overflow of a sequence, and no large numbers either


def id_of(ms: int, sequence: int) -> int:
    return ms << SEQUENCE_BITS | sequence


def parts_of(entry_id: int) -> tuple[int, int]:
    """Milliseconds and sequence."""
    return entry_id >> SEQUENCE_BITS, entry_id & MAX_SEQUENCE


class _Millisecond:
    """One that an id had lately: its first id, and how the ids in it begin as text."""

    __slots__ = ("first_id", "text")

    def __init__(self) -> None:
        self.first_id = 0
        self.text = b"0-"


_lately: Final = _Millisecond()
_DIGITS: Final = [b"%d" % number for number in range(1000)]


def text_of(entry_id: int) -> bytes:
    """As clients read it."""
    # To take a number of 128 bits apart and write its parts costs three times as much as to see
    # that it has the same milliseconds as the one before.
    sequence = entry_id - _lately.first_id
    if not 0 <= sequence < SMALL:
        ms, sequence = parts_of(entry_id)
        _lately.first_id = id_of(ms, 0)
        _lately.text = b"%d-" % ms
    if sequence < 1000:
        return _lately.text + _DIGITS[sequence]
    return _lately.text + str(sequence).encode()


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
