"""DUMP and RESTORE: values in redis-server's serialisation, which store/rdb has."""

from functools import partial

from holdfast.commands.args import INT64_MAX, INT64_MIN, Options, parse_int
from holdfast.commands.context import Context
from holdfast.commands.table import command, one
from holdfast.errors import SYNTAX, CommandError
from holdfast.resp import OK, Reply
from holdfast.store.memory.events import GENERIC

# store/rdb is imported by the first command that needs it: the import takes two milliseconds, and
# most servers never need it.

BUSY = CommandError("BUSYKEY Target key name already exists.")
BAD_TTL = CommandError("ERR Invalid TTL value, must be >= 0")
BAD_IDLE_TIME = CommandError("ERR Invalid IDLETIME value, must be >= 0")
BAD_FREQUENCY = CommandError("ERR Invalid FREQ value, must be >= 0 and <= 255")
BAD_PAYLOAD = CommandError("ERR DUMP payload version or checksum are wrong")
BAD_DATA = CommandError("ERR Bad data format")

generic = partial(command, group="generic", since="2.6.0")


@generic(
    "dump",
    2,
    "readonly",
    one("RO access"),
    categories="keyspace",
    tips=("nondeterministic_output",),
)
def dump(c: Context, argv: list[bytes]) -> Reply:
    """Serialise a value for RESTORE, here or in a redis-server.

    DUMP key
    """
    from holdfast.store.rdb import plain, value_codec

    key = c.db.read(argv[1])
    return None if key is None else value_codec.dump(plain.plain_of(key.value))


@generic("restore", -4, "write denyoom", one("OW update"), categories="keyspace dangerous")
@command(
    "restore-asking",
    -4,
    "write denyoom asking",
    one("OW update"),
    group="server",
    since="3.0.0",
    categories="keyspace dangerous",
)
def restore(c: Context, argv: list[bytes]) -> Reply:
    """Create a key from the reply of DUMP, here or in a redis-server.

    RESTORE key ttl serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]
    RESTORE-ASKING key ttl serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]

    The time to live is in milliseconds; 0 means for ever. With ABSTTL it is a Unix time. FREQ has
    an effect only while an LFU policy is configured.
    """
    name = argv[1]
    words, idle_s, frequency = _options(argv)
    old = c.db.find_row(name)
    if old is not None and b"REPLACE" not in words:
        raise BUSY
    ttl_ms = parse_int(argv[2])
    if ttl_ms < 0:
        raise BAD_TTL
    from holdfast.store.rdb import value_codec
    from holdfast.store.rdb.plain import FILLERS

    try:
        plain = value_codec.load(argv[3])
    except value_codec.ChecksumError:
        raise BAD_PAYLOAD from None
    except value_codec.RdbError:
        raise BAD_DATA from None
    expires_at_ms = ttl_ms + (0 if b"ABSTTL" in words else c.keyspace.now_ms) if ttl_ms else None
    if expires_at_ms is not None and expires_at_ms > INT64_MAX:
        expires_at_ms = INT64_MIN  # Redis overflows here: the key has expired
    if old is not None:
        c.db.remove(old)
    if expires_at_ms is not None and c.keyspace.is_past(expires_at_ms):
        if old is not None:
            c.db.signal(name, b"del", GENERIC)
        return OK
    if plain.type == "string":
        key = c.db.create(name, plain.content)
    else:
        kind, fill = FILLERS[plain.type]
        key, value = c.db.create_as(name, kind)
        fill(value, plain.content, c.keyspace)
        c.keyspace.watch_fields(key)
    if expires_at_ms is not None:
        c.db.set_expiry(key, expires_at_ms)
    if idle_s is not None:
        key.accessed_s = max(0, c.keyspace.now_s - idle_s)
    if frequency is not None and c.keyspace.frequencies is not None:
        c.keyspace.frequencies.set(key, frequency)
    c.db.signal(name, b"restore", GENERIC)
    if old is not None:
        c.db.tell_overwritten(name, old, key)
    return OK


def _options(argv: list[bytes]) -> tuple[set[bytes], int | None, int | None]:
    """Parse the options of RESTORE. Returns the words among them, the idle time in seconds, and the
    frequency."""
    words: set[bytes] = set()
    idle_s: int | None = None
    frequency: int | None = None
    options = Options(argv, 4)
    while options:
        word = options.word()
        if word == b"IDLETIME" and b"FREQ" not in words:
            idle_s = options.integer()
            if idle_s < 0:
                raise BAD_IDLE_TIME
        elif word == b"FREQ" and idle_s is None:
            frequency = options.integer()
            if not 0 <= frequency <= 255:
                raise BAD_FREQUENCY
        elif word not in (b"REPLACE", b"ABSTTL"):
            raise SYNTAX
        words.add(word)
    return words, idle_s, frequency
