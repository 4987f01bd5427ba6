"""The fixture of the example as it was. `pytest -p with_fakeredis`."""

from collections.abc import Iterator
from typing import Any

import fakeredis
import pytest


@pytest.fixture
def connection() -> Iterator[Any]:
    with fakeredis.FakeRedis(decode_responses=True) as connection:
        yield connection
