"""Clients that a semaphore makes by itself, from a URL."""

import asyncio
import gc
import logging

import pytest

import holdfast
from holdfast.semaphore import Semaphore
from tests.semaphore.conftest import Place, eventually


def test_a_semaphore_that_is_dropped_closes_its_client(
    redis_place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """Its loop goes on. An unreachable client is not left to the garbage collector, which would
    destroy the task that has to close it."""

    async def use_once() -> None:
        async with Semaphore(redis_place.url, "s", 1, heartbeat_max_interval_s=1):
            pass

    async def scenario() -> None:
        async with holdfast.connect(redis_place.url) as client:
            own_id = await client.exec("CLIENT", "ID", into=int)

            async def is_last() -> bool:
                """No later connection than the client's own is left. Other tests may keep
                earlier ones."""
                gc.collect()
                lines = (await client.exec("CLIENT", "LIST", into=str)).splitlines()
                return all(int(line.split()[0].removeprefix("id=")) <= own_id for line in lines)

            for _ in range(3):
                await use_once()
            await eventually(is_last)

    with caplog.at_level(logging.INFO):
        asyncio.run(scenario())
    assert caplog.records == []
