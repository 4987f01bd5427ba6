"""The queue and its workers on clients that others wrote, also on a cluster."""

import asyncio
import gc
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from redis.asyncio import BlockingConnectionPool, Redis, RedisCluster
from valkey.asyncio import Valkey

from holdfast.builds import BadBuildError, Build, BuildQueue, Run, State, Worker
from tests.builds.conftest import all_ended
from tests.harness.cluster import Nodes

# A busy machine shows it: redis-py may leave a connection to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(autouse=True)
def collect_connections() -> Iterator[None]:
    """Here, and not in the test of another module."""
    yield
    gc.collect()


async def build_all(client: object, name: str) -> None:
    queue = BuildQueue(client, name)
    ran: list[int] = []

    async def handler(run: Run) -> None:
        ran.append(run.build_id)
        if run.build_id == 4 and run.attempt == 1:
            raise OSError("once more")

    for build in range(1, 9):
        job, other = ("a", "b") if build % 2 else ("b", "a")
        await queue.enqueue(Build(build, job, blocked_by=[other], backoff_s=0))
    async with Worker(queue, handler, concurrency=2):
        await all_ended(queue)
    assert sorted(ran) == [1, 2, 3, 4, 4, 5, 6, 7, 8]
    for record in await queue.list():
        assert record.state is State.SUCCESS
        assert await queue.replay(record.id) == record


@pytest.mark.parametrize("decode", [False, True])
@pytest.mark.parametrize("protocol", [2, 3])
def test_redis_py(url: str, decode: bool, protocol: int) -> None:
    async def scenario() -> None:
        async with Redis.from_url(url, decode_responses=decode, protocol=protocol) as client:
            await build_all(client, "q")

    asyncio.run(scenario())


def test_valkey_py(url: str) -> None:
    async def scenario() -> None:
        async with Valkey.from_url(url) as client:
            await build_all(client, "q")

    asyncio.run(scenario())


def test_redis_py_on_a_cluster(nodes: Nodes) -> None:
    async def scenario() -> None:
        async with RedisCluster(host="127.0.0.1", port=nodes.servers[0].port) as client:
            for name in ("redis-py-0", "redis-py-1", "redis-py-2"):  # on different nodes
                await build_all(client, name)

    asyncio.run(scenario())


async def two_wait(client: Any) -> None:
    """A worker is idle: it waits for builds and for messages."""
    while (await client.info("clients"))["blocked_clients"] != 2:  # noqa: ASYNC110 - there is no event
        await asyncio.sleep(0.001)


@pytest.mark.parametrize("library", [Redis, Valkey])
@pytest.mark.parametrize("is_idle", [True, False])
def test_a_worker_that_has_left_leaves_nothing_under_way(
    url: str, caplog: pytest.LogCaptureFixture, library: Any, is_idle: bool
) -> None:
    """Its client is closed at once, and its loop ends: that is no reason for a word in the log."""

    async def scenario() -> None:
        async with library.from_url(url) as client:
            queue = BuildQueue(client, "q")
            begun = asyncio.Event()

            async def handler(run: Run) -> None:
                begun.set()

            if not is_idle:
                await queue.enqueue(Build(1, "a"))
            async with Worker(queue, handler):
                if not is_idle:
                    await begun.wait()
                await two_wait(client)
        assert len(asyncio.all_tasks()) == 1

    with caplog.at_level(logging.INFO):
        asyncio.run(scenario())
    assert caplog.records == []


def test_a_worker_that_left_takes_no_wake_up_with_it(url: str) -> None:
    async def scenario() -> None:
        async with Redis.from_url(url) as client, Redis.from_url(url) as other:
            queue = BuildQueue(client, "q")

            async def handler(run: Run) -> None: ...

            async with Worker(queue, handler):
                await two_wait(other)
            await BuildQueue(other, "q").enqueue(Build(1, "a"))
            assert await other.llen("{q}:wake") == 2

    asyncio.run(scenario())


def small_clients(url: str, most: int) -> list[Redis]:
    port = int(url.rpartition(":")[2])
    clients = [
        Redis(port=port, max_connections=most),
        Redis.from_pool(BlockingConnectionPool(port=port, max_connections=most)),
    ]
    return clients + ([Redis(port=port, single_connection_client=True)] if most == 1 else [])


@pytest.mark.parametrize("most", [1, 2])
def test_a_worker_on_too_few_connections_is_refused(url: str, most: int) -> None:
    async def handler(run: Run) -> None: ...

    async def scenario() -> None:
        for client in small_clients(url, most):
            with pytest.raises(BadBuildError, match=f"3 connections.*at most {most}"):
                Worker(BuildQueue(client), handler)
            await client.aclose()

    asyncio.run(scenario())


def test_a_worker_on_three_connections_waits_for_one_instead_of_failing(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        for n, client in enumerate(small_clients(url, 3)):
            async with client:
                await build_all(client, f"q{n}")

    with caplog.at_level(logging.WARNING, "holdfast"):
        asyncio.run(scenario())
    assert [record for record in caplog.records if "connections" in record.message] == []


def test_queues_that_share_a_small_client_take_turns(url: str) -> None:
    async def scenario() -> None:
        for n, client in enumerate(small_clients(url, 3)):
            async with client:
                await asyncio.gather(build_all(client, f"a{n}"), build_all(client, f"b{n}"))

    asyncio.run(scenario())


@pytest.mark.parametrize("most", [1, 2])
def test_more_calls_at_once_than_connections_take_turns(url: str, most: int) -> None:
    async def scenario() -> None:
        for client in small_clients(url, most):
            async with client:
                queue = BuildQueue(client, "q")
                await asyncio.gather(*(queue.enqueue(Build(n, f"job-{n}")) for n in range(1, 51)))
                assert len(await queue.list()) == 50

    asyncio.run(scenario())
