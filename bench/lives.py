"""`make bench-lives`: servers whose keys come and go, and what a client waits for meanwhile.

| row | one unit |
|---|---|
| sessions | a session is written with an expiry, read and prolonged; many live, and expire |
| jobs | a job is enqueued, taken, finished and forgotten: a hash for each, and a queue of them |
| tail | a PING beside new keys, which redis-benchmark makes 16 at a time |
| crash | a change that was not folded when the server was killed; it starts again |

Servers take turns, each is alone in its row. A row pays for all work that it causes: CPU time is
counted until the server is idle again, and the size of all files and of the process is measured
then. (After a crash: until the first PONG.) The clients are in this process, so rates tell less
than CPU times: a fast server waits for the clients.

RESPLite takes part if npm can install it. It knows fewer commands; a row that needs other commands
reports that.
"""

import argparse
import json
import random
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median

from bench import common
from bench.common import (
    ROOT,
    ask,
    cpu_s,
    fail,
    holdfast_server,
    machine,
    redis_server,
    rss_bytes,
    say,
    send_all,
    workplace,
)
from bench.fairness import GIVE_UP_AFTER_S, waits_s_of
from bench.resplite import MODES, Resplite, installed
from bench.workloads import CLIENTS, MANY, VALUE
from tests.harness import HoldfastServer, RawClient, encode_command
from tests.harness.processes import ServerProcess

CONNECTIONS = 8
AT_ONCE = 16  # sessions or jobs of a connection, in one write
SLICES = 10  # of the time of the sessions: the last is compared with the first
SESSION = VALUE * 8
CHANGED_KEYS = 90_000  # by the changes before a crash: fewer than make the fold begin a pass
NEVER_MS = 10**9


@dataclass
class Life:
    """A row of one server. `rates` are units a second, in order; `wait_ms` has percentiles of what
    a client waited for the replies to one write."""

    units: int
    rates: list[float]
    cpu_us: float  # for each unit
    wait_ms: dict[str, float]
    rss_mb: float
    files_mb: float
    notes: dict[str, float] = field(default_factory=dict)


class UnknownCommandError(Exception):
    """The server does not know a command that the row needs."""


# -- load -----------------------------------------------------------------------------------------

Step = tuple[bytes, int]  # the bytes that are sent together, and the number of their replies


def step(*commands: tuple[str | bytes | int, ...]) -> Step:
    return b"".join([encode_command(*command) for command in commands]), len(commands)


def exchange(clients: list[RawClient], steps: list[Step]) -> float:
    """Each client does its step; returns the longest wait, in seconds."""
    started_s = time.perf_counter()
    for client, (payload, _) in zip(clients, steps, strict=True):
        client.send(payload)
    for client, (_, replies) in zip(clients, steps, strict=True):
        for _ in range(replies):
            reply = client.read_reply()
            if reply[:1] == b"-":
                raise UnknownCommandError(reply.decode().strip())
    return time.perf_counter() - started_s


def percentiles(waits_s: list[float]) -> dict[str, float]:
    waits_s = sorted(waits_s)
    places = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999, "longest": 1.0}
    last = len(waits_s) - 1
    return {name: 1000 * waits_s[int(place * last)] for name, place in places.items()}


@dataclass
class Meter:
    """The costs of a server since this was made."""

    server: ServerProcess

    def __post_init__(self) -> None:
        self._cpu_s = cpu_s(self.server.pid)

    def life(self, units: int, rates: list[float], waits_s: list[float]) -> Life:
        used_s = common.wait_until_idle(self.server.pid) - self._cpu_s
        return Life(
            units,
            rates,
            1e6 * used_s / units,
            percentiles(waits_s),
            rss_bytes(self.server.pid) / 1e6,
            files_mb(self.server),
        )


def files_mb(server: ServerProcess) -> float:
    files = [path for path in server.folder.rglob("*") if path.is_file()]
    return sum(path.stat().st_size for path in files) / 1e6


# -- the rows -------------------------------------------------------------------------------------


