"""Commands on the expiry of single hash fields, as Redis has them since 7.4, and those of Redis 8.0
that read or set fields together with their expiry.

`Database.find` removes the fields that have expired. If no command reads the hash, `expire_due` in
store/memory/expiry.py removes them.
"""

from collections.abc import Callable, Sequence
from functools import partial

from holdfast.commands.args import EXPIRY_OPTIONS, INT64_MAX, parse_int, parse_int_between
from holdfast.commands.context import Context
from holdfast.commands.table import command, one
from holdfast.errors import CommandError
from holdfast.resp import Reply
from holdfast.resp.c_strings import c_string
from holdfast.store.memory.events import HASH
from holdfast.store.memory.key import Key
from holdfast.store.values.hash import Hash

TIME_NEGATIVE = CommandError("ERR invalid expire time, must be >= 0")
FIELDS_MISSING = CommandError(
    "ERR Mandatory argument FIELDS is missing or not at the right position"
)
NUMFIELDS_NOT_POSITIVE = CommandError("ERR Parameter `numFields` should be greater than 0")
NUMBER_NOT_POSITIVE = CommandError("ERR Number of fields must be a positive integer")
NUMFIELDS_WRONG = CommandError("ERR The `numfields` parameter must match the number of arguments")

NUMFIELDS_INVALID = CommandError("ERR invalid number of fields")
FIELDS_TWICE = CommandError("ERR FIELDS keyword specified multiple times")
TIME_MISSING = CommandError("ERR missing expire time")
TWO_CONDITIONS = CommandError("ERR Only one of FXX or FNX arguments can be specified")
NO_FIELDS = CommandError("ERR missing FIELDS argument")

INT32_MAX = (1 << 31) - 1
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


def _expires_at_ms(argv: list[bytes], text: bytes, base_ms: int, unit_ms: int) -> int:
    """The expiry that an argument names. 0 is allowed: the field is then removed at once."""
    time = parse_int(text)
    if time < 0:
        raise TIME_NEGATIVE
    expires_at_ms = base_ms + time * unit_ms
    if expires_at_ms > LATEST_MS:
        raise CommandError(f"ERR invalid expire time in '{_command_name(argv)}' command")
    return expires_at_ms


def _command_name(argv: list[bytes]) -> str:
    return argv[0].decode("latin-1").lower()


def _told(
    c: Context, fields: list[bytes], results: list[Reply], result: int
) -> list[bytes] | tuple[()]:
    """The fields with this result, if a client may want to know them."""
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
    expires_at_ms = _expires_at_ms(argv, argv[2], base_ms, unit_ms)
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
        c.db.shrunk(key, b"hdel", HASH, _told(c, fields, results, IS_DELETED))
    elif IS_SET in results:
        _signal(c, argv[1], b"hexpire", _told(c, fields, results, IS_SET))
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
        _signal(c, argv[1], b"hpersist", _told(c, fields, results, IS_SET))
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


# -- values together with their expiry --------------------------------------------------------


class FieldOptions:
    """The arguments of HGETEX or HSETEX after the key. Since Redis 8.4 they may come in any order,
    and those after the fields count, too."""

    def __init__(self, c: Context, argv: list[bytes], *, sets: bool) -> None:
        self.fields: list[bytes] | None = None  # for HSETEX each is followed by its value
        self.expires_at_ms: int | None = None
        self.keep_word = False  # PERSIST of HGETEX, KEEPTTL of HSETEX
        self.condition = b""  # FNX or FXX
        self._argv = argv
        self._sets = sets
        at = 2
        while at < len(argv):
            at = self._take(c, at)
        if self.fields is None:
            raise NO_FIELDS

    def _take(self, c: Context, at: int) -> int:
        """Read one option. Returns the position behind it."""
        argv = self._argv
        word = argv[at].upper()
        if word == b"FIELDS":
            return self._take_fields(at)
        keep_word = b"KEEPTTL" if self._sets else b"PERSIST"
        if word in EXPIRY_OPTIONS or word == keep_word:
            if self.expires_at_ms is not None or self.keep_word:
                raise CommandError(
                    f"ERR Only one of EX, PX, EXAT, PXAT or {keep_word.decode()} arguments"
                    " can be specified"
                )
            if word == keep_word:
                self.keep_word = True
                return at + 1
            if at + 1 == len(argv):
                raise TIME_MISSING
            unit_ms, is_absolute = EXPIRY_OPTIONS[word]
            base_ms = 0 if is_absolute else c.keyspace.now_ms
            self.expires_at_ms = _expires_at_ms(argv, argv[at + 1], base_ms, unit_ms)
            return at + 2
        if self._sets and word in (b"FNX", b"FXX"):
            if self.condition:
                raise TWO_CONDITIONS
            self.condition = word
            return at + 1
        shown = c_string(argv[at]).decode("latin-1")
        raise CommandError(f"ERR unknown argument: {shown}")

    def _take_fields(self, at: int) -> int:
        argv = self._argv
        if self.fields is not None:
            raise FIELDS_TWICE
        width = 2 if self._sets else 1
        end = at + 2 + width
        if end <= len(argv):
            count = parse_int_between(argv[at + 1], 1, INT32_MAX, NUMFIELDS_INVALID)
            end = at + 2 + count * width
        if end > len(argv):
            name = _command_name(argv)
            raise CommandError(f"ERR wrong number of arguments for '{name}' command")
        self.fields = argv[at + 2 : end]
        return end


@hash_command("hgetdel", -5, "write fast", one("RW access delete"), since="8.0.0")
def hgetdel(c: Context, argv: list[bytes]) -> Reply:
    """Return the values of fields, null for each that is missing, and remove the fields.

    HGETDEL key FIELDS numfields field [field ...]
    """
    found = c.db.find_as(argv[1], Hash)
    fields = _fields(argv, 2, NUMBER_NOT_POSITIVE)
    if found is None:
        return [None] * len(fields)
    key, value = found
    values: list[Reply] = []
    for field in fields:  # one by one: a field that is named twice is gone the second time
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
    elif expires_at_ms <= c.keyspace.now_ms:
        value.remove(field, c.keyspace)
    else:
        value.set_expiry(field, expires_at_ms, c.keyspace)
    return True


def _announce_expiry(c: Context, key: Key, expires_at_ms: int | None, fields: list[bytes]) -> None:
    """The end of a command that gave fields this expiry, which removes them if it has passed."""
    if expires_at_ms is None:
        _signal(c, key.name, b"hpersist", fields)
    elif expires_at_ms <= c.keyspace.now_ms:
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
            if name in value:  # it may be named twice, and is gone if its time has passed
                _set_expiry(c, value, name, options)
        _announce_expiry(c, key, options.expires_at_ms, names)
    return 1
