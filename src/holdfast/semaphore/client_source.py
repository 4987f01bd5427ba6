"""The client of a semaphore: given by the user, or made for each event loop."""

import asyncio
import weakref
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from holdfast.client.api.client import Client
from holdfast.client.api.factory import make_client
from holdfast.client.transport.options import SERVER_SCHEMES, parse_url
from holdfast.coordination.backend import Backend, Heed, Prepared, Replicas, Rest
from holdfast.coordination.backend_of import backend_of
from holdfast.coordination.lua_scripts import Key, LuaScript, Value, Values


class ClientSource:
    """`client` is a client, or the URL of a server, or a function that makes a client."""

    def __init__(self, client: Any) -> None:
        self._make: Callable[[], Any] | None = None
        if isinstance(client, str):
            target = parse_url(client)
            if target.scheme not in SERVER_SCHEMES:
                raise ValueError(
                    f"{client}: each event loop would have a database of its own; give a client"
                )
            self._make = lambda: make_client(target)
        elif callable(client):
            self._make = client
        else:
            self._backend = backend_of(client)

    def backend(self, *, is_first: bool) -> Backend:
        """The backend for the running event loop."""
        if self._make is not None:
            return LazyBackend(self._make)
        if not is_first:
            raise RuntimeError(
                "this client belongs to another event loop: give the semaphore a URL, or a"
                " function that makes a client"
            )
        return self._backend

    async def close(self, backend: Backend) -> None:
        if isinstance(backend, LazyBackend):
            await backend.close()


class LazyBackend:
    """A backend whose client is made when it is needed, and closed with its event loop."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._inner: Backend | None = None
        self._lock = asyncio.Lock()
        self._owner: asyncio.Task[None] | None = None
        self.most_at_once: int | None = None  # no limit: the client is not shared

    async def _open(self) -> Backend:
        async with self._lock:
            if self._inner is None:
                client = self._make()
                if isinstance(client, Client):
                    await client.connect()
                self._inner = backend_of(client)
                loop = asyncio.get_running_loop()
                self._owner = loop.create_task(_own(client))
                _owners.add(self._owner)
                self._owner.add_done_callback(_owners.discard)
                weakref.finalize(self, _end, loop, self._owner).atexit = False
            return self._inner

    async def close(self) -> None:
        if self._owner is not None:
            self._owner.cancel()
            await asyncio.wait([self._owner])
            self._inner = self._owner = None

    async def run(
        self, script: LuaScript, keys: Mapping[str, Key | list[Key]], args: Mapping[str, Values]
    ) -> Any:
        return await (self._inner or await self._open()).run(script, keys, args)

    async def run_then_wait(
        self,
        script: LuaScript,
        keys: Mapping[str, Key | list[Key]],
        args: Mapping[str, Values],
        replicas: Replicas,
    ) -> Any:
        inner = self._inner or await self._open()
        return await inner.run_then_wait(script, keys, args, replicas)

    def prepare(self, script: LuaScript, before: Rest, after: Rest) -> Prepared:
        known: tuple[Backend | None, Prepared] | None = None

        async def run(each: str) -> Any:
            nonlocal known
            if known is None or known[0] is not self._inner:
                inner = await self._open()
                known = inner, inner.prepare(script, before, after)
            return await known[1](each)

        return run

    async def call(self, command: str, *args: Value) -> Any:
        return await (self._inner or await self._open()).call(command, *args)

    async def pop(
        self, *keys: Key, timeout_s: float | None, heed: Heed | None = None
    ) -> tuple[bytes, bytes] | None:
        return await (self._inner or await self._open()).pop(*keys, timeout_s=timeout_s, heed=heed)

    async def settled(self) -> None:
        if self._inner is not None:
            await self._inner.settled()

    async def at_rest(self) -> None:
        if self._inner is not None:
            await self._inner.at_rest()

    async def time_s(self, key: Key) -> float:
        return await (self._inner or await self._open()).time_s(key)

    async def scan(self, match: str) -> AsyncIterator[bytes]:
        async for key in (self._inner or await self._open()).scan(match):
            yield key


# A loop has weak references to its tasks only. A collected task could not close its client.
_owners: set[asyncio.Task[None]] = set()


def _end(loop: asyncio.AbstractEventLoop, owner: asyncio.Task[None]) -> None:
    """Close the client of a collected semaphore, from any thread."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(owner.cancel)


async def _own(client: Any) -> None:
    """Close the client when cancelled. asyncio.run() cancels all tasks at its end."""
    try:
        await asyncio.Event().wait()
    finally:
        await (client.close() if isinstance(client, Client) else client.aclose())
