"""The commands that replicas get for a command that has changed data: one table.

A replica that runs these commands in the same order comes to the same data. Most commands are sent
as they came. The table has the others: commands that choose at random, that depend on the clock,
that wait, or that tell a consumer group of a read. For these, commands with the same effect are
sent. Nothing is sent for a command that has changed nothing.

Each function gets the caller's context, the argv, and the reply of the command, directly after the
command has run. It returns the commands for replicas, and changes nothing. The file is long because
it is one table.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise, takewhile
from typing import Any

from holdfast.commands.context import Context
from holdfast.commands.streams.stream_args import is_id, options_of_xadd, parse_id
from holdfast.store.memory.key import Key
from holdfast.store.values.hash import Hash
from holdfast.store.values.list import List
from holdfast.store.values.stream import Stream
from holdfast.store.values.stream_group import Group
from holdfast.store.values.stream_id import from_row, text_of, to_row

Argv = list[bytes]
Effect = Callable[[Context, Argv, Any], list[Argv]]

EFFECTS: dict[str, Effect] = {}  # by the name in the table of commands

# All other commands that write are sent as they came, because they do the same on every server. A
# test names each command that is in no list.
AS_THEY_CAME = frozenset(
    (
        *("append", "bitfield", "cluster|flushslot", "copy", "decr", "decrby", "del", "geoadd"),
        *("hdel", "hincrby", "hmset", "hpersist", "hset", "hsetnx", "incr", "incrby", "linsert"),
        *("lmove", "lpop", "lpush", "lpushx", "lrem", "lset", "ltrim", "migrate", "move", "mset"),
        *(
            "msetnx",
            "persist",
            "pfadd",
            "pfcount",
            "pfdebug",
            "pfmerge",
            "rename",
            "renamenx",
            "rpop",
        ),
        *("rpoplpush", "rpush", "rpushx", "sadd", "sdiffstore", "setbit", "setnx", "setrange"),
        *("sflush", "sinterstore", "smove", "sort", "srem", "sunionstore", "trimslots", "unlink"),
        *("xack", "xdel"),
        *("xsetid", "zadd", "zdiffstore", "zincrby", "zpopmax", "zpopmin", "zrangestore", "zrem"),
        *("zremrangebylex", "zremrangebyrank", "zremrangebyscore", "function|delete"),
        *("function|flush", "function|load", "function|restore", "xgroup|create"),
        *("xgroup|createconsumer", "xgroup|delconsumer", "xgroup|destroy", "xgroup|setid"),
    )
)

# Sent whenever they succeed: they change something that is no key, or too much to be counted.
ALWAYS = frozenset({"flushall", "flushdb", "publish", "spublish", "swapdb"})

# They run other commands. These are sent, as one transaction.
TRANSACTIONS = frozenset({"eval", "evalsha", "exec", "fcall"})

# Replicas before Redis 7.4 and Valkey 9 refuse a transaction that contains one of these.
OUT_OF_TRANSACTIONS = frozenset({b"HPEXPIREAT", b"HPERSIST"})

MOST_MEMBERS = 1024  # of a set in one SREM
VERSION_OF_REDIS_7 = 10  # of a DUMP; servers refuse later versions than their own


def _for(*names: str) -> Callable[[Effect], Effect]:
    def register(effect: Effect) -> Effect:
        EFFECTS.update(dict.fromkeys(names, effect))
        return effect

    return register


def _row(c: Context, name: bytes) -> Key | None:
    """A key that a command has just used, so it is in memory. (To find it would let it expire.)"""
    space = c.db.space
    return space.keys.get(name) or space.unloaded.get(name)


# -- strings and expiry ---------------------------------------------------------------------------


def _expiry(key: Key | None) -> list[bytes]:
    """The words that give a key its expiry again."""
    return [] if key is None or key.expires_at_ms is None else [b"%d" % key.expires_at_ms]


def _string(c: Context, name: bytes) -> Argv:
    """A string as it is now. Conditions and options of the command do not matter any more."""
    key = _row(c, name)
    if key is None or not isinstance(key.value, bytes):
        return [b"DEL", name]
    expiry = _expiry(key)
    return [b"SET", name, key.value, b"PXAT", *expiry] if expiry else [b"SET", name, key.value]


def _whole(c: Context, name: bytes) -> list[Argv]:
    """A key as it is now, for commands that older servers do not know. Their form of a hash has no
    times of fields, so these follow."""
    key = _row(c, name)
    if key is None:
        return [[b"DEL", name]]
    from holdfast.store.rdb import plain, value_codec

    value = plain.plain_of(key.value)
    times: list[Argv] = []
    if value.type == "hash":
        times = _fields(c, name, [field for field, _, at_ms in value.content if at_ms is not None])
        value = plain.Plain("hash", [(field, text, None) for field, text, _ in value.content])
    payload = value_codec.dump(value, for_redis_7=True)
    expiry = _expiry(key)
    absolute = [b"ABSTTL"] if expiry else []
    return [[b"RESTORE", name, *(expiry or [b"0"]), payload, b"REPLACE", *absolute], *times]


@_for("set")
def _set(c: Context, argv: Argv, reply: Any) -> list[Argv]:
    return [argv] if len(argv) == 3 else [_string(c, argv[1])]


@_for("setex", "psetex", "increx")
def _new_string(c: Context, argv: Argv, reply: Any) -> list[Argv]:
    return [_string(c, argv[1])]


@_for("msetex")
def _msetex(c: Context, argv: Argv, reply: Any) -> list[Argv]:
    return [_string(c, name) for name in argv[2 : 2 + 2 * int(argv[1]) : 2]]


@_for("delex", "delifeq", "getdel")
def _delete(c: Context, argv: Argv, reply: Any) -> list[Argv]:
    return [[b"DEL", argv[1]]]


@_for("bitop")
def _bitop(c: Context, argv: Argv, reply: Any) -> list[Argv]:
    return [argv] if argv[1].upper() in (b"AND", b"OR", b"XOR", b"NOT") else _whole(c, argv[2])


@_for("getset")
def _getset(c: Context, argv: Argv, reply: Any) -> list[Argv]:
    return [[b"SET", *argv[1:]]]


@_for("getex", "expire", "pexpire", "expireat", "pexpireat")
def _expire(c: Context, argv: Argv, reply: Any) -> list[Argv]:
    key = _row(c, argv[1])
    if key is None:  # its time was over at once
        return [[b"DEL", argv[1]]]
    expiry = _expiry(key)
    return [[b"PEXPIREAT", argv[1], *expiry] if expiry else [b"PERSIST", argv[1]]]


@_for("incrbyfloat")
def _incrbyfloat(c: Context, argv: Argv, reply: Any) -> list[Argv]:
    """The sum, because another server may add with other digits."""
    return [[b"SET", argv[1], reply, b"KEEPTTL"]]


@_for("restore", "restore-asking")
def _restore(c: Context, argv: Argv, reply: Any) -> list[Argv]:
    key = _row(c, argv[1])
    if key is None:  # its time was over at once
        return [[b"DEL", argv[1]]]
    if int.from_bytes(argv[3][-10:-8], "little") > VERSION_OF_REDIS_7:
        return _whole(c, argv[1])
    expiry = _expiry(key)
    if not expiry:
        return [argv]
    is_absolute = any(word.upper() == b"ABSTTL" for word in argv[4:])
    return [[*argv[:2], *expiry, *argv[3:], *([] if is_absolute else [b"ABSTTL"])]]


# -- hashes ---------------------------------------------------------------------------------------


@_for("hincrbyfloat")
def _hincrbyfloat(c: Context, argv: Argv, reply: Any) -> list[Argv]:
    """The sum, and the time of the field, which HSET would take away."""
    key = _row(c, argv[1])
    value = None if key is None else key.value
    has_time = isinstance(value, Hash) and value.expires_at_ms(argv[2]) is not None
    times = _fields(c, argv[1], [argv[2]]) if has_time else []
    return [[b"HSET", argv[1], argv[2], reply], *times]


@_for("hexpire", "hpexpire", "hexpireat", "hpexpireat", "hgetex", "hgetdel")
def _hexpire(c: Context, argv: Argv, reply: Any) -> list[Argv]:
    return _fields(c, argv[1], _named_fields(argv, 1))


@_for("hsetex")
def _hsetex(c: Context, argv: Argv, reply: Any) -> list[Argv]:
    """HSET takes the times away. HPERSIST would be an error to servers before Redis 7.4."""
    pairs = _named_fields(argv, 2)
    later = _fields(c, argv[1], pairs[::2])
    return [[b"HSET", argv[1], *pairs], *(each for each in later if each[0] != b"HPERSIST")]


@_for("himport|set")
def _himport(c: Context, argv: Argv, reply: Any) -> list[Argv]:
    return _whole(c, argv[2])


def _named_fields(argv: Argv, width: int) -> list[bytes]:
    """The words after FIELDS and their number, `width` for each field. Options may follow."""
    at = next(at for at in range(2, len(argv)) if argv[at].upper() == b"FIELDS") + 2
    return argv[at : at + width * int(argv[at - 1])]


def _fields(c: Context, name: bytes, fields: list[bytes]) -> list[Argv]:
    """HDEL for fields that are gone, HPEXPIREAT for those that have a time, HPERSIST for others."""
    key = _row(c, name)
    if key is None or not isinstance(key.value, Hash):
        return [[b"HDEL", name, *fields]]
    gone = [field for field in fields if field not in key.value]
    sent = [[b"HDEL", name, *gone]] if gone else []
    for field in fields:
        if field in key.value:
            at_ms = key.value.expires_at_ms(field)
            sent.append(
                [b"HPERSIST", name, b"FIELDS", b"1", field]
                if at_ms is None
                else [b"HPEXPIREAT", name, b"%d" % at_ms, b"FIELDS", b"1", field]
            )
    return sent


# -- collections: random members, and commands that wait ------------------------------------------


@_for("spop")
def _spop(c: Context, argv: Argv, reply: Any) -> list[Argv]:
    members = [reply] if len(argv) == 2 else list(reply)
    if _row(c, argv[1]) is None:
        return [[b"DEL", argv[1]]]
    return [
        [b"SREM", argv[1], *members[at : at + MOST_MEMBERS]]
        for at in range(0, len(members), MOST_MEMBERS)
    ]


@_for("blpop", "brpop")
def _blpop(c: Context, argv: Argv, reply: Any) -> list[Argv]:
    return [[argv[0].upper()[1:], reply[0]]]


@_for("bzpopmin", "bzpopmax")
def _bzpop(c: Context, argv: Argv, reply: Any) -> list[Argv]:
    return [[argv[0].upper()[1:], reply[0]]]


@_for("blmove", "brpoplpush")
def _blmove(c: Context, argv: Argv, reply: Any) -> list[Argv]:
    return [[argv[0].upper()[1:], *argv[1:-1]]]


@_for("lmpop", "blmpop")
def _lmpop(c: Context, argv: Argv, reply: Any) -> list[Argv]:
    word = b"LPOP" if _end_of_mpop(argv) == b"LEFT" else b"RPOP"
    return [[word, reply[0], b"%d" % len(reply[1])]]


@_for("zmpop", "bzmpop")
def _zmpop(c: Context, argv: Argv, reply: Any) -> list[Argv]:
    word = b"ZPOPMIN" if _end_of_mpop(argv) == b"MIN" else b"ZPOPMAX"
    return [[word, reply[0], b"%d" % len(reply[1])]]


def _end_of_mpop(argv: Argv) -> bytes:
    """LEFT, RIGHT, MIN or MAX: the word after the keys."""
    count_at = 2 if argv[0][:1].upper() == b"B" else 1
    return argv[count_at + int(argv[count_at]) + 1].upper()


@_for("lmovem", "blmovem")
def _lmovem(c: Context, argv: Argv, reply: Any) -> list[Argv]:
    """The reply has the elements in their new order."""
    key = _row(c, argv[2])
    value = None if key is None else key.value
    if argv[1] == argv[2] and isinstance(value, List) and len(value) == len(reply):
        return _whole(c, argv[2])  # LPOP would leave no list, and the push make one without expiry
    pop = b"LPOP" if argv[3].upper() == b"LEFT" else b"RPOP"
    moved = list(reply)
    push = [b"RPUSH", argv[2], *moved]
    if argv[4].upper() == b"LEFT":
        push = [b"LPUSH", argv[2], *reversed(moved)]
    return [[pop, argv[1], b"%d" % len(moved)], push]


@_for("zunionstore", "zinterstore")
def _zunionstore(c: Context, argv: Argv, reply: Any) -> list[Argv]:
    words = [word.upper() for word in argv]
    is_new = any(pair == (b"AGGREGATE", b"COUNT") for pair in pairwise(words))
    return _whole(c, argv[1]) if is_new else [argv]


@_for("geosearchstore", "georadius", "georadiusbymember")
def _geo(c: Context, argv: Argv, reply: Any) -> list[Argv]:
    """ANY finds other places on another server, and few servers know BYPOLYGON."""
    words = [word.upper() for word in argv]
    if b"ANY" not in words and b"BYPOLYGON" not in words:
        return [argv]
    store_at = max(words.index(word) if word in words else 0 for word in (b"STORE", b"STOREDIST"))
    return _whole(c, argv[store_at + 1] if store_at else argv[1])


# -- streams --------------------------------------------------------------------------------------


OTHER_POLICIES = {b"DELREF", b"ACKED"}  # which older servers do not know


@_for("xadd")
def _xadd(c: Context, argv: Argv, reply: Any) -> list[Argv]:
    """With the id that was chosen, and the exact length that is left. Replicas need no idempotent
    ids: they get each message once."""
    options, at = options_of_xadd(argv)
    is_trimmed = not options.keys().isdisjoint((b"MAXLEN", b"MINID"))
    if is_trimmed and options.keys() & OTHER_POLICIES:
        return _whole(c, argv[1])
    sent = [[b"XADD", argv[1], reply, *argv[at + 1 :]]]
    return sent + (_trimmed(c, argv[1]) if is_trimmed else [])


@_for("xtrim")
def _xtrim(c: Context, argv: Argv, reply: Any) -> list[Argv]:
    if OTHER_POLICIES.intersection(word.upper() for word in argv[2:]):
        return _whole(c, argv[1])
    return _trimmed(c, argv[1])


@_for("xdelex")
def _xdelex(c: Context, argv: Argv, reply: Any) -> list[Argv]:
    return _deleted(c, argv, 2, reply)


@_for("xackdel")
def _xackdel(c: Context, argv: Argv, reply: Any) -> list[Argv]:
    ids = [text for text, status in zip(_ids(argv, 3), reply, strict=True) if status > 0]
    return [[b"XACK", argv[1], argv[2], *ids], *_deleted(c, argv, 3, reply)]


def _deleted(c: Context, argv: Argv, at: int, reply: list[int]) -> list[Argv]:
    """The entries that are gone, and with DELREF the references to all that were named."""
    ids, stream = _ids(argv, at), _stream(c, argv[1])
    sent: list[Argv] = []
    gone = [text for text, status in zip(ids, reply, strict=True) if status == 1]
    if gone:
        sent.append([b"XDEL", argv[1], *gone])
    if stream is not None and any(word.upper() == b"DELREF" for word in argv[at:]):
        sent += [[b"XACK", argv[1], group, *ids] for group in stream.groups]
    return sent


def _ids(argv: Argv, at: int) -> list[bytes]:
    """The ids after `IDS numids`. If IDS stands there twice, the last one counts."""
    ids: list[bytes] = []
    while at < len(argv):
        if argv[at].upper() == b"IDS":
            count = int(argv[at + 1])
            ids = argv[at + 2 : at + 2 + count]
            at += 1 + count
        at += 1
    return ids


@_for("xnack")
def _xnack(c: Context, argv: Argv, reply: Any) -> list[Argv]:
    """Older servers know no entries without a consumer. So these get one without a name, as in RDB
    files."""
    stream = _stream(c, argv[1])
    group = None if stream is None else stream.groups.get(argv[2])
    if group is None:
        return []
    rows = [to_row(parse_id(text)) for text in _ids(argv, 4)]
    return _claims(argv[1], group, (row for row in rows if _has(group, row, b"")))


@_for("xcfgset")
def _xcfgset(c: Context, argv: Argv, reply: Any) -> list[Argv]:
    """Replicas have no idempotent ids."""
    return []


def _trimmed(c: Context, name: bytes) -> list[Argv]:
    """The exact length, because with `~` another server may trim to another one."""
    stream = _stream(c, name)
    return [] if stream is None else [[b"XTRIM", name, b"MAXLEN", b"=", b"%d" % len(stream)]]


def _stream(c: Context, name: bytes) -> Stream | None:
    key = _row(c, name)
    return key.value if key is not None and isinstance(key.value, Stream) else None


@_for("xreadgroup")
def _xreadgroup(c: Context, argv: Argv, reply: Any) -> list[Argv]:
    """Which entries the consumer has now, and how far the group has come."""
    sent: list[Argv] = []
    group_name, consumer, after = _group_read(argv)
    for name, entries in reply:
        stream = _stream(c, name)
        group = None if stream is None else stream.groups.get(group_name)
        if group is None:
            continue
        # The first XREADGROUP of a consumer creates it, even if there is no entry to read.
        sent.append([b"XGROUP", b"CREATECONSUMER", name, group_name, consumer])
        if after[name] != b">":
            continue
        ids = [to_row(parse_id(entry[0])) for entry in entries]
        sent += _claims(name, group, (id_row for id_row in ids if group.pending.get(id_row)))
        position = [b"XGROUP", b"SETID", name, group_name, text_of(group.last_id)]
        count = -1 if group.entries_read is None else group.entries_read
        sent.append([*position, b"ENTRIESREAD", b"%d" % count])
    return sent


def _group_read(argv: Argv) -> tuple[bytes, bytes, dict[bytes, bytes]]:
    """Group and consumer, and by name of a stream the id that it is read from. The options come in
    any order."""
    at, group, consumer = 1, b"", b""
    while (word := argv[at].upper()) != b"STREAMS":
        if word == b"GROUP":
            group, consumer = argv[at + 1], argv[at + 2]
        at += {b"GROUP": 3, b"NOACK": 1}.get(word, 2)
    first = at + 1
    half = (len(argv) - first) // 2
    after = dict(zip(argv[first : first + half], argv[first + half :], strict=True))
    return group, consumer, after


@_for("xclaim")
def _xclaim(c: Context, argv: Argv, reply: Any) -> list[Argv]:
    """As the entries are now. Entries that were deleted are released: that is an XACK."""
    return _claimed(c, argv, list(takewhile(is_id, argv[5:])))


@_for("xautoclaim")
def _xautoclaim(c: Context, argv: Argv, reply: Any) -> list[Argv]:
    _, claimed, deleted = reply
    ids = [entry if isinstance(entry, bytes) else entry[0] for entry in claimed]
    return _claimed(c, argv, [*ids, *deleted])


def _claimed(c: Context, argv: Argv, ids: list[bytes]) -> list[Argv]:
    name, group_name, consumer = argv[1:4]
    stream = _stream(c, name)
    group = None if stream is None else stream.groups.get(group_name)
    if stream is None or group is None:
        return []
    sent: list[Argv] = []
    rows = [to_row(parse_id(text)) for text in ids]
    owned = [row for row in rows if _has(group, row, consumer)]
    sent += _claims(name, group, iter(owned))
    gone = [text for text, row in zip(ids, rows, strict=True) if group.pending.get(row) is None]
    if gone:
        sent.append([b"XACK", name, group_name, *gone])
    return sent


def _has(group: Group, row: bytes, consumer: bytes) -> bool:
    pending = group.pending.get(row)
    return pending is not None and pending.consumer_name == consumer


def _claims(name: bytes, group: Group, rows: Iterator[bytes]) -> list[Argv]:
    sent = []
    for row in rows:
        pending = group.pending.get(row)
        assert pending is not None
        claim = [b"XCLAIM", name, group.name, pending.consumer_name, b"0", text_of(from_row(row))]
        claim += [b"TIME", b"%d" % pending.last_delivery_ms]
        claim += [b"RETRYCOUNT", b"%d" % pending.deliveries, b"FORCE", b"JUSTID"]
        sent.append([*claim, b"LASTID", text_of(group.last_id)])
    return sent
