"""`make bench-builds`: the build queue on redis-server and on Holdfast, in one run.

Both servers run all the time, at the same durability, and take turns round by round. The table
shows the medians of the rounds. A decision is a start or an end of a build. Latency is the time
from the call that ends a build to the first line of the handler of the build that it blocked. It
is shown in round trips, in ms, and as a multiple of the median time of a SET, which waits for the
disk as these calls do.
"""

import argparse
import asyncio
import json
import time
from collections.abc import Awaitable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles

import uvloop

import holdfast
from bench.common import fail, holdfast_server, machine, redis_server, say, workplace
from holdfast.builds import Build, BuildQueue, Run, Worker
from holdfast.client import Client, Hooks, RequestStart
from tests.harness.processes import ServerProcess

POLICIES = ("always", "everysec", "no")
LEASE_S = 600.0
FEW = 10


@dataclass(frozen=True)
class Sizes:
    builds: int  # for each figure
    latencies: int
    waiting: int


FULL = Sizes(builds=2000, latencies=300, waiting=10_000)
SMOKE = Sizes(builds=40, latencies=20, waiting=200)


@dataclass
class Figures:
    """The figures of all rounds on one server, by name."""

    rounds: dict[str, list[float]] = field(default_factory=dict)

    def add(self, name: str, value: float) -> None:
        self.rounds.setdefault(name, []).append(value)

    def medians(self) -> dict[str, float]:
        return {name: median(values) for name, values in self.rounds.items()}


async def timed_s(work: Awaitable[object]) -> float:
    start_s = time.perf_counter()
    await work
    return time.perf_counter() - start_s


async def decide(queue: BuildQueue, workers: int, builds: int) -> None:
    """Workers claim and complete builds until that many builds are done."""
    left = builds

    async def work() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            said = await queue.claim("bench", LEASE_S)
            if said.build_id is None:
                fail("a build is missing")
            await queue.complete(said.build_id, token=said.token)

    await asyncio.gather(*(work() for _ in range(workers)))


async def throughput(client: Client, figures: Figures, sizes: Sizes) -> None:
    for workers in (1, 16):
        await client.exec("FLUSHALL")
        queue = BuildQueue(client)
        for n in range(1, sizes.builds + 1):
            await queue.enqueue(Build(n, f"job-{n}"))
        took_s = await timed_s(decide(queue, workers, sizes.builds))
        figures.add(f"decisions/s, {workers} worker{'s'[: workers - 1]}", 2 * sizes.builds / took_s)


class Waits(Hooks):
    """Notices when a worker begins to wait for builds, and counts its requests."""

    def __init__(self) -> None:
        self.waits = asyncio.Event()
        self.sent = 0

    def request_start(self, event: RequestStart) -> None:
        self.sent += 1
        name, *args = event.commands[0]
        if name == "BLPOP" and str(args[0]).endswith(":wake"):
            self.waits.set()


async def latency(client: Client, url: str, figures: Figures, sizes: Sizes) -> None:
    """One client ends builds; the idle worker of another client waits for the builds they block."""
    await client.exec("FLUSHALL")
    queue, hook = BuildQueue(client), Waits()
    started: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    async def handler(run: Run) -> None:
        started.set_result(time.perf_counter())
        # 1 for the call that ended the other build, and the calls of the worker
        counts.append(1 + hook.sent)

    counts: list[float] = []
    trips_s: list[float] = []
    took_s: list[float] = []
    async with (
        holdfast.connect(url, hooks=[hook]) as other,
        Worker(BuildQueue(other), handler, lease_s=LEASE_S),
    ):
        for n in range(1, 2 * sizes.latencies + 1, 2):
            await hook.waits.wait()
            await queue.enqueue(Build(n, "before", delay_s=LEASE_S))
            await queue.start(n)
            await queue.enqueue(Build(n + 1, "after", blocked_by=["before"]))
            trips_s.append(await timed_s(client.set("trip", "x")))
            hook.waits.clear()
            hook.sent = 0
            started = asyncio.get_running_loop().create_future()
            ended_s = time.perf_counter()
            await queue.complete(n)
            took_s.append(await started - ended_s)
    for name, of in (("p50", median), ("p99", lambda values: quantiles(values, n=100)[98])):
        figures.add(f"blocked to started, {name}, round trips", of(counts))
        figures.add(f"blocked to started, {name}, ms", 1000 * of(took_s))
        figures.add(f"blocked to started, {name}, times a SET", of(took_s) / median(trips_s))


async def depth(client: Client, figures: Figures, sizes: Sizes) -> None:
    """The same decisions about a job with few waiting builds and about one with many. Each build
    that leaves is replaced, so their number stays the same."""
    costs_ms = []
    for waiting in (FEW, sizes.waiting):
        await client.exec("FLUSHALL")
        queue = BuildQueue(client)
        for first in range(1, waiting + 1, FEW):
            some = range(first, min(first + FEW, waiting + 1))
            await asyncio.gather(*(queue.enqueue(Build(n, "one")) for n in some))
        took_s = []
        for n in range(waiting + 1, waiting + 1 + sizes.latencies):
            took_s.append(await timed_s(decide(queue, 1, 1)))
            await queue.enqueue(Build(n, "one"))
        costs_ms.append(1000 * median(took_s) / 2)
    figures.add(f"a decision with {FEW} waiting, ms", costs_ms[0])
    figures.add(f"a decision with {sizes.waiting:,} waiting, ms", costs_ms[1])
    figures.add("the second in units of the first", costs_ms[1] / costs_ms[0])


async def one_round(server: ServerProcess, figures: Figures, sizes: Sizes) -> None:
    url = f"redis://127.0.0.1:{server.port}"
    async with holdfast.connect(url) as client:
        await throughput(client, figures, sizes)
        await latency(client, url, figures, sizes)
        await depth(client, figures, sizes)


def measure(folder: Path, policy: str, rounds: int, sizes: Sizes) -> dict[str, dict[str, float]]:
    figures = {"holdfast": Figures(), "redis": Figures()}
    with ExitStack() as stack:
        servers: dict[str, ServerProcess] = {
            "holdfast": stack.enter_context(holdfast_server(folder, "--appendfsync", policy)),
            "redis": stack.enter_context(redis_server(folder, policy)),
        }
        for number in range(1, rounds + 1):
            for name, server in servers.items():
                say(f"round {number} of {rounds}: {name}")
                uvloop.run(one_round(server, figures[name], sizes))
    return {name: each.medians() for name, each in figures.items()}


def table(results: dict[str, dict[str, float]]) -> str:
    ours, theirs = results["holdfast"], results["redis"]
    width = max(map(len, ours))
    lines = [f"{'':{width}}  {'Holdfast':>10}  {'redis':>10}"]
    lines += [f"{name:{width}}  {ours[name]:10,.2f}  {theirs[name]:10,.2f}" for name in ours]
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="bench-builds", description=__doc__)
    parser.add_argument("--policy", choices=POLICIES, default="always", help="appendfsync")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--smoke", action="store_true", help="only check that it works")
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    args = parser.parse_args(argv)
    with workplace() as folder:
        results = measure(folder, args.policy, args.rounds, SMOKE if args.smoke else FULL)
    print(f"build queue, appendfsync {args.policy}\n{table(results)}")
    if args.json:
        args.json.write_text(json.dumps({"machine": machine(), **results}, indent=2) + "\n")


if __name__ == "__main__":
    main()
