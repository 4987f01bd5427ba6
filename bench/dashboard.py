"""`make bench-dashboard`: what open dashboards cost a server, and how quick large pages are.

| measurement | |
|---|---|
| open | redis-benchmark beside 20 dashboards, each with an open overview and page of queues |
| tabs | the same beside one dashboard with 1,000 open pages |
| large | a million keys, 10,000 queues: the time of pages, the longest wait of a PING meanwhile |
| search | a million finished builds, found by words |

In `open` and `tabs`, redis-benchmark never stops. The dashboards are stopped (SIGSTOP) and go on
(SIGCONT) in turn, every ten seconds, so both sides are of the same server, the same load and the
same minute. The ratio that counts is that of the CPU time which the server takes for a request: the
dashboards and redis-benchmark share the cores of a small machine, so requests per second tell more
about the machine.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import re
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias

from bench.common import (
    ROOT,
    cpu_s,
    fail,
    holdfast_server,
    machine,
    say,
    send_all,
    wait_until_idle,
    workplace,
)
from holdfast.builds import BuildRecord, State
from holdfast.web.readers.builds import BuildIndex
from holdfast.web.visit import REFRESH
from tests.harness import HoldfastServer, RawClient
from tests.harness.processes import wait_until

DASHBOARDS, TABS, ROUNDS = 20, 1000, 5
KEYS, QUEUES, BUILDS = 1_000_000, 10_000, 1_000_000
REFRESH_S, PATIENCE = 3.0, 10  # as in app.js
LOOK_S = 0.5
START_S = 180
AIM, SEARCH_AIM_MS = 0.95, 100
WARM_S = 5.0  # of a load, before it is measured
# Dashboards that go on after SIGSTOP ask all at once; that must not be measured. A busy server is
# asked every five seconds, so each dashboard asks twice in a slice.
SETTLE_S, SLICE_S = 2.0, 10.0
KEY = "key:__rand_int__"
Load: TypeAlias = tuple[str, int, tuple[str, ...]]  # command, pipeline, words
LOADS: tuple[Load, ...] = (
    ("SET", 1, ("SET", KEY, "x" * 32)),
    ("GET", 1, ("GET", KEY)),
    ("SET", 16, ("SET", KEY, "x" * 32)),
    ("GET", 16, ("GET", KEY)),
)
ENDLESS = 1_000_000_000  # requests: redis-benchmark is stopped before
PAGES = (
    "/",
    "/keys",
    "/keys?pattern=nothing:*",
    "/keys/big",
    "/queues",
    "/queues?pattern=q99",
    "/builds",
)
WORDS = (
    "timeout",
    "exit status 1",
    "worker",
    "main",
    "feature log",
    "deploy",
    "zzz",
    "777777",
    "f",
    "",
)


# -- pages that are open ------------------------------------------------------------------------


async def ask(port: int, path: str, headers: str = "") -> bytes:
    """The body of a page, on a connection of its own."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)
    try:
        writer.write(
            f"GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}\r\n".encode()
        )
        head, _, body = (await reader.read(-1)).partition(b"\r\n\r\n")
        if b" 200 " not in head.partition(b"\r\n")[0] + b" ":
            fail(f"{path} was answered {head[:100]!r}")
        return body
    finally:
        writer.close()


