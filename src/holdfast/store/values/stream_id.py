"""Ids of stream entries. In memory an id is one number, `milliseconds << 64 | sequence`, so that
ids can be compared and incremented as numbers. In rows it is the 16 bytes of that number,
big-endian.
"""

from typing import Final

SEQUENCE_BITS: Final = 64
MAX_SEQUENCE: Final = (1 << SEQUENCE_BITS) - 1
MAX_ID: Final = (1 << 128) - 1
MOST_DELIVERIES: Final = (1 << 63) - 1
# the sum of two such numbers does not overflow a sequence, and is no large number for Python
SMALL: Final = 1 << 61


def id_of(ms: int, sequence: int) -> int:
    return ms << SEQUENCE_BITS | sequence


def parts_of(entry_id: int) -> tuple[int, int]:
    """Milliseconds and sequence."""
    return entry_id >> SEQUENCE_BITS, entry_id & MAX_SEQUENCE


class _Millisecond:
    """A millisecond: its first id, and how its ids begin as text and in rows. It never changes,
    because several threads may have databases of their own."""

    __slots__ = ("first_id", "ms", "row", "text")

    def __init__(self, ms: int) -> None:
        self.ms = ms
        self.first_id = id_of(ms, 0)
        self.text = b"%d-" % ms
        self.row = ms.to_bytes(8, "big")


class _Latest:
    """The millisecond of the last id."""

    __slots__ = ("millisecond",)

    def __init__(self) -> None:
        self.millisecond = _Millisecond(0)

    def at(self, ms: int) -> _Millisecond:
        latest = self.millisecond
        if ms != latest.ms:
            latest = self.millisecond = _Millisecond(ms)
        return latest


_latest: Final = _Latest()
_FEW: Final = 1000
_DIGITS: Final = [b"%d" % number for number in range(_FEW)]
_ROWS: Final = [number.to_bytes(8, "big") for number in range(_FEW)]


# Splitting a number of 128 bits, or joining one, takes several times as long as noticing that its
# milliseconds are those of the previous id. So code that has the parts of an id uses the functions
# below.


def join(ms: int, sequence: int) -> int:
    """`id_of` these parts."""
    return _latest.at(ms).first_id + sequence


def text_at(ms: int, sequence: int) -> bytes:
    """`text_of` the id with these parts."""
    text = _latest.at(ms).text
    return text + _DIGITS[sequence] if sequence < _FEW else text + str(sequence).encode()


def row_at(ms: int, sequence: int) -> bytes:
    """`to_row` of the id with these parts."""
    row = _latest.at(ms).row
    return row + _ROWS[sequence] if sequence < _FEW else row + sequence.to_bytes(8, "big")


def text_of(entry_id: int) -> bytes:
    """The id in the form that clients read."""
    latest = _latest.millisecond
    sequence = entry_id - latest.first_id
    if 0 <= sequence < SMALL:
        return text_at(latest.ms, sequence)
    ms, sequence = parts_of(entry_id)
    return text_at(ms, sequence)


NO_ROW: Final = bytes(16)


def to_row(entry_id: int) -> bytes:
    latest = _latest.millisecond
    sequence = entry_id - latest.first_id
    if 0 <= sequence < _FEW:
        return latest.row + _ROWS[sequence]
    return entry_id.to_bytes(16, "big") if entry_id else NO_ROW


def from_row(row: bytes) -> int:
    return int.from_bytes(row, "big")


def signed(number: int) -> int:
    """A counter as a signed number of 64 bits. Counters of Redis overflow in the same way, and
    larger numbers do not fit into the file."""
    if -(1 << 60) < number < 1 << 60:
        return number
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def one_more(deliveries: int) -> int:
    """The number of deliveries after one more. The highest number, which XNACK FATAL sets, stays as
    it is."""
    return deliveries if deliveries == MOST_DELIVERIES else deliveries + 1
