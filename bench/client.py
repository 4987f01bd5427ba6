"""Our client beside others from PyPI, against one redis-server, in one run.

    python bench/client.py [--python PATH] [--rounds N] [--seconds S] [--libraries a,b]

Every library runs in a process of its own, on uvloop. The libraries take turns, so that noise
affects all of them alike. The table shows the medians of the rounds. Each library has one client,
which may open as many connections as it likes. A library that is not installed for that Python is
left out, and the table says so.
"""

import argparse
import asyncio
import gc
import json
import statistics
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

TASKS = (1, 8, 32, 256)
PIPELINE = 100
IDLE_CLIENTS = 300
Call = Callable[[], Awaitable[Any]]


class Library(ABC):
    """The part of a client library that is measured: connect, three commands, a pipeline."""

    def __init__(self, port: int) -> None:
        self.port = port

    @abstractmethod
    async def connect(self) -> Any: ...

    @abstractmethod
    def pipeline(self, client: Any) -> Call: ...

    def calls(self, client: Any) -> dict[str, Call]:
        """The three commands. They are the same for all libraries."""
        return {
            "PING": client.ping,
            "SET": lambda: client.set("bench", "value"),
            "GET": lambda: client.get("bench"),
        }


class Holdfast(Library):
    async def connect(self) -> Any:
        import holdfast

        client = holdfast.connect(f"redis://127.0.0.1:{self.port}")
        await client.connect()
        return client

    def pipeline(self, client: Any) -> Call:
        from holdfast.client.protocol.request import Request

        def run() -> Awaitable[Any]:
            request = Request()
            for _ in range(PIPELINE):
                request.add("GET", "bench")
            awaitable: Awaitable[Any] = client.exec_dynamic(request, into=str)
            return awaitable

        return run


class RedisPy(Library):
    async def connect(self) -> Any:
        from redis.asyncio import Redis

        # By default its pool raises an error above 100 connections.
        client = Redis(
            host="127.0.0.1", port=self.port, decode_responses=True, max_connections=1024
        )
        await client.ping()
        return client

    def pipeline(self, client: Any) -> Call:
        async def run() -> None:
            pipeline = client.pipeline(transaction=False)
            for _ in range(PIPELINE):
                pipeline.get("bench")
            await pipeline.execute()

        return run


class Coredis(Library):
    async def connect(self) -> Any:
        from coredis import Redis

        client = Redis(
            host="127.0.0.1", port=self.port, decode_responses=True, max_connections=1024
        )
        if hasattr(client, "__aenter__"):
            await client.__aenter__()
        await client.ping()
        return client

    def pipeline(self, client: Any) -> Call:
        async def run() -> None:
            pipeline = client.pipeline(transaction=False)
            if not hasattr(pipeline, "execute"):
                pipeline = await pipeline
            for _ in range(PIPELINE):
                pipeline.get("bench")
            await pipeline.execute()

        async def run_in_context() -> None:
            async with client.pipeline(transaction=False) as pipeline:
                for _ in range(PIPELINE):
                    pipeline.get("bench")

        return run_in_context if self._needs_context() else run

    def _needs_context(self) -> bool:
        from coredis.pipeline import Pipeline

        return hasattr(Pipeline, "__aenter__") and not hasattr(Pipeline, "__await__")


class Glide(Library):
    async def connect(self) -> Any:
        from glide import (
            GlideClient,
            GlideClientConfiguration,
            NodeAddress,
        )

        config = GlideClientConfiguration([NodeAddress("127.0.0.1", self.port)])
        return await GlideClient.create(config)

    def pipeline(self, client: Any) -> Call:
        from glide import Batch

        def run() -> Awaitable[Any]:
            batch = Batch(is_atomic=False)
            for _ in range(PIPELINE):
                batch.get("bench")
            awaitable: Awaitable[Any] = client.exec(batch, raise_on_error=True)
            return awaitable

        return run


LIBRARIES: dict[str, type[Library]] = {
    "holdfast": Holdfast,
    "redis-py": RedisPy,
    "coredis": Coredis,
    "valkey-glide": Glide,
}


# -- in the process of one library ------------------------------------------------------------


Figures = tuple[float, float, float]


