"""A writer's model of its keys: a tiny Redis that runs the commands the writer sends.

Pure: no sockets. `Keys` is a state of all keys of a writer. `run` applies a command to it and
returns the reply. `Inventor` invents commands that make sense in a state. `reading` reads the state
from a server. Strings, lists and keys are here, the other types in ledger_types.py.
"""

import random
from collections.abc import Callable, Generator
from typing import Any

from tests.faults import ledger_types as types
from tests.faults.ledger_types import (
    FAR_AWAY_MS,
    Argv,
    Group,
    Hash,
    Members,
    Reply,
    Scores,
    Stream,
    pairs,
)

Value = bytes | list[bytes] | Hash | Members | Scores | Stream

# By database and name: the value and when it expires (-1: never).
Keys = dict[tuple[int, bytes], tuple[Value, int]]


def copied(keys: Keys) -> Keys:
    return {place: (_copied(value), expiry) for place, (value, expiry) in keys.items()}


def _copied(value: Value) -> Value:
    return value if isinstance(value, bytes) else value.copy()


def run(keys: Keys, db: int, argv: Argv) -> Reply:
    """Change the state as the server should; returns the reply it should give."""
    name = argv[0]
    if name == b"FLUSHDB":
        for place in [place for place in keys if place[0] == db]:
            del keys[place]
        return b"OK"
    if name == b"SWAPDB":
        one, other = int(argv[1]), int(argv[2])
        swapped = {one: other, other: one}
        moved = {(swapped.get(at, at), key): kept for (at, key), kept in keys.items()}
        keys.clear()
        keys.update(moved)
        return b"OK"
    place = (db, types.name_in(argv))
    if name not in _COLLECTION_COMMANDS:
        return _KEY_COMMANDS[name](keys, place, argv)
    kind, change = _COLLECTION_COMMANDS[name]
    collection, expiry = keys.get(place, (kind(), -1))
    reply = change(collection, argv)
    if len(collection):
        keys[place] = (collection, expiry)
    else:
        keys.pop(place, None)
    return reply


# -- strings and keys -------------------------------------------------------------------------


def _set(keys: Keys, place: tuple[int, bytes], argv: Argv) -> Reply:
    keep = argv[3:] == [b"KEEPTTL"] and place in keys
    keys[place] = (argv[2], keys[place][1] if keep else -1)
    return b"OK"


def _append(keys: Keys, place: tuple[int, bytes], argv: Argv) -> Reply:
    value, expiry = keys.get(place, (b"", -1))
    assert isinstance(value, bytes)
    keys[place] = (value + argv[2], expiry)
    return len(value + argv[2])


def _incr(keys: Keys, place: tuple[int, bytes], argv: Argv) -> Reply:
    value, expiry = keys.get(place, (b"0", -1))
    assert isinstance(value, bytes)
    keys[place] = (b"%d" % (int(value) + 1), expiry)
    return int(value) + 1


def _del(keys: Keys, place: tuple[int, bytes], argv: Argv) -> Reply:
    return int(keys.pop(place, None) is not None)


def _rename(keys: Keys, place: tuple[int, bytes], argv: Argv) -> Reply:
    keys[place[0], argv[2]] = keys.pop(place)
    return b"OK"


def _copy(keys: Keys, place: tuple[int, bytes], argv: Argv) -> Reply:
    value, expiry = keys[place]
    keys[place[0], argv[2]] = (_copied(value), expiry)
    return 1


def _pexpireat(keys: Keys, place: tuple[int, bytes], argv: Argv) -> Reply:
    keys[place] = (keys[place][0], int(argv[2]))
    return 1


def _persist(keys: Keys, place: tuple[int, bytes], argv: Argv) -> Reply:
    had_expiry = keys[place][1] >= 0
    keys[place] = (keys[place][0], -1)
    return int(had_expiry)


def _lmove(keys: Keys, place: tuple[int, bytes], argv: Argv) -> Reply:
    expiry = keys[place][1]
    element = run(keys, place[0], [b"LPOP" if argv[3] == b"LEFT" else b"RPOP", argv[1]])
    run(keys, place[0], [b"LPUSH" if argv[4] == b"LEFT" else b"RPUSH", argv[2], element])
    if argv[1] == argv[2]:  # the list was never gone, even if it has one element
        keys[place] = (keys[place][0], expiry)
    return element


def _setbit(keys: Keys, place: tuple[int, bytes], argv: Argv) -> Reply:
    return _changed(types.set_bit, keys, place, argv)


def _setrange(keys: Keys, place: tuple[int, bytes], argv: Argv) -> Reply:
    return _changed(types.set_range, keys, place, argv)


