"""Servers in processes of their own, under load: partitions, kills, pauses, copies and restarts.
Every write that was acknowledged is there in the end, everywhere."""

import os
import random
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from holdfast.store.check import check_file
from tests.harness import HoldfastServer, RawClient, wait_until
from tests.replication.crew import (
    CONVERGENCE_S,
    Worker,
    are_linked,
    ask,
    await_links,
    await_the_same,
    cluster,
    names_in,
    names_in_stream,
)
from tests.replication.cutter import Cutter, Line
from tests.replication.mishaps import (
    SECOND_IS_OVER_S,
    freeze,
    put_a_copy_in_place_of,
    put_yesterday_in_place_of,
    run_a_second,
)

pytestmark = [
    pytest.mark.source_only,
    pytest.mark.timeout(600 + float(os.environ.get("HOLDFAST_PARTITIONS_S", "0"))),
]


def say(figure: str) -> None:
    """Shown by -s, and when the test fails."""
    sys.stdout.write(f"{figure}\n")


EVENTS = (
    *("kill", "stop", "freeze", "copy", "clone", "namesake", "yesterday"),
    *("isolate", "cut", "block", "pause"),
)
# So small that a peer that is away for a moment may need a snapshot.
LOG_LIMIT = ("--active-active-log-limit", "64kb")


def live(
    servers: list[HoldfastServer], cutter: Cutter, rng: random.Random, duration_s: float
) -> list[Worker]:
    """Clients on all servers, while these are cut off from each other and killed."""
    workers = [
        Worker(server, f"{number}{letter}", rng.getrandbits(32))
        for number, server in enumerate(servers, 1)
        for letter in "ab"
    ]
    for worker in workers:
        worker.start()
    numbers = range(1, len(servers) + 1)
    happened: Counter[str] = Counter()
    end_s = time.monotonic() + duration_s
    while time.monotonic() < end_s:
        time.sleep(rng.uniform(0.3, 1.0))  # this is how long things last, not a wait
        number, other = rng.sample(numbers, 2)
        server = servers[number - 1]
        what = rng.choice((*EVENTS, "heal", "heal"))
        if what in ("clone", "namesake") and time.monotonic() > end_s - SECOND_IS_OVER_S:
            what = "copy"
        if what == "yesterday":
            what = put_yesterday_in_place_of(
                server, [each for each in servers if each is not server], rng
            )
        happened[what] += 1
        if what == "kill":
            server.kill()
            server.restart()
        elif what == "stop":
            server.restart()
        elif what == "freeze":
            freeze(server, rng)
        elif what == "copy":
            put_a_copy_in_place_of(server, rng)
        elif what in ("clone", "namesake"):
            run_a_second(server, rng, is_clone=what == "clone")
        elif what == "isolate":
            cutter.each(Line.cut, number)
        elif what == "cut":
            cutter.each(Line.cut, number, other)
        elif what == "block":
            cutter.each(Line.block, number, other)
        elif what == "pause":
            assert ask(server, "ACTIVE", "PAUSE", other) == b"+OK\r\n"
        elif what == "heal":
            heal(servers, cutter)
    for worker in workers:
        worker.stop()
    say(f"{sum(worker.done for worker in workers)} operations, {dict(happened)}")
    return workers


def heal(servers: list[HoldfastServer], cutter: Cutter) -> None:
    cutter.heal()
    for server in servers:
        assert ask(server, "ACTIVE", "RESUME") == b"+OK\r\n"


def all_of(workers: list[Worker], field: str) -> set[str]:
    names: set[str] = set()
    return names.union(*(getattr(worker, field) for worker in workers))


def check(servers: list[HoldfastServer], workers: list[Worker]) -> None:
    in_doubt = all_of(workers, "in_doubt")
    for server in servers:
        with RawClient.connect(server.port, 60) as client:
            members = set(names_in(client.command("SMEMBERS", "set")))
            added = all_of(workers, "added")
            assert added - all_of(workers, "perhaps_removed") <= members <= added | in_doubt
            assert members.isdisjoint(all_of(workers, "removed"))
            counted = set(names_in(client.command("SMEMBERS", "counted")))
            assert all_of(workers, "counted") <= counted
            total = int(client.command("GET", "counter").split(b"\r\n")[1])
            assert total == sum(int(name.partition(":")[2]) for name in counted), "exact"
            assert client.command("GET", "half") == client.command("GET", "other half")
            entries = set(names_in_stream(client.command("XRANGE", "stream", "-", "+")))
            logged = all_of(workers, "logged")
            assert logged <= entries <= logged | in_doubt
    assert len(added) > 30, "there was something to lose"


