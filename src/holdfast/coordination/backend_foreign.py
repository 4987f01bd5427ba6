"""The backend on top of the asyncio clients of redis-py and valkey-py, which are alike.

No call of theirs is ever cancelled. A cancelled call closes its connection. The server may still
run the command, even later, and a popped element would be lost. So a call is a task of its own,
which goes on to its end when its caller is cancelled. A pop waits in slices of a second at most,
and an element that it pops for a cancelled caller is pushed back to the head of its list. If a
client limits its connections, there are never more calls at once than connections; further calls
take turns.
"""

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, nullcontext
from importlib import import_module
from typing import Any
from weakref import WeakKeyDictionary

from holdfast.client.errors import (
    ConnectionLostError,
    NotReplicatedError,
    RequestTimeoutError,
    ServerError,
)
from holdfast.client.transport.deadlines import sleep
from holdfast.clock import Clock, SystemClock
from holdfast.coordination.backend import Heed, Replicas, ScriptingBackend
from holdfast.coordination.lua_scripts import Key, Value

log = logging.getLogger(__name__)
_SLICE_S = 1.0
_MANY = 2**31
# By client and by loop: semaphores and queues share a client, and a lock belongs to one loop.
_TURNS: WeakKeyDictionary[Any, WeakKeyDictionary[Any, asyncio.Semaphore]] = WeakKeyDictionary()


