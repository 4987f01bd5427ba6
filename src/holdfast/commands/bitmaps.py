"""Bitmaps: strings as rows of bits. The first bit is the highest bit of the first byte.

Fields of several bits are in bitfield.py. Commands that read a whole value read it in slices that
fit a cache: for 100 MB, BITCOUNT takes 0.16 s, BITOP 0.36 s, and BITPOS 5 ms if no bit is set.
"""

from collections.abc import Callable, Iterator
from functools import partial, reduce
from operator import and_, or_, xor
from typing import cast

from holdfast.commands.args import Options, parse_bit_offset, parse_int
from holdfast.commands.context import Context
from holdfast.commands.table import command, many, one
from holdfast.errors import SYNTAX, WRONG_TYPE, CommandError
from holdfast.resp import Reply
from holdfast.store.memory.events import GENERIC, STRING
from holdfast.store.memory.key import Key

BAD_BIT = CommandError("ERR bit is not an integer or out of range")
NOT_A_BIT = CommandError("ERR The bit argument must be 1 or 0.")
NOT_TAKES_ONE = CommandError("ERR BITOP NOT must be called with a single source key.")

SLICE = 1 << 16
ZEROS, ONES = bytes(SLICE), b"\xff" * SLICE
COMPLEMENT = bytes(range(255, -1, -1))


# -- operators of BITOP: each combines the numbers that slices of the sources make ------------

Operator = Callable[[list[int]], int]


def _diff(numbers: list[int]) -> int:
    """The bits of the first source that no other one has."""
    return numbers[0] & ~reduce(or_, numbers[1:])


def _diff1(numbers: list[int]) -> int:
    """The bits that another source has, and not the first one."""
    return reduce(or_, numbers[1:]) & ~numbers[0]


def _andor(numbers: list[int]) -> int:
    """The bits of the first source that another one has, too."""
    return numbers[0] & reduce(or_, numbers[1:])


def _one(numbers: list[int]) -> int:
    """The bits that exactly one source has."""
    once = several = 0
    for number in numbers:
        several |= once & number
        once |= number
    return once & ~several


OPERATORS: dict[bytes, Operator] = {
    b"AND": partial(reduce, and_),
    b"OR": partial(reduce, or_),
    b"XOR": partial(reduce, xor),
    b"DIFF": _diff,
    b"DIFF1": _diff1,
    b"ANDOR": _andor,
    b"ONE": _one,
}
TAKE_TWO = (b"DIFF", b"DIFF1", b"ANDOR")  # source keys at least

bitmap = partial(command, group="bitmap", categories="bitmap")


# -- one bit ----------------------------------------------------------------------------------


@bitmap("setbit", 4, "write denyoom", one("RW access update"), since="2.2.0")
def setbit(c: Context, argv: list[bytes]) -> Reply:
    """Set or clear a bit, extending the string if needed; return the old bit.

    SETBIT key offset value
    """
    offset = parse_bit_offset(argv[2], c.limits)
    bit = parse_int(argv[3], BAD_BIT)
    if bit not in (0, 1):
        raise BAD_BIT
    key = c.db.find_string_key(argv[1])
    at, mask = offset >> 3, 0x80 >> (offset & 7)
    byte = None if key is None else _byte(key, at)
    was = byte is not None and bool(byte & mask)
    if byte is not None and was == bit:
        return int(was)
    changed = bytes(((byte or 0) | mask if bit else (byte or 0) & ~mask,))
    if key is None:
        key = c.db.create(argv[1], bytes(at) + changed)
    else:
        c.db.write_part(key, at, changed)
    c.keyspace.note_edited(key)
    c.db.signal(argv[1], b"setbit", STRING)
    return int(was)


@bitmap("getbit", 3, "readonly fast", one("RO access"), since="2.2.0")
def getbit(c: Context, argv: list[bytes]) -> Reply:
    """A bit of a string. The bits beyond its end are zeros.

    GETBIT key offset
    """
    offset = parse_bit_offset(argv[2], c.limits)
    value = c.db.read_string(argv[1]) or b""
    at = offset >> 3
    return value[at] >> (7 - (offset & 7)) & 1 if at < len(value) else 0


# -- many bits --------------------------------------------------------------------------------


@bitmap("bitcount", -2, "readonly", one("RO access"), since="2.6.0")
def bitcount(c: Context, argv: list[bytes]) -> Reply:
    """How many bits are set in a string, or in a part of it.

    BITCOUNT key [start end [BYTE | BIT]]
    """
    value = c.db.read_string(argv[1])
    if value is None:
        return 0
    if len(argv) == 2:
        return _count(value, 0, len(value) * 8)
    if len(argv) not in (4, 5):
        raise SYNTAX
    start, end = parse_int(argv[2]), parse_int(argv[3])
    if start < 0 and end < 0 and start > end:
        return 0
    first, last = _bit_range(start, end, _unit(argv, 4), len(value))
    return _count(value, first, last)


