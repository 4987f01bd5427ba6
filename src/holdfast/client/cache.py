"""Client-side caching: replies of reads, kept until the server says that a key changed.

A server tracks what a shared connection read (CLIENT TRACKING, RESP3 only) and pushes the names
of changed keys over that connection. A reply is kept only if no such push came between the read's
departure and its arrival; a connection that is lost or added forgets everything. In a cluster
every node tracks what was read there; a key that moves away is deleted there, and that is pushed.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any

from holdfast.client.connection import Connection
from holdfast.client.errors import ServerError
from holdfast.client.request import as_bytes
from holdfast.client.single import Command
from holdfast.client.state import State

# Reads of exactly one key, the first argument, whose reply depends on nothing else.
CACHED = frozenset(
    {"GET", "GETRANGE", "STRLEN", "GETBIT", "BITCOUNT", "TYPE"}
    | {"HGET", "HMGET", "HGETALL", "HKEYS", "HVALS", "HLEN", "HEXISTS", "HSTRLEN"}
    | {"LRANGE", "LINDEX", "LLEN"}
    | {"SMEMBERS", "SISMEMBER", "SMISMEMBER", "SCARD"}
    | {"ZRANGE", "ZSCORE", "ZMSCORE", "ZCARD", "ZRANK", "ZREVRANK", "ZCOUNT", "ZRANGEBYSCORE"}
    | {"XLEN", "XRANGE"}
)


# A loop over cached keys gives the event loop a turn this often. Else it would never hear that one
# of them has changed.
_HITS_A_TURN = 64


class Cache:
    """At most so many replies, and of so many bytes; the keys that were not read for longest go."""

    def __init__(self, max_replies: int, max_bytes: int) -> None:
        self._max_replies = max_replies
        self._max_bytes = max_bytes
        self._replies: OrderedDict[bytes, dict[Command, Any]] = OrderedDict()
        self.count = 0
        self.nbytes = 0  # about
        self._reading: dict[bytes, set[object]] = {}  # reads under way that may be kept
        self.is_on = False  # while connections are open, all of them in RESP3
        self._open: dict[Connection, bool] = {}
        self.hits = 0
        self.misses = 0

    async def call(self, args: Command, call: Callable[[], Awaitable[Any]]) -> Any:
        if not self.is_on or args[0] not in CACHED or len(args) < 2:
            self.evict(args)
            return await call()
        if self.hits % _HITS_A_TURN == _HITS_A_TURN - 1:
            await asyncio.sleep(0)
        key = as_bytes(args[1])
        known = self._replies.get(key)
        if known is not None and args in known:
            self.hits += 1
            self._replies.move_to_end(key)
            return _copied(known[args])
        self.misses += 1
        ticket = object()
        self._reading.setdefault(key, set()).add(ticket)
        try:
            reply = await call()
        finally:
            tickets = self._reading.get(key, set())
            valid = ticket in tickets
            tickets.discard(ticket)
            if not tickets:
                self._reading.pop(key, None)
        if valid and not isinstance(reply, ServerError):
            self._keep(key, args, _copied(reply))
        return reply

    def _keep(self, key: bytes, args: Command, reply: Any) -> None:
        cost = _cost(args, reply)
        if cost > self._max_bytes:
            return  # it would drive out all others, and then itself
        known = self._replies.setdefault(key, {})
        if args not in known:  # else a second reader was quicker
            known[args] = reply
            self.count += 1
            self.nbytes += cost
        while self.count > self._max_replies or self.nbytes > self._max_bytes:
            self._drop(next(iter(self._replies)))

    def _drop(self, key: bytes) -> None:
        for args, reply in self._replies.pop(key, {}).items():
            self.count -= 1
            self.nbytes -= _cost(args, reply)

    def evict(self, args: Command) -> None:
        """Forget keys that a command of ours may change, so that we read our own writes."""
        for arg in args[1:]:
            self._forget(as_bytes(arg))

    def on_push(self, push: list[Any]) -> None:
        if push and push[0] == b"invalidate":
            keys = push[1] if len(push) > 1 else None
            if not isinstance(keys, list):
                self.clear()  # all of them
            else:
                for key in keys:
                    if type(key) is bytes:
                        self._forget(key)

    def attach(self, connection: Connection) -> None:
        """Hear of changes over a connection that reads."""

        def on_state(state: State) -> None:
            self.clear()
            self._open.pop(connection, None)
            if state is State.OPEN:
                self._open[connection] = connection.agreed.protocol == 3
            self.is_on = bool(self._open) and all(self._open.values())

        connection.on_push = self.on_push
        connection.on_state = on_state

    def clear(self) -> None:
        self._replies.clear()
        self.count = self.nbytes = 0
        self._reading.clear()

    def _forget(self, key: bytes) -> None:
        self._drop(key)
        self._reading.pop(key, None)


def _copied(reply: Any) -> Any:
    """One that the caller may change."""
    if type(reply) is list:
        return [_copied(item) for item in reply]
    if type(reply) is dict:
        return {name: _copied(value) for name, value in reply.items()}
    return reply


_OBJECT_BYTES = 64  # what an object and its place in a list or dict take, about


def _cost(args: Command, reply: Any) -> int:
    return sum(map(_size_of, args)) + _size_of(reply) + _OBJECT_BYTES


def _size_of(value: Any) -> int:
    if type(value) is dict:
        return _OBJECT_BYTES + sum(map(_size_of, value)) + sum(map(_size_of, value.values()))
    if isinstance(value, list | tuple):
        return _OBJECT_BYTES + sum(map(_size_of, value))
    return _OBJECT_BYTES + (len(value) if isinstance(value, str | bytes) else 0)
