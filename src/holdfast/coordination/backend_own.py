"""The backend on top of our own client."""

from collections.abc import AsyncIterator, Coroutine
from typing import Any

from holdfast.client.api.client import Client
from holdfast.client.errors import ServerError
from holdfast.client.protocol.request import encode_around
from holdfast.coordination.backend import Heed, Prepared, Replicas, Rest, ScriptingBackend
from holdfast.coordination.lua_scripts import Key, LuaScript, Value


class OwnBackend(ScriptingBackend):
    """Our client makes its pops safe to cancel by itself."""

    most_at_once: int | None = None

    def __init__(self, client: Client) -> None:
        self._client = client

    def call(self, command: str, *args: Value) -> Coroutine[Any, Any, Any]:
        return self._client.run((command, *args), _as_it_is)

    def call_then_wait(
        self, replicas: Replicas, command: str, *args: Value
    ) -> Coroutine[Any, Any, Any]:
        return self._client.run_then_wait((command, *args), replicas.wanted, replicas.timeout_s)

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
        wait_s = 0 if timeout_s is None else max(timeout_s, 0.001)  # 0 would wait for ever
        tell = None if heed is None else lambda reply: heed(reply[1])
        reply = await self._client.run(("BLPOP", *keys, wait_s), _as_it_is, heed=tell)
        return None if reply is None else (reply[0], reply[1])

    async def settled(self) -> None:
        """Nothing to wait for: one connection keeps the order of its calls."""

    async def at_rest(self) -> None:
        """Nothing to wait for: a cancelled pop gives its element back before its caller goes on."""

    async def scan(self, match: str) -> AsyncIterator[bytes]:
        async for key in self._client.binary.scan_iter(match, count=1000):
            yield key


def _as_it_is(reply: Any) -> Any:
    return reply