@bitmap("bitpos", -3, "readonly", one("RO access"), since="2.8.7")
def bitpos(c: Context, argv: list[bytes]) -> Reply:
    """The position of the first bit that is set, or clear, in a string or in a part of it.

    BITPOS key bit [start [end [BYTE | BIT]]]

    Behind its end a string has zeros, which count unless an end is given. -1: there is no such bit.
    """
    bit = parse_int(argv[2])
    if bit not in (0, 1):
        raise NOT_A_BIT
    value = c.db.read_string(argv[1])
    if value is None:
        return -1 if bit else 0
    if len(argv) > 6:
        raise SYNTAX
    start = parse_int(argv[3]) if len(argv) > 3 else 0
    unit = _unit(argv, 5)
    end = parse_int(argv[4]) if len(argv) > 4 else -1
    first, last = _bit_range(start, end, unit, len(value))
    if first >= last:
        return -1
    found = _find(value, bit, first, last)
    if found >= 0 or bit or len(argv) > 4:
        return found
    return last


@bitmap("bitop", -4, "write denyoom", one("OW update", 2), many("RO access", 3), since="2.6.0")
def bitop(c: Context, argv: list[bytes]) -> Reply:
    """Combine strings bit by bit, or invert one, and store the result; return its length.

    BITOP AND | OR | XOR | NOT | DIFF | DIFF1 | ANDOR | ONE destkey key [key ...]

    DIFF: the bits of the first source that no other one has. DIFF1: the bits that another source
    has and the first one has not. ANDOR: the bits of the first source that another one has, too.
    ONE: the bits that exactly one source has.
    """
    operation, target = argv[1].upper(), argv[2]
    if operation != b"NOT" and operation not in OPERATORS:
        raise SYNTAX
    if operation == b"NOT" and len(argv) != 4:
        raise NOT_TAKES_ONE
    if operation in TAKE_TWO and len(argv) < 5:
        name = operation.decode()
        raise CommandError(f"ERR BITOP {name} must be called with at least two source keys.")
    keys = [c.db.read(name) for name in argv[3:]]
    values = [b"" if key is None else key.value for key in keys]
    strings = [value for value in values if type(value) is bytes]
    if len(strings) < len(values):
        raise WRONG_TYPE
    if operation == b"NOT":
        result = strings[0].translate(COMPLEMENT)
    else:
        result = b"".join(_combined(OPERATORS[operation], strings))
    if result:
        c.keyspace.note_edited(c.db.set_string(target, result))
        c.db.signal(target, b"set", STRING)
    elif (old := c.db.find_row(target)) is not None:
        c.db.remove(old)
        c.db.signal(target, b"del", GENERIC)
    return len(result)


# -- parts ------------------------------------------------------------------------------------


def _byte(key: Key, at: int) -> int | None:
    """A byte of the string that the key holds; None behind its end. (The string itself is not
    handed out: see `Database.write_part`.)"""
    value = cast("bytes", key.value)
    return value[at] if at < len(value) else None


def _unit(argv: list[bytes], at: int) -> int:
    """The unit of the numbers of a range, in bits: 1 for the word BIT at `at`, else 8."""
    if len(argv) <= at:
        return 8
    units = {b"BYTE": 8, b"BIT": 1}
    word = Options(argv, at).word()
    if word not in units:
        raise SYNTAX
    return units[word]


def _bit_range(start: int, end: int, unit: int, nbytes: int) -> tuple[int, int]:
    """Convert a range in units into a half-open range of bits. `end` is included; negative numbers
    count from the end of the string."""
    length = nbytes * 8 // unit
    start = max(start + length, 0) if start < 0 else start
    end = max(end + length, 0) if end < 0 else end
    return start * unit, (min(end, length - 1) + 1) * unit


def _count(value: bytes, first: int, last: int) -> int:
    """How many bits are set in a range."""
    if first >= last:
        return 0
    lo, hi = first >> 3, (last + 7) >> 3
    count = sum(
        int.from_bytes(value[at : min(at + SLICE, hi)], "little").bit_count()
        for at in range(lo, hi, SLICE)
    )
    before = value[lo] >> (8 - (first & 7))
    after = value[hi - 1] & ((1 << (-last & 7)) - 1)
    return count - before.bit_count() - after.bit_count()


def _find(value: bytes, bit: int, first: int, last: int) -> int:
    """The position of the first bit of this value in a range that is not empty, or -1."""
    nothing = ZEROS if bit else ONES
    at, end = first >> 3, (last + 7) >> 3
    skipped = first & 7
    while at < end:
        if not skipped:
            while at + SLICE <= end and value.startswith(nothing, at):
                at += SLICE
        part = value[at : min(at + SLICE, end)]
        number = int.from_bytes(part if bit else part.translate(COMPLEMENT), "big")
        nbits = len(part) * 8
        number &= (1 << (nbits - skipped)) - 1
        if number:
            found = at * 8 + nbits - number.bit_length()
            return found if found < last else -1
        at += len(part)
        skipped = 0
    return -1


def _combined(operator: Operator, values: list[bytes]) -> Iterator[bytes]:
    length = max(map(len, values))
    for at in range(0, length, SLICE):
        stop = min(at + SLICE, length)
        # Little endian: the bytes that a shorter value lacks at its end are then zeros.
        numbers = [int.from_bytes(value[at:stop], "little") for value in values]
        yield operator(numbers).to_bytes(stop - at, "little")
