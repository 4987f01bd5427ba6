"""Hash commands. The expiry of single fields is in hash_expiry.py, the value itself in
store/values/hash.py.
"""

from collections.abc import Iterable
from functools import partial
from itertools import compress

from holdfast import longdouble
from holdfast.commands.args import (
    INT64_MAX,
    INT64_MIN,
    ScanOptions,
    parse_cursor,
    parse_int,
    repeats,
)
from holdfast.commands.context import Context
from holdfast.commands.encodings import is_listpack
from holdfast.commands.table import command, one
from holdfast.errors import NOT_A_FLOAT, SYNTAX, CommandError
from holdfast.resp import OK, Reply
from holdfast.store.memory.events import HASH, SUBKEYS
from holdfast.store.values.hash import Hash

NOT_AN_INTEGER_FIELD = CommandError("ERR hash value is not an integer")
NOT_A_FLOAT_FIELD = CommandError("ERR hash value is not a float")
WOULD_OVERFLOW = CommandError("ERR increment or decrement would overflow")
NOT_FINITE_INCREMENT = CommandError("ERR value is NaN or Infinity")
NOT_FINITE = CommandError("ERR increment would produce NaN or Infinity")
COUNT_TOO_FAR = CommandError(
    f"ERR value is out of range, value must between {-INT64_MAX} and {INT64_MAX}"
)
PAIRS_TOO_MANY = CommandError("ERR value is out of range")

hash_command = partial(command, group="hash", categories="hash")

UNORDERED = ("nondeterministic_output_order",)
RANDOM = ("nondeterministic_output",)


# -- writing ----------------------------------------------------------------------------------


def _set_all(c: Context, argv: list[bytes]) -> int:
    """Set fields; return how many of them are new."""
    if len(argv) % 2:
        name = argv[0].decode("latin-1").lower()
        raise CommandError(f"ERR wrong number of arguments for '{name}' command")
    log = c.keyspace
    value = c.db.find_value(argv[1], Hash)
    added = 0
    if value is not None or not (added := c.db.add_hash(argv)):
        if value is None:
            value = c.db.create_as(argv[1], Hash)[1]
        for at in range(2, len(argv), 2):
            added += value.set(argv[at], argv[at + 1], log)
    c.db.signal(argv[1], b"hset", HASH)
    if log.notify_kinds & SUBKEYS:
        c.db.tell_fields(argv[1], b"hset", argv[2::2])
    return added


@hash_command("hset", -4, "write denyoom fast", one("RW update"), since="2.0.0")
def hset(c: Context, argv: list[bytes]) -> Reply:
    """Set fields, creating the hash if needed; return how many of them are new.

    HSET key field value [field value ...]
    """
    return _set_all(c, argv)


@hash_command("hmset", -4, "write denyoom fast", one("RW update"), since="2.0.0")
def hmset(c: Context, argv: list[bytes]) -> Reply:
    """Set fields, creating the hash if needed.

    HMSET key field value [field value ...]
    """
    _set_all(c, argv)
    return OK


@hash_command("hsetnx", 4, "write denyoom fast", one("RW insert"), since="2.0.0")
def hsetnx(c: Context, argv: list[bytes]) -> Reply:
    """Set a field unless it exists.

    HSETNX key field value
    """
    found = c.db.find_as(argv[1], Hash)
    if found and argv[2] in found[1]:
        return 0
    _, value = found or c.db.create_as(argv[1], Hash)
    value.set(argv[2], argv[3], c.keyspace)
    _signal(c, argv, b"hset")
    return 1


@hash_command("hdel", -3, "write fast", one("RW delete"), since="2.0.0")
def hdel(c: Context, argv: list[bytes]) -> Reply:
    """Remove fields; return how many existed.

    HDEL key field [field ...]
    """
    found = c.db.find_as(argv[1], Hash)
    if found is None:
        return 0
    key, value = found
    removed = [value.remove(field, c.keyspace) for field in argv[2:]]
    count = sum(removed)
    if count:
        fields = list(compress(argv[2:], removed)) if c.db.tells_fields else ()
        c.db.shrunk(key, b"hdel", HASH, fields)
    return count