async def follow(port: int, counts: Any, place: int) -> None:
    """An open page: its stream of events, of which each is counted."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)
    writer.write(b"GET /events?kind=figures HTTP/1.1\r\nhost: localhost\r\n\r\n")
    with suppress(ConnectionError):
        while line := await reader.readline():
            if line.startswith(b"event: "):
                counts[place] += 1


async def refresh(port: int) -> None:
    """An open page of queues, which loads itself again as app.js does it."""
    while True:
        begin_s = time.perf_counter()
        await ask(port, "/queues", f"{REFRESH}: 1\r\n")
        await asyncio.sleep(max(REFRESH_S, PATIENCE * (time.perf_counter() - begin_s)))


def visit(ports: list[int], streams: int, counts: Any) -> None:
    """A process with that many streams of each dashboard, and one page of queues."""

    async def main() -> None:
        tasks = [follow(port, counts, n) for n, port in enumerate(ports) for _ in range(streams)]
        await asyncio.gather(*tasks, *(refresh(port) for port in ports))

    asyncio.run(main())


class Dashboards:
    """Processes of `holdfast dashboard`, and one process that has their pages open."""

    def __init__(self, folder: Path, server: HoldfastServer, count: int, streams: int) -> None:
        self._processes: list[subprocess.Popen[bytes]] = []
        self._logs: list[Path] = []
        for number in range(count):
            log = folder / f"dashboard-{number}"
            url = f"redis://127.0.0.1:{server.port}"
            argv = [sys.executable, "-m", "holdfast", "dashboard", url, "--port", "0"]
            with log.open("wb") as out:
                argv += ["--history", str(folder / f"history-{number}.db")]
                self._processes.append(subprocess.Popen(argv, stdout=out, stderr=out))
            self._logs.append(log)
        for log in self._logs:
            wait_until(lambda log=log: " ready on " in log.read_text(), "a dashboard", START_S)  # type: ignore[misc]
        found = [re.search(r"ready on \S+:(\d+)/", log.read_text()) for log in self._logs]
        self.ports = [int(each[1]) for each in found if each is not None]
        self.counts: Any = multiprocessing.Array("L", count)
        arguments = (self.ports, streams, self.counts)
        self._visitor = multiprocessing.Process(target=visit, args=arguments)
        self._visitor.start()
        wait_until(lambda: min(self.counts) >= streams, "all pages have news", START_S)

    def cpu_s(self) -> float:
        return sum(cpu_s(process.pid) for process in self._processes)

    def send(self, number: signal.Signals) -> None:
        for pid in (*(process.pid for process in self._processes), self._visitor.pid):
            assert pid is not None
            os.kill(pid, number)

    def close(self) -> None:
        self.send(signal.SIGCONT)
        self._visitor.terminate()
        self._visitor.join()
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.wait()


@contextmanager
def dashboards(
    folder: Path, server: HoldfastServer, count: int, streams: int = 1
) -> Iterator[Dashboards]:
    found = Dashboards(folder, server, count, streams)
    try:
        yield found
    finally:
        found.close()


@contextmanager
def load(server: HoldfastServer, pipeline: int, argv: tuple[str, ...]) -> Iterator[None]:
    """redis-benchmark with 50 clients, until the end of the block."""
    options = {"-p": server.port, "-n": ENDLESS, "-c": 50, "-P": pipeline, "-r": 100_000}
    words = [str(word) for option in options.items() for word in option]
    process = subprocess.Popen(
        ["redis-benchmark", *words, "-q", *argv], stdout=subprocess.DEVNULL, stderr=sys.stderr
    )
    try:
        yield
        if process.poll() is not None:
            fail(f"redis-benchmark ended with {process.returncode}")
    finally:
        process.terminate()
        process.wait()


def calls(client: RawClient, command: str) -> int:
    """How often the server has run this command."""
    found = re.search(
        rf"cmdstat_{command.lower()}:calls=(\d+)", client.command("INFO", "commandstats").decode()
    )
    return 0 if found is None else int(found[1])


def one_slice(server: HoldfastServer, client: RawClient, command: str) -> tuple[float, float]:
    """Requests a second, and µs of the server's CPU for one, in the next seconds."""
    begin_s, used_s, before = time.perf_counter(), cpu_s(server.pid), calls(client, command)
    time.sleep(SLICE_S)
    count = calls(client, command) - before
    used_s, took_s = cpu_s(server.pid) - used_s, time.perf_counter() - begin_s
    return count / took_s, 1e6 * used_s / count


def beside(
    server: HoldfastServer, open_pages: Dashboards, loads: Iterable[Load], rounds: int
) -> dict[str, Any]:
    """Slices of each load, in turn without the dashboards and beside them."""
    results: dict[str, Any] = {}
    for command, pipeline, argv in loads:
        pairs = []
        with load(server, pipeline, argv), server.client() as client:
            time.sleep(WARM_S)
            for number in range(rounds):
                say(f"{command} ×{pipeline}, round {number + 1} of {rounds}")
                pair: dict[str, Any] = {}
                for side, wanted in (("without", signal.SIGSTOP), ("with", signal.SIGCONT)):
                    open_pages.send(wanted)
                    time.sleep(SETTLE_S)
                    news, used_s = sum(open_pages.counts), open_pages.cpu_s()
                    rps, cpu_us = one_slice(server, client, command)
                    pair[side] = {
                        "rps": rps,
                        "cpu_us": cpu_us,
                        "news": sum(open_pages.counts) - news,
                        "dashboards_cpu_share": (open_pages.cpu_s() - used_s) / SLICE_S,
                    }
                if pair["without"]["news"] or not pair["with"]["news"]:
                    fail("the dashboards did not stop and go on as they were told")
                pairs.append(pair)
        results[f"{command} ×{pipeline}"] = {
            "rounds": pairs,
            "rps_ratio": statistics.median(p["with"]["rps"] / p["without"]["rps"] for p in pairs),
            "cpu_ratio": statistics.median(cpu_ratios(pairs)),
        }
    return results


