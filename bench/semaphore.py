"""`make bench-semaphore`: the fair semaphore on redis-server and on Holdfast, in one run.

The unit is one PING round trip of the same client on the same loop, measured right before each
figure. So the figures mean the same on every machine. Each figure is the median of its rounds.

The ideal with 10 ms of work: 4 slots would let 400 pairs through in a second if a sleep of 10 ms
took 10 ms. But `asyncio.sleep(0.01)` takes up to a millisecond longer even without a semaphore,
and more on a busy machine. So the ideal is the rate of 4 tasks that only sleep, on the same loop,
measured right before. The share of the 400 is another line. A third line is the share of the time
in which slots were in use: asyncio rounds every wait up to a whole millisecond, again at each
event, so a sleep takes half a millisecond longer on a loop that has other events.
"""

import argparse
import asyncio
import json
import statistics
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import NamedTuple

from bench.common import ROOT, holdfast_server, machine, redis_server, say, workplace
from holdfast import connect
from holdfast.client import Client
from holdfast.semaphore import Semaphore

SLOTS = 4
WORK_S = 0.01


@dataclass
class Sizes:
    rounds: int = 7
    pairs: int = 300  # uncontended, per round
    tasks: int = 100
    contended: int = 2000  # pairs without work, per round
    working: int = 400  # pairs with work, per round
    handovers: int = 100  # per round


@dataclass
class Row:
    """One server. `_rt` counts PING round trips."""

    server: str
    ping_us: float
    pair_rt: float  # acquire and release, without contention
    sets_rt: float  # two SETs: the time of any two writes
    pairs_per_s: float  # 100 tasks for 4 slots, no work
    worst_wait_ms: float
    of_ideal: float  # with 10 ms of work, divided by the rate of 4 tasks that only work
    of_400: float  # with 10 ms of work, divided by the rate if sleeping were exact
    busy: float  # the share of the time in which slots were in use
    handover_p50_rt: float
    handover_p99_rt: float


class Figure(NamedTuple):
    """A line of the table. A negative aim is an upper limit."""

    title: str
    of: Callable[[Row], float]
    aim: float | None = None

    def is_met(self, value: float) -> bool:
        return self.aim is None or (value >= self.aim if self.aim > 0 else value <= -self.aim)

    @property
    def aim_text(self) -> str:
        if self.aim is None:
            return ""
        return f"≥ {self.aim:g}" if self.aim > 0 else f"≤ {-self.aim:g}"


FIGURES = (
    Figure("PING round trip, µs", lambda row: row.ping_us),
    Figure("uncontended acquire + release, round trips", lambda row: row.pair_rt, -2.5),
    Figure("  two plain SETs instead, round trips", lambda row: row.sets_rt),
    Figure("100 tasks, 4 slots, no work: pairs/s", lambda row: row.pairs_per_s, 1000),
    Figure("  worst wait, ms", lambda row: row.worst_wait_ms),
    Figure("  with 10 ms of work: % of ideal", lambda row: 100 * row.of_ideal, 90),
    Figure("  with 10 ms of work: % of 400/s", lambda row: 100 * row.of_400),
    Figure("  with 10 ms of work: % of the time worked", lambda row: 100 * row.busy),
    Figure("hand-over p50, round trips", lambda row: row.handover_p50_rt, -3),
    Figure("hand-over p99, round trips", lambda row: row.handover_p99_rt),
)


async def seconds(count: int, once: Callable[[], Awaitable[object]]) -> float:
    """The seconds of one call, if the calls follow each other."""
    start_s = time.perf_counter()
    for _ in range(count):
        await once()
    return (time.perf_counter() - start_s) / count


class Contention(NamedTuple):
    pairs_per_s: float
    worst_s: float  # the longest wait of a task
    busy: float  # the share of the time in which slots were in use