@hash_command("hincrby", 4, "write denyoom fast", one("RW access update"), since="2.0.0")
def hincrby(c: Context, argv: list[bytes]) -> Reply:
    """Add to the integer in a field, which is 0 if missing; return the new value.

    HINCRBY key field increment
    """
    amount = parse_int(argv[3])
    found = c.db.find_as(argv[1], Hash)
    old = found[1].get(argv[2]) if found else None
    total = amount if old is None else parse_int(old, NOT_AN_INTEGER_FIELD) + amount
    if not INT64_MIN <= total <= INT64_MAX:
        raise WOULD_OVERFLOW
    _, value = found or c.db.create_as(argv[1], Hash)
    value.add_to(argv[2], amount, b"%d" % total, c.keyspace)
    _signal(c, argv, b"hincrby")
    return total


@hash_command("hincrbyfloat", 4, "write denyoom fast", one("RW access update"), since="2.6.0")
def hincrbyfloat(c: Context, argv: list[bytes]) -> Reply:
    """Add to the number in a field, which is 0 if missing; return the new value.

    HINCRBYFLOAT key field increment
    """
    amount = _long_double(argv[3], NOT_A_FLOAT)
    if amount is None:
        raise NOT_FINITE_INCREMENT
    found = c.db.find_as(argv[1], Hash)
    old = found[1].get(argv[2]) if found else None
    total = longdouble.add(_long_double(b"0" if old is None else old, NOT_A_FLOAT_FIELD), amount)
    if total is None:
        raise NOT_FINITE
    new = longdouble.human(total)
    _, value = found or c.db.create_as(argv[1], Hash)
    value.add_to(argv[2], argv[3], new, c.keyspace)
    _signal(c, argv, b"hincrbyfloat")
    return new


def _signal(c: Context, argv: list[bytes], event: bytes) -> None:
    """Announce a change of the one field that a command names."""
    c.db.signal(argv[1], event, HASH)
    if c.keyspace.notify_kinds & SUBKEYS:
        c.db.tell_fields(argv[1], event, argv[2:3])


def _long_double(text: bytes, error: CommandError) -> longdouble.LongDouble:
    try:
        return longdouble.parse(text)
    except ValueError:
        raise error from None


# -- reading ----------------------------------------------------------------------------------


@hash_command("hget", 3, "readonly fast", one("RO access"), since="2.0.0")
def hget(c: Context, argv: list[bytes]) -> Reply:
    """The value of a field.

    HGET key field
    """
    value = c.db.read_as(argv[1], Hash)
    return value.get(argv[2]) if value else None


@hash_command("hmget", -3, "readonly fast", one("RO access"), since="2.0.0")
def hmget(c: Context, argv: list[bytes]) -> Reply:
    """The values of several fields, null for each that is missing.

    HMGET key field [field ...]
    """
    value = c.db.read_as(argv[1], Hash)
    return [value.get(field) for field in argv[2:]] if value else [None] * (len(argv) - 2)


@hash_command("hgetall", 2, "readonly", one("RO access"), since="2.0.0", tips=UNORDERED)
def hgetall(c: Context, argv: list[bytes]) -> Reply:
    """All fields and their values.

    HGETALL key
    """
    value = c.db.read_as(argv[1], Hash)
    if value is None:
        return () if c.protocol == 2 else {}
    return value.flat if c.protocol == 2 else dict(value.items)


@hash_command("hkeys", 2, "readonly", one("RO access"), since="2.0.0", tips=UNORDERED)
def hkeys(c: Context, argv: list[bytes]) -> Reply:
    """The names of all fields.

    HKEYS key
    """
    value = c.db.read_as(argv[1], Hash)
    return tuple(value.names) if value else ()


