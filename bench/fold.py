"""`make bench-fold`: the cost of tables that follow the journal by age.

A client writes as fast as the server answers, in a process of its own, while this process sends one
PING after the other. One server has the default of `fold-age-ms`, and one has a value so large that
only the load begins a pass of the fold. The figures are CPU time of the server for each write,
during the load and until all is in the tables (SAVE), the wait of a PING, and the age of the oldest
change that the tables lacked, looked up five times a second.

CPU time is comparable also on a busy machine. But there writes come more slowly, so that a pass of
the fold, which begins by age, has fewer of them: the cost of a write is then too large, not too
small.
"""

import argparse
import json
import random
import statistics
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.common import ROOT, ask, cpu_s, holdfast_server, machine, say, workplace
from bench.fairness import THE_END, Flood, measure
from tests.harness import HoldfastServer, encode_command

ROUNDS = 3
LOOK_EVERY_S = 0.2
COMMANDS_IN_PIECE = 200
AGES = {"1000 (default)": "1000", "none": "2147483647"}
VALUE = "x" * 32
AGE_FIELD = "holdfast_unfolded_age_ms:"


@dataclass(frozen=True)
class Writes(Flood):
    """SET of random keys out of `keys` different ones, or of new keys if `keys` is 0."""

    keys: int = 0

    def scaled(self, share: float) -> "Writes":
        count = max(int(self.count * share), 1)
        return Writes(self.title, self.request, count, max(int(self.keys * share), bool(self.keys)))

    def pieces(self) -> Iterator[bytes]:
        rng = random.Random(1)  # each server gets the same writes
        piece = b""
        for number in range(self.count):
            key = rng.randrange(self.keys) if self.keys else number
            piece += encode_command("SET", f"key:{key:08d}", VALUE)
            if number % COMMANDS_IN_PIECE == 0:
                yield piece
                piece = b""
        yield piece + encode_command("ECHO", THE_END)


LOADS = (
    Writes("1,000 keys, again and again", b"", 1_000_000, 1_000),
    Writes("100,000 keys, again and again", b"", 1_000_000, 100_000),
    Writes("new keys", b"", 400_000, 0),
)


@dataclass
class Cost:
    """The costs of one round."""

    cpu_us: float  # of the server, for each write
    cpu_with_save_us: float
    p99_ms: float
    longest_ms: float
    oldest_s: float
    writes_per_s: float


class AgeWatch(threading.Thread):
    """Notes the age of the oldest change that the tables lack."""

    def __init__(self, server: HoldfastServer) -> None:
        super().__init__(daemon=True)
        self._server = server
        self._done = threading.Event()
        self.oldest_ms = 0

    def run(self) -> None:
        with self._server.client(timeout_s=60) as client:
            while not self._done.wait(LOOK_EVERY_S):
                info = client.command("INFO", "persistence").decode()
                self.oldest_ms = max(self.oldest_ms, int(info.partition(AGE_FIELD)[2].split()[0]))

    def stop(self) -> None:
        self._done.set()
        self.join()


def cost(server: HoldfastServer, load: Writes) -> Cost:
    watch = AgeWatch(server)
    watch.start()
    before_s = cpu_s(server.pid)
    pauses = measure(server, load)
    watch.stop()
    with server.client(timeout_s=120) as client:
        ask(client, "SAVE")
        with_save_s = cpu_s(server.pid) - before_s
        ask(client, "FLUSHALL")
        ask(client, "SAVE")
    return Cost(
        pauses.cpu_s / load.count * 1e6,
        with_save_s / load.count * 1e6,
        pauses.p99_ms,
        pauses.longest_ms,
        watch.oldest_ms / 1000,
        load.count / pauses.flood_s,
    )


def row(title: str, age: str, found: list[Cost]) -> str:
    def middle(name: str) -> float:
        return statistics.median(float(getattr(each, name)) for each in found)

    oldest_s = max(each.oldest_s for each in found)
    return (
        f"| {title} | {age} | {middle('cpu_us'):.1f} | {middle('cpu_with_save_us'):.1f} |"
        f" {middle('p99_ms'):.1f} | {oldest_s:.1f} | {middle('writes_per_s'):,.0f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench-fold ARGS=…", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--share", type=float, default=1.0, help="of each load")
    parser.add_argument("--policy", default="everysec", help="appendfsync")
    args = parser.parse_args()
    results: dict[str, dict[str, list[Cost]]] = {}
    print("| SET of | fold-age-ms | CPU µs/write | and SAVE | PING p99 ms | oldest s | writes/s |")
    print("|---|---|---|---|---|---|---|")
    for load in [load.scaled(args.share) for load in LOADS]:
        costs: dict[str, list[Cost]] = {name: [] for name in AGES}
        results[load.title] = costs
        for number in range(args.rounds):
            for name, age in AGES.items():
                say(f"{load.title}, fold-age-ms {name}, round {number + 1}")
                options = ("--appendfsync", args.policy, "--fold-age-ms", age)
                with workplace() as folder, holdfast_server(folder, *options) as server:
                    costs[name].append(cost(server, load))
        for name, found in costs.items():
            print(row(load.title, name, found), flush=True)
    say(f"\nwritten to {write_json(results, args.share == 1).relative_to(ROOT)}")


def write_json(results: dict[str, dict[str, list[Cost]]], is_whole: bool) -> Path:
    partial = "" if is_whole else "-partial"
    path = ROOT / "bench" / "results" / f"{time.strftime('%Y-%m-%d')}-fold{partial}.json"
    path.parent.mkdir(exist_ok=True)
    loads = {
        title: {name: [asdict(each) for each in found] for name, found in costs.items()}
        for title, costs in results.items()
    }
    path.write_text(json.dumps({"machine": machine(), "loads": loads}, indent=1) + "\n")
    return path


if __name__ == "__main__":
    main()
