"""`make bench-start`: how long a server takes from its start to its first PONG.

Holdfast and redis-server start in turn, each several times, on a new database and again on one of
100,000 keys. The table shows medians: the elapsed time, and the CPU time, on which other processes
have less effect. `python` is an interpreter that starts and does nothing: Holdfast cannot be faster
than that.

The first commands after the start are timed, too: the first client must not pay for work that the
start puts off.
"""

import argparse
import json
import shutil
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from bench.common import ROOT, ask, fail, machine, say, send_all, workplace
from tests.harness import RawClient
from tests.harness.processes import free_port

ROUNDS = 11
GIVE_UP_AFTER_S = 60.0
LOOK_AFTER_S = 0.0005
KEYS = 100_000

FIRST = {
    "SET": ("SET", "first", "value"),
    "HSET": ("HSET", "first-hash", "field", "value"),
    "EVAL": ("EVAL", "return redis.call('GET', KEYS[1])", "1", "first"),
}


@dataclass(frozen=True)
class Start:
    wall_ms: float
    cpu_ms: float
    # by command: the time of the first one
    first_ms: dict[str, float] = field(default_factory=dict)


def on_cpu_ms(pid: int) -> float:
    """CPU time of all threads of a process."""
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e6


def until_pong(argv: list[str], port: int, folder: Path) -> Start:
    """Start a server, wait for its first PONG, and stop it. If the folder is new, the database is
    filled before that."""
    is_new = not folder.exists()
    folder.mkdir(exist_ok=True)
    started_s = time.perf_counter()
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(argv, cwd=folder, stdout=output, stderr=output)
    try:
        while not answers(port):
            if process.poll() is not None or time.perf_counter() > started_s + GIVE_UP_AFTER_S:
                fail(f"{argv[0]} does not start: {(folder / 'output').read_text()[-500:]}")
            time.sleep(LOOK_AFTER_S)
        wall_ms = 1e3 * (time.perf_counter() - started_s)
        start = Start(wall_ms, on_cpu_ms(process.pid), first_commands(port))
        if is_new:
            with RawClient.connect(port) as client:
                send_all(client, (("SET", f"key:{number}", "x" * 32) for number in range(KEYS)))
        return start
    finally:
        process.terminate()
        process.wait()


def answers(port: int) -> bool:
    with socket.socket() as sock:
        sock.settimeout(GIVE_UP_AFTER_S)
        try:
            sock.connect(("127.0.0.1", port))
            sock.sendall(b"PING\r\n")
            return sock.recv(64).startswith(b"+PONG")
        except OSError:
            return False


def first_commands(port: int) -> dict[str, float]:
    first_ms = {}
    with RawClient.connect(port) as client:
        for name, command in FIRST.items():
            began_s = time.perf_counter()
            ask(client, *command)
            first_ms[name] = 1e3 * (time.perf_counter() - began_s)
    return first_ms


def holdfast(folder: Path) -> Start:
    port = free_port()
    program = shutil.which("holdfast", path=str(Path(sys.executable).parent)) or "holdfast"
    return until_pong([program, "serve", "--port", str(port), "--db", "x.db"], port, folder)


def redis(folder: Path) -> Start:
    port = free_port()
    argv = ["redis-server", "--port", str(port), "--appendonly", "yes", "--save", ""]
    return until_pong(argv, port, folder)


def python(folder: Path) -> Start:
    started_s = time.perf_counter()
    code = "import time; print(time.process_time())"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return Start(1e3 * (time.perf_counter() - started_s), 1e3 * float(done.stdout))


SERVERS = {"holdfast": holdfast, "redis-server": redis, "python": python}


def measure(folder: Path, rounds: int) -> dict[str, list[Start]]:
    """All starts, by server and kind of database."""
    found: dict[str, list[Start]] = {}
    for number in range(rounds):
        say(f"round {number + 1} of {rounds}")
        for name, start in SERVERS.items():
            place = folder / f"{name}-{number}"
            found.setdefault(f"{name}, new", []).append(start(place))
            if name != "python":
                found.setdefault(f"{name}, {KEYS:,} keys", []).append(start(place))
    return found


def table(found: dict[str, list[Start]]) -> Iterator[str]:
    first = [f"first {name}" for name in FIRST]
    yield f"| start | ms until PONG | shortest | ms of CPU | {' | '.join(first)} |"
    yield "|---" * (4 + len(first)) + "|"
    for name, starts in found.items():
        wall_ms = [start.wall_ms for start in starts]
        cpu_ms = statistics.median(start.cpu_ms for start in starts)
        cells = [f"{statistics.median(wall_ms):.0f}", f"{min(wall_ms):.0f}", f"{cpu_ms:.0f}"]
        for command in FIRST:
            first_ms = [start.first_ms[command] for start in starts if start.first_ms]
            cells.append(f"{statistics.median(first_ms):.1f}" if first_ms else "–")
        yield f"| {name} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench-start", description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--json", type=Path, help="also write all figures to this file")
    args = parser.parse_args()
    if shutil.which("redis-server") is None:
        fail("redis-server is not installed: there is nothing to compare with")
    with workplace() as folder:
        found = measure(folder, args.rounds)
    print(*table(found), sep="\n")
    if args.json is not None:
        figures = {name: [asdict(start) for start in starts] for name, starts in found.items()}
        text = json.dumps({"machine": machine(), "starts": figures}, indent=1)
        (ROOT / args.json).write_text(text + "\n")


if __name__ == "__main__":
    main()
