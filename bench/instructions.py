"""`make bench-instructions ARGS="--beside PYTHON"`: instructions of the server for each request, of
this Holdfast and of another one.

valgrind counts them (`apt-get install valgrind`), so a busy machine does not change the figures. It
does not count the kernel, and it does not show waiting for memory. Each measurement ends with SAVE,
so all that the fold does for its requests is part of it. `fold-age-ms` is so large that nothing
else begins a pass: the clock runs at its usual speed, and the server at a fiftieth of it.
"""

import argparse
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.common import ask, say, workplace
from bench.compare import PIPELINES, all_names, fill, interpreter, lengths, names, positive
from bench.workloads import CLIENTS, WORKLOADS
from tests.harness import HoldfastServer

REQUESTS = 8_000
NO_PASS_MS = 24 * 3600 * 1000
STARTS_IN_S = 300.0


class CountedServer(HoldfastServer):
    """A server under callgrind, whose instructions can be read while it runs."""

    start_timeout_s = STARTS_IN_S

    def _spawn(self, argv: list[str], env: dict[str, str] | None = None) -> re.Match[str] | None:
        out = f"--callgrind-out-file={self._out}"
        return super()._spawn(["valgrind", "--tool=callgrind", out, *argv], env)

    @property
    def _out(self) -> Path:
        return self.folder / "callgrind"

    def zero(self) -> None:
        self._control("--zero")

    def count(self) -> int:
        """Instructions since `zero`."""
        for path in self.folder.glob("callgrind*"):
            path.unlink()
        self._control("--dump")
        for path in self.folder.glob("callgrind.*"):
            for line in path.read_text().splitlines():
                if line.startswith(("totals:", "summary:")):
                    return int(line.split()[1])
        raise AssertionError("callgrind has written no total")

    def _control(self, command: str) -> None:
        argv = ["callgrind_control", command, str(self.pid)]
        subprocess.run(argv, check=True, capture_output=True, cwd=self.folder)


def counts(python: str, folder: Path, args: argparse.Namespace) -> dict[tuple[str, int], float]:
    """Instructions for each request, by workload and pipeline."""
    folder.mkdir()
    found: dict[tuple[str, int], float] = {}
    workloads = [workload for workload in WORKLOADS if workload.name in args.only]
    with CountedServer(folder, "--appendfsync", "everysec", python=python) as server:
        client = server.client(timeout_s=1200)
        client.command("CONFIG", "SET", "fold-age-ms", NO_PASS_MS)  # older versions have none
        fill(client, workloads)
        for workload in workloads:
            for pipeline in args.pipeline:
                step = CLIENTS * pipeline
                requests = max(1, args.requests // step) * step
                workload.measure(folder.name, server, client, pipeline, step)
                ask(client, "SAVE")
                server.zero()
                workload.measure(folder.name, server, client, pipeline, requests)
                ask(client, "SAVE")
                found[workload.name, pipeline] = server.count() / requests
                say(f"{folder.name}: {workload.name} ×{pipeline}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench-instructions ARGS=…", description=__doc__)
    text = "the Holdfast to compare with, such as ../before/.venv/bin/python"
    parser.add_argument("--beside", metavar="PYTHON", type=interpreter, required=True, help=text)
    parser.add_argument("--requests", type=positive, default=REQUESTS)
    parser.add_argument("--only", type=names, default=all_names(), help="such as SET,GET")
    parser.add_argument("--pipeline", type=lengths, default=PIPELINES, help="such as 1,16")
    args = parser.parse_args()
    with workplace() as folder, ThreadPoolExecutor(2) as pool:
        ours = pool.submit(counts, sys.executable, folder / "ours", args)
        theirs = pool.submit(counts, args.beside, folder / "beside", args)
        rows = [(*which, count, theirs.result()[which]) for which, count in ours.result().items()]
    print("| instructions | ours | beside | ours : beside |\n|---|---|---|---|")
    for name, pipeline, count, other in rows:
        print(f"| {name} ×{pipeline} | {count:,.0f} | {other:,.0f} | {count / other:.2f} |")


if __name__ == "__main__":
    main()
