"""DUMP and RESTORE: values in redis-server's serialisation, which store/rdb/value_codec.py has."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast.commands.args import INT64_MAX, INT64_MIN, Options, parse_int
from holdfast.commands.context import Context
from holdfast.commands.table import command, one
from holdfast.errors import SYNTAX, CommandError
from holdfast.resp import OK, Reply
from holdfast.store.memory.events import GENERIC
from holdfast.store.memory.keyspace import Keyspace
from holdfast.store.values.hash import Hash
from holdfast.store.values.list import List
from holdfast.store.values.set import Set
from holdfast.store.values.stream import Stream
from holdfast.store.values.zset import ZSet

if TYPE_CHECKING:
    from holdfast.store.rdb.stream_codec import StreamData
    from holdfast.store.rdb.value_codec import Field

# value_codec is imported by the first command that needs it: that takes two milliseconds, and most
# servers never do.

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
    key = c.db.read(argv[1])
    return None if key is None else _serialised(key.value)


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
    if expires_at_ms is not None and expires_at_ms <= c.keyspace.now_ms:
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
        key.accessed_s = c.keyspace.now_s - idle_s
    if frequency is not None and c.keyspace.frequencies is not None:
        c.keyspace.frequencies.set(key, frequency)
    c.db.signal(name, b"restore", GENERIC)
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


# -- each type --------------------------------------------------------------------------------


def _serialised(value: Any) -> bytes:
    from holdfast.store.rdb import value_codec

    if isinstance(value, List):
        return value_codec.dump_list(value.range(0, -1))
    if isinstance(value, Hash):
        fields = [(name, text, value.expires_at_ms(name)) for name, text in value.items.items()]
        return value_codec.dump_hash(fields)
    if isinstance(value, Set):
        return value_codec.dump_set(list(value))
    if isinstance(value, ZSet):
        highest_first = reversed(value.slice(0, len(value)))  # as redis-server writes a large one
        return value_codec.dump_zset([(member, score) for score, member in highest_first])
    if isinstance(value, Stream):
        return value_codec.dump_stream(value)
    return value_codec.dump_string(value)


def _fill_list(value: List, elements: list[bytes], log: Keyspace) -> None:
    value.push_right(elements, log)


def _fill_hash(value: Hash, fields: "list[Field]", log: Keyspace) -> None:
    for name, text, expires_at_ms in fields:
        value.set(name, text, log)
        if expires_at_ms is not None:
            value.set_expiry(name, expires_at_ms, log)


def _fill_set(value: Set, members: list[bytes], log: Keyspace) -> None:
    for member in members:
        value.add(member, log)


def _fill_zset(value: ZSet, entries: list[tuple[bytes, float]], log: Keyspace) -> None:
    for member, score in entries:
        value.put(member, score, log)


def _fill_stream(value: Stream, data: "StreamData", log: Keyspace) -> None:
    for entry_id, fields in data.entries:
        value.add(entry_id, fields, log)
    value.set_meta(data.last_id, data.max_deleted_id, data.entries_added, log)
    for name, last_id, entries_read, consumers, pending in data.groups:
        value.set_group(name, last_id, entries_read, log)
        group = value.groups[name]
        for consumer, seen_at_ms in consumers:
            value.see_consumer(group, consumer, seen_at_ms, log)
        for entry_id, consumer, delivered_at_ms, deliveries in pending:
            value.assign(group, entry_id, (consumer, delivered_at_ms, deliveries), log)


FILLERS: dict[str, tuple[type[Any], Callable[[Any, Any, Keyspace], None]]] = {
    "list": (List, _fill_list),
    "hash": (Hash, _fill_hash),
    "set": (Set, _fill_set),
    "zset": (ZSet, _fill_zset),
    "stream": (Stream, _fill_stream),
}
