"""A Holdfast that is followed, and a redis-server that follows it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import HoldfastServer, RedisServer
from tests.harness.valkey import ValkeyServer


@pytest.fixture
def primary(tmp_path: Path) -> Iterator[HoldfastServer]:
    options = ("--enable-debug-command", "yes", "--repl-ping-replica-period", "1")
    with HoldfastServer(tmp_path / "primary", *options) as server:
        yield server


@pytest.fixture
def replica(tmp_path: Path) -> Iterator[RedisServer]:
    with RedisServer(tmp_path / "replica") as server:
        yield server


@pytest.fixture(params=[RedisServer, ValkeyServer], ids=["redis", "valkey"])
def any_replica(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RedisServer]:
    with request.param(tmp_path / "replica") as server:
        yield server
