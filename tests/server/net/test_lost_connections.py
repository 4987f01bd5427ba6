"""A connection that ends leaves nothing in memory, from any state."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import cast

import pytest

from holdfast import all_commands as all_commands
from holdfast.resp import RequestParser
from holdfast.server.config.config import Config
from holdfast.server.core.engine import Engine
from holdfast.server.net.wire_connection import Connection
from holdfast.server.sessions.bounded_session import WireSession
from holdfast.store.store import MemoryStore
from tests.harness.garbage import nothing_left_to_collect

DOINGS = {
    "nothing": b"",
    "asked": b"PING\r\nSET k v\r\nGET k\r\n",
    "waits": b"BLPOP q 0\r\nPING\r\n",
    "watches": b"WATCH k\r\nMULTI\r\nSET k v\r\n",
    "listens": b"SUBSCRIBE a b\r\nPSUBSCRIBE *\r\n",
    "monitors": b"MONITOR\r\n",
    "tracks": b"HELLO 3\r\nCLIENT TRACKING ON\r\nGET k\r\n",
    "quits": b"QUIT\r\n",
    "is half way": b"*2\r\n$3\r\nGE",
    "is wrong": b"*1\r\n$99999999999999\r\n",
    "runs scripts": b"EVAL \"return redis.call('nope')\" 0\r\n",
}


async def come_and_go(port: int, doing: bytes, *, abruptly: bool) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"PING\r\n" + doing)
    await reader.readuntil(b"+PONG\r\n")
    if abruptly:
        writer.transport.abort()
    else:
        writer.write_eof()
        await reader.read()
    writer.close()


class Watched(Connection):
    """Says when it is over."""

    def __init__(self, engine: Engine, over: asyncio.Queue[None]) -> None:
        super().__init__(engine)
        self._over = over

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._over.put_nowait(None)


@pytest.mark.source_only
@pytest.mark.parametrize("abruptly", [False, True])
@pytest.mark.parametrize("doing", DOINGS)
def test_nothing_is_left(doing: str, abruptly: bool) -> None:
    async def scenario() -> None:
        engine = Engine(MemoryStore(), Config({"port": "0"}))
        loop = asyncio.get_running_loop()
        engine.turn.start(loop)
        over: asyncio.Queue[None] = asyncio.Queue()
        protocol = cast("Callable[[], asyncio.Protocol]", partial(Watched, engine, over))
        server = await loop.create_server(protocol, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        with nothing_left_to_collect(Connection, WireSession, RequestParser):
            for _ in range(3):
                await come_and_go(port, DOINGS[doing], abruptly=abruptly)
                await asyncio.wait_for(over.get(), 30)
            for _ in range(5):  # the transports' own last callbacks
                await asyncio.sleep(0)
        server.close()
        engine.turn.stop()

    asyncio.run(scenario())
