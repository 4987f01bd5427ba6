"""Commands on the expiry of single hash fields, as Redis has them since 7.4, and those of Redis 8.0
that read or set fields together with their expiry.

`Database.find` removes the fields that have expired. If no command reads the hash, `expire_due` in
store/memory/expiry.py removes them.
"""

from collections.abc import Sequence
from functools import partial

from holdfast.commands.context import Context
from holdfast.commands.hash_args import (
    FieldOptions,
    expire_arguments,
    expires_at_ms_of,
    fields_at,
)
from holdfast.commands.table import command, one
from holdfast.resp import Reply
from holdfast.store.memory.events import HASH
from holdfast.store.memory.key import Key
from holdfast.store.values.hash import Hash

NO_FIELD, NO_EXPIRY = -2, -1
NOT_MET, IS_SET, IS_DELETED = 0, 1, 2

hash_command = partial(command, group="hash", categories="hash", since="7.4.0")
UPDATED, READ = one("RW update"), one("RO access")
SETS, GETS = "write denyoom fast", "readonly fast"


def _fields_with(
    c: Context, fields: list[bytes], results: list[Reply], result: int
) -> list[bytes] | tuple[()]:
    """The fields with this result. Empty if notifications do not name fields."""
    if not c.db.tells_fields:
        return ()
    return [field for field, its in zip(fields, results, strict=True) if its == result]


def _signal(c: Context, name: bytes, event: bytes, fields: Sequence[bytes]) -> None:
    c.db.signal(name, event, HASH)
    if fields and c.db.tells_fields:
        c.db.tell_fields(name, event, fields)


# -- setting ----------------------------------------------------------------------------------


def _expire(c: Context, argv: list[bytes], base_ms: int, unit_ms: int) -> Reply:
    found = c.db.find_as(argv[1], Hash)
    expires_at_ms = expires_at_ms_of(argv, argv[2], base_ms, unit_ms)
    may_replace, fields = expire_arguments(argv)
    if found is None:
        return [NO_FIELD] * len(fields)
    key, value = found
    results: list[Reply] = []
    for field in fields:
        if field not in value:
            results.append(NO_FIELD)
        elif may_replace and not may_replace(value.expires_at_ms(field), expires_at_ms):
            results.append(NOT_MET)
        elif c.keyspace.is_past(expires_at_ms):
            value.remove(field, c.keyspace)
            results.append(IS_DELETED)
        else:
            value.set_expiry(field, expires_at_ms, c.keyspace)
            results.append(IS_SET)
    if IS_DELETED in results:
        c.db.shrunk(key, b"hdel", HASH, _fields_with(c, fields, results, IS_DELETED))
    elif IS_SET in results:
        _signal(c, argv[1], b"hexpire", _fields_with(c, fields, results, IS_SET))
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
    """Let fields of a hash never expire: 1 done, -1 had no expiry, -2 no such field.

    HPERSIST key FIELDS numfields field [field ...]
    """
    found = c.db.find_as(argv[1], Hash)
    fields = fields_at(argv, 2)
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
        _signal(c, argv[1], b"hpersist", _fields_with(c, fields, results, IS_SET))
    return results


# -- asking -----------------------------------------------------------------------------------


def _times(c: Context, argv: list[bytes], base_ms: int, unit_ms: int) -> Reply:
    value = c.db.read_as(argv[1], Hash)
    fields = fields_at(argv, 2)
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


# -- values together with their expiry --------------------------------------------------------


@hash_command("hgetdel", -5, "write fast", one("RW access delete"), since="8.0.0")
def hgetdel(c: Context, argv: list[bytes]) -> Reply:
    """Return the values of fields, null for each that is missing, and remove the fields.

    HGETDEL key FIELDS numfields field [field ...]
    """
    found = c.db.find_as(argv[1], Hash)
    fields = fields_at(argv, 2)
    if found is None:
        return [None] * len(fields)
    key, value = found
    values: list[Reply] = []
    for field in fields:  # one by one: a field that is named twice is missing the second time
        values.append(value.get(field))
        value.remove(field, c.keyspace)
    removed = [field for field, text in zip(fields, values, strict=True) if text is not None]
    if removed:
        c.db.shrunk(key, b"hdel", HASH, removed if c.db.tells_fields else ())
    return values


@hash_command(
    "hgetex",
    -5,
    "write fast",
    one("RW access update", notes="RW and UPDATE because it changes the TTL"),
    since="8.0.0",
)
def hgetex(c: Context, argv: list[bytes]) -> Reply:
    """Return the values of fields, null for each that is missing, and set or remove their expiry.

    HGETEX key
        [EX seconds | PX milliseconds | EXAT unix-seconds | PXAT unix-milliseconds | PERSIST]
        FIELDS numfields field [field ...]
    """
    options = FieldOptions(c, argv, sets=False)
    fields = options.fields or []
    found = c.db.find_as(argv[1], Hash)
    if found is None:
        return [None] * len(fields)
    key, value = found
    values: list[Reply] = []
    changed: list[bytes] = []
    for field in fields:
        values.append(value.get(field))
        if field in value and _set_expiry(c, value, field, options):
            changed.append(field)
    if changed:
        _announce_expiry(c, key, options.expires_at_ms, changed)
    return values


def _set_expiry(c: Context, value: Hash, field: bytes, options: FieldOptions) -> bool:
    """Apply the expiry that the options name to a field. Returns whether the field changed."""
    expires_at_ms = options.expires_at_ms
    if expires_at_ms is None:
        if not options.keep_word or value.expires_at_ms(field) is None:
            return False
        value.set_expiry(field, None, c.keyspace)
    elif c.keyspace.is_past(expires_at_ms):
        value.remove(field, c.keyspace)
    else:
        value.set_expiry(field, expires_at_ms, c.keyspace)
    return True


def _announce_expiry(c: Context, key: Key, expires_at_ms: int | None, fields: list[bytes]) -> None:
    """Announce that fields got this expiry, or that they were removed because it has passed."""
    if expires_at_ms is None:
        _signal(c, key.name, b"hpersist", fields)
    elif c.keyspace.is_past(expires_at_ms):
        c.db.shrunk(key, b"hdel", HASH, fields if c.db.tells_fields else ())
    else:
        _signal(c, key.name, b"hexpire", fields)
        c.keyspace.watch_fields(key)


@hash_command("hsetex", -6, SETS, UPDATED, since="8.0.0")
def hsetex(c: Context, argv: list[bytes]) -> Reply:
    """Set fields and their expiry; 1 if all of them were set, 0 if the condition forbade it.

    HSETEX key [FNX | FXX]
        [EX seconds | PX milliseconds | EXAT unix-seconds | PXAT unix-milliseconds | KEEPTTL]
        FIELDS numfields field value [field value ...]

    FNX: only if none of the fields exists. FXX: only if all of them exist.
    """
    options = FieldOptions(c, argv, sets=True)
    words = options.fields or []
    names = words[::2]
    found = c.db.find_as(argv[1], Hash)
    if options.condition:
        there = [found is not None and name in found[1] for name in names]
        if any(there) if options.condition == b"FNX" else not all(there):
            return 0
    key, value = found or c.db.create_as(argv[1], Hash)
    for name, text in zip(names, words[1::2], strict=True):
        value.set(name, text, c.keyspace, keep_expiry=options.keep_word)
    _signal(c, argv[1], b"hset", names)
    if options.expires_at_ms is not None:
        for name in names:
            if name in value:  # not if it is named twice and its time has passed
                _set_expiry(c, value, name, options)
        _announce_expiry(c, key, options.expires_at_ms, names)
    return 1
