"""redis-py, unmodified, blocking and asyncio: the building blocks of users' programs.

Its pub/sub, its cache and its scripts have files of their own.
"""

import asyncio
import contextlib
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio

from tests.harness import HoldfastServer, wait_until
from tests.harness.processes import SteadyServer

JOBS = 300
# How redis-py says that the server is away: while a command is sent, and while one waits.
AWAY = (redis.ConnectionError, redis.TimeoutError)


@pytest.fixture(params=[2, 3], ids=["resp2", "resp3"])
def client(server: HoldfastServer, request: pytest.FixtureRequest) -> Iterator[Any]:
    with redis.Redis(port=server.port, protocol=request.param, decode_responses=True) as client:
        client.flushall()
        yield client


def test_a_pipeline_is_a_transaction_that_watches(client: Any) -> None:
    def double(pipeline: Any) -> None:
        value = int(pipeline.get("n"))
        if value == 1:
            client.set("n", 5)  # another client is faster, once
        pipeline.multi()
        pipeline.set("n", value * 2)
        pipeline.incr("times")

    client.set("n", 1)
    assert client.transaction(double, "n") == [True, 1]
    assert client.mget("n", "times") == ["10", "1"]
    with client.pipeline(transaction=False) as pipeline:
        pipeline.set("s", "x").lpush("s", "y").hset("h", mapping={"a": 1, "b": 2}).hgetall("h")
        replies = pipeline.execute(raise_on_error=False)
    assert replies[0] is True
    assert isinstance(replies[1], redis.ResponseError)
    assert replies[2:] == [2, {"a": "1", "b": "2"}]


def test_iterators_of_scans_see_everything_once(client: Any) -> None:
    names = {f"name:{number}" for number in range(1000)}
    client.mset(dict.fromkeys(names, "x"))
    client.sadd("set", *names)
    client.hset("hash", mapping=dict.fromkeys(names, "x"))
    client.zadd("zset", dict.fromkeys(names, 1.5))
    assert sorted(client.scan_iter(match="name:*", count=77)) == sorted(names)
    assert sorted(client.scan_iter(_type="ZSET")) == ["zset"]
    assert sorted(client.sscan_iter("set", count=77)) == sorted(names)
    assert dict(client.hscan_iter("hash", count=77)) == dict.fromkeys(names, "x")
    assert dict(client.zscan_iter("zset", count=77)) == dict.fromkeys(names, 1.5)


def test_values_come_back_as_the_types_they_are(client: Any) -> None:
    client.zadd("z", {"a": 1, "b": 2.5})
    client.geoadd("places", (13.361389, 38.115556, "Palermo"))
    client.pfadd("hll", *range(100))
    client.hset("h", "field", "x")
    with client.pipeline() as pipeline:
        pipeline.zscore("z", "b").zrank("z", "b").geodist("places", "Palermo", "Palermo")
        pipeline.pfcount("hll").hexpire("h", 100, "field").bitcount("h2").object("encoding", "h")
        assert pipeline.execute()[:4] == [2.5, 1, 0.0, 100]
    assert client.httl("h", "field") == [100]
    assert client.info("server")["redis_mode"] == "standalone"
    assert client.command_count() > 200
    assert client.client_id() in [int(row["id"]) for row in client.client_list()]


def test_a_consumer_group(client: Any) -> None:
    client.xgroup_create("stream", "group", id="0", mkstream=True)
    ids = [client.xadd("stream", {"n": number}) for number in range(3)]
    assert len(_entries(client.xreadgroup("group", "one", {"stream": ">"}, count=2))) == 2
    assert client.xack("stream", "group", ids[0]) == 1
    assert client.xpending("stream", "group")["pending"] == 1
    assert client.xpending_range("stream", "group", "-", "+", 10)[0]["consumer"] == "one"
    _, claimed, _ = client.xautoclaim("stream", "group", "other", min_idle_time=0)
    assert [name for name, _ in claimed] == [ids[1]]
    assert client.xinfo_groups("stream")[0]["lag"] == 1


