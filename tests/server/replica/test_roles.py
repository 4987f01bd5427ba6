"""Replicas of replicas, replicas that become primaries, and primaries that become replicas."""

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.harness import HoldfastServer, RawClient, RedisServer, wait_until
from tests.harness.processes import ServerProcess
from tests.server.primary.following import follow, info, is_up
from tests.server.primary.test_redis_follows import Writer, assert_same, contents
from tests.server.replica.servers import KINDS, OPTIONS

# Each test has several servers.
pytestmark = [pytest.mark.oracle, pytest.mark.source_only, pytest.mark.timeout(180)]

Start = Callable[[type[ServerProcess]], ServerProcess]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    servers: list[ServerProcess] = []

    def start(kind: type[ServerProcess]) -> ServerProcess:
        server = kind(tmp_path / f"server-{len(servers)}", *OPTIONS[kind])
        servers.append(server)
        server.start()
        return server

    yield start
    for server in servers:
        server.__exit__(None, None, None)


def have_all(client: RawClient, count: int) -> None:
    """So many replicas have what the primary has."""
    client.command("SET", "end", 1)
    assert client.command("WAIT", count, 15_000) == b":%d\r\n" % count


def is_as_far(copy: RawClient, client: RawClient) -> bool:
    return int(info(copy)["master_repl_offset"]) >= int(info(client)["master_repl_offset"])


def syncs(client: RawClient) -> tuple[int, int]:
    """Full ones, and those that went on."""
    lines = client.command("INFO", "stats").decode().split("\r\n")
    facts = dict(line.split(":", 1) for line in lines if ":" in line)
    return int(facts["sync_full"]), int(facts["sync_partial_ok"])


@pytest.mark.parametrize("kind", KINDS, ids=[kind.__name__ for kind in KINDS])
def test_a_replica_of_a_replica(
    start: Start, kind: type[ServerProcess], rng: random.Random
) -> None:
    """It has the same stream with the same offsets, and begins in the middle of it."""
    primary, middle, last = start(kind), start(HoldfastServer), start(kind)
    client, end = primary.client(), last.client()
    writer = Writer(client, rng, kind, HoldfastServer, kind)
    follow(primary, middle)
    writer.run(60)
    client.command("SELECT", 7)
    have_all(client, 1)  # database 7 is selected in the stream
    end = follow(middle, last)
    client.command("INCR", "in 7")
    writer.run(60)
    ours = contents(client)
    have_all(client, 1)
    wait_until(partial(is_as_far, end, client), "the last one has all")
    theirs = contents(end)
    theirs.pop((0, b"end"), None)
    theirs.pop((7, b"end"), None)
    ours.pop((7, b"end"), None)
    assert_same(ours, theirs, kind)
    assert info(end)["master_replid"] == info(client)["master_replid"]
    assert "cannot be done here" not in middle.stderr


def test_siblings_of_a_promoted_replica_go_on(start: Start) -> None:
    """Also a replica of Redis: it continues with the promoted Holdfast."""
    primary = start(HoldfastServer)
    one, two, three = start(HoldfastServer), start(HoldfastServer), start(RedisServer)
    client = primary.client()
    copies = [follow(primary, each) for each in (one, two, three)]
    client.command("RPUSH", "l", 1, 2, 3)
    have_all(client, 3)
    old_id = info(client)["master_replid"]
    primary.kill()
    assert copies[0].command("REPLICAOF", "NO", "ONE") == b"+OK\r\n"
    assert info(copies[0])["master_replid2"] == old_id
    for copy in copies[1:]:
        copy.command("REPLICAOF", "127.0.0.1", one.port)
        wait_until(partial(is_up, copy), "it follows")
    copies[0].command("RPUSH", "l", 4)
    have_all(copies[0], 2)
    for copy in copies:
        assert copy.command("LLEN", "l") == b":4\r\n"
    assert syncs(copies[0]) == (0, 2)


def test_a_primary_that_became_a_replica_goes_on_if_it_can(start: Start) -> None:
    one, two = start(HoldfastServer), start(HoldfastServer)
    client, copy = one.client(), follow(one, two)
    client.command("RPUSH", "l", 1)
    have_all(client, 1)
    copy.command("REPLICAOF", "NO", "ONE")
    client.command("REPLICAOF", "127.0.0.1", two.port)
    wait_until(partial(is_up, client), "it follows")
    copy.command("RPUSH", "l", 2)
    have_all(copy, 1)
    assert client.command("LRANGE", "l", 0, -1) == copy.command("LRANGE", "l", 0, -1)
    assert syncs(copy) == (0, 1)


def test_a_primary_that_wrote_alone_gets_a_snapshot(start: Start) -> None:
    """Its own writes are gone, as Redis does."""
    one, two = start(HoldfastServer), start(HoldfastServer)
    client, copy = one.client(), follow(one, two)
    client.command("RPUSH", "l", 1)
    have_all(client, 1)
    copy.command("REPLICAOF", "NO", "ONE")
    client.command("RPUSH", "l", "alone")
    copy.command("RPUSH", "l", "other")
    client.command("REPLICAOF", "127.0.0.1", two.port)
    wait_until(partial(is_up, client), "it follows")
    have_all(copy, 1)
    assert client.command("LRANGE", "l", 0, -1) == copy.command("LRANGE", "l", 0, -1)
    assert syncs(copy)[0] == 1


