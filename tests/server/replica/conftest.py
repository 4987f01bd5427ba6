"""A Holdfast that follows, and a server of each kind to follow."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import HoldfastServer, RedisServer
from tests.harness.processes import ServerProcess
from tests.harness.valkey import ValkeyServer
from tests.server.replica.servers import KINDS, OPTIONS


@pytest.fixture(params=KINDS, ids=[kind.__name__ for kind in KINDS])
def any_primary(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ServerProcess]:
    with request.param(tmp_path / "primary", *OPTIONS[request.param]) as server:
        yield server


@pytest.fixture
def redis_primary(tmp_path: Path) -> Iterator[RedisServer]:
    with RedisServer(tmp_path / "primary", *OPTIONS[RedisServer]) as server:
        yield server


@pytest.fixture
def valkey_primary(tmp_path: Path) -> Iterator[ValkeyServer]:
    with ValkeyServer(tmp_path / "primary", *OPTIONS[ValkeyServer]) as server:
        yield server


@pytest.fixture
def replica(tmp_path: Path) -> Iterator[HoldfastServer]:
    with HoldfastServer(tmp_path / "replica", *OPTIONS[HoldfastServer]) as server:
        yield server
