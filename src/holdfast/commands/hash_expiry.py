"""Commands on the expiry of single hash fields, as Redis has them since 7.4.

`Database.find` removes the fields that have expired. If no command reads the hash, `expire_due` in
store/memory/expiry.py removes them.
"""

from collections.abc import Callable
from functools import partial

from holdfast.commands.args import INT64_MAX, parse_int, parse_int_between
from holdfast.commands.context import Context
from holdfast.commands.table import command, one
from holdfast.errors import CommandError
from holdfast.resp import Reply
from holdfast.store.memory.events import HASH
from holdfast.store.values.hash import Hash

TIME_NEGATIVE = CommandError("ERR invalid expire time, must be >= 0")
FIELDS_MISSING = CommandError(
    "ERR Mandatory argument FIELDS is missing or not at the right position"
)
NUMFIELDS_NOT_POSITIVE = CommandError("ERR Parameter `numFields` should be greater than 0")
NUMBER_NOT_POSITIVE = CommandError("ERR Number of fields must be a positive integer")
NUMFIELDS_WRONG = CommandError("ERR The `numfields` parameter must match the number of arguments")

LATEST_MS = (1 << 46) - 1
NO_FIELD, NO_EXPIRY = -2, -1
NOT_MET, IS_SET, IS_DELETED = 0, 1, 2

# For each option, whether the old expiry may be replaced by the new one. None: the field has none.
CONDITIONS: dict[bytes, Callable[[int | None, int], bool]] = {
    b"NX": lambda old, new: old is None,
    b"XX": lambda old, new: old is not None,
    b"GT": lambda old, new: old is not None and new > old,
    b"LT": lambda old, new: old is None or new < old,
}

hash_command = partial(command, group="hash", categories="hash", since="7.4.0")
UPDATED, READ = one("RW update"), one("RO access")
SETS, GETS = "write denyoom fast", "readonly fast"


def _fields(argv: list[bytes], at: int, error: CommandError) -> list[bytes]:
    """Parse `FIELDS numfields field [field ...]`, from `at` on. Returns the fields."""
    if argv[at].upper() != b"FIELDS":
        raise FIELDS_MISSING
    count = parse_int_between(argv[at + 1], 1, INT64_MAX, error)
    if count != len(argv) - at - 2:
        raise NUMFIELDS_WRONG
    return argv[at + 2 :]


# -- setting ----------------------------------------------------------------------------------


def _expire(c: Context, argv: list[bytes], base_ms: int, unit_ms: int) -> Reply:
    found = c.db.find_as(argv[1], Hash)
    time = parse_int(argv[2])
    if time < 0:
        raise TIME_NEGATIVE
    expires_at_ms = base_ms + time * unit_ms
    if expires_at_ms > LATEST_MS:
        name = argv[0].decode("latin-1").lower()
        raise CommandError(f"ERR invalid expire time in '{name}' command")
    may_replace = CONDITIONS.get(argv[3].upper())
    fields = _fields(argv, 3 if may_replace is None else 4, NUMFIELDS_NOT_POSITIVE)
    if found is None:
        return [NO_FIELD] * len(fields)
    key, value = found
    results: list[Reply] = []
    for field in fields:
        if field not in value:
            results.append(NO_FIELD)
        elif may_replace and not may_replace(value.expires_at_ms(field), expires_at_ms):
            results.append(NOT_MET)
        elif expires_at_ms <= c.keyspace.now_ms:
            value.remove(field, c.keyspace)
            results.append(IS_DELETED)
        else:
            value.set_expiry(field, expires_at_ms, c.keyspace)
            results.append(IS_SET)
    if IS_DELETED in results:
        c.db.shrunk(key, b"hdel", HASH)
    elif IS_SET in results:
        c.db.signal(argv[1], b"hexpire", HASH)
    c.keyspace.watch_fields(key)
    return results


@hash_command("hexpire", -6, SETS, UPDATED)
def hexpire(c: Context, argv: list[bytes]) -> Reply:
    """Let fields of a hash expire after some seconds.

    HEXPIRE key seconds [NX | XX | GT | LT] FIELDS numfields field [field ...]

    For each field: 1 done, 0 condition not met, 2 removed at once, -2 no such field.
    """
    return _expire(c, argv, c.keyspace.now_ms, 1000)


