"""The same tests by URL: redis-server in both protocols, Valkey, our server, our engine in-process.

Valkey takes part if a `valkey-server` is in the PATH, or was fetched by scripts/install-valkey.
"""

import asyncio
import shutil
import subprocess
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.client.api.client import Client
from tests.harness import HoldfastServer, RawClient, RedisServer, free_port

Scenario = Callable[[Client], Coroutine[Any, Any, None]]


def find_valkey() -> str | None:
    """One that also runs here."""
    fetched = (Path(__file__).parents[2] / "build/valkey").glob("*/_binaries/*/valkey-server")
    for path in (shutil.which("valkey-server"), *map(str, fetched)):
        try:
            if path and not subprocess.run([path, "--version"], capture_output=True).returncode:
                return path
        except OSError:
            continue
    return None


VALKEY = find_valkey()


class ValkeyServer(RedisServer):
    def start(self) -> None:
        assert VALKEY is not None
        for _ in range(5):  # another process may have taken the port
            self.port = free_port()
            argv = [VALKEY, "--port", str(self.port), "--bind", "127.0.0.1", "--save", ""]
            if self._spawn(argv):
                return
        raise AssertionError(self._said())


@pytest.fixture(scope="session")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyServer]:
    with ValkeyServer(tmp_path_factory.mktemp("valkey")) as server:
        yield server


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