async def contend(semaphore: Semaphore, tasks: int, pairs: int, work_s: float) -> Contention:
    worst_s = worked_s = 0.0

    async def task() -> None:
        nonlocal worst_s, worked_s
        for _ in range(pairs // tasks):
            start_s = time.perf_counter()
            async with semaphore:
                got_s = time.perf_counter()
                worst_s = max(worst_s, got_s - start_s)
                if work_s:
                    await asyncio.sleep(work_s)
                worked_s += time.perf_counter() - got_s

    start_s = time.perf_counter()
    await asyncio.gather(*(task() for _ in range(tasks)))
    elapsed_s = time.perf_counter() - start_s
    return Contention(pairs // tasks * tasks / elapsed_s, worst_s, worked_s / (SLOTS * elapsed_s))


async def work_only(pairs: int, work_s: float) -> float:
    """The rate of as many tasks as there are slots, if they work without a semaphore."""

    async def task() -> None:
        for _ in range(pairs // SLOTS):
            await asyncio.sleep(work_s)

    start_s = time.perf_counter()
    await asyncio.gather(*(task() for _ in range(SLOTS)))
    return pairs // SLOTS * SLOTS / (time.perf_counter() - start_s)


async def handover(one: Semaphore, other: Semaphore) -> float:
    """The time from the call of release to the end of the wait of another task."""
    held = await one.acquire()
    released_s = 0.0

    async def wait() -> float:
        acquisition = await other.acquire()
        got_s = time.perf_counter()
        await other.release(acquisition)
        return got_s

    waiter = asyncio.create_task(wait())
    while not (await one.stats([one.name]))[0].waiting:
        pass
    released_s = time.perf_counter()
    await one.release(held)
    return await waiter - released_s


async def measure(name: str, one: Client, two: Client, sizes: Sizes) -> Row:
    samples: dict[str, list[float]] = defaultdict(list)
    alone = Semaphore(one, "alone", 1)
    many = Semaphore(one, "many", SLOTS)

    async def pair() -> None:
        await alone.release(await alone.acquire())

    async def sets() -> None:
        await one.set("alone", "1")
        await one.set("alone", "2")

    async def ping() -> float:
        return await seconds(sizes.pairs, one.ping)

    await seconds(20, pair)
    for _ in range(sizes.rounds):
        before_s = await ping()
        pair_s = await seconds(sizes.pairs, pair)
        sets_s = await seconds(sizes.pairs, sets)
        ping_s = (before_s + await ping()) / 2
        samples["ping"].append(ping_s)
        samples["pair"].append(pair_s / ping_s)
        samples["sets"].append(sets_s / ping_s)
        idle = await contend(many, sizes.tasks, sizes.contended, 0)
        samples["rate"].append(idle.pairs_per_s)
        samples["worst"].append(idle.worst_s)
        ideal = await work_only(sizes.working, WORK_S)
        working = await contend(many, sizes.tasks, sizes.working, WORK_S)
        samples["share"].append(working.pairs_per_s / ideal)
        samples["of 400"].append(working.pairs_per_s / (SLOTS / WORK_S))
        samples["busy"].append(working.busy)
        first, second = Semaphore(one, "relay", 1), Semaphore(two, "relay", 1)
        times = sorted([await handover(first, second) for _ in range(sizes.handovers)])
        ping_s = await ping()
        samples["p50"].append(statistics.median(times) / ping_s)
        samples["p99"].append(times[int(0.99 * len(times))] / ping_s)
    middle = {what: statistics.median(values) for what, values in samples.items()}
    return Row(
        server=name,
        ping_us=1e6 * middle["ping"],
        pair_rt=middle["pair"],
        sets_rt=middle["sets"],
        pairs_per_s=middle["rate"],
        worst_wait_ms=1e3 * max(samples["worst"]),
        of_ideal=middle["share"],
        of_400=middle["of 400"],
        busy=middle["busy"],
        handover_p50_rt=middle["p50"],
        handover_p99_rt=middle["p99"],
    )


async def measure_at(name: str, port: int, sizes: Sizes) -> Row:
    url = f"redis://127.0.0.1:{port}"
    async with connect(url) as one, connect(url) as two:
        return await measure(name, one, two, sizes)


def table(rows: list[Row]) -> str:
    """The table: a column for each server, a line for each figure. A missed aim is marked."""
    lines = [["", "aim", *(row.server for row in rows)]]
    for figure in FIGURES:
        cells = []
        for value in map(figure.of, rows):
            text = f"{value:.2f}" if value < 10 else f"{value:.0f}"
            cells.append(text if figure.is_met(value) else f"{text} misses")
        lines.append([figure.title, figure.aim_text, *cells])
    widths = [max(len(line[n]) for line in lines) for n in range(len(lines[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--policy", default="everysec,always", help="appendfsync, of both servers")
    parser.add_argument("--json", metavar="FILE", help="write the figures there, too")
    for size, value in asdict(Sizes()).items():
        parser.add_argument(f"--{size}", type=int, default=value, metavar="N")
    options = parser.parse_args()
    sizes = Sizes(**{size: getattr(options, size) for size in asdict(Sizes())})
    rows = []
    with workplace() as folder, ExitStack() as stack:
        for policy in options.policy.split(","):
            ours = stack.enter_context(
                holdfast_server(folder / f"ours-{policy}", "--appendfsync", policy)
            )
            theirs = stack.enter_context(redis_server(folder / f"theirs-{policy}", policy))
            for name, server in (("redis-server", theirs), ("holdfast", ours)):
                say(f"{name}, appendfsync {policy} …")
                rows.append(asyncio.run(measure_at(f"{name} {policy}", server.port, sizes)))
    print(table(rows))
    if options.json:
        figures = {"machine": machine(), "rows": [asdict(row) for row in rows]}
        (ROOT / options.json).write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