@hash_command("hpexpire", -6, SETS, UPDATED)
def hpexpire(c: Context, argv: list[bytes]) -> Reply:
    """Let fields of a hash expire after some milliseconds. Replies as HEXPIRE does.

    HPEXPIRE key milliseconds [NX | XX | GT | LT] FIELDS numfields field [field ...]
    """
    return _expire(c, argv, c.keyspace.now_ms, 1)


@hash_command("hexpireat", -6, SETS, UPDATED)
def hexpireat(c: Context, argv: list[bytes]) -> Reply:
    """Let fields of a hash expire at a point in time, in Unix seconds. Replies as HEXPIRE does.

    HEXPIREAT key unix-time-seconds [NX | XX | GT | LT] FIELDS numfields field [field ...]
    """
    return _expire(c, argv, 0, 1000)


@hash_command("hpexpireat", -6, SETS, UPDATED)
def hpexpireat(c: Context, argv: list[bytes]) -> Reply:
    """Let fields of a hash expire at a time, in Unix milliseconds. Replies as HEXPIRE does.

    HPEXPIREAT key unix-time-milliseconds [NX | XX | GT | LT] FIELDS numfields field [field ...]
    """
    return _expire(c, argv, 0, 1)


@hash_command("hpersist", -5, "write fast", UPDATED)
def hpersist(c: Context, argv: list[bytes]) -> Reply:
    """Let fields of a hash never expire: 1 done, -1 it had no expiry, -2 no such field.

    HPERSIST key FIELDS numfields field [field ...]
    """
    found = c.db.find_as(argv[1], Hash)
    fields = _fields(argv, 2, NUMBER_NOT_POSITIVE)
    if found is None:
        return [NO_FIELD] * len(fields)
    _, value = found
    results: list[Reply] = []
    for field in fields:
        if field not in value:
            results.append(NO_FIELD)
        elif value.expires_at_ms(field) is None:
            results.append(NO_EXPIRY)
        else:
            value.set_expiry(field, None, c.keyspace)
            results.append(IS_SET)
    if IS_SET in results:
        c.db.signal(argv[1], b"hpersist", HASH)
    return results


# -- asking -----------------------------------------------------------------------------------


def _times(c: Context, argv: list[bytes], base_ms: int, unit_ms: int) -> Reply:
    value = c.db.read_as(argv[1], Hash)
    fields = _fields(argv, 2, NUMBER_NOT_POSITIVE)
    results: list[Reply] = []
    for field in fields:
        if value is None or field not in value:
            results.append(NO_FIELD)
            continue
        expires_at_ms = value.expires_at_ms(field)
        if expires_at_ms is None:
            results.append(NO_EXPIRY)
        else:
            results.append((expires_at_ms - base_ms + unit_ms - 1) // unit_ms)
    return results


@hash_command("httl", -5, GETS, READ, tips=("nondeterministic_output",))
def httl(c: Context, argv: list[bytes]) -> Reply:
    """The seconds until fields of a hash expire: -1 never, -2 no such field.

    HTTL key FIELDS numfields field [field ...]
    """
    return _times(c, argv, c.keyspace.now_ms, 1000)


@hash_command("hpttl", -5, GETS, READ, tips=("nondeterministic_output",))
def hpttl(c: Context, argv: list[bytes]) -> Reply:
    """The milliseconds until fields of a hash expire: -1 never, -2 no such field.

    HPTTL key FIELDS numfields field [field ...]
    """
    return _times(c, argv, c.keyspace.now_ms, 1)


@hash_command("hexpiretime", -5, GETS, READ)
def hexpiretime(c: Context, argv: list[bytes]) -> Reply:
    """The time when fields of a hash expire, in Unix seconds: -1 never, -2 no such field.

    HEXPIRETIME key FIELDS numfields field [field ...]
    """
    return _times(c, argv, 0, 1000)


@hash_command("hpexpiretime", -5, GETS, READ)
def hpexpiretime(c: Context, argv: list[bytes]) -> Reply:
    """The time when fields of a hash expire, in Unix milliseconds: -1 never, -2 no such field.

    HPEXPIRETIME key FIELDS numfields field [field ...]
    """
    return _times(c, argv, 0, 1)
