"""A small program that keeps its state in Redis: what people test with fakeredis."""

from collections.abc import Callable, Iterator
from typing import Any

import redis

Connection = Any  # redis.Redis with decode_responses=True; its types differ between versions


class RateLimiter:
    """At most `limit` letters for each sender in a window of time."""

    def __init__(self, connection: Connection, limit: int, window_s: int) -> None:
        self._connection = connection
        self._limit = limit
        self._window_s = window_s

    def allows(self, sender: str) -> bool:
        with self._connection.pipeline() as pipeline:
            pipeline.incr(f"rate:{sender}")
            pipeline.expire(f"rate:{sender}", self._window_s, nx=True)
            count, _ = pipeline.execute()
        return int(count) <= self._limit


class Outbox:
    """Letters that wait for a carrier."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def put(self, letter: str) -> None:
        self._connection.rpush("letters", letter)

    def carry(self, timeout_s: float) -> str | None:
        """Wait for a letter. Urgent ones come first."""
        found = self._connection.blpop(["urgent", "letters"], timeout_s)
        return found[1] if found else None


class Key:
    """A lock with an owner. The script releases it only if the owner still has it."""

    RELEASE = """
    if redis.call('GET', KEYS[1]) == ARGV[1] then
        return redis.call('DEL', KEYS[1])
    end
    return 0
    """

    def __init__(self, connection: Connection, name: str, owner: str) -> None:
        self._connection = connection
        self._name = name
        self._owner = owner
        self._release = connection.register_script(self.RELEASE)

    def take(self, lease_s: int) -> bool:
        return bool(self._connection.set(self._name, self._owner, nx=True, ex=lease_s))

    def give_back(self) -> bool:
        return bool(self._release(keys=[self._name], args=[self._owner]))


class Register:
    """All that happened, in a stream; each clerk of a group reads a part of it."""

    def __init__(self, connection: Connection, group: str) -> None:
        self._connection = connection
        self._group = group

    def open(self) -> None:
        try:
            self._connection.xgroup_create("register", self._group, id="0", mkstream=True)
        except redis.ResponseError as error:
            if "BUSYGROUP" not in str(error):
                raise

    def note(self, event: str) -> None:
        self._connection.xadd("register", {"event": event})

    def read(self, clerk: str, count: int) -> Iterator[tuple[str, str]]:
        found = self._connection.xreadgroup(self._group, clerk, {"register": ">"}, count=count)
        for _, entries in found.items() if isinstance(found, dict) else found:
            for number, fields in _flat(entries):
                yield number, fields["event"]

    def done(self, number: str) -> None:
        self._connection.xack("register", self._group, number)

    def take_over(self, clerk: str) -> list[str]:
        """The entries that another clerk has read and not done."""
        reply = self._connection.xautoclaim("register", self._group, clerk, min_idle_time=0)
        return [fields["event"] for _, fields in reply[1]]


class Bell:
    """Rings at all counters that listen."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def ring(self, counter: str) -> int:
        return int(self._connection.publish(f"bell:{counter}", "ring"))

    def listen(self, on_ring: Callable[[str], None], times: int) -> None:
        with self._connection.pubsub(ignore_subscribe_messages=True) as pubsub:
            pubsub.psubscribe("bell:*")
            while times:
                message = pubsub.get_message(timeout=1.0)
                if message is not None:
                    on_ring(message["channel"].removeprefix("bell:"))
                    times -= 1


def transfer(connection: Connection, source: str, target: str, stamps: int) -> bool:
    """Move stamps between two accounts, if there are enough; again if another one changed them."""

    def move(pipeline: Connection) -> None:
        if int(pipeline.get(source) or 0) < stamps:
            raise ValueError("not enough stamps")
        pipeline.multi()
        pipeline.decrby(source, stamps)
        pipeline.incrby(target, stamps)

    try:
        connection.transaction(move, source)
    except ValueError:
        return False
    return True


def _flat(entries: Any) -> Iterator[tuple[str, dict[str, str]]]:
    """RESP3 nests the entries of a stream once more."""
    for entry in entries:
        if isinstance(entry, list) and entry and isinstance(entry[0], (list, tuple)):
            yield from _flat(entry)
        else:
            yield entry[0], entry[1]
