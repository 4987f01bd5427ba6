from collections.abc import Iterator

import pytest

from tests.commands.listening import EVERYTHING
from tests.harness import RedisServer


@pytest.fixture(scope="session")
def loud_oracle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A redis-server that announces everything."""
    with RedisServer(tmp_path_factory.mktemp("loud"), *EVERYTHING) as server:
        yield server
