"""Fixtures for the differential tests: every test that takes `pair` runs in RESP2 and RESP3. And
one for the libraries."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.harness import HoldfastServer, Pair, RawClient, RedisServer, open_pair
from tests.harness.valkey import ValkeyServer
from tests.wire.libraries.crew import Crew


@pytest.fixture(scope="module", params=[2, 3], ids=["resp2", "resp3"])
def protocol(request: pytest.FixtureRequest) -> int:
    version: int = request.param
    return version


@pytest.fixture
def pair(server: HoldfastServer, oracle: RedisServer, protocol: int) -> Iterator[Pair]:
    """New connections to both servers, which are empty."""
    with open_pair(server, oracle, protocol) as pair:
        yield pair


@pytest.fixture
def valkey_pair(server: HoldfastServer, valkey: ValkeyServer, protocol: int) -> Iterator[Pair]:
    """`pair` with valkey-server, for what redis-server 7 does not have."""
    with open_pair(server, valkey, protocol) as pair:
        yield pair


@pytest.fixture
def crew(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Crew]:
    """The library that test_lib_….py is named after; WORKER there is how its worker is started."""
    module = request.module
    library = module.__name__.rpartition("test_lib_")[2]
    with Crew(library, tmp_path, *module.WORKER) as crew:
        yield crew


@pytest.fixture
def peer(
    pair: Pair, server: HoldfastServer, oracle: RedisServer, protocol: int
) -> Iterator[Callable[[], Pair]]:
    """Further connections to both servers, which `pair` has emptied."""
    with ExitStack() as stack:

        def connect() -> Pair:
            ours, theirs = (
                stack.enter_context(RawClient.connect(port)) for port in (server.port, oracle.port)
            )
            if protocol == 3:
                for client in (ours, theirs):
                    client.command("HELLO", 3)
            return Pair(ours, theirs, protocol)

        yield connect
