"""`make bench-replication`: Redis's replication, between Holdfast and redis-server in each role.

| row | what is measured |
|---|---|
| snapshot | the time from REPLICAOF until the replica follows, with small strings |
| hashes | likewise, with small hashes |
| primary | SET with one replica, and without |
| stream | commands that a replica applies after it was stopped, a second |
| lag | from the reply of a write at the primary until the replica has it, beside other writes |
| failover | from SIGKILL of the primary until a client may write again, with redis-sentinel |

All pairs are measured in one run. CPU time is that of a server and of the processes that it started
and that have ended. It is comparable also on a busy machine; times are not.
"""

import argparse
import json
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median

from redis import Redis
from redis.exceptions import RedisError
from redis.sentinel import Sentinel as SentinelOfRedis

from bench.common import ROOT, TICKS_PER_S, ask, ask_int, machine, run_benchmark, say, workplace
from tests.harness import HoldfastServer, RawClient, RedisServer, wait_until
from tests.harness.processes import ServerProcess, SteadyServer
from tests.server.primary.following import info, is_up
from tests.server.replica.test_with_sentinel import crew

KEYS = 1_000_000
WRITES = 500_000
AT_ONCE = 10_000
FILL_HASHES = """
for n = ARGV[1], ARGV[2] - 1 do
    redis.call('HSET', 'session:' .. n, 'user', n, 'visits', n % 17, 'token', '0123456789' .. n)
end
"""
LOOKS = 500
FAILOVERS = 3
GIVE_UP_S = 3600.0
DURABLE = ("--appendfsync", "everysec")
OPTIONS: dict[type[ServerProcess], tuple[str, ...]] = {
    HoldfastServer: (*DURABLE, "--enable-debug-command", "yes"),
    RedisServer: (
        *(*DURABLE, "--appendonly", "yes", "--auto-aof-rewrite-percentage", "0"),
        *("--enable-debug-command", "yes", "--repl-diskless-sync-delay", "0"),
    ),
}
NAMES: dict[type[ServerProcess], str] = {HoldfastServer: "holdfast", RedisServer: "redis"}
PAIRS: tuple[tuple[type[ServerProcess], type[ServerProcess]], ...] = (
    (RedisServer, RedisServer),
    (HoldfastServer, RedisServer),
    (RedisServer, HoldfastServer),
    (HoldfastServer, HoldfastServer),
)


@dataclass
class Row:
    what: str
    primary: str
    replica: str
    figures: dict[str, float] = field(default_factory=dict)


