"""`Commands`: what the semaphore and the build queue need of a client, whoever wrote it.

`commands_of(client)` takes our client, or an asyncio client of redis-py or valkey-py: Redis,
RedisCluster, or what `Sentinel.master_for` returns. Neither library is imported before somebody
brings a client of it. All speak alike: replies are bytes, int, None and lists of these; an error
reply raises ServerError, no reply ClientError (with `may_have_executed`).
"""

import warnings
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from typing import Any, Protocol, TypeAlias

from holdfast.client.client import Client
from holdfast.client.errors import ServerError
from holdfast.client.lua import Key, LuaScript, Value, Values
from holdfast.client.request import encode_around

Rest: TypeAlias = tuple[Value, ...]
Prepared: TypeAlias = Callable[[str], Coroutine[Any, Any, Any]]
Heed: TypeAlias = Callable[[bytes], None]


class Commands(Protocol):
    """All keys of one call are in one slot of a cluster. `most_at_once`: more calls than that, pops
    included, take turns; None if there is no limit."""

    most_at_once: int | None

    async def run(
        self, script: LuaScript, keys: Mapping[str, Key | list[Key]], args: Mapping[str, Values]
    ) -> Any:
        """A script by its digest, or by its source where the server does not know it yet.

        Keys and arguments are named as in the script's header; a call that does not fit raises
        TypeError and sends nothing. Clients of others may send a script twice when a connection
        breaks: scripts must bear that.
        """
        ...

    def prepare(self, script: LuaScript, before: Rest, after: Rest) -> Prepared:
        """The same for many calls that differ in one argument, which is given to each of them.

        The others are what `script.command(keys, args)` has made of them.
        """
        ...

    def call(self, command: str, *args: Value) -> Coroutine[Any, Any, Any]:
        """A plain command, its name in capitals, which goes where its first key is."""
        ...

    async def pop(
        self, *keys: Key, timeout_s: float | None, heed: Heed | None = None
    ) -> tuple[bytes, bytes] | None:
        """BLPOP: key and element, or None when nothing came in time; None waits for ever.

        Cancelling it loses no element: what the server popped for the caller that left goes back
        to the head of its list. Only the end of the loop, or of a connection, can lose one.

        `heed` gets the element as soon as it is there, once, before the caller resumes and also
        if it does not: then nothing goes back. It must not raise, and only note it and tell.
        """
        ...

    async def settled(self) -> None:
        """Wait until no cancelled call is on its way: what is sent then comes after all of them."""
        ...

    async def at_rest(self) -> None:
        """Wait until nothing is under way for callers that were cancelled, pops included: then the
        client can be closed."""
        ...

    async def time_s(self, key: Key) -> float:
        """The clock of the server that has the key: seconds since 1970."""
        ...

    def scan(self, match: str) -> AsyncIterator[bytes]:
        """The names of keys that match, on all nodes of a cluster; some may come twice."""
        ...


_CLOCK = LuaScript(
    "clock",
    """-- KEYS[1] key    where to ask
-- Returns seconds, microseconds
local _ = KEYS[1]
return redis.call('TIME')
""",
)


def commands_of(client: object) -> Commands:
    """The adapter for a client. TypeError: it is none, or one that blocks."""
    if isinstance(client, Client):
        return OurCommands(client)
    for kind in type(client).__mro__:
        library, _, rest = kind.__module__.partition(".")
        if library in ("redis", "valkey"):
            if rest.split(".")[0] != "asyncio":
                raise TypeError(f"{library}'s blocking client: take the one in {library}.asyncio")
            if kind.__name__ == "Sentinel":
                raise TypeError("a sentinel has no data: take what its master_for() returns")
            from holdfast.client.foreign import ForeignCommands

            return ForeignCommands(client, library)
    raise TypeError(f"no client for Redis that we know: {client!r}")


def warn_of_sharing(what: str) -> None:
    """Said once by whoever finds itself on an active-active database, and needs one winner."""
    warnings.warn(
        f"{what} is on an active-active database, where two servers that are apart can decide"
        " differently: use it on one server only, or on a database that is not shared",
        RuntimeWarning,
        stacklevel=2,
    )


class Scripted(ABC):
    """What follows for every adapter from plain commands."""

    @abstractmethod
    def call(self, command: str, *args: Value) -> Coroutine[Any, Any, Any]: ...

    async def run(
        self, script: LuaScript, keys: Mapping[str, Key | list[Key]], args: Mapping[str, Values]
    ) -> Any:
        return await self._send(script, script.command(keys, args))

    def prepare(self, script: LuaScript, before: Rest, after: Rest) -> Prepared:
        return lambda each: self._send(script, (*before, each, *after))

    async def _send(self, script: LuaScript, rest: Rest) -> Any:
        try:
            return await self.call("EVALSHA", script.sha, *rest)
        except ServerError as error:
            if error.code != b"NOSCRIPT":  # else nothing ran, so this is no replay:
                raise
        return await self.call("EVAL", script.source, *rest)

    async def time_s(self, key: Key) -> float:
        whole_s, rest_us = await self.run(_CLOCK, {"key": key}, {})
        return int(whole_s) + int(rest_us) / 1e6


class OurCommands(Scripted):
    """`Commands` by our client, whose pops are safe to cancel by themselves."""

    most_at_once: int | None = None

    def __init__(self, client: Client) -> None:
        self._client = client

    def call(self, command: str, *args: Value) -> Coroutine[Any, Any, Any]:
        return self._client.run((command, *args), as_it_is)

    def prepare(self, script: LuaScript, before: Rest, after: Rest) -> Prepared:
        send = self._client.sender
        if send is None:
            return super().prepare(script, before, after)
        head, tail = encode_around(("EVALSHA", script.sha, *before), after)

        async def run(each: str) -> Any:
            data = each.encode()
            reply = await send(b"%b$%d\r\n%b\r\n%b" % (head, len(data), data, tail))
            if isinstance(reply, ServerError):
                if reply.code != b"NOSCRIPT":
                    raise reply
                return await self.call("EVAL", script.source, *before, each, *after)
            return reply

        return run

    async def pop(
        self, *keys: Key, timeout_s: float | None, heed: Heed | None = None
    ) -> tuple[bytes, bytes] | None:
        wait_s = 0 if timeout_s is None else max(timeout_s, 0.001)  # 0 would be for ever
        tell = None if heed is None else lambda reply: heed(reply[1])
        reply = await self._client.run(("BLPOP", *keys, wait_s), as_it_is, heed=tell)
        return None if reply is None else (reply[0], reply[1])

    async def settled(self) -> None:
        """One connection keeps the order by itself."""

    async def at_rest(self) -> None:
        """A cancelled pop has given back what came by the time that its caller goes on."""

    async def scan(self, match: str) -> AsyncIterator[bytes]:
        async for key in self._client.binary.scan_iter(match, count=1000):
            yield key


def as_it_is(reply: Any) -> Any:
    return reply
