"""`make bench-active-active`: the cost of sharing a database with other servers.

One run measures:
- the lag between idle servers;
- the rate at which a server catches up after an absence;
- round by round, the same writes on a standalone server and on one of three active-active servers,
  with the lag of its peers meanwhile;
- the pure list beside Loro and pycrdt (crdt.py).
The load comes from redis-benchmark; --policy sets fsync.

In production the peers run on other machines. Here they share this one, so they run with the lowest
priority while writes are counted: their work should take no time from the written server and its
clients, as far as two cores allow. Work that they put off shows in their lag. `busy` is the share
of a core that a peer would need at that rate. `--equal` gives all servers the same priority.
"""

import argparse
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from bench import crdt
from bench.common import Sample as Figures
from bench.common import cpu_s, fail, machine, run_benchmark, say, workplace
from tests.harness import HoldfastServer, RawClient, wait_until
from tests.replication.crew import are_linked, ask, await_the_same, cluster

CLIENTS = 50
LOWEST_PRIORITY = 19
PIPELINES = (1, 16)
PIPELINED = 10
KEYS = 10_000  # "any key" in the table is one of these
PATIENCE_S = 600.0
PROBE_EVERY_S = 0.01
AIM = 0.5  # the least share of the standalone server's rate, with two peers

VALUE = "0123456789abcdef"
WORKLOADS = {
    "RPUSH": ("RPUSH", "list", VALUE),
    "LPOP": ("LPOP", "list"),
    "SET one key": ("SET", "key", VALUE),
    "SET any key": ("SET", "key:__rand_int__", VALUE),
    "INCR one key": ("INCR", "counter"),
    "INCR any key": ("INCR", "counter:__rand_int__"),
}


class Sizes(NamedTuple):
    rounds: int = 5
    # PIPELINED times as many if pipelined, so that they include the work of the fold
    writes: int = 100_000
    probes: int = 200  # of the lag of idle servers
    missed: int = 1_000_000  # writes during the absence of a server
    pure: tuple[int, int, int] = (crdt.COUNT, crdt.EDITS, crdt.ROUNDS)


class Sample(NamedTuple):
    """One workload in one round, on the standalone server and on the one with peers."""

    alone: Figures
    together: Figures
    peer_cpu_us: float
    lags_ms: list[float]  # of one peer during the workload

    @property
    def share(self) -> float:
        return self.together.rps / self.alone.rps


def work(
    alone: HoldfastServer, servers: list[HoldfastServer], sizes: Sizes
) -> dict[str, list[Sample]]:
    """Measure all workloads, alternating between the standalone server and the first with peers."""
    samples: dict[str, list[Sample]] = {}
    for round_number in range(sizes.rounds):
        for pipeline in PIPELINES:
            requests = sizes.writes if pipeline == 1 else sizes.writes * PIPELINED
            for name, words in WORKLOADS.items():
                say(f"{round_number + 1}/{sizes.rounds} {name} x{pipeline}")
                load = partial(
                    run_benchmark,
                    argv=words,
                    requests=requests,
                    clients=CLIENTS,
                    pipeline=pipeline,
                    keys=KEYS,
                )
                with stopped(servers), probing(alone, alone):  # both sides serve a probe
                    by_itself = load(alone)
                with stopped([alone]):
                    before_s = cpu_s(servers[-1].pid)
                    with probing(servers[0], servers[1]) as lags_ms:
                        followed = load(servers[0])
                    await_all(servers)
                    peer_cpu_us = 1e6 * (cpu_s(servers[-1].pid) - before_s) / requests
                sample = Sample(by_itself, followed, peer_cpu_us, lags_ms)
                samples.setdefault(f"{name} x{pipeline}", []).append(sample)
    return samples


@contextmanager
def stopped(servers: list[HoldfastServer]) -> Iterator[None]:
    """Stop these servers during the block, so that work which they put off takes no time."""
    for server in servers:
        os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for server in servers:
            os.kill(server.pid, signal.SIGCONT)


