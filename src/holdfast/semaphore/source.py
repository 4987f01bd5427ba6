"""Where a semaphore's commands come from: a client of the user's, or one made for each loop."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from holdfast.client.backends import Commands, Heed, Prepared, Rest, commands_of
from holdfast.client.client import Client
from holdfast.client.factory import make_client
from holdfast.client.lua import Key, LuaScript, Value, Values
from holdfast.client.options import SERVER_SCHEMES, parse_url


class Source:
    """`client` is one, or the URL of a server, or a function that makes a client."""

    def __init__(self, client: Any) -> None:
        self._make: Callable[[], Any] | None = None
        if isinstance(client, str):
            target = parse_url(client)
            if target.scheme not in SERVER_SCHEMES:
                raise ValueError(f"{client}: each event loop would have its own; give a client")
            self._make = lambda: make_client(target)
        elif callable(client):
            self._make = client
        else:
            self._commands = commands_of(client)

    def commands(self, *, is_first: bool) -> Commands:
        """For the running loop."""
        if self._make is not None:
            return LazyCommands(self._make)
        if not is_first:
            raise RuntimeError(
                "this client belongs to another event loop: give the semaphore a URL, or a"
                " function that makes a client"
            )
        return self._commands

    async def close(self, commands: Commands) -> None:
        if isinstance(commands, LazyCommands):
            await commands.close()


class LazyCommands:
    """`Commands` by a client that is made when it is needed, and closed with its event loop."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._inner: Commands | None = None
        self._lock = asyncio.Lock()
        self._owner: asyncio.Task[None] | None = None
        self.most_at_once: int | None = None  # its client is its own

    async def _open(self) -> Commands:
        async with self._lock:
            if self._inner is None:
                client = self._make()
                if isinstance(client, Client):
                    await client.connect()
                self._inner = commands_of(client)
                self._owner = asyncio.get_running_loop().create_task(_own(client))
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

    def prepare(self, script: LuaScript, before: Rest, after: Rest) -> Prepared:
        known: tuple[Commands | None, Prepared] | None = None

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


async def _own(client: Any) -> None:
    """asyncio.run() cancels this at the end, which is when the client has to be closed."""
    try:
        await asyncio.Event().wait()
    finally:
        await (client.close() if isinstance(client, Client) else client.aclose())