@hash_command("hvals", 2, "readonly", one("RO access"), since="2.0.0", tips=UNORDERED)
def hvals(c: Context, argv: list[bytes]) -> Reply:
    """The values of all fields.

    HVALS key
    """
    value = c.db.read_as(argv[1], Hash)
    return value.values if value else ()


@hash_command("hexists", 3, "readonly fast", one("RO"), since="2.0.0")
def hexists(c: Context, argv: list[bytes]) -> Reply:
    """Whether a hash has a field.

    HEXISTS key field
    """
    value = c.db.read_as(argv[1], Hash)
    return int(value is not None and argv[2] in value)


@hash_command("hlen", 2, "readonly fast only_rows", one("RO"), since="2.0.0")
def hlen(c: Context, argv: list[bytes]) -> Reply:
    """How many fields a hash has.

    HLEN key
    """
    return c.db.read_size(argv[1], Hash)


@hash_command("hstrlen", 3, "readonly fast", one("RO"), since="3.2.0")
def hstrlen(c: Context, argv: list[bytes]) -> Reply:
    """The length of a field's value, 0 if the field is missing.

    HSTRLEN key field
    """
    value = c.db.read_as(argv[1], Hash)
    return len(value.get(argv[2]) or b"") if value else 0


@hash_command("hscan", -3, "readonly", one("RO access"), since="2.8.0", tips=RANDOM)
def hscan(c: Context, argv: list[bytes]) -> Reply:
    """Some fields with their values, and the cursor for the next call; 0 ends the scan.

    HSCAN key cursor [MATCH pattern] [COUNT count] [NOVALUES]
    """
    cursor = parse_cursor(argv[2])
    value = c.db.read_as(argv[1], Hash)
    if value is None:
        return [b"0", ()]
    options = ScanOptions.parse(argv, 3, is_hscan=True)
    names: Iterable[bytes]
    if is_listpack(value, c.limits):
        cursor, names = 0, value.names
    else:
        cursor, names = value.scan(cursor, options.limit)
    if options.matches is not None:
        names = filter(options.matches, names)
    return [b"%d" % cursor, tuple(names) if options.no_values else _flat(value, names)]


@hash_command("hrandfield", -2, "readonly", one("RO access"), since="6.2.0", tips=RANDOM)
def hrandfield(c: Context, argv: list[bytes]) -> Reply:
    """A random field, or several different ones; with -count one may come several times.

    HRANDFIELD key [count [WITHVALUES]]
    """
    if len(argv) == 2:
        value = c.db.read_as(argv[1], Hash)
        return value.pick(c.rng) if value else None
    count = parse_int(argv[2])
    if count < -INT64_MAX:
        raise COUNT_TOO_FAR
    with_values = len(argv) > 3
    if len(argv) > 4 or (with_values and argv[3].upper() != b"WITHVALUES"):
        raise SYNTAX
    if with_values and abs(count) > INT64_MAX // 2:
        raise PAIRS_TOO_MANY
    value = c.db.read_as(argv[1], Hash)
    if value is None or not count:
        return ()
    if count < 0:
        picked = value.choices(repeats(c, count, 2 if with_values else 1), c.rng)
        if not with_values:
            return [*picked]
        return list(_flat(value, picked)) if c.protocol == 2 else _pairs(value, picked)
    names = value.sample(count, c.rng)
    if not with_values:
        return tuple(names)
    return _flat(value, names) if c.protocol == 2 else _pairs(value, names)


def _pairs(value: Hash, names: Iterable[bytes]) -> Reply:
    return [(name, value.get(name) or b"") for name in names]


def _flat(value: Hash, names: Iterable[bytes]) -> tuple[bytes, ...]:
    """Each name and its value."""
    return tuple([part for name in names for part in (name, value.get(name) or b"")])
