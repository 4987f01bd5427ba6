"""Three servers in processes of their own, partitions, kills and restarts under load: what was
acknowledged is there in the end, everywhere."""

import os
import random
import time
from pathlib import Path

import pytest

from tests.harness import HoldfastServer, RawClient, wait_until
from tests.replication.crew import (
    CONVERGENCE_S,
    Worker,
    are_linked,
    ask,
    await_the_same,
    cluster,
    names_in,
)

pytestmark = pytest.mark.timeout(600)


def live(servers: list[HoldfastServer], rng: random.Random, duration_s: float) -> list[Worker]:
    """Clients on all servers, while these are cut off from each other and killed."""
    workers = [
        Worker(server, f"{number}{letter}", rng.getrandbits(32))
        for number, server in enumerate(servers, 1)
        for letter in "ab"
    ]
    for worker in workers:
        worker.start()
    end_s = time.monotonic() + duration_s
    while time.monotonic() < end_s:
        time.sleep(rng.uniform(0.3, 1.0))  # this is how long things last, not a wait
        server = rng.choice(servers)
        what = rng.choice(("kill", "pause", "pause one", "resume", "stop"))
        if what == "kill":
            server.kill()
            server.restart()
        elif what == "stop":
            server.restart()
        elif what == "pause":
            assert ask(server, "ACTIVE", "PAUSE") == b"+OK\r\n"
        elif what == "pause one":
            other = rng.choice([n for n, each in enumerate(servers, 1) if each is not server])
            assert ask(server, "ACTIVE", "PAUSE", other) == b"+OK\r\n"
        else:
            assert ask(server, "ACTIVE", "RESUME") == b"+OK\r\n"
    for worker in workers:
        worker.stop()
    for server in servers:
        assert ask(server, "ACTIVE", "RESUME") == b"+OK\r\n"
    return workers


def check(servers: list[HoldfastServer], workers: list[Worker]) -> None:
    await_the_same(servers)
    in_doubt = {name for worker in workers for name in worker.in_doubt}
    for server in servers:
        with RawClient.connect(server.port) as client:
            members = set(names_in(client.command("SMEMBERS", "set")))
            added = {name for worker in workers for name in worker.added}
            removed = {name for worker in workers for name in worker.removed}
            assert added - removed <= members <= added | in_doubt
            counted = int(client.command("GET", "counter").split(b"\r\n")[1])
            sure = sum(worker.counted["yes"] for worker in workers)
            assert sure <= counted <= sure + sum(worker.counted["maybe"] for worker in workers)
            pushed = {name for worker in workers for name in worker.pushed}
            left = names_in(client.command("LRANGE", "queue", 0, -1))
            done = [
                name
                for worker in workers
                for name in names_in(client.command("LRANGE", f"done-{worker.name}", 0, -1))
            ]
            assert len(left) == len(set(left))
            assert pushed <= set(left) | set(done) <= pushed | in_doubt
    assert sum(len(worker.added) for worker in workers) > 30, "there was something to lose"


def run_for(folder: Path, rng: random.Random, duration_s: float) -> None:
    with cluster(folder, 3) as servers:
        wait_until(lambda: are_linked(servers), "all follow all", CONVERGENCE_S)
        workers = live(servers, rng, duration_s)
        check(servers, workers)
        # Once everybody has confirmed everything, nothing has to be remembered.
        for server in servers:
            wait_until(
                lambda server=server: b"log_records\r\n:0\r\n" in ask(server, "ACTIVE", "INFO"),  # type: ignore[misc]
                "the log is cut",
                CONVERGENCE_S,
            )


def test_twenty_seconds_of_partitions_and_kills(tmp_path: Path, rng: random.Random) -> None:
    run_for(tmp_path, rng, 20)


@pytest.mark.slow
def test_two_minutes_of_partitions_and_kills(tmp_path: Path, rng: random.Random) -> None:
    run_for(tmp_path, rng, float(os.environ.get("HOLDFAST_PARTITIONS_S", "120")))


def test_a_push_on_one_server_wakes_a_pop_on_another(tmp_path: Path) -> None:
    with cluster(tmp_path, 2) as servers:
        wait_until(lambda: are_linked(servers), "both follow each other", CONVERGENCE_S)
        with RawClient.connect(servers[0].port, 60) as waiter:
            waiter.send_command("BLPOP", "queue", 0)
            ask(servers[1], "RPUSH", "queue", "x")
            assert waiter.read_reply() == b"*2\r\n$5\r\nqueue\r\n$1\r\nx\r\n"
        await_the_same(servers)
        assert ask(servers[1], "LLEN", "queue") == b":0\r\n"