def cpu_ratios(pairs: list[dict[str, Any]]) -> list[float]:
    """Of each round, the lowest first."""
    return sorted(pair["without"]["cpu_us"] / pair["with"]["cpu_us"] for pair in pairs)


# -- large servers ------------------------------------------------------------------------------


class Pings(threading.Thread):
    """One PING after the other; the longest wait."""

    def __init__(self, server: HoldfastServer) -> None:
        super().__init__(daemon=True)
        self._client = server.client()
        self._enough = threading.Event()
        self.longest_ms = 0.0

    def run(self) -> None:
        while not self._enough.is_set():
            begin_s = time.perf_counter()
            self._client.command("PING")
            self.longest_ms = max(self.longest_ms, 1000 * (time.perf_counter() - begin_s))

    def end(self) -> float:
        self._enough.set()
        self.join()
        self._client.close()
        return self.longest_ms


def fill(server: HoldfastServer, keys: int, queues: int) -> None:
    with server.client() as client:
        send_all(client, (("SET", f"user:{n:07d}", f"value {n}") for n in range(keys)))
        send_all(client, (("RPUSH", f"rq:queue:q{n}", f"job-{n}") for n in range(queues)))
        send_all(client, (("SADD", "rq:queues", f"rq:queue:q{n}") for n in range(queues)))


def find_queues(port: int, queues: int) -> int:
    """Load the page of queues until it knows all of them. A page that is open loads itself every
    three seconds; a faster one makes the server busy, and then each look finds less. Returns how
    often it was loaded."""
    looks = 0
    while True:
        looks += 1
        page = asyncio.run(ask(port, "/queues", f"{REFRESH}: 1\r\n")).decode()
        found = re.search(r" of ([0-9,]+) queues shown", page)
        if found is not None and int(found[1].replace(",", "")) >= queues:
            return looks
        time.sleep(LOOK_S)


def large(folder: Path, server: HoldfastServer, keys: int, queues: int) -> dict[str, Any]:
    """The time of each page, the second time that it is loaded: the first look searches."""
    fill(server, keys, queues)
    results: dict[str, Any] = {}
    with dashboards(folder, server, 1) as found:
        wait_until_idle(server.pid)
        say(f"{queues:,} queues: looking for them")
        looks = find_queues(found.ports[0], queues)
        for path in PAGES:
            asyncio.run(ask(found.ports[0], path))
            pings = Pings(server)
            pings.start()
            before_s, begin_s = cpu_s(server.pid), time.perf_counter()
            size = len(asyncio.run(ask(found.ports[0], path)))
            page_ms = 1000 * (time.perf_counter() - begin_s)
            results[path] = {
                "page_ms": page_ms,
                "bytes": size,
                "server_cpu_ms": 1000 * (cpu_s(server.pid) - before_s),
                "longest_ping_ms": pings.end(),
            }
            say(f"{path}: {page_ms:.0f} ms")
        results["/queues"]["looks_until_all_are_found"] = looks
    return results


# -- the index of finished builds ---------------------------------------------------------------


def record(number: int) -> BuildRecord:
    fields = {
        "id": str(number + 1),
        "job": ("deploy", "unit", "lint", "package", f"service-{number % 500}")[number % 5],
        "state": State.FAILURE.name if number % 17 == 0 else State.SUCCESS.name,
        "reason": ("exit status 1", "timeout after 30 min")[number % 2] if number % 17 == 0 else "",
        "worker": f"worker-{number % 64}",
        "annotations": json.dumps(
            {"branch": ("main", "feature/login")[number % 2], "commit": f"{number * 7919:012x}"}
        ),
        **dict.fromkeys(("blocked_by", "cycle", "freeze"), ""),
        **dict.fromkeys(
            ("collapse", "blocked_by_self", "blocked_by_same_job", "virtual", "force"), "0"
        ),
        **dict.fromkeys(("same_job_wait_ms", "priority", "retries", "backoff_ms"), "0"),
        **dict.fromkeys(("enqueued_at", "changed_at", "ended_at"), str(1_700_000_000_000 + number)),
    }
    return BuildRecord.of(fields)