class ForeignBackend(ScriptingBackend):
    def __init__(self, client: Any, library: str, clock: Clock | None = None) -> None:
        self._client = client
        self._clock = clock or SystemClock()
        self._errors: Any = import_module(f"{library}.exceptions")
        names = (f"{library.capitalize()}Error", f"{library.capitalize()}ClusterException")
        self._failures = (*(getattr(self._errors, name) for name in names), OSError)
        self._slice_s = min(_SLICE_S, _socket_timeout_s(client) / 2)
        self._background: set[asyncio.Task[Any]] = set()
        self._is_initialized = False
        self._initializing = asyncio.Lock()
        self._left: set[asyncio.Task[Any]] = set()  # calls of cancelled callers
        self._giving_back: set[asyncio.Task[Any]] = set()  # pops of cancelled callers
        self.most_at_once = _connections(client)

    async def call(self, command: str, *args: Value) -> Any:
        return await self._to_the_end(self._call(command, *args))

    async def call_then_wait(self, replicas: Replicas, command: str, *args: Value) -> Any:
        if not hasattr(self._client, "connection_pool"):
            raise TypeError("replicas: a cluster needs our client here, see holdfast.connect")
        return await self._to_the_end(self._call_then_wait(replicas, command, *args))

    async def _to_the_end(self, work: Coroutine[Any, Any, Any]) -> Any:
        task = self._start(work)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            self._left.add(task)
            task.add_done_callback(self._forget)
            raise

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._left.discard(task)
        if not task.cancelled():
            task.exception()  # marks it as seen: its caller was cancelled

    async def settled(self) -> None:
        while self._left:
            await asyncio.wait(self._left)

    async def at_rest(self) -> None:
        # A pop ends with its slice, unless the server does not answer: hence the limit.
        limit = asyncio.ensure_future(sleep(self._clock, 2 * self._slice_s))
        try:
            while not limit.done() and (under_way := self._left | self._giving_back):
                await asyncio.wait([*under_way, limit], return_when=asyncio.FIRST_COMPLETED)
        finally:
            limit.cancel()

    async def _call(self, command: str, *args: Value) -> Any:
        return await self._translated(lambda: self._client.execute_command(command, *args))

    async def _call_then_wait(self, replicas: Replicas, command: str, *args: Value) -> Any:
        """A pipeline has one connection. WAIT counts the writes of its own connection only."""

        async def send() -> Any:
            async with self._client.pipeline(transaction=False) as pipeline:
                pipeline.execute_command(command, *args)
                pipeline.execute_command("WAIT", replicas.wanted, round(replicas.timeout_s * 1000))
                return await pipeline.execute()

        reply, count = await self._translated(send)
        if count < replicas.wanted:
            raise NotReplicatedError(count, replicas.wanted)
        return reply

    async def _translated(self, send: Callable[[], Awaitable[Any]]) -> Any:
        """The reply as bytes; the errors of the library as ours."""
        errors = self._errors
        try:
            async with self._turn():
                if not self._is_initialized:
                    await self._initialize()
                return _as_bytes(await send())
        except errors.NoScriptError as error:
            raise ServerError(f"NOSCRIPT {error}") from error
        except errors.ResponseError as error:
            raise ServerError(str(error)) from error
        except errors.TimeoutError as error:
            raise RequestTimeoutError(str(error), may_have_executed=True) from error
        except self._failures as error:
            raise ConnectionLostError(str(error), may_have_executed=True) from error

    def _turn(self) -> AbstractAsyncContextManager[None]:
        """A place among the connections of the client, which all backends on top of it share."""
        if self.most_at_once is None:
            return nullcontext()
        turns = _TURNS.setdefault(self._client, WeakKeyDictionary())
        loop = asyncio.get_running_loop()
        return turns.setdefault(loop, asyncio.Semaphore(self.most_at_once))

    async def _initialize(self) -> None:
        """Once, by one call alone: a cluster's client fails if its first calls are simultaneous."""
        async with self._initializing:
            if not self._is_initialized:
                await self._client.initialize()
                self._is_initialized = True

    async def pop(
        self, *keys: Key, timeout_s: float | None, heed: Heed | None = None
    ) -> tuple[bytes, bytes] | None:
        now_s = self._clock.monotonic_s
        deadline_s = math.inf if timeout_s is None else now_s() + timeout_s
        while True:
            left_s = deadline_s - now_s()
            wait_s = max(min(left_s, self._slice_s), 0.001)  # 0 would wait for ever
            task = self._start(self._call("BLPOP", *keys, wait_s))
            try:
                reply = await asyncio.shield(task)
            except asyncio.CancelledError:
                giving_back = self._start(self._give_back(task))
                self._giving_back.add(giving_back)
                giving_back.add_done_callback(self._giving_back.discard)
                raise
            if reply is not None:
                if heed is not None:
                    heed(reply[1])
                return reply[0], reply[1]
            if left_s <= self._slice_s:
                return None

    def _start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work)
        # asyncio has only weak references to tasks, so the task could be collected
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    async def _give_back(self, popping: asyncio.Task[Any]) -> None:
        try:
            reply = await popping
            if reply is not None:
                await self._call("LPUSH", *reply)
        except Exception as error:  # noqa: BLE001 - a client that is being closed may raise anything
            log.warning("an element popped for a cancelled caller may be lost: %s", error)

    async def scan(self, match: str) -> AsyncIterator[bytes]:
        async for key in self._client.scan_iter(match=match, count=1000):
            yield _as_bytes(key)


def _as_bytes(reply: Any) -> Any:
    """Replies of a backend are bytes; a client may be set to decode them."""
    if isinstance(reply, str):
        return reply.encode()
    return [_as_bytes(item) for item in reply] if isinstance(reply, list | tuple) else reply


def _connections(client: Any) -> int | None:
    """The limit of connections, in a cluster to each node; None if there is no limit."""
    if getattr(client, "single_connection_client", False):
        return 1
    pool = getattr(client, "connection_pool", None)
    most = getattr(pool, "max_connections", None)
    if pool is None:
        most = getattr(client, "connection_kwargs", {}).get("max_connections")
    return most if most is not None and most < _MANY else None


def _socket_timeout_s(client: Any) -> float:
    """The client's own limit for a reply. A pop must be shorter, or the client gives up on it."""
    pool = getattr(client, "connection_pool", client)
    kwargs: dict[str, Any] = getattr(pool, "connection_kwargs", {})
    return kwargs.get("socket_timeout") or math.inf
