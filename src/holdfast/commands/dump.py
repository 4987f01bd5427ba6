"""DUMP and RESTORE: values as bytes that a redis-server takes and gives. How is store/rdb.py's."""

from collections.abc import Callable
from functools import partial
from typing import Any

from holdfast.commands.args import INT64_MAX, INT64_MIN, Options, parse_int
from holdfast.commands.context import Context
from holdfast.commands.table import command, one
from holdfast.errors import SYNTAX, CommandError
from holdfast.resp import OK, Reply
from holdfast.store import rdb
from holdfast.store.events import GENERIC
from holdfast.store.hashes import Hash
from holdfast.store.keyspace import Keyspace
from holdfast.store.lists import List
from holdfast.store.rdb_streams import StreamData
from holdfast.store.sets import Set
from holdfast.store.streams import Stream
from holdfast.store.zsets import ZSet

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
    """A value as bytes that RESTORE takes, here or in a redis-server.

    DUMP key
    """
    key = c.db.read(argv[1])
    return None if key is None else DUMPERS[type(key.value)](key.value)


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
    """Make a key from what DUMP gave, here or in a redis-server.

    RESTORE key ttl serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]
    RESTORE-ASKING key ttl serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]

    The time to live is in milliseconds, 0 for ever; with ABSTTL it is a time since 1970. FREQ is
    taken and forgotten.
    """
    name = argv[1]
    words, idle_s, frequency = _options(argv)
    old = c.db.find_row(name)
    if old is not None and b"REPLACE" not in words:
        raise BUSY
    ttl_ms = parse_int(argv[2])
    if ttl_ms < 0:
        raise BAD_TTL
    try:
        plain = rdb.load(argv[3])
    except rdb.ChecksumError:
        raise BAD_PAYLOAD from None
    except rdb.RdbError:
        raise BAD_DATA from None
    expires_at_ms = ttl_ms + (0 if b"ABSTTL" in words else c.keyspace.now_ms) if ttl_ms else None
    if expires_at_ms is not None and expires_at_ms > INT64_MAX:
        expires_at_ms = INT64_MIN  # where Redis has an overflow, and so a key that has expired
    if old is not None:
        c.db.remove(old)
    if expires_at_ms is not None and expires_at_ms <= c.keyspace.now_ms:
        if old is not None:
            c.db.signal(name, b"del", GENERIC)
        return OK
    if plain.type == "string":
        key = c.db.create(name, plain.content)
    else:
        kind, fill = COLLECTIONS[plain.type]
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
    """The words among them, for how many seconds the key is to count as unused, or how often it
    is to count as used."""
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


def _dump_hash(value: Hash) -> bytes:
    return rdb.dump_hash([(n, v, value.expires_at_ms(n)) for n, v in value.items.items()])


DUMPERS: dict[type, Callable[[Any], bytes]] = {
    bytes: rdb.dump_string,
    List: lambda value: rdb.dump_list(value.range(0, -1)),
    Hash: _dump_hash,
    Set: lambda value: rdb.dump_set(list(value)),
    ZSet: lambda value: rdb.dump_zset(list(value.items())),
    Stream: rdb.dump_stream,
}


def _fill_list(value: List, elements: list[bytes], log: Keyspace) -> None:
    value.push_right(elements, log)


def _fill_hash(value: Hash, fields: list[rdb.Field], log: Keyspace) -> None:
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


def _fill_stream(value: Stream, data: StreamData, log: Keyspace) -> None:
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


COLLECTIONS: dict[str, tuple[type[Any], Callable[[Any, Any, Keyspace], None]]] = {
    "list": (List, _fill_list),
    "hash": (Hash, _fill_hash),
    "set": (Set, _fill_set),
    "zset": (ZSet, _fill_zset),
    "stream": (Stream, _fill_stream),
}
