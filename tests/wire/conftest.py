"""Fixtures for the differential tests: every test that takes `pair` runs in RESP2 and RESP3."""

from collections.abc import Iterator

import pytest

from tests.harness import HoldfastServer, Pair, RedisServer, open_pair


@pytest.fixture(scope="module", params=[2, 3], ids=["resp2", "resp3"])
def protocol(request: pytest.FixtureRequest) -> int:
    version: int = request.param
    return version


@pytest.fixture
def pair(server: HoldfastServer, oracle: RedisServer, protocol: int) -> Iterator[Pair]:
    """New connections to both servers, which are empty."""
    with open_pair(server, oracle, protocol) as pair:
        yield pair
