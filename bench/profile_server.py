"""`make profile ARGS="SET --pipeline 16"`: the functions that take the server's time.

With py-spy (`.venv/bin/pip install py-spy`; not a dependency of ours) the running server is
sampled. That hardly disturbs it, so trust the shares. Without py-spy, cProfile times every call.
That makes small functions look slower than they are, so trust only the counts.
"""

import argparse
import os
import pstats
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

from bench.common import say, workplace
from bench.compare import fill, whole_rounds
from bench.workloads import CLIENTS, WORKLOADS
from tests.harness import HoldfastServer

SAMPLES_PER_S = 500
WARM_UP_REQUESTS = 100  # of each client, times the pipeline


class ProfiledServer(HoldfastServer):
    """A server under cProfile, which writes its file when the server ends."""

    @property
    def profile(self) -> Path:
        return self.folder / "profile"

    def _spawn(self, argv: list[str], env: dict[str, str] | None = None) -> re.Match[str] | None:
        profiler = ["-m", "cProfile", "-o", str(self.profile)]
        return super()._spawn([argv[0], *profiler, *argv[1:]], env)


def show_shares(stacks: str, top: int) -> None:
    """Print shares from py-spy's raw format, one stack a line: 'outer;inner;innermost count'."""
    own: Counter[str] = Counter()
    within: Counter[str] = Counter()
    for line in stacks.splitlines():
        stack, _, text = line.rpartition(" ")
        functions = stack.split(";")
        own[functions[-1]] += int(text)
        for function in set(functions):
            within[function] += int(text)
    total = own.total() or 1
    print(f"{'own':>7}{'within':>8}  function")
    for function, count in own.most_common(top):
        print(f"{count / total:>7.1%}{within[function] / total:>8.1%}  {function}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="make profile ARGS=…", description=__doc__)
    parser.add_argument("workload", choices=[workload.name for workload in WORKLOADS])
    parser.add_argument("--pipeline", type=int, default=1)
    parser.add_argument("--policy", choices=["always", "everysec", "no"], default="everysec")
    parser.add_argument("--native", action="store_true", help="C functions, too (py-spy only)")
    parser.add_argument("--top", type=int, default=30)
    args = parser.parse_args()
    (workload,) = (each for each in WORKLOADS if each.name == args.workload)
    beside_python = str(Path(sys.executable).parent)
    sampler = shutil.which("py-spy", path=os.pathsep.join([beside_python, os.environ["PATH"]]))
    kind = HoldfastServer if sampler else ProfiledServer
    with workplace() as folder, kind(folder, "--appendfsync", args.policy) as server:
        client = server.client(timeout_s=120)
        fill(client, [workload])
        warm_up = WARM_UP_REQUESTS * CLIENTS * args.pipeline
        rps = workload.measure("ours", server, client, args.pipeline, warm_up).rps
        requests = whole_rounds(rps, args.pipeline)
        if not sampler:
            sample = workload.measure("ours", server, client, args.pipeline, requests)
            server.terminate()
            pstats.Stats(str(folder / "profile")).sort_stats("tottime").print_stats(args.top)
        else:
            stacks = folder / "stacks"
            options = ["--pid", str(server.pid), "--rate", str(SAMPLES_PER_S), "--format", "raw"]
            options += ["--function", *(["--native"] if args.native else [])]
            with subprocess.Popen(
                [sampler, "record", *options, "--output", str(stacks)], stdout=subprocess.DEVNULL
            ) as recording:
                sample = workload.measure("ours", server, client, args.pipeline, requests)
                recording.send_signal(signal.SIGINT)
            show_shares(stacks.read_text(), args.top)
    say(f"{sample.rps:,.0f}/s, {sample.cpu_us_per_op:.1f} µs of CPU each, while being profiled")


if __name__ == "__main__":
    main()
