"""The cases on redis-server, to see that they are right: `pytest -p on_redis`."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.harness import RedisServer


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    with RedisServer(tmp_path, "--appendonly", "yes", "--appendfsync", "always") as server:
        yield server


@pytest.fixture
def url(server: RedisServer) -> str:
    return f"redis://127.0.0.1:{server.port}/0"


@pytest.fixture
def connect(server: RedisServer) -> Iterator[Callable[..., Any]]:
    """`server.port` is another one after a restart."""
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(
            redis.Redis(port=server.port, **{"decode_responses": True} | options)
        )


@pytest.fixture
def restart(server: RedisServer) -> Callable[[], None]:
    def kill_and_start() -> None:
        server.kill()
        server.start()

    return kill_and_start
