"""`make bench-pytest`: how long a test suite takes with a server of its own for each test.

The suite is that of tests/testing/example, each test several times. It runs on fakeredis, on the
fixtures of Holdfast, and on a redis-server that is started for each test. The figures are medians
of several runs in turn, each with the start of pytest: the elapsed time, and the CPU time, on which
other processes have less effect.
"""

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from bench.common import ROOT, fail, say

EXAMPLE = ROOT / "tests" / "testing" / "example"
PLUGIN = "holdfast.testing.pytest_plugin"

# The plugin that makes the fixture of the suite.
SERVERS = {
    "fakeredis (in the process, no server)": "with_fakeredis",
    "Holdfast, a process for each test": "with_holdfast",
    "redis-server, started for each test": "bench.pytest_with_redis",
}


class Run(NamedTuple):
    wall_s: float
    cpu_s: float  # of all processes


def run(python: str, plugin: str, times: int) -> Run:
    env = os.environ | {
        "PYTHONPATH": os.pathsep.join(map(str, [EXAMPLE, ROOT])),
        "HOLDFAST_BENCH_TIMES": str(times),
    }
    argv = [python, "-m", "pytest", "-q", "-p", "bench.pytest_repeat", "-p", plugin]
    if b"pytest11" not in entry_points(python):  # it runs from src
        argv += ["-p", PLUGIN]
        env["PYTHONPATH"] += f"{os.pathsep}{ROOT / 'src'}"
    began_s, used_s = time.perf_counter(), children_cpu_s()
    done = subprocess.run(argv, cwd=EXAMPLE, env=env, capture_output=True, text=True, check=False)
    took = Run(time.perf_counter() - began_s, children_cpu_s() - used_s)
    if done.returncode:
        fail(f"{plugin}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return took


def children_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def entry_points(python: str) -> bytes:
    code = "from importlib.metadata import distribution as d; print(d('holdfast').entry_points)"
    return subprocess.run([python, "-c", code], capture_output=True, check=False).stdout


def measure(python: str, rounds: int, times: int) -> dict[str, tuple[Run, Run]]:
    """By server: a run of each test once, and of each test `times` times."""
    found: dict[str, list[tuple[Run, Run]]] = {name: [] for name in SERVERS}
    for number in range(rounds):
        say(f"round {number + 1} of {rounds}")
        for name, plugin in SERVERS.items():
            found[name].append((run(python, plugin, 1), run(python, plugin, times)))
    return {
        name: (median([once for once, _ in runs]), median([often for _, often in runs]))
        for name, runs in found.items()
    }


def median(runs: list[Run]) -> Run:
    return Run(*map(statistics.median, zip(*runs, strict=True)))


def table(found: dict[str, tuple[Run, Run]], tests: int, times: int) -> Iterator[str]:
    yield (
        f"| server | {tests} tests, s | {tests * times} tests, s"
        " | ms for each further test | ms of CPU |"
    )
    yield "|---|---|---|---|---|"
    further = tests * (times - 1)
    for name, (once, often) in found.items():
        each_ms = 1e3 * (often.wall_s - once.wall_s) / further
        cpu_ms = 1e3 * (often.cpu_s - once.cpu_s) / further
        yield f"| {name} | {once.wall_s:.2f} | {often.wall_s:.2f} | {each_ms:.1f} | {cpu_ms:.1f} |"


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench-pytest", description=__doc__.split("\n")[0])
    parser.add_argument("--python", default=sys.executable, help="an interpreter with fakeredis")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--times", type=int, default=20, help="how often each test runs")
    args = parser.parse_args()
    if shutil.which("redis-server") is None:
        fail("redis-server is not installed: there is nothing to compare with")
    if args.times < 2:
        fail("--times: each test has to run twice at least")
    tests = Path(EXAMPLE, "test_mailroom.py").read_text().count("\ndef test_") + 1  # one runs twice
    found = measure(os.path.abspath(args.python), args.rounds, args.times)
    print(*table(found, tests, args.times), sep="\n")


if __name__ == "__main__":
    main()