def lower_priority(server: HoldfastServer) -> None:
    """Give all threads of a server the lowest priority."""
    for thread in Path(f"/proc/{server.pid}/task").iterdir():
        os.setpriority(os.PRIO_PROCESS, int(thread.name), LOWEST_PRIORITY)


def await_all(servers: list[HoldfastServer]) -> None:
    """Wait until the other servers have all writes of the first. Its last write arrives last."""
    mark = str(time.time_ns())
    ask(servers[0], "SET", "mark", mark)
    wanted = ask(servers[0], "GET", "mark")
    for server in servers[1:]:
        wait_until(partial(_shows, server, wanted), "all have everything", PATIENCE_S)


def _shows(server: HoldfastServer, mark: bytes) -> bool:
    return ask(server, "GET", "mark") == mark


class Probe(threading.Thread):
    """Measures again and again the time from a push on one server to its pop on another. Pushes do
    not wait for pops, so a period of long lag has its full share of the samples."""

    def __init__(self, pushed: HoldfastServer, popped: HoldfastServer) -> None:
        super().__init__(daemon=True)
        self.lags_ms: list[float] = []
        self._pushed = RawClient.connect(pushed.port, timeout_s=PATIENCE_S)
        self._popped = RawClient.connect(popped.port, timeout_s=PATIENCE_S)

    def push_until(self, ends: Callable[[], bool]) -> None:
        """Push until `ends` is true. Returns when all elements have been popped."""
        self.start()
        while True:
            self._pushed.command("RPUSH", "probe", time.perf_counter_ns())
            if ends():
                break
        self._pushed.command("RPUSH", "probe", "end")
        self.join()
        self._pushed.close()
        self._popped.close()

    def run(self) -> None:
        while (word := self._pop()) != b"end":
            self.lags_ms.append((time.perf_counter_ns() - int(word)) / 1e6)

    def _pop(self) -> bytes:
        return self._popped.command("BLPOP", "probe", 0).split(b"\r\n")[4]


@contextmanager
def probing(pushed: HoldfastServer, popped: HoldfastServer) -> Iterator[list[float]]:
    """Probe the lag during the block. The list is complete when the block has ended."""
    probe, ends = Probe(pushed, popped), threading.Event()
    pusher = threading.Thread(
        target=probe.push_until, args=(partial(ends.wait, PROBE_EVERY_S),), daemon=True
    )
    pusher.start()
    try:
        yield probe.lags_ms
    finally:
        ends.set()
        pusher.join(PATIENCE_S)
    if pusher.is_alive() or not probe.lags_ms:
        fail("elements pushed on one server have not arrived on another")


def idle_lags_ms(servers: list[HoldfastServer], probes: int) -> list[float]:
    with probing(servers[0], servers[1]) as lags_ms:
        wait_until(lambda: len(lags_ms) >= probes, "so many probes", PATIENCE_S)
    return lags_ms


def p50_and_p99(lags_ms: list[float]) -> dict[str, float]:
    found = sorted(lags_ms)
    return {"p50": round(median(found), 1), "p99": round(found[int(len(found) * 0.99)], 1)}


def catch_up_per_s(servers: list[HoldfastServer], missed: int) -> float:
    """The rate at which the third server catches up after an absence, in operations a second."""
    for server in servers[:2]:
        ask(server, "ACTIVE", "PAUSE", 3)
    run_benchmark(
        servers[0], WORKLOADS["RPUSH"], requests=missed, clients=CLIENTS, pipeline=16, keys=1
    )
    length = ask(servers[0], "LLEN", "list")
    started_s = time.perf_counter()
    for server in servers[:2]:
        ask(server, "ACTIVE", "RESUME")
    wait_until(lambda: ask(servers[2], "LLEN", "list") == length, "caught up", PATIENCE_S)
    return missed / (time.perf_counter() - started_s)


