"""The same tests by URL: redis-server in both protocols, Valkey, our server, our engine in-process.

Valkey takes part where tests/harness/valkey.py finds one.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.client.api.client import Client
from tests.harness import HoldfastServer, RawClient, RedisServer
from tests.harness.valkey import VALKEY

Scenario = Callable[[Client], Coroutine[Any, Any, None]]

KINDS = ["redis-resp3", "redis-resp2", "holdfast", "memory", "file"]
if VALKEY is not None:
    KINDS.append("valkey")


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An empty server of each kind."""
    kind: str = request.param
    if kind in ("memory", "file"):
        yield "memory://" if kind == "memory" else f"holdfast://{tmp_path}/app.db"
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
    """Runs a scenario with a connected client; skips commands that our server does not have."""

    def run(scenario: Scenario, *needed: str, **options: Any) -> None:
        async def main() -> None:
            async with holdfast.connect(url, **options) as client:
                for command in needed:
                    if await client.exec("COMMAND", "INFO", command) in ([None], []):
                        pytest.skip(f"this server has no {command} yet")
                await scenario(client)

        asyncio.run(main())

    return run
