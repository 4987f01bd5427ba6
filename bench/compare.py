"""`make bench`: Holdfast and redis-server, in one run, at the same durability.

Both servers run during the whole run of a policy. They take turns measurement by measurement, so
that a noisy machine disturbs both alike; each is stopped (SIGSTOP) while the other is measured. All
rounds of a workload follow each other, after one that does not count. So the work that a server
puts off is in the figures of its own workload, and in no others. docs/performance.md explains the
table.

With `--beside PYTHON` the other server is the Holdfast that this interpreter has installed: the
same comparison of a change with the commit before it. No aim applies. With
`--ours "--fold-age-ms 60000"` our server has these options, and the other one does not. With
`--scrape` it is the same Holdfast without `http-port`, and ours is scraped every second.
"""

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field
from fnmatch import filter as filter_names
from fnmatch import fnmatchcase
from pathlib import Path
from statistics import median

from bench.common import (
    ROOT,
    Sample,
    ask,
    fail,
    holdfast_server,
    machine,
    redis_server,
    say,
    workplace,
)
from bench.workloads import CLIENTS, KEYS, VALUE, WORKLOADS, Workload
from tests.harness import HoldfastServer, RawClient
from tests.harness.http import HttpPort
from tests.harness.processes import ServerProcess, free_port

POLICIES = ("always", "everysec")
PIPELINES = (1, 16)
ROUNDS = 3
AIMS = {1: 0.8, 16: 0.4}  # the lowest ratio that is good enough, by pipeline
MEASURE_S = 2.0
WARM_UP_ROUNDS = 40  # of requests of all clients


@dataclass
class Side:
    """One of the two servers in one run of a policy."""

    name: str
    server: ServerProcess
    rps: float = 0.0  # of the last measurement
    samples: dict[tuple[str, int], list[Sample]] = field(default_factory=dict)


@contextmanager
def running_alone(side: Side, sides: list[Side]) -> Iterator[RawClient]:
    """Stop the other server during the block, so that work which it put off takes no time."""
    others = [other.server.pid for other in sides if other is not side]
    for pid in others:
        os.kill(pid, signal.SIGSTOP)
    try:
        # Filling may have to wait for a long fold or for a slow disk.
        with RawClient.connect(side.server.port, timeout_s=120) as client:
            yield client
    finally:
        for pid in others:
            os.kill(pid, signal.SIGCONT)


def fill(client: RawClient, workloads: list[Workload]) -> None:
    """Write the data that workloads need, each kind once, and save it. Otherwise the first workload
    would be measured together with its folding."""
    for step in dict.fromkeys(workload.fill for workload in workloads):
        if step is not None:
            step(client)
    ask(client, "SAVE")


def check_data(side: Side, client: RawClient, workloads: list[Workload]) -> None:
    """Check that the data of all workloads is complete and correct."""
    for check in dict.fromkeys(workload.check for workload in workloads):
        if check is not None and (wrong := check(client)) is not None:
            fail(f"{side.name}: {wrong}")


def whole_rounds(rps: float, pipeline: int) -> int:
    """The number of requests that fills the time of a measurement, the same for every client."""
    step = CLIENTS * pipeline
    return max(1, round(rps * MEASURE_S / step)) * step


def run_policy(folder: Path, policy: str, args: argparse.Namespace) -> list[Side]:
    workloads = [w for w in WORKLOADS if w.name in args.only]
    options = ["--appendfsync", policy]
    if args.beside is None:
        peer: AbstractContextManager[ServerProcess] = redis_server(folder / policy, policy)
    else:
        beside = folder / policy / "beside"
        peer = HoldfastServer(beside, *options, python=args.beside)
    scraper: AbstractContextManager[object] = nullcontext()
    if args.scrape:
        port = free_port()
        scraper = scraped_every_second(port)
        options += ["--http-port", str(port)]
    with holdfast_server(folder / policy, *options, *args.ours) as ours, peer as other, scraper:
        sides = [Side("ours", ours), Side("theirs", other)]
        for side in sides:
            with running_alone(side, sides) as client:
                fill(client, workloads)
        for workload in workloads:
            for pipeline in args.pipeline:
                for side in sides:
                    with running_alone(side, sides) as client:
                        warm_up(side, client, workload, pipeline, args.requests)
                for round_number in range(args.rounds):
                    # Alternate the first server: the disk is still busy with the writes of the
                    # server before.
                    for side in sides[::-1] if round_number % 2 else sides:
                        with running_alone(side, sides) as client:
                            sample = next_sample(side, client, workload, pipeline, args.requests)
                        say(
                            f"{policy} {workload.name} ×{pipeline} {round_number + 1}/{args.rounds}"
                            f" {side.name}: {sample.rps:,.0f}/s, p99 {sample.p99_ms:.2f} ms,"
                            f" {sample.cpu_us_per_op:.1f} µs of CPU"
                        )
        for side in sides:
            with running_alone(side, sides) as client:
                check_data(side, client, workloads)
    return sides