async def measure(call: Call, tasks: int, seconds: float, weight: int) -> Figures:
    """Operations per second, 99th percentile of a call in ms, µs of CPU per operation.

    The CPU time is that of all threads of the process. It hardly depends on other processes.
    """
    latencies: list[float] = []
    end_s = time.perf_counter() + seconds

    async def caller() -> None:
        now_s = time.perf_counter()
        while True:  # at least one call, even after the end
            before_s = now_s
            await call()
            now_s = time.perf_counter()
            latencies.append(now_s - before_s)
            if now_s >= end_s:
                break

    start_s, start_cpu_s = time.perf_counter(), time.process_time()
    await asyncio.gather(*(caller() for _ in range(tasks)))
    taken_s, cpu_s = time.perf_counter() - start_s, time.process_time() - start_cpu_s
    latencies.sort()
    count = weight * len(latencies)
    return count / taken_s, latencies[int(len(latencies) * 0.99)] * 1e3, cpu_s / count * 1e6


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


async def work(library: Library, seconds: float) -> dict[str, Any]:
    client = await library.connect()
    calls = library.calls(client)
    await calls["SET"]()
    await measure(calls["GET"], 8, 0.3, 1)  # warm
    idle = [await library.connect() for _ in range(20)]  # the first clients cost more
    gc.collect()
    before = resident_bytes()
    idle += [await library.connect() for _ in range(IDLE_CLIENTS)]
    gc.collect()
    result: dict[str, Any] = {"idle": (resident_bytes() - before) / IDLE_CLIENTS}
    for tasks in TASKS:
        for name, call in calls.items():
            result[f"{name} {tasks}"] = await measure(call, tasks, seconds, 1)
    for tasks in (1, 8):
        pipeline = library.pipeline(client)
        result[f"{PIPELINE}×GET {tasks}"] = await measure(pipeline, tasks, seconds, PIPELINE)
    return result


def run_worker(name: str, port: int, seconds: float) -> None:
    import os

    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        result = runner.run(work(LIBRARIES[name](port), seconds))
        print(json.dumps(result), flush=True)
        os._exit(0)  # closing a hundred clients is not measured


# -- the comparison ---------------------------------------------------------------------------


def compare(python: str, names: list[str], rounds: int, seconds: float) -> None:
    from bench.common import machine, say, workplace
    from tests.harness import RedisServer

    results: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    with workplace() as folder, RedisServer(folder / "redis") as server:
        for number in range(rounds):
            for name in names:
                say(f"round {number + 1} of {rounds}: {name}")
                argv = [python, __file__, "--worker", name, "--port", str(server.port)]
                argv += ["--seconds", str(seconds)]
                done = subprocess.run(argv, capture_output=True, text=True, check=False)
                if done.returncode == 0:
                    results[name].append(json.loads(done.stdout.splitlines()[-1]))
                else:
                    say(f"{name} did not run: {done.stderr.strip().splitlines()[-1:]}")
    print(json.dumps(machine()))
    show({name: runs for name, runs in results.items() if runs})
    for name in names:
        if not results[name]:
            print(f"{name}: not installed, or it failed")


def show(results: dict[str, list[dict[str, Any]]]) -> None:
    """Print operations per second, p99 and CPU, and our ratio to the best of the others."""
    names = list(results)
    rows = [key for key in results[names[0]][0] if key != "idle"]
    print("Operations/s (p99 of a call in ms; µs of CPU per operation), medians.\n")
    print("| command, tasks | " + " | ".join(names) + " | ours : best other | CPU, best : ours |")
    print("|---|" + "---:|" * (len(names) + 2))
    for row in rows:
        figures = {
            name: [statistics.median(run[row][n] for run in runs) for n in range(3)]
            for name, runs in results.items()
        }
        cells = [f"{rate:,.0f} ({p99:.2f}; {cpu:.1f})" for rate, p99, cpu in figures.values()]
        others = [figures[name] for name in names if name != "holdfast"]
        if "holdfast" in figures and others:
            rate, _, cpu = figures["holdfast"]
            cells.append(f"{rate / max(other[0] for other in others):.2f}")
            cells.append(f"{min(other[2] for other in others) / cpu:.2f}")
        print(f"| {row} | " + " | ".join(cells) + " |")
    idle = [statistics.median(run["idle"] for run in results[name]) / 1024 for name in names]
    print("| KiB per idle client | " + " | ".join(f"{kib:.0f}" for kib in idle) + " | | |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--python", default=sys.executable, help="the Python with the libraries")
    parser.add_argument("--libraries", default=",".join(LIBRARIES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.5, help="for each figure")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        run_worker(options.worker, options.port, options.seconds)
    else:
        sys.path.insert(0, str(Path(__file__).parent.parent))
        compare(options.python, options.libraries.split(","), options.rounds, options.seconds)


if __name__ == "__main__":
    main()