def sessions(server: ServerProcess, args: argparse.Namespace) -> Life:
    """Half of the sessions live at a time: names are chosen from twice as many, and a session
    expires after the time that writing all of them takes."""
    rng = random.Random(1)
    ttl_s = max(1, int(args.seconds / 4))
    with ExitStack() as stack:
        clients = [stack.enter_context(server.client(GIVE_UP_AFTER_S)) for _ in range(CONNECTIONS)]
        names = (f"session:{number:012d}" for number in range(args.sessions))
        try:
            send_all(
                clients[0],
                (("SET", name, SESSION, "EX", rng.randint(1, ttl_s)) for name in names),
            )
        except SystemExit as error:
            raise UnknownCommandError(str(error)) from None
        common.wait_until_idle(server.pid)
        meter = Meter(server)
        rates: list[float] = []
        waits_s: list[float] = []
        for _ in range(SLICES):
            started_s, done = time.perf_counter(), 0
            while time.perf_counter() < started_s + args.seconds / SLICES:
                steps = [_touch(rng, 2 * args.sessions, ttl_s) for _ in clients]
                waits_s.append(exchange(clients, steps))
                done += AT_ONCE * len(clients)
            rates.append(done / (time.perf_counter() - started_s))
        units = len(waits_s) * AT_ONCE * len(clients)
        life = meter.life(units, rates, waits_s)
    life.notes["last : first"] = rates[-1] / rates[0]
    return life


def _touch(rng: random.Random, sessions: int, ttl_s: int) -> Step:
    commands: list[tuple[str | bytes | int, ...]] = []
    for _ in range(AT_ONCE):
        name = f"session:{rng.randrange(sessions):012d}"
        commands += [("SET", name, SESSION, "EX", ttl_s), ("GET", name), ("EXPIRE", name, ttl_s)]
    return step(*commands)


Queue = Callable[[int, range], list[Step]]


def list_jobs(queue: int, jobs: range) -> list[Step]:
    name = f"queue:{queue}"
    return [
        step(*[c for i in jobs for c in (_job(i), ("LPUSH", name, i))]),
        step(*[c for i in jobs for c in (("RPOP", name), _state(i, "running"))]),
        step(*[_state(i, "done") for i in jobs]),
        step(*[("DEL", f"job:{i}") for i in jobs]),
    ]


def zset_jobs(queue: int, jobs: range) -> list[Step]:
    name = f"due:{queue}"
    first = ("ZRANGEBYSCORE", name, "-inf", "+inf", "LIMIT", 0, 1)
    return [
        step(*[c for i in jobs for c in (_job(i), ("ZADD", name, i, i))]),
        step(*[c for i in jobs for c in (first, ("ZREM", name, i), _state(i, "running"))]),
        step(*[_state(i, "done") for i in jobs]),
        step(*[("DEL", f"job:{i}") for i in jobs]),
    ]


def stream_jobs(queue: int, jobs: range) -> list[Step]:
    name = f"events:{queue}"
    read = ("XREADGROUP", "GROUP", "workers", "me", "COUNT", 1, "STREAMS", name, ">")
    return [
        step(*[c for i in jobs for c in (_job(i), ("XADD", name, f"{i + 1}-0", "job", i))]),
        step(*[c for i in jobs for c in (read, _state(i, "running"))]),
        step(
            *[c for i in jobs for c in (_state(i, "done"), ("XACK", name, "workers", f"{i + 1}-0"))]
        ),
        step(*[c for i in jobs for c in (("XDEL", name, f"{i + 1}-0"), ("DEL", f"job:{i}"))]),
    ]


def _job(number: int) -> tuple[str | int, ...]:
    return "HSET", f"job:{number}", "state", "waiting", "payload", VALUE


def _state(number: int, state: str) -> tuple[str | int, ...]:
    return "HSET", f"job:{number}", "state", state