@contextmanager
def scraped_every_second(port: int) -> Iterator[None]:
    """As Prometheus would, only more often. While the server is stopped, this waits."""
    is_over = threading.Event()
    counts = {"scrapes": 0, "bytes": 0}

    def scrape() -> None:
        http = HttpPort(port)
        while not is_over.wait(1):
            with suppress(OSError):
                reply = http.get("/metrics")
                assert reply.status == 200, reply
                counts["scrapes"] += 1
                counts["bytes"] = len(reply.body)

    thread = threading.Thread(target=scrape, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join(60)
        say(f"{counts['scrapes']} scrapes, the last one of {counts['bytes']:,} bytes")
        assert counts["scrapes"], "no scrape was answered"


def warm_up(
    side: Side, client: RawClient, workload: Workload, pipeline: int, requests: int | None
) -> None:
    """Run the workload once, with as many requests as a measured round. This round leaves as much
    work to the fold as each round leaves to the next one, so every round pays for one. SAVE comes
    first: no round pays for another workload."""
    ask(client, "SAVE")
    first = requests or WARM_UP_ROUNDS * CLIENTS * pipeline
    sample = workload.measure(side.name, side.server, client, pipeline, first)
    if requests is None:
        requests = whole_rounds(sample.rps, pipeline)
        sample = workload.measure(side.name, side.server, client, pipeline, requests)
    side.rps = sample.rps


def next_sample(
    side: Side, client: RawClient, workload: Workload, pipeline: int, requests: int | None
) -> Sample:
    requests = requests or whole_rounds(side.rps, pipeline)
    sample = workload.measure(side.name, side.server, client, pipeline, requests)
    side.samples.setdefault((workload.name, pipeline), []).append(sample)
    side.rps = sample.rps
    return sample


# -- results ----------------------------------------------------------------------------------


@dataclass
class Row:
    """One command at one pipeline length: its rounds in order, and their summary."""

    command: str
    pipeline: int
    ratio: float  # median over the rounds of ours / redis-server's
    ratio_min: float
    ratio_max: float
    ours: list[Sample]
    redis: list[Sample]

    @property
    def falls_short(self) -> bool:
        return self.ratio < AIMS.get(self.pipeline, 0)


def summarise(command: str, pipeline: int, ours: list[Sample], redis: list[Sample]) -> Row:
    ratios = [our.rps / their.rps for our, their in zip(ours, redis, strict=True)]
    return Row(command, pipeline, median(ratios), min(ratios), max(ratios), ours, redis)


def table(rows: list[Row], peer: str = "redis") -> str:
    lines = [
        f"{'':18}{'requests/s':^20}{f'us : {peer}':>19}{'p99 ms':>19}{'CPU µs per op':>18}",
        f"{'command':18}{'ours':>9}{peer:>9}  {'median':>8}{'min–max':>13}"
        + 2 * f"{'ours':>9}{peer:>8}",
    ]
    for row in rows:
        name = f"{row.command} ×{row.pipeline}"
        rps, p99, cpu = (
            [median(getattr(sample, what) for sample in side) for side in (row.ours, row.redis)]
            for what in ("rps", "p99_ms", "cpu_us_per_op")
        )
        spread = f"{row.ratio_min:.2f}–{row.ratio_max:.2f}"
        mark = "  < aim" if peer == "redis" and row.falls_short else ""
        lines.append(
            f"{name:18}{rps[0]:>9,.0f}{rps[1]:>9,.0f}  {row.ratio:>8.2f}{spread:>13}"
            f"{p99[0]:>9.2f}{p99[1]:>8.2f}{cpu[0]:>9.1f}{cpu[1]:>8.1f}{mark}"
        )
    return "\n".join(lines)


def write_json(policy: str, rows: list[Row], args: argparse.Namespace) -> Path:
    whole = (args.only, args.pipeline, args.requests) == (all_names(), PIPELINES, None)
    whole = whole and args.rounds >= ROUNDS and args.beside is None and not args.ours
    name = f"{policy}-{args.save}" if args.save else f"{policy}{'' if whole else '-partial'}"
    path = ROOT / "bench" / "results" / f"{time.strftime('%Y-%m-%d')}-{name}.json"
    path.parent.mkdir(exist_ok=True)
    setup = {"policy": policy, "clients": CLIENTS, "value_bytes": len(VALUE), "keys": KEYS}
    setup["beside"] = "redis-server" if args.beside is None else "Holdfast"
    result = setup | {"machine": machine(), "rows": [asdict(row) for row in rows]}
    path.write_text(json.dumps(result, indent=1) + "\n")
    return path


def all_names() -> list[str]:
    return [workload.name for workload in WORKLOADS]


# -- command line -----------------------------------------------------------------------------


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench ARGS=…", description=__doc__)
    parser.add_argument("--rounds", type=positive, default=ROUNDS)
    parser.add_argument("--requests", type=positive, help="per measurement [as many as fill 2 s]")
    parser.add_argument("--only", type=names, default=all_names(), help="such as SET,NEW_*")
    parser.add_argument("--policy", choices=[*POLICIES, "both"], default="both")
    parser.add_argument("--pipeline", type=lengths, default=PIPELINES, help="such as 1,16")
    text = "compare with the Holdfast of this interpreter, such as ../before/.venv/bin/python"
    parser.add_argument("--beside", metavar="PYTHON", type=interpreter, help=text)
    text = "options of our server alone, as one argument"
    parser.add_argument("--ours", metavar="OPTIONS", type=shlex.split, default=[], help=text)
    text = "compare with the same Holdfast; ours has metrics, which are read every second"
    parser.add_argument("--scrape", action="store_true", help=text)
    parser.add_argument("--save", metavar="NAME", help="bench/results/<date>-<policy>-NAME.json")
    args = parser.parse_args(argv)
    if args.scrape:
        args.beside = args.beside or sys.executable
    return args


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def interpreter(text: str) -> str:
    """An interpreter that can import Holdfast; the folder is not src, so it imports its own."""
    asked = [text, "-c", "import holdfast"]
    try:
        subprocess.run(asked, check=True, capture_output=True, cwd="/")
    except (OSError, subprocess.CalledProcessError) as error:
        raise argparse.ArgumentTypeError(f"{text} has no Holdfast: {error}") from error
    return text


def names(text: str) -> list[str]:
    wanted = text.upper().split(",")
    if unknown := [name for name in wanted if not filter_names(all_names(), name)]:
        known = ", ".join(all_names())
        raise argparse.ArgumentTypeError(f"no such workload: {', '.join(unknown)} (have {known})")
    return [name for name in all_names() if any(fnmatchcase(name, each) for each in wanted)]


def lengths(text: str) -> tuple[int, ...]:
    return tuple(positive(part) for part in text.split(","))


def main() -> None:
    args = parse_args()
    started_s = time.monotonic()
    with workplace() as folder:
        for policy in POLICIES if args.policy == "both" else (args.policy,):
            ours, theirs = run_policy(folder, policy, args)
            rows = [
                summarise(*which, samples, theirs.samples[which])
                for which, samples in ours.samples.items()
            ]
            path = write_json(policy, rows, args)
            print(
                f"\nappendfsync {policy}: {CLIENTS} clients, {len(VALUE)}-byte values,"
                f" {KEYS:,} keys, rounds: {args.rounds} ({path.relative_to(ROOT)})\n\n"
                f"{table(rows, 'redis' if args.beside is None else 'beside')}\n",
                flush=True,
            )
    say(f"took {time.monotonic() - started_s:.0f} s")


if __name__ == "__main__":
    main()
