"""`make bench-active-active`: what it costs to share a database with other servers.

In one run: a standalone server, then the same work on one of three active-active servers, whose
peers follow it; how far they lag behind meanwhile; how quickly one catches up that was away; and
the pure list beside Loro and pycrdt (crdt.py). The load is redis-benchmark's, with fsync as
--policy says.

On a machine with few cores all three servers share them, so the share of the standalone server's
rate that is left depends on what an operation costs all of them: see CPU µs.
"""

import argparse
import json
import statistics
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from bench import crdt
from bench.common import cpu_s, machine, run_benchmark, say, workplace
from tests.harness import HoldfastServer, RawClient, wait_until
from tests.replication.crew import are_linked, ask, await_the_same, cluster

CLIENTS = 50
PIPELINES = (1, 16)
PIPELINED = 5
KEYS = 10_000  # those of which "any" is one
PATIENCE_S = 600.0
AIM = 0.5  # of the standalone server's rate, with two peers

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
    writes: int = 200_000  # and PIPELINED times as many if pipelined: the fold is part of it
    probes: int = 200  # of the lag
    missed: int = 1_000_000  # while away
    pure: tuple[int, int, int] = (crdt.COUNT, crdt.EDITS, crdt.ROUNDS)


Row = dict[str, float]


def work(servers: list[HoldfastServer], writes: int) -> dict[str, Row]:
    """On the first one: writes a second; and µs of CPU of it and of one that follows."""
    rows: dict[str, Row] = {}
    for pipeline in PIPELINES:
        requests = writes if pipeline == 1 else writes * PIPELINED
        for name, words in WORKLOADS.items():
            row = rows[f"{name} x{pipeline}"] = {}
            say(f"{name} x{pipeline} on one of {len(servers)}")
            before_s = cpu_s(servers[-1].pid)
            sample = run_benchmark(
                servers[0], words, requests=requests, clients=CLIENTS, pipeline=pipeline, keys=KEYS
            )
            row["per_s"], row["cpu_us"] = sample.rps, sample.cpu_us_per_op
            if len(servers) > 1:
                await_all(servers)
                row["peer_cpu_us"] = 1e6 * (cpu_s(servers[-1].pid) - before_s) / requests
    return rows


def await_all(servers: list[HoldfastServer]) -> None:
    """Until the others have what the first one has: what it did last comes last."""
    mark = str(time.time_ns())
    ask(servers[0], "SET", "mark", mark)
    wanted = ask(servers[0], "GET", "mark")
    for server in servers[1:]:
        wait_until(partial(_shows, server, wanted), "all have everything", PATIENCE_S)


def _shows(server: HoldfastServer, mark: bytes) -> bool:
    return ask(server, "GET", "mark") == mark


def lags_ms(servers: list[HoldfastServer], probes: int) -> dict[str, float]:
    """How long after a push on the first a pop on the second has it."""
    found = []
    with RawClient.connect(servers[0].port) as one, RawClient.connect(servers[1].port, 60) as two:
        for _ in range(probes):
            two.send_command("BLPOP", "probe", 0)
            started_s = time.perf_counter()
            one.command("RPUSH", "probe", "x")
            two.read_reply()
            found.append((time.perf_counter() - started_s) * 1000)
    found.sort()
    p99 = found[int(len(found) * 0.99)]
    return {"p50": round(statistics.median(found), 2), "p99": round(p99, 2)}


@contextmanager
def full_load(server: HoldfastServer) -> Iterator[None]:
    """Until the block ends: pushes, as many as it takes."""
    options = ("-p", str(server.port), "-c", str(CLIENTS), "-P", "16", "-l", "-q")
    words = ("redis-benchmark", *options, *WORKLOADS["RPUSH"])
    load = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        load.kill()
        load.wait()


def catch_up_per_s(servers: list[HoldfastServer], missed: int) -> float:
    """Operations a second, after the third one was away."""
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


def measure(folder: Path, policy: str, sizes: Sizes) -> dict[str, Any]:
    with HoldfastServer(folder / "standalone", "--appendfsync", policy) as server:
        alone = work([server], sizes.writes)
    with cluster(folder, 3, "--appendfsync", policy) as servers:
        wait_until(lambda: are_linked(servers), "all follow all", PATIENCE_S)
        together = work(servers, sizes.writes)
        say("lag")
        idle = lags_ms(servers, sizes.probes)
        with full_load(servers[0]):
            loaded = lags_ms(servers, sizes.probes)
        await_all(servers)
        say("catching up")
        caught_up = catch_up_per_s(servers, sizes.missed)
        await_the_same(servers)
    return {
        "writes": {name: _beside(alone[name], row) for name, row in together.items()},
        "lag_ms": {"idle": idle, "at_full_rate": loaded},
        "catch_up_per_s": round(caught_up),
        "pure_list_cpu_us": crdt.measure(*sizes.pure),
    }


def _beside(alone: Row, together: Row) -> Row:
    return {
        "standalone_per_s": round(alone["per_s"]),
        "with_two_peers_per_s": round(together["per_s"]),
        "share": round(together["per_s"] / alone["per_s"], 2),
        "standalone_cpu_us": round(alone["cpu_us"], 1),
        "with_two_peers_cpu_us": round(together["cpu_us"], 1),
        "peer_cpu_us": round(together["peer_cpu_us"], 1),
    }


def show(result: dict[str, Any]) -> None:
    print(f"{'':16}   alone/s   with two peers/s   share   CPU µs: alone   writer   peer")
    for name, row in result["writes"].items():
        print(
            f"{name:16} {row['standalone_per_s']:9} {row['with_two_peers_per_s']:18}"
            f" {row['share']:7.2f}{'!' if row['share'] < AIM else ' '}"
            f" {row['standalone_cpu_us']:14.1f}"
            f" {row['with_two_peers_cpu_us']:8.1f} {row['peer_cpu_us']:6.1f}"
        )
    print(f"(share: aim {AIM}, ! is below)")
    for name, lag in result["lag_ms"].items():
        print(f"lag {name}: p50 {lag['p50']} ms, p99 {lag['p99']} ms")
    print(f"catching up: {result['catch_up_per_s']} operations/s")
    crdt.show(result["pure_list_cpu_us"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--policy", default="everysec", choices=("always", "everysec", "no"))
    parser.add_argument("--quick", action="store_true", help="a hundredth of the work")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    sizes = Sizes(2_000, 20, 10_000, (2_000, 500, 1)) if options.quick else Sizes()
    with workplace() as folder:
        result = measure(folder, options.policy, sizes)
    if options.json:
        print(json.dumps({"machine": machine(), "policy": options.policy} | result, indent=2))
    else:
        show(result)


if __name__ == "__main__":
    main()