def search(folder: Path, builds: int) -> dict[str, Any]:
    index = BuildIndex(folder / "builds.db")
    for start in range(0, builds, 500):
        some = range(start, min(start + 500, builds))
        index.add("ci", [(record(n), 1_800_000_000_000 + n) for n in some])
    results = {}
    for state in (None, State.FAILURE):
        for words in WORDS:
            times, found = [], 0
            for _ in range(5):
                begin_s = time.thread_time()
                wall_s = time.perf_counter()
                found = len(index.search("ci", words, state=state))
                times.append(
                    (1000 * (time.thread_time() - begin_s), 1000 * (time.perf_counter() - wall_s))
                )
            title = f"{words!r}{' that failed' if state else ''}"
            results[title] = {
                "found": found,
                "cpu_ms": statistics.median(each[0] for each in times),
                "wall_ms": statistics.median(each[1] for each in times),
            }
    index.close()
    return results


# -- the run ------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench-dashboard ARGS=…")
    parser.add_argument("--only", default="open,tabs,large,search")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--share", type=float, default=1.0, help="of the keys and builds")
    args = parser.parse_args()
    wanted, results = args.only.split(","), dict[str, Any]()
    with workplace() as folder, ExitStack() as stack:
        server = stack.enter_context(holdfast_server(folder, "--appendfsync", "everysec"))
        measured = ("open", DASHBOARDS, 1, LOADS), ("tabs", 1, TABS, (LOADS[0], LOADS[-1]))
        for name, count, streams, loads in measured:
            if name in wanted:
                with dashboards(folder, server, count, streams) as found:
                    results[name] = beside(server, found, loads, args.rounds)
        if "search" in wanted:
            results["search"] = search(folder, int(BUILDS * args.share))
        if "large" in wanted:
            sizes = int(KEYS * args.share), int(QUEUES * args.share)
            results["large"] = large(folder, server, *sizes)
    is_whole = args.share == 1 and args.rounds >= ROUNDS and len(results) == 4
    partial = "" if is_whole else "-partial"
    path = ROOT / "bench" / "results" / f"{time.strftime('%Y-%m-%d')}-dashboard{partial}.json"
    path.write_text(json.dumps({"machine": machine(), **results}, indent=1) + "\n")
    for line in table(results):
        print(line)
    say(f"written to {path.relative_to(ROOT)}")
    missed = [line for line in table(results) if "missed" in line]
    sys.exit(1 if missed else 0)


def table(results: dict[str, Any]) -> Iterator[str]:
    """What the run says, in words; an aim that is missed is called so."""
    titles = {"open": f"beside {DASHBOARDS} dashboards", "tabs": f"beside {TABS:,} open pages"}
    for name, title in titles.items():
        for load, figures in results.get(name, {}).items():
            verdict = "" if figures["cpu_ratio"] >= AIM else " (missed)"
            lowest, *_, highest = 2 * cpu_ratios(figures["rounds"])
            yield (
                f"| {load} {title} | {figures['cpu_ratio']:.2f} ({lowest:.2f}–{highest:.2f})"
                f"{verdict} | {figures['rps_ratio']:.2f} |"
            )
    if "search" in results:
        slowest = max(each["cpu_ms"] for each in results["search"].values())
        verdict = "" if slowest < SEARCH_AIM_MS else " (missed)"
        yield f"| the slowest search | {slowest:.0f} ms{verdict} | |"
    for path, figures in results.get("large", {}).items():
        looks = figures.get("looks_until_all_are_found")
        more = "" if looks is None else f" (all queues after {looks} looks)"
        times = f"{figures['page_ms']:.0f} ms | {figures['longest_ping_ms']:.0f} ms"
        yield f"| {path}{more} | {times} |"


if __name__ == "__main__":
    main()
