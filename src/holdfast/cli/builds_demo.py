"""`holdfast builds demo`: thirty builds of eight jobs, on an engine in this process.

Each line of the output is an event of the queue.
"""

import asyncio
import logging
import random
import time
from typing import Any

from holdfast import connect
from holdfast.builds import Build, BuildFailed, BuildQueue, Run, Worker
from holdfast.builds.build_events import Event
from holdfast.cli.builds_view import BuildsView

# The settings of each job; `s` is the time that its handler takes, in seconds.
JOBS: dict[str, dict[str, Any]] = {
    "compile": {"s": 0.3},
    "lint": {"s": 0.2, "blocked_by_self": False},
    "test": {"s": 0.4, "blocked_by": ["compile"]},
    "integration": {"s": 0.5, "blocked_by": ["compile", "test"]},
    "docs": {"s": 0.4, "collapse": True},
    "gate": {"s": 0, "blocked_by": ["integration", "lint"], "virtual": True},
    "staging": {"s": 0.4, "blocked_by": ["test", "production"], "collapse": True},
    "production": {"s": 0.5, "blocked_by": ["staging"], "collapse": True},
}
# Thirty builds; the builds of one line are enqueued together.
BURSTS = (
    ("compile", "lint", "test", "docs", "docs", "docs"),
    ("lint", "compile", "test", "integration", "staging"),
    ("compile", "integration", "gate", "staging", "production"),
    ("test", "lint", "docs", "staging"),
    ("compile", "test", "integration", "gate", "docs"),
    ("production", "staging", "lint", "gate", "production"),
)
HANGS, FLAKY, FAILS = 13, 7, 18  # special builds: integration, lint, lint
WORKERS = 4
LOOK_S = 0.05


async def demo(view: BuildsView, speed: float) -> int:
    rng = random.Random(1)
    logging.getLogger("holdfast.builds").setLevel(logging.ERROR)  # failures are shown as events

    async def handler(run: Run) -> None:
        if run.build_id == HANGS:
            await asyncio.Event().wait()
        if run.build_id == FLAKY and run.attempt == 1:
            raise OSError("no machine is free")
        if run.build_id == FAILS:
            raise BuildFailed("7 problems")
        await asyncio.sleep(JOBS[run.job_id]["s"] * rng.uniform(0.5, 1.5) / speed)

    started_s = time.monotonic()
    async with connect("memory://") as client:
        queue = BuildQueue(client)
        story = Story(queue, view)
        async with Worker(queue, handler, concurrency=WORKERS):
            coming = asyncio.create_task(_enqueue(queue, speed))
            while not coming.done() or (await queue.stats()).unfinished:
                await story.go_on()
                await asyncio.sleep(LOOK_S / speed)
            await coming
        await story.go_on()
        records = await queue.list()
        print(f"\n{view.table(reversed(records), time.time_ns() // 1_000_000)}")
        print(f"\n{view.stats(await queue.stats())}")
        same = [await queue.replay(record.id) == record for record in records]
    print(f"{sum(same)} of {len(same)} records are the same as their events give")
    print(f"took {time.monotonic() - started_s:.1f} s")
    return 0 if all(same) else 1


async def _enqueue(queue: BuildQueue, speed: float) -> None:
    number = 0
    for burst in BURSTS:
        builds = []
        for job in burst:
            number += 1
            settings = {name: value for name, value in JOBS[job].items() if name != "s"}
            if number == HANGS:
                settings["timeout_min"] = 0.02 / speed
            builds.append(Build(number, job, **settings, backoff_s=0.3 / speed))
        await asyncio.gather(*map(queue.enqueue, builds))
        await asyncio.sleep(0.4 / speed)


class Story:
    """Prints all events of all builds, one in each line."""

    def __init__(self, queue: BuildQueue, view: BuildsView) -> None:
        self._queue = queue
        self._view = view
        self._told: dict[int, int] = {}  # by build: the number of printed events
        self._first_ms: int | None = None

    async def go_on(self) -> None:
        new: list[tuple[int, str, Event]] = []
        for record in reversed(await self._queue.list()):
            events = await self._queue.events(record.id)
            told = self._told.get(record.id, 0)
            new += [(record.id, record.job_id, event) for event in events[told:]]
            self._told[record.id] = len(events)
        for build, job, event in sorted(new, key=lambda item: item[2].at_ms):
            self._first_ms = self._first_ms or event.at_ms
            at_s = (event.at_ms - self._first_ms) / 1000
            why = f"{event.fields.get('reason', '')} {event.fields.get('blockers', '')}"
            state = self._view.state(event.state, 9)
            print(f"{at_s:5.2f}  build {build:2}  {job:12}{state}  {why}".rstrip(), flush=True)