@pytest.mark.parametrize(
    "kinds",
    [
        (HoldfastServer, HoldfastServer),
        (HoldfastServer, RedisServer),
        (RedisServer, HoldfastServer),
    ],
    ids=["holdfast-holdfast", "holdfast-redis", "redis-holdfast"],
)
def test_failover_loses_no_write(start: Start, kinds: tuple[type[ServerProcess], ...]) -> None:
    """A client that writes all the time sees a pause, and then goes on at the other server."""
    one, two = (start(kind) for kind in kinds)
    client, copy = one.client(), follow(one, two)
    have_all(client, 1)
    with increments(one) as done:
        wait_until(lambda: done() > 100, "writes go on")
        assert client.command("FAILOVER", "TIMEOUT", 15_000) == b"+OK\r\n"
        wait_until(lambda: info(client)["role"] == "slave", "it has handed over")
    wait_until(partial(is_up, client), "it follows")
    assert info(copy)["role"] == "master"
    assert info(client)["master_failover_state"] == "no-failover"
    assert copy.command("GET", "n") == b"$%d\r\n%d\r\n" % (len(str(done())), done())
    copy.command("INCR", "n")
    have_all(copy, 1)
    assert client.command("GET", "n") == copy.command("GET", "n")
    assert syncs(copy)[0] == 0


@contextmanager
def increments(server: ServerProcess) -> Iterator[Callable[[], int]]:
    """INCR until a reply is an error; yields how many were acknowledged."""
    done = 0

    def run() -> None:
        nonlocal done
        client = server.client(timeout_s=40)
        while client.command("INCR", "n").startswith(b":"):
            done += 1

    thread = threading.Thread(target=run)
    thread.start()
    yield lambda: done
    thread.join()


def test_failover_that_is_not_possible(start: Start) -> None:
    """The errors are those of Redis."""
    ours, theirs = start(HoldfastServer).client(), start(RedisServer).client()
    for words in (
        "FAILOVER",
        "FAILOVER ABORT",
        "FAILOVER TO 127.0.0.1 1",
        "FAILOVER TO 127.0.0.1",
        "FAILOVER FORCE",
        "FAILOVER TIMEOUT 0",
        "FAILOVER TIMEOUT x",
        "FAILOVER ABORT TIMEOUT 5",
        "FAILOVER TO 127.0.0.1 1 FORCE",
        "REPLICAOF NO ONE",
    ):
        assert ours.command(*words.split()) == theirs.command(*words.split()), words


def test_a_failover_that_takes_too_long_is_given_up(start: Start) -> None:
    one, two = start(HoldfastServer), start(HoldfastServer)
    client, copy = one.client(), follow(one, two)
    have_all(client, 1)
    two.suspend()
    try:
        client.command("SET", "k", "v")
        assert client.command("FAILOVER", "TIMEOUT", 300) == b"+OK\r\n"
        assert info(client)["master_failover_state"] == "waiting-for-sync"
        wait_until(lambda: info(client)["master_failover_state"] == "no-failover", "it gave up")
        assert client.command("SET", "k", "w") == b"+OK\r\n"
    finally:
        two.resume()
    have_all(client, 1)
    assert info(copy)["role"] == "slave"


def test_role_and_info_have_the_form_of_redis(start: Start) -> None:
    primary = start(RedisServer)
    ours, theirs = follow(primary, start(HoldfastServer)), follow(primary, start(RedisServer))
    have_all(primary.client(), 2)

    def without_offset(reply: bytes) -> list[bytes]:
        return reply.split(b"\r\n")[:-2]

    wait_until(
        lambda: without_offset(ours.command("ROLE")) == without_offset(theirs.command("ROLE")),
        "both are connected",
    )
    assert [*info(ours)] == [*info(theirs)]
    assert ours.command("HELLO", 2).split()[-5:-4] == theirs.command("HELLO", 2).split()[-5:-4]


def test_a_killed_link_is_dialed_again(start: Start) -> None:
    primary, replica = start(HoldfastServer), start(HoldfastServer)
    client, copy = primary.client(), follow(primary, replica)
    assert b"flags=M " in copy.command("CLIENT", "LIST", "TYPE", "master")
    assert copy.command("CLIENT", "KILL", "TYPE", "master") == b":1\r\n"
    client.command("SET", "k", "v")
    wait_until(lambda: copy.command("GET", "k") == b"$1\r\nv\r\n", "it follows again")
    assert client.command("CLIENT", "KILL", "TYPE", "replica") == b":1\r\n"
    client.command("SET", "k", "w")
    wait_until(lambda: copy.command("GET", "k") == b"$1\r\nw\r\n", "it follows again")
    assert syncs(client) == (1, 2)
