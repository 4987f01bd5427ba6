"""`make soak`: minutes of mixed load on one small server, then a check of all data.

It fails if the data differs from the acknowledged writes, if `holdfast check` finds damage, or if
memory, the WAL, the journal or the file keep growing although the data does not.
"""

import argparse
import math
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import apsw

from bench.common import file_bytes, holdfast_server, rss_bytes, run, say, workplace
from bench.soak_clients import JOBS, Client, Queue, WrongDataError
from tests.harness import HoldfastServer

MB = 1 << 20
GROWTH = 1.2  # a straight line from zero would grow by 1.5 from the second third to the last
SLACK = {"rss": 16 * MB, "wal": 16 * MB, "file": 32 * MB, "journal": 5000}
SHOW_EVERY_S = 10


@dataclass
class Sample:
    rss: int
    wal: int
    file: int
    journal: int  # batches that are not folded yet


def take_sample(server: HoldfastServer) -> Sample:
    path = Path(server.db)
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        oldest, newest = connection.execute("SELECT min(lsn), max(lsn) FROM journal").get
    finally:
        connection.close()
    return Sample(
        rss=rss_bytes(server.pid),
        wal=file_bytes(path.with_name(path.name + "-wal")),
        file=file_bytes(path),
        journal=newest - oldest + 1 if newest else 0,
    )


def keeps_growing(numbers: list[int], slack: int) -> bool:
    """Whether the peak of the last third is well above that of the third before it."""
    third = len(numbers) // 3
    if not third:
        return False
    return max(numbers[-third:]) > GROWTH * max(numbers[third:-third]) + slack


def find_growth(samples: list[Sample], rss_limit: int) -> list[str]:
    problems = [
        f"{what} keeps growing: {[getattr(s, what) for s in samples[:: len(samples) // 6 or 1]]}"
        for what, slack in SLACK.items()
        if keeps_growing([getattr(sample, what) for sample in samples], slack)
    ]
    peak = max(sample.rss for sample in samples)
    if peak > rss_limit:
        problems.append(f"rss reached {peak // MB} MB; the limit is {rss_limit // MB} MB")
    return problems


def load(
    server: HoldfastServer, clients: list[Client], args: argparse.Namespace
) -> tuple[list[Sample], int]:
    """Load the server. Returns samples, one a second, and the number of times it was killed."""
    rng = random.Random(args.seed)
    samples: list[Sample] = []
    kills = 0
    end_s = time.monotonic() + 60 * args.minutes
    next_kill_s = time.monotonic() + rng.uniform(5, 20) if args.kills else math.inf
    while time.monotonic() < end_s and not any(client.problem for client in clients):
        time.sleep(1)
        if time.monotonic() > next_kill_s:
            server.kill()
            server.restart()
            kills += 1
            next_kill_s = time.monotonic() + rng.uniform(5, 20)
        samples.append(sample := take_sample(server))
        if len(samples) % SHOW_EVERY_S == 0:
            done = sum(sum(client.commands.values()) for client in clients)
            say(
                f"{len(samples):5} s {done:12,} commands, {kills} kills;"
                f" rss {sample.rss // MB} MB, wal {sample.wal // MB} MB,"
                f" file {sample.file // MB} MB, journal {sample.journal:,} batches"
            )
    return samples, kills


def verify(server: HoldfastServer, clients: list[Client], queue: Queue) -> list[str]:
    problems = [f"{client.name}: {client.problem}" for client in clients if client.problem]
    if not server.running:
        return [*problems, f"the server has died: {server.stderr[-2000:]}"]
    with server.client(timeout_s=60) as connection:
        for client in clients:
            try:
                client.verify(connection)
            except WrongDataError as wrong:
                problems.append(f"{client.name}, at the end: {wrong}")
        try:
            queue.length.check(int(connection.command("LLEN", JOBS)[1:]), f"the length of {JOBS}")
        except WrongDataError as wrong:
            problems.append(str(wrong))
    if code := server.terminate():
        problems.append(f"exit code {code} after SIGTERM: {server.stderr[-2000:]}")
    check = run(sys.executable, "-m", "holdfast", "check", server.db)
    if check.returncode:
        problems.append(f"holdfast check: {check.stdout}{check.stderr}")
    return problems


def main() -> None:
    parser = argparse.ArgumentParser(prog="make soak ARGS=…", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--maxmemory-mb", type=int, default=32)
    parser.add_argument("--rss-limit-mb", type=int, help="[three times maxmemory, and 128]")
    parser.add_argument("--policy", choices=["always", "everysec", "no"], default="always")
    parser.add_argument("--kills", action="store_true", help="SIGKILL it every 5 to 20 s")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    args = parser.parse_args()
    rss_limit_mb = args.rss_limit_mb or 3 * args.maxmemory_mb + 128
    say(f"seed {args.seed}")
    options = ("--maxmemory", f"{args.maxmemory_mb}mb", "--appendfsync", args.policy)
    with workplace() as folder, holdfast_server(folder, *options) as server:
        queue = Queue()
        clients = [Client(index, server, queue, args.seed) for index in range(args.clients)]
        for client in clients:
            client.start()
        try:
            samples, kills = load(server, clients, args)
        finally:
            for client in clients:
                client.stop()
            for client in clients:
                client.join()
        problems = find_growth(samples, rss_limit_mb * MB) + verify(server, clients, queue)
    report(clients, samples, kills)
    for problem in problems:
        print(f"FAILED: {problem}")
    sys.exit(1 if problems else 0)


def report(clients: list[Client], samples: list[Sample], kills: int) -> None:
    done = sum((client.commands for client in clients), Counter[str]())
    print(f"{done.total():,} commands in {len(samples)} s, {kills} kills: {dict(done)}")
    for what in SLACK:
        numbers = [getattr(sample, what) for sample in samples]
        print(f"{what:8} first {numbers[0]:,}, peak {max(numbers):,}, last {numbers[-1]:,}")


if __name__ == "__main__":
    main()
