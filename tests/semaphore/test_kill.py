"""Workers are killed with SIGKILL while they contend: exclusion holds, and slots come back."""

import asyncio
import multiprocessing
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast.semaphore import Semaphore
from tests.harness import HoldfastServer, RedisServer, wait_until
from tests.harness.processes import ServerProcess
from tests.semaphore.workers import LIMIT, most_at_once, read_ledger, work

WORKERS = 8


def check_workers(
    server: ServerProcess, folder: Path, rng: random.Random, heartbeat_s: float, kills: int
) -> None:
    url = f"redis://127.0.0.1:{server.port}"
    ledger = folder / "ledger"
    ledger.touch()
    context = multiprocessing.get_context("forkserver")  # imports once, then forks
    context.set_forkserver_preload(["tests.semaphore.workers"])
    killed_s: dict[int, float] = {}

    def start() -> multiprocessing.process.BaseProcess:
        args = (url, str(ledger), heartbeat_s, rng.getrandbits(32))
        process = context.Process(target=work, args=args, daemon=True)
        process.start()
        return process

    def kill(process: multiprocessing.process.BaseProcess) -> None:
        process.kill()
        process.join()
        assert process.pid is not None
        killed_s[process.pid] = time.monotonic()

    workers = [start() for _ in range(WORKERS)]
    try:
        for _ in range(kills):
            more = ledger.stat().st_size + rng.randint(1, 3000)
            wait_until(lambda more=more: ledger.stat().st_size > more, "they go on", 120)  # type: ignore[misc]
            victim = rng.randrange(WORKERS)
            kill(workers[victim])
            workers[victim] = start()
    finally:
        for worker in workers:
            kill(worker)
    asyncio.run(take_all(url, heartbeat_s))
    holds = read_ledger(ledger)
    assert len(holds) > kills
    assert most_at_once(holds, killed_s) <= LIMIT


async def take_all(url: str, heartbeat_s: float) -> None:
    """All are dead now: all slots come back when their last heartbeat is that old."""
    async with holdfast.connect(url) as client:
        semaphore = Semaphore(client, "s", LIMIT, heartbeat_max_interval_s=heartbeat_s)
        start_s, _ = await client.time()
        for _ in range(LIMIT):
            await semaphore.acquire()
        end_s, _ = await client.time()
        assert end_s - start_s <= heartbeat_s + 30  # the machine may be busy


@pytest.fixture(params=[RedisServer, HoldfastServer])
def own_server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ServerProcess]:
    with request.param(tmp_path / "server") as server:
        yield server


@pytest.mark.timeout(300)  # many processes on a machine that may be busy
def test_workers_that_are_killed(
    own_server: ServerProcess, tmp_path: Path, rng: random.Random
) -> None:
    check_workers(own_server, tmp_path, rng, heartbeat_s=1, kills=6)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_workers_that_are_killed_for_a_minute(
    own_server: ServerProcess, tmp_path: Path, rng: random.Random
) -> None:
    check_workers(own_server, tmp_path, rng, heartbeat_s=2, kills=40)
