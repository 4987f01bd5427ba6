"""String commands. Those on numbers are in numbers.py and increx.py, those that remove a string
with a certain value in string_compare.py, LCS is in lcs.py."""

from functools import partial
from typing import cast

from holdfast.commands.args import parse_int, parse_int_between
from holdfast.commands.context import Context
from holdfast.commands.string_args import expires_at_ms, is_met, parse_set_options
from holdfast.commands.table import command, counted, many, one
from holdfast.errors import WRONG_TYPE, CommandError
from holdfast.resp import OK, Reply
from holdfast.store.memory.events import GENERIC, STRING
from holdfast.store.memory.key import Key

OFFSET_OUT_OF_RANGE = CommandError("ERR offset is out of range")
NUMKEYS_INVALID = CommandError("ERR invalid numkeys value")
PAIRS_MISSING = CommandError("ERR wrong number of key-value pairs")
TOO_LONG = CommandError("ERR string exceeds maximum allowed size (proto-max-bulk-len)")

INT32_MAX = (1 << 31) - 1
CONDITIONS = (b"NX", b"XX", b"GET", b"KEEPTTL", b"IFEQ")  # of SET

string = partial(command, group="string", categories="string")


# -- reading ----------------------------------------------------------------------------------


@string("get", 2, "readonly fast", one("RO access"), since="1.0.0")
def get(c: Context, argv: list[bytes]) -> Reply:
    """The value of a string.

    GET key
    """
    return c.db.read_string(argv[1])


@string(
    "mget",
    -2,
    "readonly fast",
    many("RO access"),
    since="1.0.0",
    tips=("request_policy:multi_shard",),
)
def mget(c: Context, argv: list[bytes]) -> Reply:
    """The values of several strings; null for each key that is missing or has another type.

    MGET key [key ...]
    """
    return cast("list[Reply]", c.db.read_strings(argv[1:]))


@string("strlen", 2, "readonly fast only_rows", one("RO"), since="2.2.0")
def strlen(c: Context, argv: list[bytes]) -> Reply:
    """The length of a string in bytes, 0 if the key is missing.

    STRLEN key
    """
    return c.db.read_size(argv[1], bytes)


@string("substr", 4, "readonly", one("RO access"), since="1.0.0")
@string("getrange", 4, "readonly", one("RO access"), since="2.4.0")
def getrange(c: Context, argv: list[bytes]) -> Reply:
    """A part of a string, both ends included. Negative offsets count from the end.

    GETRANGE key start end
    SUBSTR key start end
    """
    start, end = parse_int(argv[2]), parse_int(argv[3])
    value = c.db.read_string(argv[1]) or b""
    if start < 0 and end < 0 and start > end:
        return b""
    length = len(value)
    start = max(start + length, 0) if start < 0 else start
    end = max(end + length, 0) if end < 0 else end
    return value[start : end + 1] if start <= end else b""  # compiled code raises for start > end


# -- setting ----------------------------------------------------------------------------------


@string(
    "set",
    -3,
    "write denyoom",
    one(
        "RW access update variable_flags",
        notes="RW and ACCESS due to the optional `GET` argument",
    ),
    since="1.0.0",
)
def set_(c: Context, argv: list[bytes]) -> Reply:
    """Set a key to a string, replacing a value of any type.

    SET key value
        [NX | XX | IFEQ value | IFNE value | IFDEQ digest | IFDNE digest] [GET]
        [EX seconds | PX milliseconds | EXAT unix-seconds | PXAT unix-milliseconds | KEEPTTL]

    IFEQ and IFDEQ: only if the key has this value, or a value with this DIGEST. IFNE and IFDNE:
    only if the key is missing or has another value.
    """
    name, value = argv[1], argv[2]
    if len(argv) == 3:
        c.db.put_string(name, value)
        c.db.signal(name, b"set", STRING)
        return OK
    words, expiry, comparison = parse_set_options(argv, 3, CONDITIONS)
    at_ms = expires_at_ms(c, expiry, "set")
    old = c.db.read_string(name) if b"GET" in words else None
    is_wanted = True
    if b"NX" in words or b"XX" in words:
        is_wanted = (c.db.find_row(name) is not None) == (b"XX" in words)
    elif comparison is not None:
        found = c.db.find_string(name)
        is_wanted = is_met(comparison, None if found is None else found[1])
    if is_wanted:
        _set(c, name, value, at_ms, keep_ttl=b"KEEPTTL" in words)
    if b"GET" in words:
        return old
    return OK if is_wanted else None


