"""The expiry of keys: EXPIRE, TTL and similar commands."""

from functools import partial
from typing import Final

from holdfast.commands.args import INT64_MAX, INT64_MIN, parse_int
from holdfast.commands.context import Context
from holdfast.commands.table import command, one
from holdfast.errors import CommandError
from holdfast.resp import Reply
from holdfast.resp.c_strings import c_string
from holdfast.store.memory.events import GENERIC

NX_WITH_OTHERS = CommandError("ERR NX and XX, GT or LT options at the same time are not compatible")
GT_WITH_LT = CommandError("ERR GT and LT options at the same time are not compatible")

SOON: Final = 1 << 60  # ms; compiled code compares numbers of this size without an object

generic = partial(command, group="generic", categories="keyspace")


# -- setting ----------------------------------------------------------------------------------


@generic("expire", -3, "write fast only_rows", one("RW update"), since="1.0.0")
def expire(c: Context, argv: list[bytes]) -> Reply:
    """Let a key expire after some seconds; an option makes this depend on the old expiry.

    EXPIRE key seconds [NX | XX | GT | LT]
    """
    return _expire(c, argv, "expire", 1000, c.keyspace.now_ms)


@generic("pexpire", -3, "write fast only_rows", one("RW update"), since="2.6.0")
def pexpire(c: Context, argv: list[bytes]) -> Reply:
    """Let a key expire after some milliseconds.

    PEXPIRE key milliseconds [NX | XX | GT | LT]
    """
    return _expire(c, argv, "pexpire", 1, c.keyspace.now_ms)


@generic("expireat", -3, "write fast only_rows", one("RW update"), since="1.2.0")
def expireat(c: Context, argv: list[bytes]) -> Reply:
    """Let a key expire at a point in time.

    EXPIREAT key unix-seconds [NX | XX | GT | LT]
    """
    return _expire(c, argv, "expireat", 1000, 0)


@generic("pexpireat", -3, "write fast only_rows", one("RW update"), since="2.6.0")
def pexpireat(c: Context, argv: list[bytes]) -> Reply:
    """Let a key expire at a point in time, given in milliseconds.

    PEXPIREAT key unix-milliseconds [NX | XX | GT | LT]
    """
    return _expire(c, argv, "pexpireat", 1, 0)


@generic("persist", 2, "write fast only_rows", one("RW update"), since="2.2.0")
def persist(c: Context, argv: list[bytes]) -> Reply:
    """Let a key never expire.

    PERSIST key
    """
    key = c.db.find_row(argv[1])
    if key is None or not c.db.persist(key):
        return 0
    c.db.signal(argv[1], b"persist", GENERIC)
    return 1


def _expire(
    c: Context, argv: list[bytes], command_name: str, ms_per_unit: int, base_ms: int
) -> int:
    conditions = _conditions(argv) if len(argv) > 3 else None
    time_ms = parse_int(argv[2]) * ms_per_unit
    expires_at_ms = time_ms + base_ms
    if not (-SOON < time_ms < SOON) and (time_ms < INT64_MIN or expires_at_ms > INT64_MAX):
        raise CommandError(f"ERR invalid expire time in '{command_name}' command")
    name = argv[1]
    key = c.db.find_row(name)
    if key is None:
        return 0
    if conditions is not None and not _allows(key.expires_at_ms, expires_at_ms, conditions):
        return 0
    if c.keyspace.is_past(expires_at_ms):
        c.db.remove(key)
        c.db.signal(name, b"del", GENERIC)
    else:
        c.db.set_expiry(key, expires_at_ms)
        c.db.signal(name, b"expire", GENERIC)
    return 1


def _conditions(argv: list[bytes]) -> set[bytes]:
    conditions: set[bytes] = set()
    for option in argv[3:]:
        conditions.add(option.upper())
        if option.upper() not in (b"NX", b"XX", b"GT", b"LT"):
            raise CommandError(b"ERR Unsupported option " + c_string(option))
    if b"NX" in conditions and len(conditions) > 1:
        raise NX_WITH_OTHERS
    if {b"GT", b"LT"} <= conditions:
        raise GT_WITH_LT
    return conditions


def _allows(old_ms: int | None, new_ms: int, conditions: set[bytes]) -> bool:
    """Whether the conditions allow the new expiry. None means never, which is later than any
    time."""
    return (
        (b"NX" not in conditions or old_ms is None)
        and (b"XX" not in conditions or old_ms is not None)
        and (b"GT" not in conditions or (old_ms is not None and new_ms > old_ms))
        and (b"LT" not in conditions or old_ms is None or new_ms < old_ms)
    )


# -- asking -----------------------------------------------------------------------------------

NONDETERMINISTIC = ("nondeterministic_output",)


@generic(
    "ttl", 2, "readonly fast only_rows", one("RO access"), since="1.0.0", tips=NONDETERMINISTIC
)
def ttl(c: Context, argv: list[bytes]) -> Reply:
    """The seconds until a key expires, -1 if it never does, -2 if it is missing.

    TTL key
    """
    return _in_seconds(_remaining_ms(c, argv[1], c.keyspace.now_ms))


@generic(
    "pttl", 2, "readonly fast only_rows", one("RO access"), since="2.6.0", tips=NONDETERMINISTIC
)
def pttl(c: Context, argv: list[bytes]) -> Reply:
    """The milliseconds until a key expires, -1 if it never does, -2 if it is missing.

    PTTL key
    """
    return _remaining_ms(c, argv[1], c.keyspace.now_ms)


@generic("expiretime", 2, "readonly fast only_rows", one("RO access"), since="7.0.0")
def expiretime(c: Context, argv: list[bytes]) -> Reply:
    """The unix time in seconds when a key expires, -1 if it never does, -2 if it is missing.

    EXPIRETIME key
    """
    return _in_seconds(_remaining_ms(c, argv[1], 0))


@generic("pexpiretime", 2, "readonly fast only_rows", one("RO access"), since="7.0.0")
def pexpiretime(c: Context, argv: list[bytes]) -> Reply:
    """The unix time in milliseconds when a key expires, -1 if it never does, -2 if it is missing.

    PEXPIRETIME key
    """
    return _remaining_ms(c, argv[1], 0)


def _remaining_ms(c: Context, name: bytes, since_ms: int) -> int:
    row = c.db.read_row(name)
    if row is None:
        return -2
    expires_at_ms = row[1]
    return -1 if expires_at_ms is None else expires_at_ms - since_ms


def _in_seconds(time_ms: int) -> int:
    return time_ms if time_ms < 0 else (time_ms + 500) // 1000
