"""Shared by the benchmarks: a folder on the disk, the two servers, /proc, redis-benchmark.

This module does not know the benchmarks. The tests start their servers with the same code.
"""

import csv
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Never

from holdfast.server.version import IS_COMPILED
from tests.harness import HoldfastServer, RawClient, RedisServer, encode_command
from tests.harness.processes import ServerProcess
from tests.harness.rawclient import Argument

ROOT = Path(__file__).parent.parent
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
QUIET_S = 2.0  # seconds without work; our fold begins when a change is a second old
IDLE_SHARE = 0.03  # of a core; an idle server uses less
MOST_WAITING = 0.4  # of the time; a server that waits longer for a core has work to do
WINDOW = 500  # commands sent before their replies are read


def fail(sentence: str) -> Never:
    sys.exit(f"bench: {sentence}")


def say(line: str) -> None:
    """Report progress on stderr. stdout is for the result alone."""
    print(line, file=sys.stderr, flush=True)


def run(*argv: str) -> subprocess.CompletedProcess[str]:
    """Run a program to its end. The caller checks the exit code."""
    return subprocess.run(argv, check=False, capture_output=True, text=True)


@contextmanager
def workplace() -> Iterator[Path]:
    """A new folder, which is removed at the end, also after SIGTERM.

    It is inside the repository. A temporary folder may be in memory, where an fsync costs nothing
    and the comparison would mean nothing.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    (ROOT / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=ROOT / "build") as folder:
        yield Path(folder)


@contextmanager
def holdfast_server(folder: Path, *args: str) -> Iterator[HoldfastServer]:
    with HoldfastServer(folder / "holdfast", *args) as server:
        try:
            yield server
        except AssertionError as error:  # the server has ended, and its folder is removed next
            error.add_note(server.stderr[-2000:])
            raise


def redis_server(folder: Path, policy: str) -> AbstractContextManager[RedisServer]:
    """redis-server with the same durability as Holdfast: an append-only file on the same disk.

    It never rewrites that file. A rewrite is a second process that starts at any moment, so it
    would disturb sometimes this server and sometimes ours.
    """
    for program in ("redis-server", "redis-benchmark"):
        if shutil.which(program) is None:
            fail(f"{program} is not installed: there is nothing to compare with")
    aof = ("--appendonly", "yes", "--appendfsync", policy, "--auto-aof-rewrite-percentage", "0")
    return RedisServer(folder / "redis", *aof)


# -- /proc ------------------------------------------------------------------------------------


def cpu_s(pid: int) -> float:
    """User and system time of all threads of a process, exact to a tick of usually 10 ms."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def busy_s(pid: int) -> float:
    """How long threads of a process have run or have waited for a core."""
    times = [path.read_text().split() for path in Path(f"/proc/{pid}/task").glob("*/schedstat")]
    return sum(int(ran_ns) + int(waited_ns) for ran_ns, waited_ns, _ in times) / 1e9


def wait_until_idle(pid: int, quiet_s: float = QUIET_S) -> float:
    """Wait until a server has done all the work that it put off. Returns the CPU time that it has
    used until then. (A server that waits for a core is not idle.)"""
    used_s, busy_after_s = cpu_s(pid), busy_s(pid)
    while True:
        time.sleep(quiet_s)
        before_s, used_s = used_s, cpu_s(pid)
        busy_before_s, busy_after_s = busy_after_s, busy_s(pid)
        if (
            used_s - before_s <= IDLE_SHARE * quiet_s
            and busy_after_s - busy_before_s <= MOST_WAITING * quiet_s
        ):
            return before_s


def rss_bytes(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def file_bytes(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def machine() -> dict[str, str | int]:
    """The facts about this machine that readers of the figures need."""
    import apsw

    models = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return {
        "cpu": models[0] if models else "unknown",
        "cores": os.cpu_count() or 0,
        "python": sys.version.split()[0],
        "compiled": int(IS_COMPILED),
        "sqlite": apsw.sqlite_lib_version(),
        "redis": run("redis-server", "--version").stdout.partition("v=")[2].partition(" ")[0],
        "commit": run("git", "-C", str(ROOT), "describe", "--always", "--dirty").stdout.strip(),
    }


# -- load -------------------------------------------------------------------------------------


def send_all(client: RawClient, commands: Iterable[tuple[Argument, ...]]) -> None:
    """Send many commands in pipelines. An error reply ends the benchmark."""
    window: list[bytes] = []

    def exchange() -> None:
        client.send(b"".join(window))
        for _ in window:
            reply = client.read_reply()
            if reply[:1] == b"-":
                fail(f"the server answered {reply.decode().strip()!r}")
        window.clear()

    for command in commands:
        window.append(encode_command(*command))
        if len(window) == WINDOW:
            exchange()
    exchange()


def ask(client: RawClient, *args: Argument) -> bytes:
    """The reply to a command. An error reply ends the benchmark."""
    reply = client.command(*args)
    if reply[:1] == b"-":
        fail(f"{args[0]!r} was answered {reply.decode().strip()!r}")
    return reply


def ask_int(client: RawClient, *args: Argument) -> int:
    return int(ask(client, *args)[1:])


@dataclass
class Sample:
    """One run of redis-benchmark."""

    requests: int
    rps: float
    p99_ms: float
    cpu_us_per_op: float


def run_benchmark(
    server: ServerProcess,
    argv: tuple[str, ...],
    *,
    requests: int,
    clients: int,
    pipeline: int,
    keys: int,
    database: int = 0,
) -> Sample:
    """Make load with redis-benchmark, a generator that is not ours. It stops at an error reply."""
    options = {"-p": server.port, "-n": requests, "-c": clients, "-P": pipeline, "-r": keys}
    options["--dbnum"] = database
    words = [str(word) for option in options.items() for word in option]
    before_s = cpu_s(server.pid)
    done = run("redis-benchmark", *words, "--csv", *argv)
    used_s = cpu_s(server.pid) - before_s
    return Sample(
        requests, *parse_csv(done.returncode, done.stdout, done.stderr), 1e6 * used_s / requests
    )


def parse_csv(code: int, stdout: str, stderr: str) -> tuple[float, float]:
    """Requests per second and p99 in ms, from the output of redis-benchmark --csv."""
    rows = list(csv.DictReader(stdout.splitlines()))
    if code or len(rows) != 1:
        fail(f"redis-benchmark failed: {stderr.strip() or stdout.strip() or f'exit code {code}'}")
    return float(rows[0]["rps"]), float(rows[0]["p99_latency_ms"])
