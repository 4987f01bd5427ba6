"""A tool that needs a single winner warns once when it runs on an active-active database."""

import asyncio
import warnings
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis.asyncio

import holdfast
from holdfast.builds import Build, BuildQueue
from holdfast.semaphore import Semaphore
from tests.harness import HoldfastServer, RedisServer

pytestmark = pytest.mark.source_only

Scenario = Callable[[Any], Awaitable[None]]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HoldfastServer]:
    folder: Path = tmp_path_factory.mktemp("shared")
    with HoldfastServer(folder, "--active-active", "--node-id", "1") as server:
        yield server


def said(port: int, scenario: Scenario, *, foreign: bool = False) -> list[str]:
    """The warnings of a scenario."""

    async def main() -> None:
        if foreign:
            async with redis.asyncio.Redis(port=port) as theirs:
                await scenario(theirs)
        else:
            async with holdfast.connect(f"redis://127.0.0.1:{port}") as ours:
                await scenario(ours)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        asyncio.run(main())
    return [str(each.message) for each in caught if "active-active" in str(each.message)]


async def hold(client: Any) -> None:
    semaphore = Semaphore(client, "s", 1)
    for _ in range(3):
        async with semaphore:
            waiter = asyncio.ensure_future(semaphore.acquire())
            await asyncio.sleep(0)
        await semaphore.release(await waiter)


async def build(client: Any) -> None:
    queue = BuildQueue(client)
    for _ in range(2):
        await queue.enqueue(Build(None, "job"))
        await queue.claim("worker", 60)


async def claim(client: Any) -> None:
    await BuildQueue(client).claim("worker", 60)


@pytest.mark.parametrize("foreign", [False, True], ids=["ours", "redis-py"])
@pytest.mark.parametrize(
    ("scenario", "who"),
    [(hold, "semaphore 's'"), (build, "build queue 'builds'"), (claim, "build queue 'builds'")],
)
def test_one_warning(shared: HoldfastServer, scenario: Scenario, who: str, foreign: bool) -> None:
    (text,) = said(shared.port, scenario, foreign=foreign)
    assert text.startswith(f"{who} is on an active-active database")


@pytest.mark.parametrize("scenario", [hold, build, claim])
def test_no_warning_elsewhere(
    server: HoldfastServer, oracle: RedisServer, scenario: Scenario
) -> None:
    assert said(server.port, scenario) == []
    assert said(oracle.port, scenario) == []
