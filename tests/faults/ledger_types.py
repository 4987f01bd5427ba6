"""Hashes, sets, sorted sets, streams and bits in the ledger: plain values, and the effect and reply
of each command. Pure, and small on purpose; lists and keys are in ledger.py."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from holdfast import geohash
from holdfast.store.values import hll_sketch

Argv = list[bytes]
Reply = Any

FAR_AWAY_MS = 4_000_000_000_000
BITS = 40_000  # of a string: the journal has parts of most, and whole short ones
PLACES = [(b"13.361389", b"38.115556"), (b"15.087269", b"37.502669"), (b"-0.127758", b"51.507351")]


class Hash(dict[bytes, tuple[bytes, int]]):
    """By field: the value, and when it expires (-1: never)."""

    def copy(self) -> Self:
        return type(self)(self)


class Members(set[bytes]):
    def copy(self) -> Self:
        return type(self)(self)


class Scores(dict[bytes, float]):
    def copy(self) -> Self:
        return type(self)(self)


@dataclass
class Group:
    last: bytes = b"0-0"
    # Consumer and deliveries; an empty name: the entry was returned.
    pending: dict[bytes, tuple[bytes, int]] = field(default_factory=dict)
    consumers: set[bytes] = field(default_factory=set)


@dataclass
class Stream:
    """Ids are a number and -0, so that they can be compared by it."""

    entries: dict[bytes, list[bytes]] = field(default_factory=dict)
    last: bytes = b"0-0"
    added: int = 0
    groups: dict[bytes, Group] = field(default_factory=dict)

    def copy(self) -> "Stream":
        groups = {
            name: Group(group.last, dict(group.pending), set(group.consumers))
            for name, group in self.groups.items()
        }
        return Stream(dict(self.entries), self.last, self.added, groups)

    def __len__(self) -> int:
        return 1  # a stream exists while it is empty, too


def number_of(entry_id: bytes) -> int:
    return int(entry_id.removesuffix(b"-0"))


# -- hashes -----------------------------------------------------------------------------------


def _hset(fields: Hash, argv: Argv) -> Reply:
    before = len(fields)
    fields.update((name, (value, -1)) for name, value in pairs(argv[2:]))
    return len(fields) - before


def _hdel(fields: Hash, argv: Argv) -> Reply:
    return sum(fields.pop(name, None) is not None for name in argv[2:])


def _hincrby(fields: Hash, argv: Argv) -> Reply:
    value, expiry = fields.get(argv[2], (b"0", -1))
    fields[argv[2]] = (b"%d" % (int(value) + int(argv[3])), expiry)
    return int(value) + int(argv[3])


def _hpexpireat(fields: Hash, argv: Argv) -> Reply:
    fields[argv[5]] = (fields[argv[5]][0], int(argv[2]))
    return [1]


def _hpersist(fields: Hash, argv: Argv) -> Reply:
    value, expiry = fields[argv[4]]
    fields[argv[4]] = (value, -1)
    return [1 if expiry >= 0 else -1]


# -- sets and sorted sets ---------------------------------------------------------------------


def _sadd(members: Members, argv: Argv) -> Reply:
    before = len(members)
    members.update(argv[2:])
    return len(members) - before


def _srem(members: Members, argv: Argv) -> Reply:
    before = len(members)
    members.difference_update(argv[2:])
    return before - len(members)


def _zadd(scores: Scores, argv: Argv) -> Reply:
    before = len(scores)
    scores.update((member, float(score)) for score, member in pairs(argv[2:]))
    return len(scores) - before


def _geoadd(scores: Scores, argv: Argv) -> Reply:
    is_new = argv[4] not in scores
    scores[argv[4]] = float(geohash.encode(float(argv[2]), float(argv[3])))
    return int(is_new)


def _zincrby(scores: Scores, argv: Argv) -> Reply:
    scores[argv[3]] = scores.get(argv[3], 0.0) + int(argv[2])
    return b"%d" % scores[argv[3]]


def _zrem(scores: Scores, argv: Argv) -> Reply:
    return sum(scores.pop(member, None) is not None for member in argv[2:])


def _zpopmin(scores: Scores, argv: Argv) -> Reply:
    score, member = min((score, member) for member, score in scores.items())
    del scores[member]
    return [member, b"%d" % score]


# -- streams ----------------------------------------------------------------------------------


def _xadd(stream: Stream, argv: Argv) -> Reply:
    *trim, entry_id, name, value = argv[2:]
    stream.entries[entry_id] = [name, value]
    stream.last = entry_id
    stream.added += 1
    if trim:
        _shorten(stream, int(trim[-1]))
    return entry_id


def _xdel(stream: Stream, argv: Argv) -> Reply:
    return sum(stream.entries.pop(entry_id, None) is not None for entry_id in argv[2:])


def _xtrim(stream: Stream, argv: Argv) -> Reply:
    return _shorten(stream, int(argv[3]))


def _shorten(stream: Stream, length: int) -> int:
    surplus = list(stream.entries)[: max(len(stream.entries) - length, 0)]
    for entry_id in surplus:
        del stream.entries[entry_id]
    return len(surplus)


def _xgroup(stream: Stream, argv: Argv) -> Reply:
    stream.groups[argv[3]] = Group()
    return b"OK"


def _xreadgroup(stream: Stream, argv: Argv) -> Reply:
    group, consumer, name = stream.groups[argv[2]], argv[3], argv[-2]
    after = number_of(group.last)
    new = [entry_id for entry_id in stream.entries if number_of(entry_id) > after][: int(argv[5])]
    for entry_id in new:
        group.pending[entry_id] = (consumer, 1)
        group.consumers.add(consumer)  # in Redis 7.0 not before it is given something
        group.last = entry_id
    return [[name, [[entry_id, stream.entries[entry_id]] for entry_id in new]]] if new else None


def _xack(stream: Stream, argv: Argv) -> Reply:
    pending = stream.groups[argv[2]].pending
    return sum(pending.pop(entry_id, None) is not None for entry_id in argv[3:])


def _xclaim(stream: Stream, argv: Argv) -> Reply:
    group, consumer, entry_id = stream.groups[argv[2]], argv[3], argv[5]
    group.consumers.add(consumer)
    group.pending[entry_id] = (consumer, group.pending[entry_id][1] + 1)
    return [[entry_id, stream.entries[entry_id]]]


def _xnack(stream: Stream, argv: Argv) -> Reply:
    pending, entry_id = stream.groups[argv[2]].pending, argv[-1]
    pending[entry_id] = (b"", pending[entry_id][1])
    return 1


def _xackdel(stream: Stream, argv: Argv) -> Reply:
    """With DELREF: the entry goes from all groups, too."""
    entry_id = argv[-1]
    for group in stream.groups.values():
        group.pending.pop(entry_id, None)
    stream.entries.pop(entry_id, None)
    return [1]


# -- strings of bits, and sketches ------------------------------------------------------------


def set_bit(value: bytes, argv: Argv) -> tuple[bytes, Reply]:
    offset, bit = int(argv[2]), int(argv[3])
    data = bytearray(value.ljust(offset // 8 + 1, b"\0"))
    mask = 0x80 >> offset % 8
    before = data[offset // 8] & mask
    data[offset // 8] ^= before ^ (mask if bit else 0)
    return bytes(data), int(bool(before))


def set_range(value: bytes, argv: Argv) -> tuple[bytes, Reply]:
    data = bytearray(value.ljust(int(argv[2]), b"\0"))
    data[int(argv[2]) : int(argv[2]) + len(argv[3])] = argv[3]
    return bytes(data), len(data)


def count_in(value: bytes, argv: Argv) -> tuple[bytes, Reply]:
    sketch = hll_sketch.Sketch(value or hll_sketch.EMPTY, 3000)
    changes = [sketch.add(element) for element in argv[2:]]
    if not any(changes):
        return value, 0
    sketch.forget_count()
    return bytes(sketch.data), 1


def is_sketch(value: bytes) -> bool:
    return value.startswith(b"HYLL")


COMMANDS: dict[bytes, tuple[type, Callable[[Any, Argv], Reply]]] = {
    b"HSET": (Hash, _hset),
    b"HDEL": (Hash, _hdel),
    b"HINCRBY": (Hash, _hincrby),
    b"HPEXPIREAT": (Hash, _hpexpireat),
    b"HPERSIST": (Hash, _hpersist),
    b"SADD": (Members, _sadd),
    b"SREM": (Members, _srem),
    b"ZADD": (Scores, _zadd),
    b"GEOADD": (Scores, _geoadd),
    b"ZINCRBY": (Scores, _zincrby),
    b"ZREM": (Scores, _zrem),
    b"ZPOPMIN": (Scores, _zpopmin),
    b"XADD": (Stream, _xadd),
    b"XDEL": (Stream, _xdel),
    b"XTRIM": (Stream, _xtrim),
    b"XGROUP": (Stream, _xgroup),
    b"XREADGROUP": (Stream, _xreadgroup),
    b"XACK": (Stream, _xack),
    b"XCLAIM": (Stream, _xclaim),
    b"XNACK": (Stream, _xnack),
    b"XACKDEL": (Stream, _xackdel),
}


def name_in(argv: Argv) -> bytes:
    """The key that a command changes."""
    return argv[{b"XREADGROUP": -2, b"XGROUP": 2}.get(argv[0], 1)]


def pairs(words: Sequence[Any]) -> list[tuple[Any, Any]]:
    return list(zip(words[::2], words[1::2], strict=True))


# -- inventing commands -----------------------------------------------------------------------


def first_commands(rng: random.Random, name: bytes, element: Callable[[], bytes]) -> list[Argv]:
    """Commands that make a key of each type."""
    return [
        [b"HSET", name, element(), element()],
        [b"SADD", name, *(element() for _ in range(rng.randint(1, 9)))],
        [b"ZADD", name, b"%d" % rng.randrange(9), element()],
        [b"GEOADD", name, *rng.choice(PLACES), element()],
        [b"XADD", name, b"1-0", b"field", element()],
        [b"XGROUP", b"CREATE", name, b"g", b"0", b"MKSTREAM"],
        [b"SETBIT", name, b"%d" % rng.randrange(BITS), b"1"],
        [b"PFADD", name, element()],
    ]


def next_commands(
    rng: random.Random, name: bytes, value: object, element: Callable[[], bytes]
) -> list[Argv]:
    """Commands for a value that exists."""
    number = b"%d" % rng.randrange(100)
    if isinstance(value, Hash):
        some = rng.choice(list(value))
        at_ms = b"%d" % (FAR_AWAY_MS + rng.randrange(10**6))
        return [
            [b"HSET", name, element(), element(), some, number],
            [b"HINCRBY", name, b"counter", number],
            [b"HPEXPIREAT", name, at_ms, b"FIELDS", b"1", some],
            [b"HPERSIST", name, b"FIELDS", b"1", some],
            [b"HDEL", name, some, element()],
        ]
    if isinstance(value, Members):
        return [
            [b"SADD", name, *(element() for _ in range(rng.randint(1, 9)))],
            [b"SREM", name, rng.choice(list(value)), element()],
        ]
    if isinstance(value, Scores):
        some = rng.choice(list(value))
        return [
            [b"ZADD", name, number, element(), b"-5", some],
            [b"GEOADD", name, *rng.choice(PLACES), element()],
            [b"ZINCRBY", name, number, rng.choice([some, element()])],
            [b"ZREM", name, some, element()],
            [b"ZPOPMIN", name],
        ]
    if isinstance(value, Stream):
        return _stream_commands(rng, name, value, element)
    if isinstance(value, bytes) and is_sketch(value):
        return [[b"PFADD", name, *(element() for _ in range(rng.randint(1, 9)))]] * 2
    if isinstance(value, bytes):
        return [
            [b"SETBIT", name, b"%d" % rng.randrange(BITS), b"%d" % rng.randint(0, 1)],
            [b"SETRANGE", name, b"%d" % rng.randrange(BITS // 8), element()],
        ]
    return []


def _stream_commands(
    rng: random.Random, name: bytes, stream: Stream, element: Callable[[], bytes]
) -> list[Argv]:
    next_id = b"%d-0" % (number_of(stream.last) + rng.randint(1, 3))
    argvs = [
        [b"XADD", name, next_id, b"field", element()],
        [b"XADD", name, next_id, b"field", element()],
        [b"XADD", name, b"MAXLEN", b"=", b"8", next_id, b"field", element()],
        [b"XTRIM", name, b"MAXLEN", b"%d" % rng.randrange(4, 12)],
    ]
    if stream.entries:
        argvs += [[b"XDEL", name, rng.choice(list(stream.entries))]]
    missing = [group for group in (b"g", b"h") if group not in stream.groups]
    argvs += [[b"XGROUP", b"CREATE", name, group, b"0"] for group in missing]
    for group_name, group in stream.groups.items():
        reader, count = rng.choice([b"c", b"d"]), b"%d" % rng.randint(1, 4)
        argvs += [
            [b"XREADGROUP", b"GROUP", group_name, reader, b"COUNT", count, b"STREAMS", name, b">"]
        ]
        if group.pending:
            some = rng.choice(list(group.pending))
            argvs += [[b"XACK", name, group_name, some, next_id]] * 2
            argvs += [[b"XNACK", name, group_name, b"FAIL", b"IDS", b"1", some]] * 2
            argvs += [[b"XACKDEL", name, group_name, b"DELREF", b"IDS", b"1", some]]
            if some in stream.entries:
                argvs += [[b"XCLAIM", name, group_name, reader, b"0", some]]
    return argvs
