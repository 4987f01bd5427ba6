"""Ids of stream entries. In memory an id is one number, `milliseconds << 64 | sequence`, so that
ids compare and count on as numbers do; in rows it is the 16 bytes of that number, big-endian.
"""

from typing import Final

SEQUENCE_BITS: Final = 64
MAX_SEQUENCE: Final = (1 << SEQUENCE_BITS) - 1
MAX_ID: Final = (1 << 128) - 1
MOST_DELIVERIES: Final = (1 << 63) - 1
SMALL: Final = 1 << 61  # two of them are no overflow of a sequence, and no large numbers either


def id_of(ms: int, sequence: int) -> int:
    return ms << SEQUENCE_BITS | sequence


def parts_of(entry_id: int) -> tuple[int, int]:
    """Milliseconds and sequence."""
    return entry_id >> SEQUENCE_BITS, entry_id & MAX_SEQUENCE


class _Millisecond:
    """Its first id, and how the ids in it begin as text and in rows. Never changed: several threads
    may have databases of their own."""

    __slots__ = ("first_id", "ms", "row", "text")

    def __init__(self, ms: int) -> None:
        self.ms = ms
        self.first_id = id_of(ms, 0)
        self.text = b"%d-" % ms
        self.row = ms.to_bytes(8, "big")


class _Latest:
    """The one that an id had lately."""

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


# To take a number of 128 bits apart, or to join one, costs several times as much as to see that its
# milliseconds are those of the one before. So code that has the parts uses these:


def join(ms: int, sequence: int) -> int:
    """`id_of`."""
    return _latest.at(ms).first_id + sequence


def text_at(ms: int, sequence: int) -> bytes:
    """`text_of` the id with these parts."""
    text = _latest.at(ms).text
    return text + _DIGITS[sequence] if sequence < _FEW else text + str(sequence).encode()


def row_at(ms: int, sequence: int) -> bytes:
    """`to_row` of it."""
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
    """A counter as a signed number of 64 bits. Counters of Redis overflow in the same way, and the
    file has no larger numbers."""
    if -(1 << 60) < number < 1 << 60:
        return number
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def one_more(deliveries: int) -> int:
    """How often an entry was delivered, after one more delivery. The highest count stays as it is:
    XNACK FATAL sets it."""
    return deliveries if deliveries == MOST_DELIVERIES else deliveries + 1
