"""Every test that takes `play` runs on Holdfast, on redis-server and on valkey-server."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeAlias

import pytest

import holdfast
from holdfast.client import Client
from tests.harness import HoldfastServer, RedisServer
from tests.harness.processes import ServerProcess

Play: TypeAlias = Callable[[Callable[[Client], Awaitable[None]]], None]


@pytest.fixture(params=["holdfast", "redis", "valkey"])
def place(request: pytest.FixtureRequest) -> Iterator[ServerProcess]:
    """An empty server. Other tests use it, too, so the user that a test may add is removed."""
    name = {"holdfast": "server", "redis": "oracle", "valkey": "valkey"}[request.param]
    server: HoldfastServer | RedisServer = request.getfixturevalue(name)
    with server.client() as client:
        assert client.command("FLUSHALL") == b"+OK\r\n"
        yield server
        client.command("ACL", "DELUSER", "ann")


@pytest.fixture
def play(place: ServerProcess) -> Play:
    """Runs a scenario with our client on the server."""

    def run(scenario: Callable[[Client], Awaitable[None]]) -> None:
        async def main() -> None:
            async with holdfast.connect(f"redis://127.0.0.1:{place.port}") as client:
                await scenario(client)

        asyncio.run(main())

    return run
