"""The cases on fakeredis, in the process of the test: `pytest -p on_fakeredis`."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import fakeredis
import pytest


@pytest.fixture
def connect() -> Iterator[Callable[..., Any]]:
    server = fakeredis.FakeServer()
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(
            fakeredis.FakeRedis(server=server, **{"decode_responses": True} | options)
        )


@pytest.fixture
def url() -> str:
    pytest.fail("there is no address")


@pytest.fixture
def restart() -> Callable[[], None]:
    pytest.fail("there is no server")
