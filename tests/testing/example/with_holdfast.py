"""The fixture of the example on Holdfast. Nothing else has changed. `pytest -p with_holdfast`."""

from collections.abc import Iterator
from typing import Any

import pytest
import redis


@pytest.fixture
def connection(holdfast_url: str) -> Iterator[Any]:
    with redis.Redis.from_url(holdfast_url, decode_responses=True) as connection:
        yield connection