def measure(folder: Path, policy: str, sizes: Sizes, *, equal: bool) -> dict[str, Any]:
    options = ("--appendfsync", policy)
    with cluster(folder, 3, *options) as servers:
        wait_until(lambda: are_linked(servers), "all follow all", PATIENCE_S)
        say("lag")
        idle = idle_lags_ms(servers, sizes.probes)
        say("catching up")
        caught_up = catch_up_per_s(servers, sizes.missed)
        await_the_same(servers)
        ask(servers[0], "DEL", "list")
        if not equal:
            for server in servers[1:]:
                lower_priority(server)
        with HoldfastServer(folder / "standalone", *options) as alone:
            samples = work(alone, servers, sizes)
        await_the_same(servers)
    return {
        "writes": {name: _summary(rounds) for name, rounds in samples.items()},
        "idle_lag_ms": p50_and_p99(idle),
        "catch_up_per_s": round(caught_up),
        "pure_list_cpu_us": crdt.measure(*sizes.pure),
    }


def _summary(rounds: list[Sample]) -> dict[str, Any]:
    """Medians of the rounds, except `least…` and `most…`. The lags are those of all rounds."""
    shares = [sample.share for sample in rounds]
    return {
        "standalone_per_s": round(median(sample.alone.rps for sample in rounds)),
        "with_two_peers_per_s": round(median(sample.together.rps for sample in rounds)),
        "share": round(median(shares), 2),
        "least_share": round(min(shares), 2),
        "most_share": round(max(shares), 2),
        "lag_ms": p50_and_p99([lag_ms for sample in rounds for lag_ms in sample.lags_ms]),
        "standalone_cpu_us": round(median(sample.alone.cpu_us_per_op for sample in rounds), 1),
        "with_two_peers_cpu_us": round(
            median(sample.together.cpu_us_per_op for sample in rounds), 1
        ),
        "peer_cpu_us": round(median(sample.peer_cpu_us for sample in rounds), 1),
        "peer_busy": round(median(s.peer_cpu_us * s.together.rps / 1e6 for s in rounds), 2),
    }


def show(result: dict[str, Any]) -> None:
    words = (
        "alone/s",
        "followed/s",
        "share ",
        "min–max ",
        "lag p50",
        "p99 ms",
        "busy",
        "CPU µs: alone",
    )
    widths = (9, 11, 8, 9, 8, 8, 5, 14)
    head = " ".join(f"{word:>{width}}" for word, width in zip(words, widths, strict=True))
    print(f"{'':16} {head}  followed  peer")
    for name, row in result["writes"].items():
        print(
            f"{name:16} {row['standalone_per_s']:9} {row['with_two_peers_per_s']:11}"
            f" {row['share']:7.2f}{'!' if row['share'] < AIM else ' '}"
            f" {row['least_share']:.2f}–{row['most_share']:.2f}"
            f" {row['lag_ms']['p50']:8.1f} {row['lag_ms']['p99']:8.1f} {row['peer_busy']:5.0%}"
            f" {row['standalone_cpu_us']:14.1f}"
            f" {row['with_two_peers_cpu_us']:9.1f} {row['peer_cpu_us']:5.1f}"
        )
    print(f"(share: aim {AIM}, ! is below)")
    idle = result["idle_lag_ms"]
    print(f"lag when idle: p50 {idle['p50']} ms, p99 {idle['p99']} ms")
    print(f"catching up: {result['catch_up_per_s']} operations/s")
    crdt.show(result["pure_list_cpu_us"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--policy", default="everysec", choices=("always", "everysec", "no"))
    parser.add_argument("--equal", action="store_true", help="do not lower the peers' priority")
    parser.add_argument("--quick", action="store_true", help="a hundredth of the work")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    sizes = Sizes(1, 2_000, 20, 10_000, (2_000, 500, 1)) if options.quick else Sizes()
    with workplace() as folder:
        result = measure(folder, options.policy, sizes, equal=options.equal)
    if options.json:
        print(json.dumps({"machine": machine(), "policy": options.policy} | result, indent=2))
    else:
        show(result)


if __name__ == "__main__":
    main()
