"""FLUSHDB: of all keys of a database everything goes that its author has seen, as one effect.

(FLUSH, vector, totals, by) is to a database what CLEAR is to one value: whatever the vector covers
goes, key by key or all keys at once, and what others did meanwhile survives. It does not name the
keys, so it is small and quick, however many there are.

Of a counter that somebody went on to add to, the vector does not tell how much its author had seen.
So counters are named, each with what its author saw: (key, kind, cell, replica, number, total).
Whoever has more of one resets it up to there; all others are within the vector as a whole.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.crdt.dots import Author
from holdfast.crdt.effects import CLEAR, FLUSH, Effect
from holdfast.crdt.keys import Aimed, Key
from holdfast.crdt.numbers import Number

FLUSHED = "flush"  # the kind of a change that concerns no key, but all of them

# By kind, cell and replica: number and total of the last addition that a flush has seen.
Points = dict[tuple[str, Any, int], tuple[int, Number]]


def flush(counted: Iterable[tuple[bytes, Key]], author: Author) -> Effect:
    """`counted` are the keys that have counters, by name."""
    totals = tuple([(name, *total) for name, key in counted for total in key.live_totals()])
    by = author.dot()
    return (FLUSH, author.observed(), totals, by)


def points_of(effect: Effect) -> dict[bytes, Points]:
    """By key."""
    points: dict[bytes, Points] = {}
    for name, kind, cell, replica, number, total in effect[2]:
        points.setdefault(name, {})[kind, cell, replica] = (number, total)
    return points


def clearings(effect: Effect, key: Key, points: Mapping[tuple[str, Any, int], Any]) -> list[Aimed]:
    """What the flush does to one key. Each is to be integrated."""
    vector, by = effect[1], effect[3]
    return [
        (kind, (CLEAR, vector, part.resets_within(vector, kind, points), by))
        for kind, part in key.parts
    ]
