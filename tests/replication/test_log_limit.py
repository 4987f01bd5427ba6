"""A peer that is away costs a bounded log and no memory. Records that the log loses reach it by a
snapshot."""

import random
import sys
from pathlib import Path

import pytest

from holdfast.replication.feeds import Feed
from holdfast.replication.messages import BEGIN, BEHIND, RECORDS
from holdfast.server.core.cron import EXPIRE_BREAK_S, EXPIRE_SLICE, Cron
from holdfast.store.replicated.record_log import ENTRY_BYTES, LINKED_SHARE
from tests.harness import RawClient, wait_until
from tests.replication.crew import ask, await_the_same, cluster
from tests.replication.nodes import Node, sync

LIMIT_BYTES = 20_000


def write(node: Node, count: int = 100) -> None:
    for number in range(count):
        node("SET", f"key-{number}", "x" * 100)


def test_the_log_stays_below_its_limit_while_a_peer_is_away() -> None:
    one, two = Node(1), Node(2)
    sync(one, two)
    log = one.stage.log
    for _ in range(20):
        write(one)
        one.tidy(LIMIT_BYTES)
        assert 0 < log.cost_bytes <= LIMIT_BYTES
        assert log.total_bytes == sum(record.nbytes for record in log.since(log.start))
    assert one.stage.members.lapsed == {2}


def test_many_small_records_are_bounded_as_few_large_ones_are() -> None:
    one, two = Node(1), Node(2)
    sync(one, two)
    for _ in range(300):
        one("INCR", "n")
    one.tidy(LIMIT_BYTES)
    assert len(one.stage.log) <= LIMIT_BYTES / ENTRY_BYTES


def test_a_peer_behind_the_limit_takes_a_snapshot_and_nothing_is_lost(rng: random.Random) -> None:
    nodes = one, two, three = Node(1), Node(2), Node(3)
    sync(*nodes)
    two("SET", "mine", "of two alone")
    two("SADD", "set", "a")
    for number in range(500):
        node = rng.choice([one, three])
        node("SET", f"key-{rng.randrange(50)}", number)
        node("SADD", "set", number)
        node("SREM", "set", rng.randrange(number + 1))
        node("DEL", f"key-{rng.randrange(50)}")
        if number % 50 == 0:
            sync(one, three)
            one.tidy(LIMIT_BYTES)
            three.tidy(LIMIT_BYTES)
    assert not one.stage.can_serve(two.stage.vector)
    sync(*nodes)
    assert one("GET", "mine") == two("GET", "mine") == b"$12\r\nof two alone\r\n"
    for node in nodes:
        node.check()
        node.tidy(LIMIT_BYTES)
    sync(*nodes)
    for node in nodes:
        node.tidy(LIMIT_BYTES)
        assert not node.stage.members.lapsed
        assert len(node.stage.log) == 0


def test_a_linked_peer_that_was_left_behind_is_sent_a_snapshot() -> None:
    """Not the records behind those that it lacks: it would take them, and never know."""
    one, two = Node(1), Node(2)
    sync(one, two)
    messages: list[list[bytes]] = []
    feed = Feed(one.stage, two.hello(), messages.append)
    write(one)
    one.tidy(LIMIT_BYTES)
    feed.pump()
    assert messages[0][0] == BEHIND
    feed.acknowledged(two.stage.vector, 1, takes_snapshot=True)
    feed.pump()
    assert messages[1][0] == BEGIN
    assert RECORDS not in [kind for kind, *_ in messages]


def test_a_linked_peer_is_waited_for_and_not_for_ever() -> None:
    one, two = Node(1), Node(2)
    sync(one, two)
    log = one.stage.log
    needed = log.start + len(log)
    write(one)
    one.stage.tidy(LIMIT_BYTES, needed)
    assert log.start == needed
    write(one, 400)
    one.stage.tidy(LIMIT_BYTES, needed)
    assert log.start > needed
    assert log.cost_bytes <= LINKED_SHARE * LIMIT_BYTES


def test_a_peer_that_never_came_does_not_hold_the_log() -> None:
    one = Node(1)
    one.keyspace.expect(1)
    write(one)
    one.tidy(LIMIT_BYTES)
    assert one.stage.log.cost_bytes <= LIMIT_BYTES
    assert one.stage.members.lapsed == {0}
    one.keyspace.expect(2)
    assert not one.stage.members.lapsed, "there is one more to wait for"


# -- in the file ----------------------------------------------------------------------------------


@pytest.mark.parametrize("fold", [False, True])
def test_bodies_of_folded_records_are_read_from_the_file(tmp_path: Path, fold: bool) -> None:
    one, two = (Node(n, tmp_path / f"{n}.db") for n in (1, 2))
    sync(one, two)
    one.stage.log.memory_limit_bytes = 2000
    write(one)
    one("SET", "large", "y" * 50_000)
    one.store.fold()
    write(one)
    log = one.stage.log
    assert log.bytes_in_memory < log.total_bytes / 2
    kept = [record.nbytes for record in log.since(log.start) if record.data is not None]
    assert log.bytes_in_memory == sum(kept)
    two.pull(one)
    two.check()
    assert two("STRLEN", "large") == b":50000\r\n"
    one.restart(fold=fold)
    three = Node(3, message_bytes=7000)
    three.pull(one)
    three.check()
    assert three("STRLEN", "large") == b":50000\r\n"
    sync(one, two, three)
    one.close()
    two.close()


def test_bodies_leave_memory_when_no_more_records_come(tmp_path: Path) -> None:
    """Those that came while the fold was at work stayed until the next writes."""
    one = Node(1, tmp_path / "1.db")
    one.keyspace.expect(1)  # a peer that never comes
    log = one.stage.log
    log.memory_limit_bytes = 2000
    write(one)
    one.store.fold()
    assert log.bytes_in_memory > 2000
    one.tidy()
    assert 0 < log.bytes_in_memory <= 2000
    one.close()


