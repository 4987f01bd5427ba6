"""The fixture of the example on a redis-server for each test, for bench/pytest_servers.py."""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.harness.processes import free_port

LOOK_AFTER_S = 0.001


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Any]:
    port = free_port()
    argv = ["redis-server", "--port", str(port), "--save", ""]
    with subprocess.Popen(argv, cwd=tmp_path, stdout=subprocess.DEVNULL) as server:
        try:
            with redis.Redis(
                port=port, decode_responses=True, retry=Retry(NoBackoff(), 0)
            ) as connection:
                while not is_ready(connection):
                    time.sleep(LOOK_AFTER_S)
                yield connection
        finally:
            server.kill()


def is_ready(connection: Any) -> bool:
    try:
        return bool(connection.ping())
    except redis.ConnectionError:
        return False