def _pfadd(keys: Keys, place: tuple[int, bytes], argv: Argv) -> Reply:
    return _changed(types.count_in, keys, place, argv)


def _changed(
    change: Callable[[bytes, Argv], tuple[bytes, Reply]],
    keys: Keys,
    place: tuple[int, bytes],
    argv: Argv,
) -> Reply:
    value, expiry = keys.get(place, (b"", -1))
    assert isinstance(value, bytes)
    value, reply = change(value, argv)
    keys[place] = (value, expiry)
    return reply


def _bitop_not(keys: Keys, place: tuple[int, bytes], argv: Argv) -> Reply:
    value, _ = keys[place[0], argv[3]]
    assert isinstance(value, bytes)
    keys[place[0], argv[2]] = (bytes(byte ^ 0xFF for byte in value), -1)
    return len(value)


def _sunionstore(keys: Keys, place: tuple[int, bytes], argv: Argv) -> Reply:
    value, _ = keys[place[0], argv[2]]
    assert isinstance(value, Members)
    keys[place] = (value.copy(), -1)
    return len(value)


def _zrangestore(keys: Keys, place: tuple[int, bytes], argv: Argv) -> Reply:
    """The first two."""
    value, _ = keys[place[0], argv[2]]
    assert isinstance(value, Scores)
    first = sorted(value.items(), key=lambda item: (item[1], item[0]))[:2]
    keys[place] = (Scores(first), -1)
    return len(first)


_KEY_COMMANDS: dict[bytes, Callable[[Keys, tuple[int, bytes], Argv], Reply]] = {
    b"SET": _set,
    b"APPEND": _append,
    b"INCR": _incr,
    b"DEL": _del,
    b"RENAME": _rename,
    b"COPY": _copy,
    b"PEXPIREAT": _pexpireat,
    b"PERSIST": _persist,
    b"LMOVE": _lmove,
    b"SETBIT": _setbit,
    b"SETRANGE": _setrange,
    b"PFADD": _pfadd,
    b"BITOP": _bitop_not,
    b"SUNIONSTORE": _sunionstore,
    b"ZRANGESTORE": _zrangestore,
}

# -- lists ------------------------------------------------------------------------------------


def _push(elements: list[bytes], argv: Argv) -> Reply:
    if argv[0] == b"LPUSH":
        elements[:0] = reversed(argv[2:])
    else:
        elements += argv[2:]
    return len(elements)


def _pop(elements: list[bytes], argv: Argv) -> Reply:
    return elements.pop(0 if argv[0] == b"LPOP" else -1)


def _lset(elements: list[bytes], argv: Argv) -> Reply:
    elements[int(argv[2])] = argv[3]
    return b"OK"


def _linsert(elements: list[bytes], argv: Argv) -> Reply:
    if argv[3] not in elements:
        return -1
    elements.insert(elements.index(argv[3]) + (argv[2] == b"AFTER"), argv[4])
    return len(elements)


def _lrem(elements: list[bytes], argv: Argv) -> Reply:
    count = elements.count(argv[3])
    elements[:] = [element for element in elements if element != argv[3]]
    return count


def _ltrim(elements: list[bytes], argv: Argv) -> Reply:
    elements[:] = elements[int(argv[2]) : len(elements) + int(argv[3]) + 1]
    return b"OK"


_COLLECTION_COMMANDS: dict[bytes, tuple[Callable[[], Any], Callable[[Any, Argv], Reply]]] = {
    **types.COMMANDS,
    b"LPUSH": (list, _push),
    b"RPUSH": (list, _push),
    b"LPOP": (list, _pop),
    b"RPOP": (list, _pop),
    b"LSET": (list, _lset),
    b"LINSERT": (list, _linsert),
    b"LREM": (list, _lrem),
    b"LTRIM": (list, _ltrim),
}

# -- inventing commands -----------------------------------------------------------------------


