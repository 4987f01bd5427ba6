"""How several elements of a list share a row of the file.

Positions on the grid are taken in blocks of 32. The values that a block has stand one behind the
other in one blob; beside it a JSON array, which people can read and SQL can take apart, has their
sizes from the first to the last, with null for a place without a value. A value that is long or off
the grid has its own row, so that no block gets large: a change of one value writes the whole block.

Pure: nothing here knows the file.
"""

from typing import Final

import msgspec

from holdfast.store.change.runs import STEP

PLACES: Final = 32  # three blocks of values of 32 bytes fill a page
SPAN: Final = PLACES * STEP
LONGEST: Final = 256  # bytes of a value that shares a row

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(list[int | None]).decode


def block_of(pos: int) -> int:
    """The first position of the block that this one is in."""
    return pos & -SPAN


def pack(values: list[bytes | None]) -> tuple[str, bytes]:
    """Sizes and data of the values of a block, from the first to the last."""
    sizes: list[int | None] = []
    there: list[bytes] = []
    for value in values:
        if value is None:
            sizes.append(None)
        else:
            sizes.append(len(value))
            there.append(value)
    return _encode(sizes).decode("ascii"), b"".join(there)


def pack_whole(values: list[bytes]) -> tuple[str, bytes]:
    """The same where none is missing: in half the time."""
    return _encode([len(value) for value in values]).decode("ascii"), b"".join(values)


def unpack(sizes: str, data: bytes) -> list[bytes | None]:
    """From the first to the last."""
    values: list[bytes | None] = []
    start = 0
    for size in _decode(sizes):
        if size is None:
            values.append(None)
        else:
            end = start + size
            values.append(data[start:end])
            start = end
    return values


def put(first: int, values: list[bytes | None], place: int, value: bytes | None) -> int:
    """Set the value of a place, or None. Returns the place of the first value."""
    at = place - first
    if not values:
        values.append(value)
        return place
    if at < 0:
        values[:0] = [value, *[None] * (-at - 1)]
        return place
    if at < len(values):
        values[at] = value
    else:
        while len(values) < at:
            values.append(None)
        values.append(value)
    return first


def trim(first: int, values: list[bytes | None]) -> int:
    """Remove empty places at both ends; returns the place of the first value."""
    while values and values[-1] is None:
        values.pop()
    empty = 0
    while empty < len(values) and values[empty] is None:
        empty += 1
    if empty:
        del values[:empty]
    return first + empty


def filled(values: list[bytes | None]) -> int:
    """The number of values. (`count(None)` would compare all of them.)"""
    number = 0
    for value in values:
        if value is not None:
            number += 1
    return number


def count(sizes: str) -> int:
    """How many elements a block has."""
    return sizes.count(",") + 1 - sizes.count("null")


def last_of(first_pos: int, sizes: str) -> int:
    """The position of its last element, from that of its first."""
    return first_pos + sizes.count(",") * STEP


def elements(
    first_pos: int, sizes: str, data: bytes, from_pos: int, to_pos: int
) -> list[tuple[int, bytes]]:
    """The elements of a block between two positions, each with its position."""
    found: list[tuple[int, bytes]] = []
    start, pos = 0, first_pos
    for size in _decode(sizes):
        if size is not None:
            end = start + size
            if from_pos <= pos <= to_pos:
                found.append((pos, data[start:end]))
            start = end
        pos += STEP
    return found


def count_between(first_pos: int, sizes: str, from_pos: int, to_pos: int) -> int:
    """How many of its elements do."""
    if from_pos <= first_pos and last_of(first_pos, sizes) <= to_pos:
        return count(sizes)
    number, pos = 0, first_pos
    for size in _decode(sizes):
        if size is not None and from_pos <= pos <= to_pos:
            number += 1
        pos += STEP
    return number
