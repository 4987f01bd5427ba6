"""`make bench-lives`: servers whose keys come and go, and what a client waits for meanwhile.

| row | one unit |
|---|---|
| sessions | a session is written with an expiry, read and prolonged; many live, and expire |
| jobs | a job is enqueued, taken, finished and forgotten: a hash for each, and a queue of them |
| tail | a PING beside new keys, which redis-benchmark makes 16 at a time |
| crash | a change that was not folded when the server was killed; it starts again |
| working set | a read or a write of a key of any type, among a tenth of all keys |

Servers take turns, each is alone in its row. A row pays for all work that it causes: CPU time is
counted until the server is idle again, and the size of all files and of the process is measured
then. (After a crash: until the first PONG.) The clients are in this process, so rates tell less
than CPU times: a fast server waits for the clients.

Rounds of a row follow each other, and servers change places from round to round. With
`--before PYTHON` the Holdfast that this interpreter has installed takes part as "before".

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
from tempfile import TemporaryDirectory

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
from bench.compare import interpreter, positive
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
    """All sessions live at the start. Names are chosen from twice as many. So half of them live at
    a time if clients touch about 1.4 times as many as `--sessions` within `--ttl`."""
    rng = random.Random(1)
    ttl_s = args.ttl or max(1, int(args.seconds / 4))
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
        if isinstance(server, HoldfastServer):
            ask(clients[0], "SAVE")  # not until it is idle: then all sessions would have expired
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
        unfolded = _info(client, "holdfast_unfolded_ops")
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


def working_set(server: ServerProcess, args: argparse.Namespace, *, is_limited: bool) -> Life:
    """Commands on a tenth of the keys, which are spread over the file. If `is_limited`, Holdfast
    may keep so many bytes in memory as a tenth of all keys takes."""
    if is_limited and not isinstance(server, HoldfastServer):
        raise UnknownCommandError("it keeps all keys in memory")
    rng = random.Random(1)
    with ExitStack() as stack:
        clients = [stack.enter_context(server.client(GIVE_UP_AFTER_S)) for _ in range(CONNECTIONS)]
        send_all(clients[0], (_new_key(number) for number in range(args.keys)))
        common.wait_until_idle(server.pid)
        if is_limited:
            used_bytes = int(_info(clients[0], "used_memory_dataset"))
            ask(clients[0], "CONFIG", "SET", "maxmemory", used_bytes // 10)
            common.wait_until_idle(server.pid)
        meter = Meter(server)
        rates: list[float] = []
        waits_s: list[float] = []
        for _ in range(SLICES):
            started_s, done = time.perf_counter(), 0
            while time.perf_counter() < started_s + args.seconds / SLICES:
                waits_s.append(exchange(clients, [_use(rng, args.keys) for _ in clients]))
                done += AT_ONCE * CONNECTIONS
            rates.append(done / (time.perf_counter() - started_s))
        return meter.life(len(waits_s) * AT_ONCE * CONNECTIONS, rates, waits_s)


# For a key of each type: the command that makes it, one that reads it, and one that changes it.
# "#" is a small random number. No key grows without end.
USES: tuple[tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]], ...] = (
    (("SET", VALUE), ("GET",), ("SET", VALUE)),
    (("HSET", "a", VALUE, "b", VALUE, "c", VALUE), ("HGETALL",), ("HSET", "b", "#")),
    (("RPUSH", VALUE, VALUE, VALUE), ("LRANGE", "0", "-1"), ("LSET", "1", "#")),
    (("SADD", "a", "b", "c"), ("SMEMBERS",), ("SADD", "#")),
    (("ZADD", "1", "a", "2", "b", "3", "c"), ("ZRANGE", "0", "-1"), ("ZADD", "#", "b")),
    (("XADD", "*", "f", VALUE), ("XRANGE", "-", "+"), ("XADD", "MAXLEN", "3", "*", "f", VALUE)),
)
SPREAD = 1_000_003  # a prime: it spreads the tenth over all keys and types


def _name(number: int) -> str:
    return f"key:{number:012d}"


def _new_key(number: int) -> tuple[str, ...]:
    command, *rest = USES[number % len(USES)][0]
    return command, _name(number), *rest


def _use(rng: random.Random, keys: int) -> Step:
    """Reads and writes in equal parts."""
    commands = []
    for _ in range(AT_ONCE):
        number = rng.randrange(max(keys // 10, 1)) * SPREAD % keys
        command, *rest = USES[number % len(USES)][rng.randint(1, 2)]
        small = str(rng.randrange(8))
        commands.append(
            (command, _name(number), *[small if each == "#" else each for each in rest])
        )
    return step(*commands)


def _info(client: RawClient, name: str) -> float:
    for line in ask(client, "INFO", "everything").decode().splitlines():
        if line.startswith(f"{name}:"):
            return float(line.partition(":")[2])
    return 0.0


NEW_STRING = ("SET", "key:__rand_int__", VALUE)
NEW_HASH = ("HSET", "hash:__rand_int__", "field", VALUE)
Row = Callable[[ServerProcess, argparse.Namespace], Life]
ROWS: dict[str, Row] = {
    "sessions": sessions,
    "jobs: hash, list": partial(jobs, queue=list_jobs),
    "jobs: hash, sorted set": partial(jobs, queue=zset_jobs),
    "jobs: hash, stream": partial(jobs, queue=stream_jobs),
    "tail: nothing beside": partial(tail, argv=()),
    "tail: new strings": partial(tail, argv=NEW_STRING),
    "tail: new hashes": partial(tail, argv=NEW_HASH),
    "crash": crash,
    "working set: in the file": partial(working_set, is_limited=True),
    "working set: in memory": partial(working_set, is_limited=False),
}


# -- servers and results --------------------------------------------------------------------------


Start = Callable[[Path], AbstractContextManager[ServerProcess]]


def contestants(policy: str, before: str | None = None) -> dict[str, Start]:
    options = ("--appendfsync", policy)
    found: dict[str, Start] = {"ours": lambda folder: holdfast_server(folder, *options)}
    if before is not None:
        found["before"] = lambda folder: HoldfastServer(folder / "before", *options, python=before)
    found["redis"] = lambda folder: redis_server(folder, policy)
    reason = installed()
    if reason is not None:
        say(f"without RESPLite: {reason}")
        return found
    return found | {f"RESPLite {mode}": partial(Resplite, mode=mode) for mode in MODES}


Results = dict[str, dict[str, list[Life | str]]]  # by row and server: its rounds


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
    parser.add_argument("--ttl", type=int, help="of a session, s [a quarter of the time]")
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--waiting", type=int, default=1000, help="jobs of each queue that wait")
    parser.add_argument("--requests", type=int, default=500_000, help="beside the PINGs of tail")
    parser.add_argument("--changes", type=int, default=990_000, help="before the crash")
    parser.add_argument("--keys", type=int, default=500_000, help="of the working set")
    parser.add_argument("--rounds", type=positive, default=1)
    parser.add_argument("--before", metavar="PYTHON", type=interpreter, help="of an older Holdfast")
    parser.add_argument("--save", metavar="NAME", help="bench/results/<date>-NAME.json")
    args = parser.parse_args(argv)
    if not any(args.only in title for title in ROWS):
        parser.error(f"no row has {args.only!r} in its title: {', '.join(ROWS)}")
    return args


def measure(args: argparse.Namespace) -> Iterator[tuple[str, str, Life | str]]:
    servers = contestants(args.policy, args.before)
    with workplace() as folder:
        for title, row in ROWS.items():
            if args.only not in title:
                continue
            for number in range(args.rounds):
                for name in reversed(servers) if number % 2 else servers:
                    say(f"{title}, round {number + 1}: {name}")
                    with TemporaryDirectory(dir=folder) as place:
                        yield title, name, _one(servers[name], Path(place), row, args)


def _one(start: Start, folder: Path, row: Row, args: argparse.Namespace) -> Life | str:
    with start(folder) as server:
        try:
            return row(server, args)
        except UnknownCommandError as error:
            return f"not possible: {error}"


def main() -> None:
    args = parse_args()
    results: Results = {}
    print(HEAD)
    for title, name, life in measure(args):
        results.setdefault(title, {}).setdefault(name, []).append(life)
        print(line(title, name, life), flush=True)
    say(f"\nwritten to {write_json(results, args).relative_to(ROOT)}")


def write_json(results: Results, args: argparse.Namespace) -> Path:
    """By row and server: all rounds."""
    usual = vars(parse_args([])).keys() - {"before", "save"}
    options = {name: getattr(args, name) for name in sorted(usual)}
    asked, default = ({**each, "rounds": 0} for each in (options, vars(parse_args([]))))
    is_whole = asked.items() <= default.items()
    name = args.save or ("lives" if is_whole else "lives-partial")
    path = ROOT / "bench" / "results" / f"{time.strftime('%Y-%m-%d')}-{name}.json"
    path.parent.mkdir(exist_ok=True)
    rows = {
        title: {
            name: [life if isinstance(life, str) else asdict(life) for life in lives]
            for name, lives in row.items()
        }
        for title, row in results.items()
    }
    facts = {"machine": machine(), "options": options, "rows": rows}
    path.write_text(json.dumps(facts, indent=1) + "\n")
    return path


if __name__ == "__main__":
    main()
