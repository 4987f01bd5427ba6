"""BITFIELD: integers of any width at any offset in a string."""

from functools import partial
from typing import NamedTuple, cast

from holdfast.commands.args import parse_bit_offset, parse_int
from holdfast.commands.context import Context
from holdfast.commands.table import command, one
from holdfast.errors import SYNTAX, WRONG_TYPE, CommandError
from holdfast.resp import Reply
from holdfast.store.memory.events import STRING

BAD_TYPE = CommandError(
    "ERR Invalid bitfield type. Use something like i16 u8."
    " Note that u64 is not supported but i64 is."
)
BAD_OVERFLOW = CommandError("ERR Invalid OVERFLOW type specified")
READ_ONLY = CommandError("ERR BITFIELD_RO only supports the GET subcommand")

ARGUMENTS = {b"GET": 2, b"SET": 3, b"INCRBY": 3, b"OVERFLOW": 1}

bitmap = partial(command, group="bitmap", categories="bitmap")


class Field(NamedTuple):
    """`width` bits of a string, from `offset` on."""

    offset: int
    width: int
    is_signed: bool

    @property
    def end(self) -> int:
        return self.offset + self.width

    def read(self, data: bytes) -> int:
        """The integer in the field. The bits beyond the end of the data are zeros."""
        first, last = self.offset >> 3, (self.end + 7) >> 3
        number = int.from_bytes(data[first:last].ljust(last - first, b"\0"), "big")
        number = number >> (-self.end & 7) & ((1 << self.width) - 1)
        return number - (1 << self.width) if self.is_signed and number >> self.width - 1 else number

    def bytes_with(self, data: bytes, number: int) -> bytes:
        """The bytes that contain the field, with the number in the field."""
        first, last = self.offset >> 3, (self.end + 7) >> 3
        shift, mask = -self.end & 7, (1 << self.width) - 1
        around = int.from_bytes(data[first:last], "big") & ~(mask << shift)
        return (around | (number & mask) << shift).to_bytes(last - first, "big")

    def fitted(self, number: int, overflow: bytes) -> int | None:
        """The number, if it fits into the field. Otherwise `overflow` decides: WRAP and SAT give
        another number, FAIL gives None."""
        low, high = 0, (1 << self.width) - 1
        if self.is_signed:
            low, high = -(1 << self.width - 1), (1 << self.width - 1) - 1
        if low <= number <= high:
            return number
        if overflow == b"FAIL":
            return None
        if overflow == b"SAT":
            return high if number > high else low
        return (number - low) % (1 << self.width) + low


class Operation(NamedTuple):
    name: bytes
    field: Field
    argument: int
    overflow: bytes

    def result(self, old: int) -> int | None:
        if self.name == b"INCRBY":
            return self.field.fitted(old + self.argument, self.overflow)
        # As in Redis, an unsigned field reads the bits of a negative number as an unsigned 64-bit
        # number. In a signed field, a number that is 2⁶³ or more below the maximum counts as too
        # large, not as too small.
        field, number = self.field, self.argument
        is_far_below = number + (1 << 63) < 1 << field.width - 1 and field.width < 64
        if not field.is_signed or (is_far_below and self.overflow == b"SAT"):
            number %= 1 << 64
        return field.fitted(number, self.overflow)


@bitmap(
    "bitfield",
    -2,
    "write denyoom",
    one(
        "RW access update variable_flags",
        notes="This command allows both access and modification of the key",
    ),
    since="3.2.0",
)
def bitfield(c: Context, argv: list[bytes]) -> Reply:
    """Read, set and add to integers of 1 to 64 bits inside a string.

    BITFIELD key [GET type offset | [OVERFLOW WRAP | SAT | FAIL]
        SET type offset value | INCRBY type offset increment ...]
    """
    operations = _parse(c, argv)
    writes = [operation for operation in operations if operation.name != b"GET"]
    if not writes:
        return _read(c, argv[1], operations)
    name = argv[1]
    key = c.db.find_string_key(name)
    needed = max((operation.field.end + 7) >> 3 for operation in writes)
    has_grown = key is None or len(key.value) < needed
    if key is None:
        key = c.db.create(name, bytes(needed))
    elif has_grown:
        c.db.write_part(key, needed - 1, b"\0")
    replies: list[Reply] = []
    changes = 0
    for operation in operations:
        field = operation.field
        before = field.read(cast("bytes", key.value))
        if operation.name == b"GET":
            replies.append(before)
            continue
        after = operation.result(before)
        if after is None:
            replies.append(None)
            continue
        if after != before:
            changed = field.bytes_with(cast("bytes", key.value), after)
            c.db.write_part(key, field.offset >> 3, changed)
        replies.append(before if operation.name == b"SET" else after)
        changes += has_grown or before != after
    if has_grown or changes:
        c.keyspace.note_edited(key)
    if changes:
        c.db.signal(name, b"setbit", STRING)
    elif has_grown:  # Redis forgets this change: its replicas do not get it
        c.keyspace.dirty += 1
    return replies


@bitmap("bitfield_ro", -2, "readonly fast", one("RO access"), since="6.0.0")
def bitfield_ro(c: Context, argv: list[bytes]) -> Reply:
    """Read integers of 1 to 64 bits inside a string.

    BITFIELD_RO key [GET type offset [GET type offset ...]]
    """
    operations = _parse(c, argv)
    if any(operation.name != b"GET" for operation in operations):
        raise READ_ONLY
    return _read(c, argv[1], operations)


def _read(c: Context, name: bytes, operations: list[Operation]) -> Reply:
    key = c.db.read(name)
    value = b"" if key is None else key.value
    if type(value) is not bytes:
        raise WRONG_TYPE
    return [operation.field.read(value) for operation in operations]


def _parse(c: Context, argv: list[bytes]) -> list[Operation]:
    operations = []
    overflow = b"WRAP"
    at = 2
    while at < len(argv):
        name = argv[at].upper()
        count = ARGUMENTS.get(name)
        if count is None or at + count >= len(argv):
            raise SYNTAX
        arguments = argv[at + 1 : at + 1 + count]
        at += 1 + count
        if name == b"OVERFLOW":
            overflow = arguments[0].upper()
            if overflow not in (b"WRAP", b"SAT", b"FAIL"):
                raise BAD_OVERFLOW
            continue
        is_signed, width = _type(arguments[0])
        field = Field(parse_bit_offset(arguments[1], c.limits, width), width, is_signed)
        number = parse_int(arguments[2]) if count == 3 else 0
        operations.append(Operation(name, field, number, overflow))
    return operations


def _type(text: bytes) -> tuple[bool, int]:
    """Parse a type such as `u8` or `i64`. Returns whether it is signed, and its width."""
    sign, width = text[:1], parse_int(text[1:], BAD_TYPE)
    if sign not in (b"i", b"u") or not 1 <= width <= (64 if sign == b"i" else 63):
        raise BAD_TYPE
    return sign == b"i", width