@string("setnx", 3, "write denyoom fast", one("OW insert"), since="1.0.0")
def setnx(c: Context, argv: list[bytes]) -> Reply:
    """Set a string if the key is missing.

    SETNX key value
    """
    if c.db.find_row(argv[1]) is not None:
        return 0
    _set(c, argv[1], argv[2])
    return 1


@string("setex", 4, "write denyoom", one("OW update"), since="2.0.0")
def setex(c: Context, argv: list[bytes]) -> Reply:
    """Set a string that expires after some seconds.

    SETEX key seconds value
    """
    _set(c, argv[1], argv[3], expires_at_ms(c, (b"EX", argv[2]), "setex"))
    return OK


@string("psetex", 4, "write denyoom", one("OW update"), since="2.6.0")
def psetex(c: Context, argv: list[bytes]) -> Reply:
    """Set a string that expires after some milliseconds.

    PSETEX key milliseconds value
    """
    _set(c, argv[1], argv[3], expires_at_ms(c, (b"PX", argv[2]), "psetex"))
    return OK


@string("getset", 3, "write denyoom fast", one("RW access update"), since="1.0.0")
def getset(c: Context, argv: list[bytes]) -> Reply:
    """Set a string and return its old value.

    GETSET key value
    """
    old = c.db.read_string(argv[1])
    _set(c, argv[1], argv[2])
    return old


@string(
    "mset",
    -3,
    "write denyoom",
    many("OW update", step=2),
    since="1.0.1",
    tips=("request_policy:multi_shard", "response_policy:all_succeeded"),
)
def mset(c: Context, argv: list[bytes]) -> Reply:
    """Set several strings.

    MSET key value [key value ...]
    """
    _check_pairs(argv, "mset")
    c.db.set_strings(argv)
    return OK


@string(
    "msetnx",
    -3,
    "write denyoom",
    many("OW insert", step=2),
    since="1.0.1",
    tips=("request_policy:multi_shard", "response_policy:agg_min"),
)
def msetnx(c: Context, argv: list[bytes]) -> Reply:
    """Set several strings, or none of them if one of the keys exists.

    MSETNX key value [key value ...]
    """
    _check_pairs(argv, "msetnx")
    for at in range(1, len(argv), 2):
        if c.db.find_row(argv[at]) is not None:
            return 0
    c.db.set_strings(argv)
    return 1


@string(
    "msetex",
    -4,
    "write denyoom",
    counted("OW update", 1, step=2),
    since="8.4.0",
    tips=("request_policy:multi_shard", "response_policy:all_succeeded"),
)
def msetex(c: Context, argv: list[bytes]) -> Reply:
    """Set several strings with the same expiry, or none of them: 1 or 0.

    MSETEX numkeys key value [key value ...] [NX | XX]
        [EX seconds | PX milliseconds | EXAT unix-seconds | PXAT unix-milliseconds | KEEPTTL]

    NX: only if none of the keys exists. XX: only if all of them exist.
    """
    numkeys = parse_int_between(argv[1], 1, INT32_MAX, NUMKEYS_INVALID)
    end = 2 + 2 * numkeys
    if end > len(argv):
        raise PAIRS_MISSING
    words, expiry, _ = parse_set_options(argv, end, (b"NX", b"XX", b"KEEPTTL"))
    at_ms = expires_at_ms(c, expiry, "msetex")
    if b"NX" in words or b"XX" in words:
        for name in argv[2:end:2]:
            if (c.db.find_row(name) is not None) != (b"XX" in words):
                return 0
    if at_ms is not None and c.keyspace.is_past(at_ms):
        for name in argv[2:end:2]:
            if (key := c.db.find_row(name)) is not None:
                c.db.remove(key)
                c.db.signal(name, b"del", GENERIC)
        return 1
    for at in range(2, end, 2):
        _set(c, argv[at], argv[at + 1], at_ms, keep_ttl=b"KEEPTTL" in words)
    return 1