def test_a_consumer_group_with_the_commands_of_redis_8(client: Any) -> None:
    first = client.xadd("stream", {"n": 1}, idmp=("producer", "1"))
    assert client.xadd("stream", {"n": 1}, idmp=("producer", "1")) == first
    second = client.xadd("stream", {"n": 2}, idmpauto="producer")
    assert client.xcfgset("stream", idmp_duration=50)
    described = client.xinfo_stream("stream")
    assert (described["idmp-duration"], described["iids-duplicates"]) == (50, 1)
    client.xgroup_create("stream", "group", id="0")
    read = client.xreadgroup("group", "one", {"stream": ">"}, max_count=1)
    assert _entries(read) == [(first, {"n": "1"})]
    assert client.xnack("stream", "group", "FAIL", first) == 1
    [pending] = client.xpending_range("stream", "group", "-", "+", 10)
    assert (pending["consumer"], pending["time_since_delivered"]) == ("", -1)
    read = client.xreadgroup("group", "two", {"stream": ">"}, claim_min_idle_time=60_000)
    assert [(entry[0], entry[3]) for entry in _entries(read)] == [(first, 1), (second, 0)]
    assert client.xackdel("stream", "group", first, ref_policy="ACKED") == [1]
    assert client.xtrim("stream", maxlen=0, approximate=False, ref_policy="ACKED") == 0
    assert client.xdelex("stream", second, ref_policy="DELREF") == [1]
    assert client.xpending("stream", "group")["pending"] == 0


def _entries(reply: Any) -> list[Any]:
    """Of one stream; the two protocols' replies differ in shape."""
    if isinstance(reply, dict):
        return [entry for (entries,) in reply.values() for entry in entries]
    return [entry for _, entries in reply for entry in entries]


async def _lock_and_unlock(port: int) -> None:
    async with redis.asyncio.Redis(port=port) as client:
        inside = 0

        async def enter() -> None:
            nonlocal inside
            async with client.lock("lock", timeout=60, sleep=0.001):
                assert inside == 0
                inside += 1
                await client.ping()
                inside -= 1

        await asyncio.gather(*(enter() for _ in range(8)))
        assert await client.exists("lock") == 0


def test_a_lock_lets_in_one_task_at_a_time(server: HoldfastServer) -> None:
    asyncio.run(_lock_and_unlock(server.port))


# -- a queue of one's own, while the server is killed -----------------------------------------


