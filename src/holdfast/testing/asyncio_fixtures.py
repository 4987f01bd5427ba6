"""The async fixtures of `pytest_plugin` for pytest-asyncio, which has been imported before this.

A client works in one event loop only. pytest-asyncio has a loop for each scope, and a test names
the scope of its loop, so there is a fixture for each of them.
"""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest_asyncio

import holdfast
from holdfast.testing.pytest_plugin import connected_client

if TYPE_CHECKING:
    from holdfast.client.api.client import Client
    from holdfast.embedded import LocalDatabase

LOOP_SCOPES = ("function", "class", "module", "package", "session")


def _define(scope: str) -> None:
    """pytest-asyncio writes the scope into the function, so each fixture needs its own function."""

    async def client(holdfast_url: str) -> "AsyncIterator[Client]":
        async with connected_client(holdfast_url) as client:
            yield client

    async def embedded() -> "AsyncIterator[LocalDatabase]":
        async with holdfast.open(":memory:") as database:
            yield database

    for function in (client, embedded):
        name = f"_holdfast_{function.__name__}_in_{scope}"
        globals()[name] = pytest_asyncio.fixture(function, loop_scope=scope, name=name)


for _scope in LOOP_SCOPES:
    _define(_scope)
