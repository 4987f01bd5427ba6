"""Strings that are numbers: INCR, DECR and similar commands."""

from functools import partial
from typing import Final

from holdfast import longdouble
from holdfast.commands.args import INT64_MAX, INT64_MIN, parse_int
from holdfast.commands.context import Context
from holdfast.commands.table import command, one
from holdfast.errors import NOT_A_FLOAT, CommandError
from holdfast.resp import Reply
from holdfast.store.memory.events import STRING

WOULD_OVERFLOW = CommandError("ERR increment or decrement would overflow")
DECREMENT_OVERFLOW = CommandError("ERR decrement would overflow")
NOT_FINITE = CommandError("ERR increment would produce NaN or Infinity")

SMALL: Final = 1 << 60  # compiled code compares numbers of this size without an object

string = partial(command, group="string", categories="string")


@string("incr", 2, "write denyoom fast", one("RW access update"), since="1.0.0")
def incr(c: Context, argv: list[bytes]) -> Reply:
    """Add one to an integer, which is 0 if the key is missing; return the new value.

    INCR key
    """
    return _add(c, argv[1], 1)


@string("decr", 2, "write denyoom fast", one("RW access update"), since="1.0.0")
def decr(c: Context, argv: list[bytes]) -> Reply:
    """Subtract one from an integer, which is 0 if the key is missing; return the new value.

    DECR key
    """
    return _add(c, argv[1], -1)


@string("incrby", 3, "write denyoom fast", one("RW access update"), since="1.0.0")
def incrby(c: Context, argv: list[bytes]) -> Reply:
    """Add to an integer, which is 0 if the key is missing; return the new value.

    INCRBY key increment
    """
    return _add(c, argv[1], parse_int(argv[2]))


@string("decrby", 3, "write denyoom fast", one("RW access update"), since="1.0.0")
def decrby(c: Context, argv: list[bytes]) -> Reply:
    """Subtract from an integer, which is 0 if the key is missing; return the new value.

    DECRBY key decrement
    """
    amount = parse_int(argv[2])
    if amount == INT64_MIN:  # -amount would be out of range
        raise DECREMENT_OVERFLOW
    return _add(c, argv[1], -amount)


@string("incrbyfloat", 3, "write denyoom fast", one("RW access update"), since="2.6.0")
def incrbyfloat(c: Context, argv: list[bytes]) -> Reply:
    """Add to a number, which is 0 if the key is missing; return the new value.

    INCRBYFLOAT key increment
    """
    name = argv[1]
    found = c.db.find_string(name)
    try:
        number = longdouble.parse(b"0" if found is None else found[1])
        total = longdouble.add(number, longdouble.parse(argv[2]))
    except ValueError:
        raise NOT_A_FLOAT from None
    if total is None:
        raise NOT_FINITE
    new = longdouble.human(total)
    if found is None:
        c.db.add_string(name, new, argv[2])
    else:
        c.db.replace(found[0], new, found[1], argv[2])
    c.db.signal(name, b"incrbyfloat", STRING)
    return new


def _add(c: Context, name: bytes, amount: int) -> int:
    found = c.db.find_string(name)
    total = amount if found is None else parse_int(found[1]) + amount
    if not (-SMALL < total < SMALL or INT64_MIN <= total <= INT64_MAX):
        raise WOULD_OVERFLOW
    if found is None:
        c.db.add_string(name, b"%d" % total, amount)
    else:
        c.db.replace(found[0], b"%d" % total, found[1], amount)
    c.db.signal(name, b"incrby", STRING)
    return total