def test_dicts_of_keys_that_have_left_memory_are_small_again(tmp_path: Path) -> None:
    """An empty dict keeps its table: 20 MB for each 300,000 keys."""
    one, two = (Node(n, tmp_path / f"{n}.db") for n in (1, 2))
    sync(one, two)
    for number in range(1000):
        one("SET", number, "x", "PX", 100)
    full = sum(map(sys.getsizeof, one.keyspace.dicts_by_key()))
    one.store.fold()
    one.clock.advance(0.2)
    one.tidy()
    assert hot(one) == 0
    ids = one.stage.replica_keys.names_with_id(0)
    assert len(ids) == 1000, "the names are still needed"
    assert sum(map(sys.getsizeof, one.keyspace.dicts_by_key())) < full / 3
    one.close()
    two.close()


def test_a_large_record_is_read_from_the_file_in_pieces(tmp_path: Path) -> None:
    one = Node(1, tmp_path / "1.db", part_bytes=7000)
    one.keyspace.expect(1)
    one("SET", "large", "y" * 50_000)
    whole = one.stage.log.read(0)
    one.restart(fold=True)
    log = one.stage.log
    assert log.at(0).data is None
    pieces: list[bytes] = []
    while (start := sum(map(len, pieces))) < len(whole):
        pieces.append(log.read(0, start, 3000))
        assert 0 < len(pieces[-1]) <= 3000
    assert b"".join(pieces) == log.read(0) == whole
    one.close()


# -- keys that have expired -----------------------------------------------------------------------


def hot(node: Node) -> int:
    return sum(len(database.space.keys) for database in node.keyspace.databases)


def test_expired_keys_leave_memory_while_a_peer_is_away(tmp_path: Path) -> None:
    one, two = (Node(n, tmp_path / f"{n}.db") for n in (1, 2))
    sync(one, two)
    for number in range(500):
        one("SET", f"key-{number}", "x", "PX", 100)
    one.store.fold()
    for node in (one, two):
        node.clock.advance(1)
    one.tidy()
    assert hot(one) == 0
    assert one("EXISTS", "key-7") == b":0\r\n"
    one("SET", "key-7", "again")
    two.pull(one)
    two("PERSIST", "key-8")  # it has expired there, too
    sync(one, two)
    for node in (one, two):
        node.clock.advance(1)
    sync(one, two)
    for node in (one, two):
        node.tidy()
        node.store.fold()
        node.tidy()
        node.check()
        assert node("DBSIZE") == b":1\r\n"
        node.close()


def test_the_cron_goes_on_at_once_while_there_are_more_of_them(tmp_path: Path) -> None:
    """Keys that expire faster than ten slices a second must leave memory as fast."""
    one, two = (Node(n, tmp_path / f"{n}.db") for n in (1, 2))
    sync(one, two)
    cron = Cron(one.engine)
    cron.start()
    for number in range(3 * EXPIRE_SLICE):
        one("SET", f"key-{number}", "x", "PX", 100)
    one.store.fold()
    one.clock.advance(0.2)
    for _ in range(10):
        one.clock.advance(EXPIRE_BREAK_S)
    assert hot(one) == 0
    cron.stop()
    one.close()
    two.close()


def test_a_lapsed_peer_does_not_keep_expired_keys(tmp_path: Path) -> None:
    one, two = (Node(n, tmp_path / f"{n}.db") for n in (1, 2))
    sync(one, two)
    for number in range(200):
        one("SET", f"key-{number}", "x" * 100, "PX", 100)
    one.clock.advance(1)
    one.tidy()
    assert one("DBSIZE") == b":200\r\n", "the peer may have prolonged them"
    one.tidy(LIMIT_BYTES)
    one.tidy(LIMIT_BYTES)
    assert one("DBSIZE") == b":0\r\n"
    one.restart()
    assert one.stage.members.lapsed == {2}
    two.clock.advance(1)
    sync(one, two)
    for node in (one, two):
        node.check()
        node.close()


# -- real servers ---------------------------------------------------------------------------------


@pytest.mark.timeout(120)
def test_servers_bound_the_log_and_say_so(tmp_path: Path) -> None:
    with cluster(tmp_path, 2, "--active-active-log-limit", "100kb") as (one, two):
        await_the_same([one, two])
        with RawClient.connect(one.port) as client:
            assert client.command("SET", "first", "1") == b"+OK\r\n"
            await_the_same([one, two])
            two.kill()
            for number in range(2000):
                assert client.command("SET", f"key-{number}", "x" * 100) == b"+OK\r\n"

            def field(name: str) -> int:
                lines = ask(one, "INFO", "replication").decode().split("\r\n")
                return int(next(line for line in lines if line.startswith(name)).split(":")[1])

            wait_until(lambda: field("active_active_lapsed_members") == 1, "it is given up")
            wait_until(lambda: field("active_active_log_used_percent") <= 100, "it is cut")
            limit = "active-active-log-limit"
            assert b"102400" in client.command("CONFIG", "GET", limit)
            assert client.command("CONFIG", "SET", limit, "1mb") == b"+OK\r\n"
            assert client.command("CONFIG", "SET", limit, "some").startswith(b"-ERR ")
        two.start()
        await_the_same([one, two])
        wait_until(lambda: field("active_active_lapsed_members") == 0, "it is back")
        said = one.stdout + one.stderr
        assert "% of active-active-log-limit, waiting for node 2" in said
        assert "node 2 is behind the log: it takes a snapshot when it returns" in said
