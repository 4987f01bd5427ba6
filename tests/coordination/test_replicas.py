"""The option `replicas`: an acquisition and a build count once replicas have them."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import redis.asyncio

import holdfast
from holdfast import Build, BuildQueue, Lock, Semaphore
from holdfast.client.errors import ClientError, NotReplicatedError, ServerError
from tests.harness import HoldfastServer, RedisServer
from tests.harness.processes import ServerProcess
from tests.server.primary.following import follow
from tests.server.replica.test_with_sentinel import Crew, Ledger, check, crew, fail_over

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(180)]

Connect = Callable[[int], Any]


@pytest.fixture(params=[HoldfastServer, RedisServer], ids=["holdfast", "redis"])
def primary(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ServerProcess]:
    with request.param(tmp_path / "primary") as server:
        yield server


@pytest.fixture
def replica(primary: ServerProcess, tmp_path: Path) -> Iterator[ServerProcess]:
    with HoldfastServer(tmp_path / "replica") as server:
        follow(primary, server)
        yield server


@asynccontextmanager
async def ours(port: int) -> AsyncIterator[Any]:
    async with holdfast.connect(f"redis://127.0.0.1:{port}") as client:
        yield client


@asynccontextmanager
async def theirs(port: int) -> AsyncIterator[Any]:
    async with redis.asyncio.Redis(port=port) as client:
        yield client


@pytest.fixture(params=[ours, theirs], ids=["ours", "redis-py"])
def connect(request: pytest.FixtureRequest) -> Connect:
    found: Connect = request.param
    return found


def test_the_replica_has_an_acquisition_before_its_holder(
    primary: ServerProcess, replica: ServerProcess, connect: Connect
) -> None:
    async def scenario() -> None:
        async with connect(primary.port) as client:
            semaphore = Semaphore(client, "s", 2, replicas=1, replicas_timeout_s=20)
            there = replica.client()
            for _ in range(20):
                first, second = await asyncio.gather(semaphore.acquire(), semaphore.acquire())
                token = max(first.fencing_token, second.fencing_token)
                reply = there.command("GET", "adv-sem:semaphore_token:{s}").split(b"\r\n")[1]
                assert int(reply) >= token
                await semaphore.release(first)
                await semaphore.release(second)
            await semaphore.close()

    asyncio.run(scenario())


def test_without_replicas_a_slot_is_given_back(primary: ServerProcess, connect: Connect) -> None:
    async def scenario() -> None:
        async with connect(primary.port) as client:
            semaphore = Semaphore(client, "s", 1, replicas=1, replicas_timeout_s=0.01)
            with pytest.raises(NotReplicatedError, match="0 of 1 replicas"):
                await semaphore.acquire()
            assert await semaphore.count() == 0
            patient = Lock(client, "l", replicas=1, replicas_timeout_s=0.01, max_acquire_time_s=0.3)
            with pytest.raises(TimeoutError, match="0 of 1 replicas"):
                await patient.acquire()
            await patient.close(5)  # it waits for the release
            assert await patient.count() == 0
            await semaphore.close()
            await patient.close()

    asyncio.run(scenario())


def test_the_replica_has_a_build_before_its_user(
    primary: ServerProcess, replica: ServerProcess, connect: Connect
) -> None:
    async def scenario() -> None:
        async with connect(primary.port) as client, ours(replica.port) as there:
            queue = BuildQueue(client, replicas=1, replicas_timeout_s=20)
            copy = BuildQueue(there)
            for number in range(1, 11):
                await queue.enqueue(Build(number, "job"))
                assert await copy.get(number) is not None
                claimed = await queue.claim("worker", 60)
                record = await copy.get(number)
                assert record is not None
                assert record.token == claimed.token
                await queue.complete(number, token=claimed.token)

    asyncio.run(scenario())


def test_without_replicas_a_build_says_so(primary: ServerProcess, connect: Connect) -> None:
    async def scenario() -> None:
        async with connect(primary.port) as client:
            queue = BuildQueue(client, replicas=1, replicas_timeout_s=0.01)
            with pytest.raises(NotReplicatedError):
                await queue.enqueue(Build(1, "job"))
            assert await queue.get(1) is not None

    asyncio.run(scenario())


@pytest.mark.parametrize(("count", "timeout_s"), [(-1, 1), (True, 1), ("1", 1), (1, 0), (1, "x")])
def test_nonsense_is_refused(count: Any, timeout_s: Any) -> None:
    with pytest.raises(ValueError, match="replicas"):
        Semaphore(object(), "s", 1, replicas=count, replicas_timeout_s=timeout_s)


@pytest.mark.slow
def test_fencing_tokens_never_go_back_in_a_failover(tmp_path: Path) -> None:
    """Two tasks pass a lock to each other, while the primary dies and another server takes over."""

    async def hold(lock: Lock, tokens: list[int], is_over: asyncio.Event) -> None:
        while not is_over.is_set():
            try:
                acquisition = await lock.acquire()
                tokens.append(acquisition.fencing_token)
                await lock.release(acquisition)
            except (ClientError, ServerError, TimeoutError):
                await asyncio.sleep(0.02)

    async def scenario(found: Crew) -> None:
        tokens: list[int] = []
        is_over = asyncio.Event()
        async with holdfast.connect(found.url) as client:
            lock = Lock(client, "l", replicas=2, max_acquire_time_s=30, heartbeat_max_interval_s=5)
            holders = [asyncio.create_task(hold(lock, tokens, is_over)) for _ in range(2)]
            with Ledger(found) as ledger:
                await asyncio.to_thread(fail_over, found, ledger, signal.SIGKILL)
            before = len(tokens)
            while len(tokens) < before + 10:  # noqa: ASYNC110 - the holders have no event
                await asyncio.sleep(0.02)
            is_over.set()
            await asyncio.gather(*holders)
            await lock.close(5)
            check(found, ledger)
        assert tokens == sorted(set(tokens))
        assert len(tokens) > 10

    with crew(tmp_path) as found:
        asyncio.run(scenario(found))