def jobs(server: ServerProcess, args: argparse.Namespace, queue: Queue) -> Life:
    """Each connection has a queue of its own. `--waiting` jobs of each wait all the time."""
    with ExitStack() as stack:
        clients = [stack.enter_context(server.client(GIVE_UP_AFTER_S)) for _ in range(CONNECTIONS)]
        if queue is stream_jobs:
            for number, client in enumerate(clients):
                created = ("XGROUP", "CREATE", f"events:{number}", "workers", "0", "MKSTREAM")
                exchange([client], [step(created)])
        meter = Meter(server)
        rounds = max(SLICES, args.jobs // (AT_ONCE * len(clients)))
        waiting = min(args.waiting // AT_ONCE, rounds // 2)
        rates: list[float] = []
        waits_s: list[float] = []
        lives: dict[int, list[list[Step]]] = {}  # by block: the four steps of each connection
        started_s, done = time.perf_counter(), 0
        for number in range(rounds + waiting):
            if number < rounds:
                lives[number] = [queue(at, _block(number, at)) for at in range(CONNECTIONS)]
                waits_s.append(exchange(clients, [steps[0] for steps in lives[number]]))
            if number >= waiting:
                block = lives.pop(number - waiting)
                waits_s += [
                    exchange(clients, [steps[place] for steps in block]) for place in (1, 2, 3)
                ]
            done += AT_ONCE * CONNECTIONS
            if number % (rounds // SLICES) == rounds // SLICES - 1:
                rates.append(done / (time.perf_counter() - started_s))
                started_s, done = time.perf_counter(), 0
        return meter.life(rounds * AT_ONCE * CONNECTIONS, rates, waits_s)


def _block(number: int, connection: int) -> range:
    first = (number * CONNECTIONS + connection) * AT_ONCE
    return range(first, first + AT_ONCE)


def tail(server: ServerProcess, args: argparse.Namespace, argv: tuple[str, ...]) -> Life:
    """The waits are those of the PINGs. A unit is a request of redis-benchmark."""
    with server.client(GIVE_UP_AFTER_S) as client:
        ask(client, "PING")
        meter = Meter(server)
        if not argv:
            started_s = time.perf_counter()
            waits_s = list(waits_s_of(client, started_s + args.seconds / SLICES))
            return meter.life(len(waits_s), [len(waits_s) / (args.seconds / SLICES)], waits_s)
        options = ("-n", str(args.requests), "-c", str(CLIENTS), "-P", "16", "-r", str(MANY), "-q")
        started_s = time.perf_counter()
        load = subprocess.Popen(
            ["redis-benchmark", "-p", str(server.port), *options, *argv],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        waits_s = []
        try:
            for wait_s in waits_s_of(client):
                waits_s.append(wait_s)
                if load.poll() is not None:
                    break
        finally:
            load.kill()
            _, said = load.communicate()
        if load.returncode:
            fail(f"redis-benchmark failed: {said.decode()[-300:]}")
        rate = args.requests / (time.perf_counter() - started_s)
        return meter.life(args.requests, [rate], waits_s)


def crash(server: ServerProcess, args: argparse.Namespace) -> Life:
    """SIGKILL after many changes that only the journal has, or the append-only file."""
    numbers = count()
    with server.client(GIVE_UP_AFTER_S) as client:
        if isinstance(server, HoldfastServer):
            ask(client, "CONFIG", "SET", "fold-age-ms", NEVER_MS)
        changes = (
            ("SET", f"key:{next(numbers) % CHANGED_KEYS:012d}", VALUE) for _ in range(args.changes)
        )
        send_all(client, changes)
        unfolded = _unfolded(client)
        loaded_mb = rss_bytes(server.pid) / 1e6
    server.kill()
    killed_mb = files_mb(server)
    started_s = time.perf_counter()
    server.start()
    with server.client(GIVE_UP_AFTER_S) as client:
        ask(client, "PING")
        ready_s, used_s = time.perf_counter() - started_s, cpu_s(server.pid)
        for number in (0, min(args.changes, CHANGED_KEYS) - 1):
            if ask(client, "GET", f"key:{number:012d}") != b"$%d\r\n%s\r\n" % (
                len(VALUE),
                VALUE.encode(),
            ):
                fail(f"a change is lost: key:{number:012d}")
    common.wait_until_idle(server.pid)
    notes = {"unfolded": unfolded, "ready_s": ready_s, "ready_cpu_s": used_s}
    notes |= {"files_mb_when_killed": killed_mb, "rss_mb_before": loaded_mb}
    return Life(
        args.changes,
        [args.changes / ready_s],
        1e6 * used_s / args.changes,
        {"longest": ready_s * 1000},
        rss_bytes(server.pid) / 1e6,
        files_mb(server),
        notes,
    )


def _unfolded(client: RawClient) -> float:
    for line in ask(client, "INFO").decode().splitlines():
        if line.startswith("holdfast_unfolded_ops:"):
            return float(line.partition(":")[2])
    return 0.0


NEW_STRING = ("SET", "key:__rand_int__", VALUE)
NEW_HASH = ("HSET", "hash:__rand_int__", "field", VALUE)
ROWS: dict[str, Callable[[ServerProcess, argparse.Namespace], Life]] = {
    "sessions": sessions,
    "jobs: hash, list": partial(jobs, queue=list_jobs),
    "jobs: hash, sorted set": partial(jobs, queue=zset_jobs),
    "jobs: hash, stream": partial(jobs, queue=stream_jobs),
    "tail: nothing beside": partial(tail, argv=()),
    "tail: new strings": partial(tail, argv=NEW_STRING),
    "tail: new hashes": partial(tail, argv=NEW_HASH),
    "crash": crash,
}


# -- servers and results --------------------------------------------------------------------------


def contestants(policy: str) -> dict[str, Callable[[Path], AbstractContextManager[ServerProcess]]]:
    found: dict[str, Callable[[Path], AbstractContextManager[ServerProcess]]] = {
        "ours": lambda folder: holdfast_server(folder, "--appendfsync", policy),
        "redis": lambda folder: redis_server(folder, policy),
    }
    reason = installed()
    if reason is not None:
        say(f"without RESPLite: {reason}")
        return found
    return found | {f"RESPLite {mode}": partial(Resplite, mode=mode) for mode in MODES}


def line(title: str, name: str, life: Life | str) -> str:
    if isinstance(life, str):
        return f"{title:24}{name:22}{life}"
    waits = "".join(
        [f"{life.wait_ms.get(place, 0):>9.2f}" for place in ("p50", "p99", "p99.9", "longest")]
    )
    notes = ", ".join([f"{what} {number:,.2f}" for what, number in life.notes.items()])
    return (
        f"{title:24}{name:22}{median(life.rates):>10,.0f}{life.cpu_us:>9.1f}{waits}"
        f"{life.rss_mb:>9.0f}{life.files_mb:>9.0f}  {notes}"
    )


HEAD = (
    f"{'':46}{'a second':>10}{'CPU µs':>9}{'wait p50':>9}{'p99':>9}{'p99.9':>9}{'longest':>9}"
    f"{'RSS MB':>9}{'files MB':>9}"
)


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-lives ARGS=…", description=__doc__)
    parser.add_argument("--only", default="", help="rows whose title has this word, such as tail")
    parser.add_argument("--policy", default="everysec", help="appendfsync of both servers")
    parser.add_argument("--seconds", type=float, default=60, help="of the sessions [60]")
    parser.add_argument("--sessions", type=int, default=200_000, help="that live at a time")
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--waiting", type=int, default=1000, help="jobs of each queue that wait")
    parser.add_argument("--requests", type=int, default=500_000, help="beside the PINGs of tail")
    parser.add_argument("--changes", type=int, default=990_000, help="before the crash")
    args = parser.parse_args(argv)
    if not any(args.only in title for title in ROWS):
        parser.error(f"no row has {args.only!r} in its title: {', '.join(ROWS)}")
    return args


def measure(args: argparse.Namespace) -> Iterator[tuple[str, str, Life | str]]:
    with workplace() as folder:
        for name, start in contestants(args.policy).items():
            for number, (title, row) in enumerate(ROWS.items()):
                if args.only not in title:
                    continue
                say(f"{title}: {name}")
                with start(folder / f"{name}-{number}") as server:
                    try:
                        yield title, name, row(server, args)
                    except UnknownCommandError as error:
                        yield title, name, f"not possible: {error}"


def main() -> None:
    args = parse_args()
    results: dict[str, dict[str, Life | str]] = {}
    print(HEAD)
    for title, name, life in measure(args):
        results.setdefault(title, {})[name] = life
        print(line(title, name, life), flush=True)
    is_whole = vars(args) == vars(parse_args([]))
    say(f"\nwritten to {write_json(results, args, is_whole).relative_to(ROOT)}")


def write_json(
    results: dict[str, dict[str, Life | str]], args: argparse.Namespace, is_whole: bool
) -> Path:
    name = f"{time.strftime('%Y-%m-%d')}-lives{'' if is_whole else '-partial'}.json"
    path = ROOT / "bench" / "results" / name
    path.parent.mkdir(exist_ok=True)
    rows = {
        title: {name: life if isinstance(life, str) else asdict(life) for name, life in row.items()}
        for title, row in results.items()
    }
    facts = {"machine": machine(), "options": vars(args), "rows": rows}
    path.write_text(json.dumps(facts, indent=1) + "\n")
    return path


if __name__ == "__main__":
    main()
