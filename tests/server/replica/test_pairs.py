"""Every pair of servers, one of them Holdfast: links are cut and servers are killed at random."""

import os
import random
from functools import partial
from pathlib import Path

import pytest

from tests.harness import HoldfastServer, RawClient, encode_command, wait_until
from tests.harness.processes import ServerProcess
from tests.server.primary.following import is_up, wait_for_replica
from tests.server.primary.test_redis_follows import Writer, compare
from tests.server.replica.servers import KINDS, OPTIONS

pytestmark = [pytest.mark.oracle, pytest.mark.source_only]

ROUNDS = int(os.environ.get("HOLDFAST_FOLLOWING_ROUNDS", "200"))
FEW_ROUNDS = 4
# Sent at once, so that they are on their way when the link breaks. Each of them leaves another
# value if it is left out or done twice.
BURST = [
    *("INCR burst:n", "RPUSH burst:list element", "MULTI", "HINCRBY burst:hash field 1"),
    *("APPEND burst:text x", "EXEC"),
] * 100
PAIRS = [
    pytest.param(primary, replica, id=f"{replica.__name__}-follows-{primary.__name__}")
    for primary in KINDS
    for replica in KINDS
    if HoldfastServer in (primary, replica)
]


@pytest.mark.slow
@pytest.mark.timeout(60 + 20 * ROUNDS)
@pytest.mark.parametrize(("primary", "replica"), PAIRS)
def test_links_that_break_and_servers_that_die(
    tmp_path: Path,
    rng: random.Random,
    primary: type[ServerProcess],
    replica: type[ServerProcess],
) -> None:
    """No write that a replica has acknowledged is missing there, and in the end all is the same."""
    run_rounds(tmp_path, rng, primary, replica, ROUNDS)


@pytest.mark.timeout(180)
@pytest.mark.parametrize(("primary", "replica"), PAIRS)
def test_a_few_links_that_break(
    tmp_path: Path,
    rng: random.Random,
    primary: type[ServerProcess],
    replica: type[ServerProcess],
) -> None:
    run_rounds(tmp_path, rng, primary, replica, FEW_ROUNDS)


def run_rounds(
    folder: Path,
    rng: random.Random,
    primary_kind: type[ServerProcess],
    replica_kind: type[ServerProcess],
    rounds: int,
) -> None:
    """All is compared after each round: the snapshot of a later one would hide what was lost."""
    with (
        primary_kind(folder / "primary", *OPTIONS[primary_kind]) as primary,
        replica_kind(folder / "replica", *OPTIONS[replica_kind]) as replica,
    ):
        copy = replica.client()
        copy.command("REPLICAOF", "127.0.0.1", primary.port)
        for number in range(rounds):
            client = primary.client()
            Writer(client, rng, primary_kind, replica_kind).run(30)
            acknowledged = counted(client)
            with primary.client() as burst:
                burst.send(b"".join(encode_command(*line.split()) for line in BURST))
                breaks = rng.randrange(5)
                match breaks:
                    case 0:
                        client.command("CLIENT", "KILL", "TYPE", "replica")
                    case 1:
                        copy = killed_and_started(replica, primary)
                    case 2:
                        primary.kill()
                        primary.restart()
                        client = primary.client()
                        assert primary_kind is not HoldfastServer or counted(client) >= acknowledged
                        copy.command("REPLICAOF", "127.0.0.1", primary.port)
                    case 3:
                        copy.command("CLIENT", "KILL", "TYPE", "master")
                if breaks != 2:
                    burst.read_replies(len(BURST))
            Writer(client, rng, primary_kind, replica_kind).run(30)
            client.command("SELECT", 0)
            client.command("SET", "round", number)
            wait_until(partial(is_up, copy), "it follows again", 60)
            wait_for_replica(client)
            assert copy.command("GET", "round") == b"$%d\r\n%d\r\n" % (len(str(number)), number)
            compare(client, copy, primary_kind)


def counted(client: RawClient) -> int:
    """How many increments of bursts the server has acknowledged."""
    client.command("SELECT", 0)
    return int(client.command("INCRBY", "burst:n", 0)[1:])


def killed_and_started(replica: ServerProcess, primary: ServerProcess) -> RawClient:
    """It follows the same primary, from where its data is if it keeps any."""
    replica.kill()
    args = replica.args
    replica.args = (*args, "--replicaof", f"127.0.0.1 {primary.port}")
    replica.start()
    replica.args = args
    return replica.client()