# -- reading and changing ---------------------------------------------------------------------


@string(
    "getex",
    -2,
    "write fast",
    one("RW access update", notes="RW and UPDATE because it changes the TTL"),
    since="6.2.0",
)
def getex(c: Context, argv: list[bytes]) -> Reply:
    """Return the value of a string, and set or remove its expiry.

    GETEX key
        [EX seconds | PX milliseconds | EXAT unix-seconds | PXAT unix-milliseconds | PERSIST]
    """
    words, expiry, _ = parse_set_options(argv, 2, (b"PERSIST",))
    name = argv[1]
    found = _read(c, name)
    if found is None:
        return None
    key, value = found
    at_ms = expires_at_ms(c, expiry, "getex")
    if at_ms is None:
        if words and key.expires_at_ms is not None:
            c.db.set_expiry(key, None)
            c.db.signal(name, b"persist", GENERIC)
    elif c.keyspace.is_past(at_ms):
        c.db.remove(key)
        c.db.signal(name, b"del", GENERIC)
    else:
        c.db.set_expiry(key, at_ms)
        c.db.signal(name, b"expire", GENERIC)
    return value


@string("getdel", 2, "write fast", one("RW access delete"), since="6.2.0")
def getdel(c: Context, argv: list[bytes]) -> Reply:
    """Return the value of a string and remove the key.

    GETDEL key
    """
    found = _read(c, argv[1])
    if found is None:
        return None
    key, value = found
    c.db.remove(key)
    c.db.signal(argv[1], b"del", GENERIC)
    return value


@string("append", 3, "write denyoom fast", one("RW insert"), since="2.0.0")
def append(c: Context, argv: list[bytes]) -> Reply:
    """Add to the end of a string, creating it if needed; return the new length.

    APPEND key value
    """
    _, name, more = argv
    key = c.db.find_string_key(name)
    if key is None:
        c.db.create(name, more)
        length = len(more)
    else:
        old_length = len(key.value)
        length = _allowed_length(c, old_length, more)
        if more:
            c.db.write_part(key, old_length, more)
        c.keyspace.note_edited(key)
    c.db.signal(name, b"append", STRING)
    return length


@string("setrange", 4, "write denyoom", one("RW update"), since="2.2.0")
def setrange(c: Context, argv: list[bytes]) -> Reply:
    """Overwrite a part of a string, with zero bytes before it if needed; return the new length.

    SETRANGE key offset value
    """
    _, name, offset_text, part = argv
    offset = parse_int(offset_text)
    if offset < 0:
        raise OFFSET_OUT_OF_RANGE
    key = c.db.find_string_key(name)
    if not part:
        return 0 if key is None else len(key.value)
    length = _allowed_length(c, offset, part)
    if key is None:
        key = c.db.create(name, bytes(offset) + part)
    else:
        length = c.db.write_part(key, offset, part)
    c.keyspace.note_edited(key)
    c.db.signal(name, b"setrange", STRING)
    return length


# -- parts ------------------------------------------------------------------------------------


def _read(c: Context, name: bytes) -> tuple[Key, bytes] | None:
    """`read_string` for commands that also need the key."""
    key = c.db.read(name)
    if key is None:
        return None
    if type(key.value) is bytes:
        return key, key.value
    raise WRONG_TYPE


def _set(
    c: Context,
    name: bytes,
    value: bytes,
    expires_at_ms: int | None = None,
    *,
    keep_ttl: bool = False,
) -> None:
    c.db.set_string(name, value, expires_at_ms, keep_ttl=keep_ttl)
    c.db.signal(name, b"set", STRING)
    if expires_at_ms is not None:
        c.db.notify(name, b"expire", GENERIC)


def _check_pairs(argv: list[bytes], command_name: str) -> None:
    if len(argv) % 2 == 0:
        raise CommandError(f"ERR wrong number of arguments for '{command_name}' command")


def _allowed_length(c: Context, length: int, more: bytes) -> int:
    total = length + len(more)
    if total > c.limits.proto_max_bulk_len:
        raise TOO_LONG
    return total