class Inventor:
    """Invents commands on names of its own that succeed in the state they will meet."""

    def __init__(self, rng: random.Random, prefix: bytes) -> None:
        self._rng = rng
        self.names = [b"%s:%d" % (prefix, number) for number in range(8)]
        self.counter = b"%s:counter" % prefix

    def element(self) -> bytes:
        return self._rng.choice([b"a", b"b", b"c", b"%d" % self._rng.randrange(10**6), b"x" * 99])

    def command(self, keys: Keys, db: int) -> Argv:
        rng = self._rng
        name, other = rng.choice(self.names), rng.choice(self.names)
        if rng.random() < 0.1:
            return [b"INCR", self.counter]
        push = [rng.choice([b"LPUSH", b"RPUSH"]), name]
        push += [self.element() for _ in range(rng.randint(1, 12))]
        if (db, name) not in keys:
            string = [b"SET", name, self.element()]
            return rng.choice([string, push, *types.first_commands(rng, name, self.element)])
        value, _ = keys[db, name]
        choices: list[Argv] = types.next_commands(rng, name, value, self.element)
        if isinstance(value, bytes) and not types.is_sketch(value):
            choices += [
                [b"APPEND", name, self.element()],
                [b"SET", name, self.element(), b"KEEPTTL"],
                [b"BITOP", b"NOT", other, name],
            ]
        elif isinstance(value, list):
            choices += [push, push, *self._list_commands(name, value)]
            if isinstance(keys.get((db, other), (value,))[0], list):
                ends = [rng.choice([b"LEFT", b"RIGHT"]) for _ in range(2)]
                choices += [[b"LMOVE", name, other, *ends]] * 2
        elif isinstance(value, Members):
            choices += [[b"SUNIONSTORE", other, name]]
        elif isinstance(value, Scores):
            choices += [[b"ZRANGESTORE", other, name, b"0", b"1"]]
        return rng.choice(choices * 2 + self._key_commands(name, other))

    def _key_commands(self, name: bytes, other: bytes) -> list[Argv]:
        at_ms = b"%d" % (FAR_AWAY_MS + self._rng.randrange(10**6))
        argvs = [
            [b"DEL", name],
            [b"RENAME", name, other],
            [b"PEXPIREAT", name, at_ms],
            [b"PERSIST", name],
        ]
        return argvs if name == other else [*argvs, [b"COPY", name, other, b"REPLACE"]]

    def _list_commands(self, name: bytes, elements: list[bytes]) -> list[Argv]:
        rng = self._rng
        trim = [b"%d" % rng.randint(0, 2), b"%d" % rng.randint(-3, -1)]
        side = rng.choice([b"BEFORE", b"AFTER"])
        return [
            [b"LPOP", name],
            [b"RPOP", name],
            [b"LTRIM", name, *trim],
            [b"LREM", name, b"0", self.element()],
            [b"LSET", name, b"%d" % rng.randrange(len(elements)), self.element()],
            [b"LINSERT", name, side, rng.choice(elements), self.element()],
        ]


# -- asking a server --------------------------------------------------------------------------


def reading(name: bytes) -> Generator[Argv, Reply, tuple[Value, int] | None]:
    """Read a key from a server: yields commands, is sent their replies, returns the value."""
    kind = yield [b"TYPE", name]
    if kind == b"none":
        return None
    expiry = yield [b"PEXPIRETIME", name]
    value: Value
    if kind == b"string":
        value = yield [b"GET", name]
    elif kind == b"list":
        value = yield [b"LRANGE", name, b"0", b"-1"]
        assert len(value) == (yield [b"LLEN", name])
    elif kind == b"hash":
        fields = dict(pairs((yield [b"HGETALL", name])))
        times = yield [b"HPEXPIRETIME", name, b"FIELDS", b"%d" % len(fields), *fields]
        value = Hash(zip(fields, zip(fields.values(), times, strict=True), strict=True))
        assert len(value) == (yield [b"HLEN", name])
    elif kind == b"set":
        value = Members((yield [b"SMEMBERS", name]))
        assert len(value) == (yield [b"SCARD", name])
    elif kind == b"zset":
        scored = pairs((yield [b"ZRANGE", name, b"0", b"-1", b"WITHSCORES"]))
        value = Scores((member, float(score)) for member, score in scored)
        assert len(value) == (yield [b"ZCARD", name])
    else:
        value = yield from _reading_stream(name)
    return value, expiry


def _reading_stream(name: bytes) -> Generator[Argv, Reply, Stream]:
    about = dict(pairs((yield [b"XINFO", b"STREAM", name])))
    entries = dict((yield [b"XRANGE", name, b"-", b"+"]))
    assert len(entries) == about[b"length"] == (yield [b"XLEN", name])
    groups: dict[bytes, Group] = {}
    for row in (yield [b"XINFO", b"GROUPS", name]):
        group = dict(pairs(row))
        consumers = yield [b"XINFO", b"CONSUMERS", name, group[b"name"]]
        pending = yield [b"XPENDING", name, group[b"name"], b"-", b"+", b"100"]
        groups[group[b"name"]] = Group(
            group[b"last-delivered-id"],
            {entry_id: (consumer, count) for entry_id, consumer, _, count in pending},
            {consumer[1] for consumer in consumers},
        )
        assert len(pending) == group[b"pending"]
    return Stream(entries, about[b"last-generated-id"], about[b"entries-added"], groups)
