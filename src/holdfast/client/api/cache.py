"""Client-side caching: replies of reads, kept until the server says that a key changed.

The server tracks the keys that a shared connection reads (CLIENT TRACKING, RESP3 only), and pushes
the names of changed keys over that connection. A reply is kept only if no such push came between
sending the read and its reply. When a connection is lost or added, everything is forgotten. In a
cluster every node tracks the reads that it served. A key that moves to another node is deleted at
the old node, which pushes that. A key that is missing moves without a push, so a cluster's reply
about a missing key is not kept.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any

from holdfast.client.errors import ServerError
from holdfast.client.protocol.connection_state import State
from holdfast.client.protocol.request import as_bytes, encode
from holdfast.client.topology.single import Command
from holdfast.client.transport.connection import Connection

# Reads of exactly one key, the first argument, whose reply depends on nothing else.
CACHED = frozenset(
    {"GET", "GETRANGE", "STRLEN", "GETBIT", "BITCOUNT", "TYPE"}
    | {"HGET", "HMGET", "HGETALL", "HKEYS", "HVALS", "HLEN", "HEXISTS", "HSTRLEN"}
    | {"LRANGE", "LINDEX", "LLEN"}
    | {"SMEMBERS", "SISMEMBER", "SMISMEMBER", "SCARD"}
    | {"ZRANGE", "ZSCORE", "ZMSCORE", "ZCARD", "ZRANK", "ZREVRANK", "ZCOUNT", "ZRANGEBYSCORE"}
    | {"XLEN", "XRANGE"}
)


# A loop over cached keys gives the event loop a turn this often. Without that, no push about a
# changed key would be read.
_HITS_A_TURN = 64


class Cache:
    """Limited by number of replies and by bytes. The least recently read keys go first."""

    def __init__(self, max_replies: int, max_bytes: int, *, keeps_missing: bool = True) -> None:
        """`keeps_missing`: whether replies about missing keys are kept, too."""
        self._max_replies = max_replies
        self._max_bytes = max_bytes
        self._keeps_missing = keeps_missing
        # By key, then by command, both as they are sent.
        self._replies: OrderedDict[bytes, dict[bytes, Any]] = OrderedDict()
        self.count = 0
        self.nbytes = 0  # about
        self._reading: dict[bytes, set[object]] = {}  # reads under way whose replies may be kept
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
        key, read = as_bytes(args[1]), encode(args)  # not args: in Python 1 == 1.0
        known = self._replies.get(key)
        if known is not None and read in known:
            self.hits += 1
            self._replies.move_to_end(key)
            return _copied(known[read])
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
        if isinstance(reply, ServerError):
            return reply
        if valid and (self._keeps_missing or not _may_be_missing(reply)):
            self._keep(key, read, _copied(reply))
        return reply

    def _keep(self, key: bytes, read: bytes, reply: Any) -> None:
        cost = _cost(read, reply)
        if cost > self._max_bytes:
            return  # a larger reply would remove all others, and then itself
        known = self._replies.setdefault(key, {})
        if read not in known:  # else another reader has stored it already
            known[read] = reply
            self.count += 1
            self.nbytes += cost
        while self.count > self._max_replies or self.nbytes > self._max_bytes:
            self._drop(next(iter(self._replies)))

    def _drop(self, key: bytes) -> None:
        for read, reply in self._replies.pop(key, {}).items():
            self.count -= 1
            self.nbytes -= _cost(read, reply)

    def evict(self, args: Command) -> None:
        """Forget keys that a command of ours may change, so that we read our own writes."""
        for arg in args[1:]:
            self._forget(as_bytes(arg))

    def on_push(self, push: list[Any]) -> None:
        if push and push[0] == b"invalidate":
            keys = push[1] if len(push) > 1 else None
            if not isinstance(keys, list):
                self.clear()  # the push names no keys: all keys may have changed
            else:
                for key in keys:
                    if type(key) is bytes:
                        self._forget(key)

    def attach(self, connection: Connection) -> None:
        """Take the pushes about changed keys from a connection that reads."""

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


def _may_be_missing(reply: Any) -> bool:
    """Whether a read of a missing key could get this reply: none, 0, or a list of these."""
    return not reply or reply == b"none" or (type(reply) is list and not any(reply))


def _copied(reply: Any) -> Any:
    """A copy of a reply, because the caller may change it."""
    if type(reply) is list:
        return [_copied(item) for item in reply]
    if type(reply) is dict:
        return {name: _copied(value) for name, value in reply.items()}
    return reply


_OBJECT_BYTES = 64  # about the size of an object and of its place in a list or dict


def _cost(read: bytes, reply: Any) -> int:
    return _size_of(read) + _size_of(reply) + _OBJECT_BYTES


def _size_of(value: Any) -> int:
    if type(value) is dict:
        return _OBJECT_BYTES + sum(map(_size_of, value)) + sum(map(_size_of, value.values()))
    if isinstance(value, list | tuple):
        return _OBJECT_BYTES + sum(map(_size_of, value))
    return _OBJECT_BYTES + (len(value) if isinstance(value, str | bytes) else 0)
