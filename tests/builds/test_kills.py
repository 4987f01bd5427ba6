"""SIGKILL of workers and of the server, at random: every build ends exactly once.

`make test` goes through a few kills, `make faults` through many.
"""

import asyncio
import random
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast
from holdfast.builds import Build, BuildQueue, State
from tests.harness import HoldfastServer
from tests.harness.cluster import free_port_below

WORKERS = 4
PROGRAM = str(Path(__file__).with_name("worker_process.py"))


class Workers:
    """Processes that are started again when they were killed."""

    def __init__(self, rng: random.Random, url: str, folder: Path) -> None:
        self._rng = rng
        self._url = url
        self.file = folder / "effects"
        self.processes = [self._start() for _ in range(WORKERS)]

    def _start(self) -> subprocess.Popen[bytes]:
        seed = str(self._rng.getrandbits(32))
        return subprocess.Popen([sys.executable, PROGRAM, self._url, str(self.file), seed])

    def kill_one(self) -> None:
        n = self._rng.randrange(WORKERS)
        self._kill(self.processes[n])
        self.processes[n] = self._start()

    def stop(self) -> None:
        for process in self.processes:
            self._kill(process)

    def _kill(self, process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.wait()


def builds(rng: random.Random, count: int) -> list[Build]:
    """Twenty jobs that wait for themselves and for each other. None collapses: each must run."""
    jobs = [f"job-{n}" for n in range(20)]
    blocked_by = {job: rng.sample(jobs, rng.choice([0, 0, 1, 2])) for job in jobs}
    chosen = [rng.choice(jobs) for _ in range(count)]
    return [
        Build(n, job, blocked_by=blocked_by[job], retries=1_000_000, backoff_s=0)
        for n, job in enumerate(chosen, 1)
    ]


async def ended(queue: BuildQueue) -> int | None:
    """None while the server is away."""
    try:
        stats = await queue.stats()
    except holdfast.HoldfastError:
        return None
    return sum(count for state, count in stats.by_state.items() if state.is_final)


async def survive(rng: random.Random, server: HoldfastServer, folder: Path, kills: int) -> None:
    url = f"redis://127.0.0.1:{server.port}"
    async with holdfast.connect(url) as client:
        queue = BuildQueue(client)
        todo = builds(rng, 500)
        for build in todo:
            await queue.enqueue(build)
        moments = sorted(rng.sample(range(len(todo)), kills))
        workers = Workers(rng, url, folder)
        try:
            while (count := await ended(queue)) != len(todo):
                if count is not None and moments and count >= moments[0]:
                    moments.pop(0)
                    if rng.random() < 0.3:
                        server.kill()
                        await asyncio.to_thread(server.start)
                    else:
                        workers.kill_one()
                else:
                    await asyncio.sleep(0.01)
        finally:
            workers.stop()
        await verify(queue, todo, workers.file.read_text())


async def verify(queue: BuildQueue, todo: list[Build], effects: str) -> None:
    begun: dict[int, list[int]] = {}
    finished: set[tuple[int, int]] = set()
    for line in effects.splitlines():
        number, token, what = line.split()
        if what == "begin":
            begun.setdefault(int(number), []).append(int(token))
        else:
            finished.add((int(number), int(token)))
    tokens = [token for of_build in begun.values() for token in of_build]
    assert len(tokens) == len(set(tokens)), "two attempts had one token"
    for build in todo:
        assert build.id is not None
        record = await queue.get(build.id)
        assert record is not None
        assert record.state is State.SUCCESS, record
        assert record == await queue.replay(build.id)
        names = [event.name for event in await queue.events(build.id)]
        assert names.count("BuildCompleted") == 1
        assert record.token is not None
        assert (build.id, record.token) in finished, "it ended without having run to its end"
        assert max(begun[build.id]) == record.token, "an older attempt ended it"


def run(rng: random.Random, folder: Path, kills: int) -> None:
    # Not a port that the kernel could give to another process while the server is away.
    server = HoldfastServer(folder / "server", "--port", str(free_port_below(20_000)))
    with server:
        asyncio.run(survive(rng, server, folder, kills))


@pytest.mark.timeout(600)
def test_kills_lose_no_build_and_end_none_twice(rng: random.Random, tmp_path: Path) -> None:
    run(rng, tmp_path, kills=6)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(8))
def test_many_kills(part: int, rng: random.Random, tmp_path: Path) -> None:
    run(rng, tmp_path, kills=60)