def crash_in_the_middle(server: HoldfastServer, done: set[int]) -> None:
    for count in (JOBS // 4, JOBS // 2):
        wait_until(lambda: len(done) >= count, "jobs are done", 60)  # noqa: B023 - it ends here
        server.kill()
        server.start()


# Moves jobs whose time has come from the sorted set to the list.
DUE = """
    local due = redis.call('zrangebyscore', KEYS[1], '-inf', ARGV[1])
    for _, job in ipairs(due) do
        redis.call('zrem', KEYS[1], job)
        redis.call('lpush', KEYS[2], job)
    end
    return #due
"""


class ListQueue:
    """With threads: a list, a list of running jobs, and a sorted set of delayed jobs."""

    def __init__(self, port: int) -> None:
        self.client: Any = redis.Redis(port=port)
        self._due = self.client.register_script(DUE)
        self.tries: list[int] = []
        self.done: set[int] = set()
        self.enqueued: set[int] = set()

    def produce(self) -> None:
        for number in range(JOBS):
            self._insist(self._enqueue, number)
            self.enqueued.add(number)

    def _enqueue(self, number: int) -> None:
        if number % 3 == 1:
            self.client.zadd("later", {number: time.time() + 0.3})
        else:
            self.client.lpush("jobs", number)

    def work(self, name: str) -> None:
        mine = f"at-work:{name}"
        while len(self.done) < JOBS:
            self._insist(self._due, keys=["later", "jobs"], args=[time.time()])
            # Jobs that were moved by a command without a reply are still here.
            for job in self._insist(self.client.lrange, mine, 0, -1):
                self._do(mine, job)
            if job := self._insist(self.client.blmove, "jobs", mine, 0.1, "RIGHT", "LEFT"):
                self._do(mine, job)

    def _do(self, mine: str, job: bytes) -> None:
        number = int(job)
        self.tries.append(number)
        if number % 3 == 2 and self.tries.count(number) == 1:  # it fails: once more, later
            self._insist(self._postpone, mine, number)
            return
        self._insist(self.client.lrem, mine, 1, number)
        self.done.add(number)

    def _postpone(self, mine: str, number: int) -> None:
        with self.client.pipeline() as pipeline:
            pipeline.lrem(mine, 1, number).zadd("later", {number: time.time() + 0.1}).execute()

    @staticmethod
    def _insist(attempt: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        while True:
            with contextlib.suppress(*AWAY):
                return attempt(*args, **kwargs)


@pytest.mark.timeout(120)
def test_no_job_of_a_list_is_lost_when_the_server_is_killed(tmp_path: Path) -> None:
    with SteadyServer(tmp_path / "server") as server:
        queue = ListQueue(server.port)
        threads = [threading.Thread(target=queue.produce, daemon=True)]
        threads += [
            threading.Thread(target=queue.work, args=(str(number),), daemon=True)
            for number in range(3)
        ]
        for thread in threads:
            thread.start()
        crash_in_the_middle(server, queue.done)
        for thread in threads:
            thread.join(60)
        assert queue.done == queue.enqueued == set(range(JOBS))
        assert queue.client.info("commandstats")["cmdstat_evalsha"]["calls"] > 0
        queue.client.close()


class StreamQueue:
    """With tasks: a stream and its group. Entries that are read and not acknowledged are claimed
    again."""

    def __init__(self, port: int) -> None:
        self._client: Any = redis.asyncio.Redis(port=port)
        self.tries: list[int] = []
        self.done: set[int] = set()
        self.enqueued: set[int] = set()

    async def prepare(self) -> None:
        await self._client.xgroup_create("stream", "group", id="0", mkstream=True)

    async def produce(self) -> None:
        for number in range(JOBS):
            await self._insist(self._client.xadd, "stream", {"n": number})
            self.enqueued.add(number)

    async def work(self, name: str) -> None:
        """First the pending entries, then new ones."""
        while len(self.done) < JOBS:
            for start in ("0", ">"):
                reply = await self._insist(
                    self._client.xreadgroup, "group", name, {"stream": start}, count=5, block=100
                )
                for entry_id, fields in _entries(reply):
                    await self._do(entry_id, int(fields[b"n"]))

    async def _do(self, entry_id: bytes, number: int) -> None:
        self.tries.append(number)
        if number % 3 == 2 and self.tries.count(number) == 1:
            return  # the job fails: it stays with this worker, which tries again
        await self._insist(self._client.xack, "stream", "group", entry_id)
        self.done.add(number)

    async def close(self) -> None:
        await self._client.aclose()

    @staticmethod
    async def _insist(attempt: Callable[..., Awaitable[Any]], *args: Any, **kwargs: Any) -> Any:
        while True:
            with contextlib.suppress(*AWAY):
                return await attempt(*args, **kwargs)


async def _work_on_a_stream(server: HoldfastServer) -> None:
    queue = StreamQueue(server.port)
    await queue.prepare()
    tasks = [asyncio.create_task(queue.produce())]
    tasks += [asyncio.create_task(queue.work(str(number))) for number in range(3)]
    await asyncio.to_thread(crash_in_the_middle, server, queue.done)
    await asyncio.gather(*tasks)
    assert queue.done == queue.enqueued == set(range(JOBS))
    await queue.close()


@pytest.mark.timeout(120)
def test_no_job_of_a_stream_is_lost_when_the_server_is_killed(tmp_path: Path) -> None:
    with SteadyServer(tmp_path / "server") as server:
        asyncio.run(_work_on_a_stream(server))
