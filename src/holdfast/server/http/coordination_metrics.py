"""Holders and waiters of semaphores, and builds of queues, counted for a scrape. Reads only.

`CoordinationIndex` knows their names, so no key has to be searched for.
"""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from holdfast.server.core.engine import Engine
from holdfast.server.scripts.coordination_index import QUEUE, SEMAPHORE, Name
from holdfast.store.memory.database import Database
from holdfast.store.memory.liveness import is_live
from holdfast.store.values.registry import Value
from holdfast.store.values.zset import ZSet

MOST_SEMAPHORES = 100  # with labels of their own: those with the most holders and waiters
MOST_QUEUES = 20
MOST_LABEL_BYTES = 200
OTHER = "other"

MAIN = b":semaphore_main:"
# The states of builds/build_states.py, which the server does not import. A test compares them.
STATES = (
    *("QUEUED", "BLOCKED", "FROZEN", "READY", "RUNNING"),
    *("SUCCESS", "FAILURE", "ABORTED", "COLLAPSED"),
)

Labels = tuple[str, ...]


class SemaphoreCount(NamedTuple):
    holders: int
    waiters: int
    limit: int

    def plus(self, other: "SemaphoreCount") -> "SemaphoreCount":
        return SemaphoreCount(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


def label(text: bytes) -> str:
    """A readable label for any bytes."""
    return text[:MOST_LABEL_BYTES].decode("utf-8", "backslashreplace")


def semaphores(engine: Engine) -> dict[Labels, SemaphoreCount]:
    """The semaphores by database, namespace and name. Those with few holders and waiters share one
    entry."""
    index = engine.scripts.index
    if index is None:
        return {}
    counts: dict[Labels, SemaphoreCount] = {}
    gone: list[Name] = []
    now_s = engine.clock.now_us() / 1e6
    for name in index.names[SEMAPHORE]:
        count = _count(engine.keyspace.databases[name[0]], name[1], now_s)
        if not (count.holders or count.waiters):
            gone.append(name)
            continue
        namespace, _, tag = name[1].partition(MAIN)
        if tag[:1] == b"{" and tag[-1:] == b"}":
            tag = tag[1:-1]
        labels: Labels = (str(name[0]), label(namespace), label(tag))
        counts[labels] = count.plus(counts[labels]) if labels in counts else count
    index.forget(SEMAPHORE, gone)
    if len(counts) <= MOST_SEMAPHORES:
        return counts
    largest = sorted(counts, key=lambda each: counts[each].holders + counts[each].waiters)
    others = SemaphoreCount(0, 0, 0)
    for labels in largest[:-MOST_SEMAPHORES]:
        others = others.plus(counts.pop(labels))
    rest = (OTHER, OTHER, OTHER)
    counts[rest] = others
    return counts


def _count(database: Database, main: bytes, now_s: float) -> SemaphoreCount:
    """Count the holders and waiters of a semaphore. Leases that have ended do not count, even if no
    script has removed them yet."""

    def value_of(part: bytes) -> Value | None:
        return _in_memory(database, main.replace(MAIN, b":semaphore_" + part + b":", 1))

    limit = value_of(b"max")
    return SemaphoreCount(
        _alive(_in_memory(database, main), now_s),
        _alive(value_of(b"waiting_heartbeat"), now_s),
        int(limit) if isinstance(limit, bytes) and limit.isdigit() and len(limit) < 19 else 0,
    )


def _alive(value: Value | None, now_s: float) -> int:
    if not isinstance(value, ZSet):
        return 0
    start, stop = value.score_range((now_s, True), (float("inf"), True))
    return stop - start


def _in_memory(database: Database, name: bytes) -> Value | None:
    """The value of a live key. Nothing is loaded, and a key that has expired is left to the server:
    a semaphore in use is in memory."""
    space = database.space
    key = space.keys.get(name) or database.keyspace.unpack(space, name)
    if key is None or not is_live(key.expires_at_ms, database.keyspace.now_ms):
        return None
    return key.value


def builds(engine: Engine) -> Iterator[tuple[Labels, int]]:
    """The number of builds, by database, queue and state."""
    index = engine.scripts.index
    if index is None:
        return
    counts: dict[Labels, Counter[str]] = {}
    gone: list[Name] = []
    for name in index.names[QUEUE]:
        database = engine.keyspace.databases[name[0]]
        by_state = Counter({state: _size(database, name[1], state) for state in STATES})
        if not by_state.total():
            gone.append(name)
            continue
        root = name[1]
        if root[:1] == b"{" and root[-1:] == b"}":
            root = root[1:-1]
        counts.setdefault((str(name[0]), label(root)), Counter()).update(by_state)
    index.forget(QUEUE, gone)
    order = sorted(counts, key=lambda each: counts[each].total(), reverse=True)
    for labels in order[MOST_QUEUES:]:
        counts.setdefault((OTHER, OTHER), Counter()).update(counts.pop(labels))
    for labels, by_state in counts.items():
        for state in STATES:
            yield (*labels, state), by_state[state]


def _size(database: Database, queue: bytes, state: str) -> int:
    """The number of builds of a queue in a state. If nothing has changed the set since the start of
    the server, the number comes from the file."""
    name = queue + b":state:" + state.encode()
    value = _in_memory(database, name)
    if isinstance(value, ZSet):
        return len(value)
    if not database.space.cold or name in database.space.keys:
        return 0
    cold_rows = database.keyspace.cold_rows
    row = cold_rows.row(database.space, name)
    if row is None or row[1] != "zset" or not is_live(row[2], database.keyspace.now_ms):
        return 0
    return cold_rows.size(row)
