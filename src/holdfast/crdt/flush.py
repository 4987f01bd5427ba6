"""FLUSHDB as one effect: it removes all that its author has seen of all keys of a database.

(FLUSH, vector, totals, by) does to a database what CLEAR does to one value: it removes all events
that the vector covers. Concurrent changes of other replicas survive. The effect does not name the
keys, so it is small and fast for any number of keys.

A counter may have grown on another replica meanwhile. Then the vector does not tell which part of
its total the author had seen. So the effect names all counters, each with the total that the author
had seen: (key, kind, cell, replica, number, total). A replica with a larger total resets it up to
that point. The vector covers all other counters.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.crdt.dots import Author
from holdfast.crdt.effects import CLEAR, FLUSH, Effect
from holdfast.crdt.exact_numbers import Number
from holdfast.crdt.replicated_key import Aimed, ReplicatedKey

FLUSHED = "flush"  # the kind of a change of a whole database

# By kind, cell and replica: number and total of the last addition that the author of a flush has
# seen.
Points = dict[tuple[str, Any, int], tuple[int, Number]]


def flush(counted: Iterable[tuple[bytes, ReplicatedKey]], author: Author) -> Effect:
    """`counted` are the keys that have counters, by name."""
    totals = tuple([(name, *total) for name, key in counted for total in key.live_totals()])
    by = author.dot()
    return (FLUSH, author.observed(), totals, by)


def points_of(effect: Effect) -> dict[bytes, Points]:
    """The totals of a flush, by key."""
    points: dict[bytes, Points] = {}
    for name, kind, cell, replica, number, total in effect[2]:
        points.setdefault(name, {})[kind, cell, replica] = (number, total)
    return points


def clearings(
    effect: Effect, key: ReplicatedKey, points: Mapping[tuple[str, Any, int], Any]
) -> list[Aimed]:
    """The effects of the flush on one key. The caller must integrate each of them."""
    vector, by = effect[1], effect[3]
    return [
        (kind, (CLEAR, vector, part.resets_within(vector, kind, points), by))
        for kind, part in key.parts
    ]
