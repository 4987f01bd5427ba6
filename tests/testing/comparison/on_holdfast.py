"""The cases on Holdfast: `pytest -p on_holdfast`."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import redis

from holdfast.testing import DisposableServer


@pytest.fixture
def url(holdfast_url: str) -> str:
    return holdfast_url


@pytest.fixture
def connect(holdfast_url: str) -> Iterator[Callable[..., Any]]:
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(
            redis.Redis.from_url(holdfast_url, **{"decode_responses": True} | options)
        )


@pytest.fixture
def restart(holdfast_server: DisposableServer) -> Callable[[], None]:
    return holdfast_server.restart
