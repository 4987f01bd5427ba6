"""What a writer knows of its keys: a tiny Redis of its own that runs the commands it sends.

Pure: no sockets. `Keys` is a state of all of a writer's keys, `run` is what a command does to it
and answers, `units` invents commands that make sense in a state.
"""

import random
from collections.abc import Callable
from typing import Any

Argv = list[bytes]
Reply = Any
Value = bytes | list[bytes]

# By database and name: the value and when it expires (-1: never).
Keys = dict[tuple[int, bytes], tuple[Value, int]]

FAR_AWAY_MS = 4_000_000_000_000


def copied(keys: Keys) -> Keys:
    return {
        place: (value if isinstance(value, bytes) else list(value), expiry)
        for place, (value, expiry) in keys.items()
    }


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
    place = (db, argv[1])
    value, expiry = keys.get(place, (None, -1))
    if name in _LIST_COMMANDS:
        elements = value if isinstance(value, list) else []
        reply = _LIST_COMMANDS[name](elements, argv)
        if elements:
            keys[place] = (elements, expiry)
        else:
            keys.pop(place, None)
        return reply
    return _KEY_COMMANDS[name](keys, place, argv)


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
    keys[place[0], argv[2]] = (value if isinstance(value, bytes) else list(value), expiry)
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


_LIST_COMMANDS: dict[bytes, Callable[[list[bytes], Argv], Reply]] = {
    b"LPUSH": _push,
    b"RPUSH": _push,
    b"LPOP": _pop,
    b"RPOP": _pop,
    b"LSET": _lset,
    b"LINSERT": _linsert,
    b"LREM": _lrem,
    b"LTRIM": _ltrim,
}

# -- inventing commands -----------------------------------------------------------------------


class Inventor:
    """Invents commands on names of its own that succeed in the state they will meet."""

    def __init__(self, rng: random.Random, prefix: bytes) -> None:
        self._rng = rng
        self.names = [b"%s:%d" % (prefix, number) for number in range(6)]
        self.counter = b"%s:counter" % prefix

    def element(self) -> bytes:
        return self._rng.choice([b"a", b"b", b"c", b"%d" % self._rng.randrange(10**6), b"x" * 99])

    def command(self, keys: Keys, db: int) -> Argv:
        rng = self._rng
        name, other = rng.choice(self.names), rng.choice(self.names)
        if rng.random() < 0.1:
            return [b"INCR", self.counter]
        kept = keys.get((db, name))
        is_free_or_list = (db, other) not in keys or isinstance(keys[db, other][0], list)
        choices: list[Argv] = [
            [b"SET", name, self.element()],
            [b"DEL", name],
        ]
        if kept is None or isinstance(kept[0], list):
            push = rng.choice([b"LPUSH", b"RPUSH"])
            choices += [[push, name, *(self.element() for _ in range(rng.randint(1, 12)))]] * 3
        if kept is not None:
            choices += [
                [b"RENAME", name, other],
                [b"PEXPIREAT", name, b"%d" % (FAR_AWAY_MS + rng.randrange(10**6))],
                [b"PERSIST", name],
            ]
            if name != other:
                choices += [[b"COPY", name, other, b"REPLACE"]]
            if isinstance(kept[0], bytes):
                choices += [[b"APPEND", name, self.element()]] * 2
                choices += [[b"SET", name, self.element(), b"KEEPTTL"]]
            else:
                choices += self._list_commands(name, kept[0])
                if is_free_or_list:
                    ends = [rng.choice([b"LEFT", b"RIGHT"]) for _ in range(2)]
                    choices += [[b"LMOVE", name, other, *ends]] * 2
        return rng.choice(choices)

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