def tree_cpu_s(pid: int) -> float:
    """CPU time of a process, and of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / TICKS_PER_S


@contextmanager
def pair(
    folder: Path, primary: type[ServerProcess], replica: type[ServerProcess]
) -> Iterator[tuple[ServerProcess, ServerProcess]]:
    with (
        primary(folder / "primary", *OPTIONS[primary]) as one,
        replica(folder / "replica", *OPTIONS[replica]) as two,
    ):
        yield one, two


def follow(primary: ServerProcess, replica: ServerProcess) -> RawClient:
    client = replica.client()
    ask(client, "REPLICAOF", "127.0.0.1", primary.port)
    wait_until(lambda: is_up(client), "it follows", GIVE_UP_S)
    return client


# -- rows ---------------------------------------------------------------------------------------


def snapshot(share: float) -> Iterator[Row]:
    def fill(client: RawClient, keys: int) -> None:
        ask(client, "DEBUG", "POPULATE", keys, "key", 32)

    yield from _snapshots("snapshot", int(KEYS * share), fill)


def hashes(share: float) -> Iterator[Row]:
    def fill(client: RawClient, keys: int) -> None:
        for first in range(0, keys, AT_ONCE):
            ask(client, "EVAL", FILL_HASHES, 0, first, min(keys, first + AT_ONCE))

    yield from _snapshots("hashes", int(KEYS * share), fill)


def _snapshots(name: str, keys: int, fill: Callable[[RawClient, int], None]) -> Iterator[Row]:
    for kinds in PAIRS:
        row = Row(name, NAMES[kinds[0]], NAMES[kinds[1]])
        with workplace() as folder, pair(folder, *kinds) as (primary, replica):
            fill(primary.client(), keys)
            # A primary that has just received so many keys is still writing them to its tables.
            ask(primary.client(), "SAVE")
            before = [tree_cpu_s(server.pid) for server in (primary, replica)]
            began_s = time.perf_counter()
            client = follow(primary, replica)
            row.figures["seconds"] = time.perf_counter() - began_s
            assert ask_int(client, "DBSIZE") == keys
            for role, server, used_s in zip(
                ("primary", "replica"), (primary, replica), before, strict=True
            ):
                row.figures[f"{role}_cpu_s"] = tree_cpu_s(server.pid) - used_s
        row.figures["keys"] = keys
        yield row


def primary(share: float) -> Iterator[Row]:
    """The replica is a redis-server, because it uses the least of the machine. For the primary all
    replicas cost the same."""
    requests = int(WRITES * share)
    for kind in (RedisServer, HoldfastServer):
        for has_replica in (False, True):
            name = "redis" if has_replica else "none"
            with workplace() as folder, pair(folder, kind, RedisServer) as (server, replica):
                if has_replica:
                    follow(server, replica)
                argv = ("SET", "key:__rand_int__", "x" * 32)
                sample = run_benchmark(
                    server, argv, requests=requests, clients=50, pipeline=16, keys=100_000
                )
                figures = {"rps": sample.rps, "cpu_us": sample.cpu_us_per_op}
                yield Row("primary", NAMES[kind], name, figures)


def stream(share: float) -> Iterator[Row]:
    """The replica is stopped while the primary, a redis-server, takes writes. Then it catches
    up."""
    requests = int(WRITES * share)
    for kind in (RedisServer, HoldfastServer):
        with workplace() as folder, pair(folder, RedisServer, kind) as (server, replica):
            client, there = server.client(), follow(server, replica)
            ask(client, "CONFIG", "SET", "client-output-buffer-limit", "replica 0 0 0")
            ask(client, "CONFIG", "SET", "repl-timeout", 3600)
            replica.suspend()
            try:
                argv = ("SET", "key:__rand_int__", "x" * 32)
                run_benchmark(
                    server, argv, requests=requests, clients=50, pipeline=16, keys=100_000
                )
            finally:
                replica.resume()
            offset = int(info(client)["master_repl_offset"])
            used_s, began_s = tree_cpu_s(replica.pid), time.perf_counter()

            def has_all(there: RawClient = there, offset: int = offset) -> bool:
                return int(info(there)["slave_repl_offset"]) >= offset

            wait_until(has_all, "it has all", GIVE_UP_S)
            took_s, cpu = time.perf_counter() - began_s, tree_cpu_s(replica.pid) - used_s
            figures = {"commands_s": requests / took_s, "cpu_us": 1e6 * cpu / requests}
            yield Row("stream", "redis", NAMES[kind], figures)


def lag(share: float) -> Iterator[Row]:
    for kinds in PAIRS:
        with workplace() as folder, pair(folder, *kinds) as (server, replica):
            there, client = follow(server, replica), server.client()
            ends = threading.Event()
            writer = threading.Thread(target=_write, args=(server, ends))
            writer.start()
            waits_ms: list[float] = []
            try:
                for number in range(max(50, int(LOOKS * share))):
                    ask(client, "SET", "mark", number)
                    began_s = time.perf_counter()
                    while ask(there, "GET", "mark").split(b"\r\n")[1:2] != [b"%d" % number]:
                        pass
                    waits_ms.append(1000 * (time.perf_counter() - began_s))
            finally:
                ends.set()
                writer.join()
            waits_ms.sort()
            at = min(len(waits_ms) - 1, int(0.99 * len(waits_ms)))
            figures = {"p50_ms": median(waits_ms), "p99_ms": waits_ms[at]}
            yield Row("lag", NAMES[kinds[0]], NAMES[kinds[1]], figures)


def _write(server: ServerProcess, ends: threading.Event) -> None:
    """Some thousand writes a second, by another client."""
    with Redis(port=server.port) as client:
        while not ends.wait(0.01):
            pipeline = client.pipeline(transaction=False)
            for number in range(50):
                pipeline.set(f"key:{number}", "x" * 32)
            pipeline.execute()


def failover(share: float) -> Iterator[Row]:
    """`down-after-milliseconds` is one second, so the sentinel always waits for at least that
    long."""
    for kind in (RedisServer, SteadyServer):
        times_s: list[float] = []
        for _ in range(max(1, round(FAILOVERS * share))):
            with workplace() as folder, crew(folder, kind, kinds=[kind] * 3) as found:
                sentinels = SentinelOfRedis(  # type: ignore[no-untyped-call]
                    [("127.0.0.1", found.sentinel.port)], socket_timeout=0.5
                )
                client = sentinels.master_for("main", socket_timeout=0.5)  # type: ignore[no-untyped-call]
                client.set("before", 1)
                found.primary.process.send_signal(signal.SIGKILL)
                began_s = time.perf_counter()
                while True:
                    with suppress(RedisError):
                        client.set("after", 1)
                        break
                    time.sleep(0.005)
                times_s.append(time.perf_counter() - began_s)
                client.close()
        name = NAMES[HoldfastServer if kind is SteadyServer else RedisServer]
        figures = {"seconds": median(times_s), "most_s": max(times_s)}
        yield Row("failover", name, name, figures)


ROWS: dict[str, Callable[[float], Iterator[Row]]] = {
    each.__name__: each for each in (snapshot, hashes, primary, stream, lag, failover)
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench-replication ARGS=…", description=__doc__)
    parser.add_argument("--share", type=float, default=1.0, help="of the keys and writes")
    parser.add_argument("--only", choices=ROWS, action="append", help="this row; may be repeated")
    args = parser.parse_args()
    rows: list[Row] = []
    print("| row | primary | replica | |")
    print("|---|---|---|---|")
    for name in args.only or ROWS:
        say(name)
        for row in ROWS[name](args.share):
            rows.append(row)
            shown = ", ".join(f"{key} {value:,.2f}" for key, value in row.figures.items())
            print(f"| {row.what} | {row.primary} | {row.replica} | {shown} |", flush=True)
    say(f"\nwritten to {write_json(rows, args.share).relative_to(ROOT)}")


def write_json(rows: list[Row], share: float) -> Path:
    """Add rows to the file of the day, so that rounds and rows may be measured one by one."""
    partial = "" if share == 1 else "-partial"
    path = ROOT / "bench" / "results" / f"{time.strftime('%Y-%m-%d')}-replication{partial}.json"
    path.parent.mkdir(exist_ok=True)
    before = json.loads(path.read_text())["rows"] if path.exists() else []
    content = {"machine": machine(), "share": share, "rows": [*before, *map(asdict, rows)]}
    path.write_text(json.dumps(content, indent=1) + "\n")
    return path


if __name__ == "__main__":
    main()
