"""`make bench-active-active`: what it costs to share a database with other servers.

In one run: a standalone server, then the same work on one of three active-active servers, whose
peers follow it; how far they lag behind meanwhile; and how quickly one catches up that was away.
Writes are those of redis-benchmark, pipelined, with fsync as --policy says. The pure list beside
Loro and pycrdt is bench/crdt.py's.
"""

import argparse
import json
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from bench.common import machine, say, workplace
from tests.harness import HoldfastServer, RawClient, encode_command, wait_until
from tests.replication.crew import are_linked, ask, await_the_same, cluster

PIPELINE = 100
CLIENTS = 4
PATIENCE_S = 600.0


class Sizes(NamedTuple):
    writes: int = 100_000
    probes: int = 200  # of the lag
    missed: int = 1_000_000  # while away


def rate(server: HoldfastServer, writes: int, *words: str) -> float:
    """Writes a second of a few clients that send many at once."""
    clients = [RawClient.connect(server.port, PATIENCE_S) for _ in range(CLIENTS)]
    batch = b"".join(encode_command(*words) for _ in range(PIPELINE))
    started_s = time.perf_counter()
    for _ in range(max(1, writes // PIPELINE // CLIENTS)):
        for client in clients:
            client.send(batch)
        for client in clients:
            client.read_replies(PIPELINE)
    elapsed_s = time.perf_counter() - started_s
    for client in clients:
        client.close()
    return max(1, writes // PIPELINE // CLIENTS) * PIPELINE * CLIENTS / elapsed_s


def lags_ms(servers: list[HoldfastServer], probes: int) -> list[float]:
    """How long after a push on the first a pop on the second has it."""
    found = []
    with RawClient.connect(servers[0].port) as one, RawClient.connect(servers[1].port, 60) as two:
        for _ in range(probes):
            two.send_command("BLPOP", "probe", 0)
            started_s = time.perf_counter()
            one.command("RPUSH", "probe", "x")
            two.read_reply()
            found.append((time.perf_counter() - started_s) * 1000)
    return sorted(found)


@contextmanager
def standalone(folder: Path, policy: str) -> Iterator[HoldfastServer]:
    with HoldfastServer(folder / "standalone", "--appendfsync", policy) as server:
        yield server


def measure(folder: Path, policy: str, sizes: Sizes) -> dict[str, object]:
    workloads = {
        "rpush": ("RPUSH", "list", "0123456789abcdef"),
        "set": ("SET", "key", "0123456789abcdef"),
        "incr": ("INCR", "counter"),
    }
    alone: dict[str, float] = {}
    with standalone(folder, policy) as server:
        for name, words in workloads.items():
            say(f"standalone {name}")
            alone[name] = rate(server, sizes.writes, *words)
    together: dict[str, float] = {}
    with cluster(folder, 3, "--appendfsync", policy) as servers:
        wait_until(lambda: are_linked(servers), "all follow all", PATIENCE_S)
        for name, words in workloads.items():
            say(f"with two peers {name}")
            together[name] = rate(servers[0], sizes.writes, *words)
        await_the_same(servers)
        say("lag")
        lags = lags_ms(servers, sizes.probes)
        say("catching up")
        for server in servers[:2]:
            ask(server, "ACTIVE", "PAUSE", 3)
        rate(servers[0], sizes.missed, *workloads["rpush"])
        length = ask(servers[0], "LLEN", "list")
        started_s = time.perf_counter()
        for server in servers[:2]:
            ask(server, "ACTIVE", "RESUME")
        wait_until(lambda: ask(servers[2], "LLEN", "list") == length, "caught up", PATIENCE_S)
        caught_up_s = time.perf_counter() - started_s
    return {
        "standalone_per_s": {name: round(value) for name, value in alone.items()},
        "with_two_peers_per_s": {name: round(value) for name, value in together.items()},
        "share": {name: round(together[name] / alone[name], 2) for name in workloads},
        "lag_ms_p50": round(statistics.median(lags), 2),
        "lag_ms_p99": round(lags[int(len(lags) * 0.99)], 2),
        "catch_up_per_s": round(sizes.missed / caught_up_s),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--policy", default="everysec", choices=("always", "everysec", "no"))
    parser.add_argument("--quick", action="store_true", help="a hundredth of the work")
    options = parser.parse_args()
    sizes = Sizes(2_000, 20, 5_000) if options.quick else Sizes()
    with workplace() as folder:
        result = measure(folder, options.policy, sizes)
    print(json.dumps({"machine": machine(), "policy": options.policy} | result, indent=2))


if __name__ == "__main__":
    main()
