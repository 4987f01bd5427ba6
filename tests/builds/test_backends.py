"""The queue and its workers on clients that others wrote, also on a cluster."""

import asyncio

import pytest
from redis.asyncio import Redis, RedisCluster
from valkey.asyncio import Valkey

from holdfast.builds import Build, BuildQueue, Run, State, Worker
from tests.builds.conftest import all_ended
from tests.harness.cluster import Nodes


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
