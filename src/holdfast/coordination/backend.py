"""`Backend`: the calls that the semaphore and the build queue make, the same for every client.

Replies are bytes, int, None and lists of these. An error reply raises ServerError. A missing reply
raises ClientError, which has `may_have_executed`.
"""

import warnings
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeAlias

from holdfast.client.errors import ServerError
from holdfast.coordination.lua_scripts import Key, LuaScript, Value, Values

Rest: TypeAlias = tuple[Value, ...]  # the arguments of EVAL behind the script
Prepared: TypeAlias = Callable[[str], Coroutine[Any, Any, Any]]
Heed: TypeAlias = Callable[[bytes], None]


class Replicas(NamedTuple):
    """How many replicas must have a write before it counts, and the time limit for that."""

    wanted: int
    timeout_s: float

    @classmethod
    def checked(cls, wanted: object, timeout_s: object) -> "Replicas | None":
        """None: no replica has to have a write. Raises ValueError."""
        if not isinstance(wanted, int) or isinstance(wanted, bool) or wanted < 0:
            raise ValueError(f"replicas is a whole number, 0 or above: {wanted!r}")
        if not isinstance(timeout_s, int | float) or not 0 < timeout_s < 1e6:
            raise ValueError(f"replicas_timeout_s must be a number above 0: {timeout_s!r}")
        return cls(wanted, timeout_s) if wanted else None


class Backend(Protocol):
    """All keys of one call are in one slot of a cluster.

    `most_at_once` limits the calls under way, pops included; further calls take turns. None means
    that there is no limit.
    """

    most_at_once: int | None

    async def run(
        self, script: LuaScript, keys: Mapping[str, Key | list[Key]], args: Mapping[str, Values]
    ) -> Any:
        """Run a script by its digest, or by its source if the server does not know it yet.

        Keys and arguments are named as in the script's header. A call that does not fit raises
        TypeError and sends nothing. The clients of other libraries may send a script twice when a
        connection breaks: a script must be safe to run twice.
        """
        ...

    async def run_then_wait(
        self,
        script: LuaScript,
        keys: Mapping[str, Key | list[Key]],
        args: Mapping[str, Values],
        replicas: "Replicas",
    ) -> Any:
        """`run`, then WAIT on the same connection until the replicas have what the script did.

        Raises NotReplicatedError: it ran, and too few replicas have it.
        """
        ...

    def prepare(self, script: LuaScript, before: Rest, after: Rest) -> Prepared:
        """Prepare many calls of a script that differ in one argument; each call is given it.

        `before` and `after` are the arguments around it, as `script.command(keys, args)` made them.
        """
        ...

    def call(self, command: str, *args: Value) -> Coroutine[Any, Any, Any]:
        """Run a plain command, its name in capitals. It goes to the node of its first key."""
        ...

    async def pop(
        self, *keys: Key, timeout_s: float | None, heed: Heed | None = None
    ) -> tuple[bytes, bytes] | None:
        """BLPOP: the key and the element, or None after the timeout. No timeout waits for ever.

        A cancelled pop loses no element: an element that the server had popped already goes back to
        the head of its list. Only the end of the loop or of a connection can lose one.

        `heed` gets the element as soon as it has arrived, once, before the caller resumes. It also
        gets the element if the caller was cancelled; then nothing goes back. It must not raise, and
        it must do no more than keep the element and set a future.
        """
        ...

    async def settled(self) -> None:
        """Wait until no cancelled call is under way: later calls then reach the server after it."""
        ...

    async def at_rest(self) -> None:
        """Wait until nothing is under way for cancelled callers, pops included.

        The client can be closed then.
        """
        ...

    async def time_s(self, key: Key) -> float:
        """The clock of the server that has the key: seconds since 1970."""
        ...

    def scan(self, match: str) -> AsyncIterator[bytes]:
        """The names of keys that match, on all nodes of a cluster; a name may come twice."""
        ...


def warn_of_sharing(name: str) -> None:
    """Warn that the database is active-active. The semaphore and the queue need one winner."""
    warnings.warn(
        f"{name} is on an active-active database, where two servers without contact can decide"
        " differently: use it on one server only, or on a database that is not shared",
        RuntimeWarning,
        stacklevel=2,
    )


_CLOCK = LuaScript(
    "clock",
    """-- KEYS[1] key    names the node that is asked
-- Returns seconds, microseconds
local _ = KEYS[1]
return redis.call('TIME')
""",
)


class ScriptingBackend(ABC):
    """Scripts and the clock, by way of plain commands: the same for every adapter."""

    @abstractmethod
    def call(self, command: str, *args: Value) -> Coroutine[Any, Any, Any]: ...

    @abstractmethod
    def call_then_wait(
        self, replicas: Replicas, command: str, *args: Value
    ) -> Coroutine[Any, Any, Any]:
        """`call`, then WAIT on the same connection."""

    async def run(
        self, script: LuaScript, keys: Mapping[str, Key | list[Key]], args: Mapping[str, Values]
    ) -> Any:
        return await self._send(script, script.command(keys, args), self.call)

    async def run_then_wait(
        self,
        script: LuaScript,
        keys: Mapping[str, Key | list[Key]],
        args: Mapping[str, Values],
        replicas: Replicas,
    ) -> Any:
        call = partial(self.call_then_wait, replicas)
        return await self._send(script, script.command(keys, args), call)

    def prepare(self, script: LuaScript, before: Rest, after: Rest) -> Prepared:
        return lambda each: self._send(script, (*before, each, *after), self.call)

    async def _send(
        self, script: LuaScript, rest: Rest, call: Callable[..., Coroutine[Any, Any, Any]]
    ) -> Any:
        try:
            return await call("EVALSHA", script.sha, *rest)
        except ServerError as error:
            if error.code != b"NOSCRIPT":
                raise
        # Nothing ran, so sending the source is no replay.
        return await call("EVAL", script.source, *rest)

    async def time_s(self, key: Key) -> float:
        whole_s, rest_us = await self.run(_CLOCK, {"key": key}, {})
        return int(whole_s) + int(rest_us) / 1e6