def drain(servers: list[HoldfastServer], workers: list[Worker], rng: random.Random) -> None:
    """Every element is popped at least once, by any worker."""
    popped = [
        name
        for worker in workers
        for name in names_in(ask(servers[0], "LRANGE", f"done-{worker.name}", 0, -1))
    ]
    while (reply := ask(rng.choice(servers), "LPOP", "queue", 1000)) != b"*-1\r\n":
        popped += [line.decode() for line in reply.split(b"\r\n")[2::2]]
        await_the_same(servers)
    pushed = all_of(workers, "pushed")
    assert pushed <= set(popped) <= pushed | all_of(workers, "in_doubt")
    say(f"{len(pushed)} elements, {len(popped) - len(set(popped))} popped again")


def check_again_after_restarts(servers: list[HoldfastServer]) -> None:
    """Clients see the replicated values, also where they are read from the file again."""
    for server in servers:
        server.terminate()
        assert check_file(Path(server.db)) == []
        server.start()
    await_the_same(servers)


def run_for(
    folder: Path, rng: random.Random, duration_s: float, within_s: float, count: int = 3
) -> None:
    with (
        Cutter(folder, count, random.Random(rng.getrandbits(32))) as cutter,
        cluster(folder, count, *LOG_LIMIT, cutter=cutter) as servers,
    ):
        await_the_same(servers)
        workers = live(servers, cutter, rng, duration_s)
        heal(servers, cutter)
        healed_s = time.monotonic()
        await_links(servers, within_s)
        say(f"linked {time.monotonic() - healed_s:.1f} s after healing")
        await_the_same(servers, within_s)
        say(f"the same {time.monotonic() - healed_s:.1f} s after healing")
        check(servers, workers)
        drain(servers, workers, rng)
        await_cut_logs(servers)
        check_again_after_restarts(servers)


def test_twenty_seconds_of_partitions_and_kills(tmp_path: Path, rng: random.Random) -> None:
    run_for(tmp_path, rng, 20, CONVERGENCE_S)


@pytest.mark.slow
def test_two_minutes_of_partitions_and_kills(tmp_path: Path, rng: random.Random) -> None:
    """The one timed claim: ten seconds after the lines are healed all have the same. A server that
    was frozen to the end may need its peers' patience of ten seconds before."""
    duration_s = float(os.environ.get("HOLDFAST_PARTITIONS_S", "120"))
    count = int(os.environ.get("HOLDFAST_PARTITIONS_NODES", "3"))
    run_for(tmp_path, rng, duration_s, 20, count)


def test_a_server_joins_while_the_others_are_written_to(tmp_path: Path, rng: random.Random) -> None:
    """It needs a snapshot, because the log that has the beginning was cut."""
    with cluster(tmp_path, 2) as servers:
        await_the_same(servers)
        for number in range(200):
            ask(servers[0], "RPUSH", f"list-{number % 20}", *range(50))
        await_cut_logs(servers)
        workers = [
            Worker(server, f"{number}a", rng.getrandbits(32))
            for number, server in enumerate(servers, 1)
        ]
        for worker in workers:
            worker.start()
        joiner = HoldfastServer(
            tmp_path / "node-3",
            *("--active-active", "--node-id", "3", "--unixsocket", str(tmp_path / "3.sock")),
            *("--peer", f"unix://{tmp_path}/1.sock", "--peer", f"unix://{tmp_path}/2.sock"),
        )
        with joiner:
            for server in servers:
                assert ask(server, "ACTIVE", "JOIN", f"unix://{tmp_path}/3.sock") == b"+OK\r\n"
            wait_until(
                lambda: ask(joiner, "SADD", "set", "joiner") == b":1\r\n", "joined", CONVERGENCE_S
            )
            assert ask(joiner, "LLEN", "list-0") == b":500\r\n", "what there was before"
            ask(joiner, "SREM", "set", "joiner")
            for worker in workers:
                wait_until(lambda w=worker: w.done > 100, "something is written", CONVERGENCE_S)  # type: ignore[misc]
                worker.stop()
            await_the_same([*servers, joiner])
            check([*servers, joiner], workers)


def await_cut_logs(servers: list[HoldfastServer]) -> None:
    """Once all members have confirmed all records, nothing has to be remembered."""
    for server in servers:
        try:
            wait_until(
                lambda server=server: b"log_records\r\n:0\r\n" in ask(server, "ACTIVE", "INFO"),  # type: ignore[misc]
                "the log is cut",
                CONVERGENCE_S,
            )
        except AssertionError:
            for each in servers:
                say(ask(each, "ACTIVE", "INFO").decode(errors="replace"))
                say(ask(each, "INFO", "replication").decode())
            raise


def test_a_push_on_one_server_wakes_a_pop_on_another(tmp_path: Path) -> None:
    with cluster(tmp_path, 2) as servers:
        wait_until(lambda: are_linked(servers), "both follow each other", CONVERGENCE_S)
        with RawClient.connect(servers[0].port, 60) as waiter:
            waiter.send_command("BLPOP", "queue", 0)
            ask(servers[1], "RPUSH", "queue", "x")
            assert waiter.read_reply() == b"*2\r\n$5\r\nqueue\r\n$1\r\nx\r\n"
        await_the_same(servers)
        assert ask(servers[1], "LLEN", "queue") == b":0\r\n"
