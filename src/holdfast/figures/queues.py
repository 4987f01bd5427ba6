"""Looks for queues that grow, with little work for the server. No I/O.

A queue is a list, a stream or a sorted set. The search never asks for all keys. It goes through
them with SCAN, a few hundred at a time, and asks for the lengths of a bounded number of keys. A
length takes the server the same short time however long the queue is.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

LENGTH_OF = {"list": "LLEN", "stream": "XLEN", "zset": "ZCARD"}
# A type can only grow if one of these was called; scripts call them, too, and INFO counts that.
GROWN_BY = {
    "list": {
        *("lpush", "rpush", "lpushx", "rpushx", "linsert"),
        *("lmove", "rpoplpush", "blmove", "brpoplpush"),
    },
    "stream": {"xadd"},
    "zset": {
        *("zadd", "zincrby", "geoadd", "georadius", "georadiusbymember", "geosearchstore"),
        *("zdiffstore", "zinterstore", "zunionstore", "zrangestore"),
    },
}
MOST_WATCHED = 64  # keys whose length is asked for in each interval
MOST_WAITING = 4 * MOST_WATCHED  # found by SCAN and not watched yet
MOST_CLOSED = 10_000
WINDOW = 10  # measurements that growth is computed from
PROBATION = 4  # measurements until a queue that does not grow may lose its place

# SCAN looks at so many keys in a call: about half a millisecond. Other clients wait meanwhile, so
# it is no larger. (And redis-server 7.0 takes far more than ten times as long for ten times as many
# keys, if it filters them by type.)
COUNT = 500
MOST_CALLS = 10  # of SCAN in an interval
MOST_S = 0.004  # of the server's time in an interval: no further SCAN after that


class Queue(NamedTuple):
    type: str
    name: bytes


@dataclass(frozen=True, slots=True)
class Growth:
    queue: Queue
    length: int
    per_s: float


class QueueWatch:
    """Decides which keys to scan and to measure next, and which queues grow.

    Each queue that is found gets a place among the watched ones, for PROBATION measurements at
    least. After that, if other queues wait for a place, queues that do not grow lose theirs. So a
    queue that grows is found whatever its length is, and stays.
    """

    def __init__(self) -> None:
        self.rounds = 0  # how often all keys were looked at
        self._cursors = dict.fromkeys(LENGTH_OF, b"0")
        self._kinds: set[str] = set()  # types to look for
        self._turns: deque[str] = deque()  # types whose scan is not over in this round
        self._calls = 0  # in this round
        self._waiting: dict[Queue, None] = {}
        self._watched: dict[Queue, deque[tuple[float, int]]] = {}
        self._closed: set[Queue] = set()  # the server does not tell their lengths

    # -- SCAN -----------------------------------------------------------------------------------

    def begin_interval(self, called: Iterable[str] | None = None) -> None:
        """`called` has the commands in the server's statistics. It is None if they are unknown, or
        if queues may grow without a command."""
        words = None if called is None else set(called)
        kinds = {kind for kind, names in GROWN_BY.items() if words is None or names & words}
        if kinds - self._kinds:
            self.rounds = 0
            self._turns.clear()
        self._kinds = kinds
        if not self._turns:
            self._calls = 0
            self._turns.extend(kind for kind in LENGTH_OF if kind in kinds)

    def next_scan(self) -> tuple[str, bytes] | None:
        """The type to scan for and the cursor; None if there is enough to measure, or if the
        round ended in this interval."""
        if not self._turns or len(self._waiting) >= MOST_WAITING:
            return None
        return self._turns[0], self._cursors[self._turns[0]]

    def scanned(self, kind: str, cursor: bytes, names: Iterable[bytes]) -> None:
        """The reply of SCAN. The types take turns."""
        self._calls += 1
        self._cursors[kind] = cursor
        self._turns.popleft()
        if cursor != b"0":
            self._turns.append(kind)
        elif not self._turns:
            self.rounds += 1
        for name in names:
            queue = Queue(kind, name)
            if queue not in self._watched and queue not in self._closed:
                self._waiting[queue] = None

    def scanned_share(self, keys: int) -> float:
        """The part of all keys that was looked at, between 0 and 1, in the first round."""
        if self.rounds or not self._kinds:
            return 1.0
        return min(0.99, self._calls * COUNT / (len(self._kinds) * max(keys, 1)))

    # -- lengths --------------------------------------------------------------------------------

    def to_measure(self) -> list[Queue]:
        """The queues whose lengths are asked for now."""
        self._make_room()
        while self._waiting and len(self._watched) < MOST_WATCHED:
            queue = next(iter(self._waiting))
            del self._waiting[queue]
            self._watched[queue] = deque(maxlen=WINDOW)
        return list(self._watched)

    def measured(self, at_s: float, queues: Sequence[Queue], lengths: Sequence[int | None]) -> None:
        """None as a length: the server refused. An empty queue does not exist as a key any more."""
        for queue, length in zip(queues, lengths, strict=True):
            if length is None and len(self._closed) < MOST_CLOSED:
                self._closed.add(queue)
            if not length:
                del self._watched[queue]
            else:
                self._watched[queue].append((at_s, length))

    def growing(self) -> list[Growth]:
        """The queues that are longer than before, the fastest first."""
        found = list(self._growths())
        return sorted(found, key=lambda each: (-each.per_s, each.queue))

    def _growths(self) -> Iterator[Growth]:
        for queue, history in self._watched.items():
            if _has_grown(history):
                (first_s, first), (last_s, last) = history[0], history[-1]
                yield Growth(queue, last, (last - first) / (last_s - first_s))

    def _make_room(self) -> None:
        wanted = len(self._waiting) - (MOST_WATCHED - len(self._watched))
        settled = [
            queue
            for queue, history in self._watched.items()
            if len(history) >= PROBATION and not _has_grown(history)
        ]
        for queue in settled[: max(0, wanted)]:
            del self._watched[queue]


def _has_grown(history: deque[tuple[float, int]]) -> bool:
    return len(history) > 1 and history[-1][1] > history[0][1] and history[-1][0] > history[0][0]
