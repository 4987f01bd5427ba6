"""Records that are larger than the output limit of a client, or than a row of the file may be."""

import logging
import random
from pathlib import Path

import pytest

from holdfast.errors import ProtocolError
from holdfast.replication.feeds import WINDOW_BYTES, Feed
from holdfast.replication.intake import Intake
from holdfast.replication.messages import BEGIN, BEHIND, KEYS, PIECE, RECORDS, STARTS, Ack, pack
from holdfast.replication.replicator import Replicator
from holdfast.store.store import FileStore
from tests.harness import HoldfastServer, RawClient, wait_until
from tests.harness.in_process import Peer
from tests.harness.rawclient import Argument
from tests.replication.crew import CONVERGENCE_S, ask, await_the_same, cluster
from tests.replication.nodes import Node, sync

pytestmark = pytest.mark.timeout(300)

SMALL_LIMITS = (
    *("--client-output-buffer-limit", "normal 64kb 32kb 1 replica 64kb 32kb 1 pubsub 64kb 32kb 1"),
    *("--client-query-buffer-limit", "1mb"),
    *("--proto-max-bulk-len", "1mb"),
)


MESSAGE_BYTES = 1000


def fill(node: Node, rng: random.Random) -> None:
    """A record of about 30 kB, between two small ones."""
    node("SET", "before", "x")
    words = [word for n in range(6) for word in (f"key-{n}", rng.randbytes(5000))]
    node("MSET", *words)
    node("SET", "after", "x")


def messages_for(node: Node, other: Node) -> list[list[bytes]]:
    """All that the other one is to be told, however slowly it takes it."""
    messages: list[list[bytes]] = []
    feed = Feed(node.stage, other.hello(), messages.append, MESSAGE_BYTES)
    feed.pump()
    while feed.has_news or len(messages) == 1:
        feed.acknowledged({}, len(messages), takes_snapshot=True)
        feed.pump()
    return messages


# -- on the way -----------------------------------------------------------------------------------


def test_a_record_that_is_larger_than_a_message_is_seen_whole_or_not_at_all(
    rng: random.Random,
) -> None:
    one, two = Node(1), Node(2)
    fill(one, rng)
    messages = messages_for(one, two)
    assert max(len(part) for message in messages for part in message) <= MESSAGE_BYTES
    assert [message[0] for message in messages[:3]] == [RECORDS, STARTS, PIECE]
    intake = Intake(two.stage)
    seen = []
    for kind, *parts in messages:
        for data in parts:
            intake.take(kind, data)
        seen.append(two("EXISTS", "before", *(f"key-{n}" for n in range(6)), "after"))
    assert list(dict.fromkeys(seen)) == [b":1\r\n", b":7\r\n", b":8\r\n"]
    sync(one, two)


def test_a_key_of_a_snapshot_may_be_larger_than_a_message(rng: random.Random) -> None:
    one, two = Node(1, message_bytes=MESSAGE_BYTES), Node(2)
    one("RPUSH", "list", *(rng.randbytes(500) for _ in range(20)))
    one("SET", "small", "x")
    one.stage.members.admit(1, 1)
    one.tidy()
    assert not one.stage.can_serve(two.stage.vector), "it needs a snapshot"
    kinds = [message[0] for message in messages_for(one, two)]
    assert kinds[:4] == [BEHIND, BEGIN, STARTS, PIECE]
    two.pull(one)
    sync(one, two)
    assert two("LLEN", "list") == b":20\r\n"


def test_no_more_than_a_window_is_on_the_way(rng: random.Random) -> None:
    one, two = Node(1), Node(2)
    one("SET", "k", rng.randbytes(3 * WINDOW_BYTES))
    messages: list[list[bytes]] = []
    feed = Feed(one.stage, two.hello(), messages.append)
    feed.pump()
    assert sum(len(part) for message in messages for part in message) < 1.5 * WINDOW_BYTES


def test_a_line_that_breaks_in_the_middle_of_a_record_costs_nothing(rng: random.Random) -> None:
    one, two = Node(1, message_bytes=MESSAGE_BYTES), Node(2)
    fill(one, rng)
    count = len(messages_for(one, two))
    for most in range(count):
        two.pull(one, most=most)
    two.pull(one)
    sync(one, two)


def test_a_record_is_needed_until_its_last_piece_has_left() -> None:
    """A log that is above its limit waits for linked peers, and so for this one. A record that was
    cut all the same, as the last one of the log, was not noticed: the peer waited for its pieces
    for ever."""
    one, two = Node(1), Node(2)
    one.keyspace.expect(1)
    one("SET", "large", "x" * 20 * MESSAGE_BYTES)
    messages: list[list[bytes]] = []
    feed = Feed(one.stage, two.hello(), messages.append, MESSAGE_BYTES)
    while len(messages) < 3:
        parts = feed._next()
        assert parts is not None
        messages.append(parts)
    assert [message[0] for message in messages] == [STARTS, PIECE, PIECE]
    log = one.stage.log
    assert feed.cursor == log.start, "it is not to be cut yet"
    assert feed.lag_ops
    log.cut(one.stage.vector)
    feed.pump()
    assert messages[3][0] == BEHIND, "it has to be told everything now"


def test_a_record_that_the_log_lost_in_the_middle_is_forgotten_by_the_receiver(
    rng: random.Random,
) -> None:
    """It was cut because the peer that takes it in was removed, or the log is full."""
    one, two = Node(1), Node(2)
    fill(one, rng)
    messages: list[list[bytes]] = []
    feed = Feed(one.stage, two.hello(), messages.append, MESSAGE_BYTES)
    while len(messages) < 5:
        parts = feed._next()
        assert parts is not None
        messages.append(parts)
    one.stage.log.cut(one.stage.vector)
    one("SET", "more", "x")
    feed.pump()
    assert [message[0] for message in messages[:5]] == [RECORDS, STARTS, *[PIECE] * 3]
    assert messages[5][0] == BEHIND, "it has to be told everything now"
    feed.acknowledged(two.stage.vector, 6, takes_snapshot=True)
    feed.pump()
    assert messages[6][0] == BEGIN
    intake = Intake(two.stage)
    for kind, *parts in messages[:5] + messages[6:7]:
        for data in parts:
            intake.take(kind, data)
    assert two("DBSIZE") == b":1\r\n"


@pytest.mark.parametrize(
    "messages",
    [
        [(PIECE, b"x")],
        [(STARTS, pack((RECORDS, 5))), (PIECE, b"toolong")],
        [(STARTS, pack((RECORDS, 5))), (PIECE, b"")],
        [(STARTS, pack((STARTS, 5)))],
        [(STARTS, pack((KEYS, 2))), (PIECE, b"xx")],
        [(STARTS, pack((RECORDS, 5))), (STARTS, pack((RECORDS, 1))), (PIECE, b"hello")],
    ],
)
def test_pieces_that_do_not_fit_end_the_link(messages: list[tuple[bytes, bytes]]) -> None:
    node = Node(1)
    intake = Intake(node.stage)
    *before, (kind, data) = messages
    for each in before:
        intake.take(*each)
    with pytest.raises(ProtocolError):
        intake.take(kind, data)
    assert node("DBSIZE") == b":0\r\n"


# -- in the file ----------------------------------------------------------------------------------


@pytest.mark.parametrize("fold", [False, True])
def test_a_record_larger_than_a_row_is_in_several_rows(
    tmp_path: Path, rng: random.Random, fold: bool
) -> None:
    one, two = (Node(n, tmp_path / f"{n}.db", part_bytes=7000) for n in (1, 2))
    fill(one, rng)
    two.pull(one)
    for node in (one, two):
        node.restart(fold=fold)
        assert isinstance(node.store, FileStore)
        records = list(node.stage.log.since(0))
        assert [record.parts for record in records] == [1, 5, 1]
        assert node.stage.log.read(1) == b"".join(rows_of(node.store, 1))
    third = Node(3)
    third.pull(two)
    sync(one, two, third)
    assert third("STRLEN", "key-5") == b":5000\r\n"
    for node in (one, two):
        node.tidy()
        assert isinstance(node.store, FileStore)
        assert len(node.stage.log) == 0
        node.store.fold()
        assert not rows_of(node.store, 1)
        node.close()


def rows_of(store: FileStore, lsn: int) -> list[bytes]:
    store.fold()
    assert store.keyspace.tables is not None
    tables = store.keyspace.tables
    return [tables.crdt_record(lsn, part) for part, each in [*tables.crdt_log()] if each == lsn]


# -- on a link ------------------------------------------------------------------------------------


def test_the_origin_tells_why_a_peer_follows_no_more(caplog: pytest.LogCaptureFixture) -> None:
    node, other = Node(1), Node(2)
    replicator = node.replicator = Replicator(node.engine, "test", [])
    peer = Peer(node.engine, 3)
    peer.command("ACTIVE", "LINK", pack(other.hello()))
    with caplog.at_level(logging.WARNING):
        node.engine.disconnected(peer.session, "it has closed the connection")
        assert "node 2 does not follow any more: it has closed the connection" in caplog.text
        again = Peer(node.engine, 3)
        again.command("ACTIVE", "LINK", pack(other.hello()))
        view = other.stage.members.view
        ack = Ack({}, other.clock.now_ms(), 0, view, False, False, "no space left")
        again.command("ACTIVE", "ACK", pack(ack))
        assert "node 2 could not follow any more: no space left" in caplog.text
        replicator.pause(2)
        assert "node 2 does not follow any more: it was paused or removed here" in caplog.text


@pytest.mark.source_only
def test_limits_of_clients_do_not_apply_to_links(tmp_path: Path) -> None:
    """A transaction of three megabytes, where no client may be sent more than 64 kB."""
    with cluster(tmp_path, 2, *SMALL_LIMITS) as servers:
        await_the_same(servers)
        with RawClient.connect(servers[0].port, 60) as client:
            client.command("MULTI")
            for number in range(6):
                client.command("SET", f"key-{number}", b"x" * 500_000)
            assert client.command("EXEC") == b"*6\r\n" + b"+OK\r\n" * 6
        wait_until(
            lambda: ask(servers[1], "EXISTS", "key-0", "key-5") == b":2\r\n",
            "the record has arrived",
            CONVERGENCE_S,
        )
        await_the_same(servers)


@pytest.mark.slow
@pytest.mark.source_only
@pytest.mark.timeout(900)
def test_a_value_of_300_mb_arrives_and_survives_a_restart(tmp_path: Path) -> None:
    """More than the 256 MB that a client may be sent."""
    with cluster(tmp_path, 2) as servers:
        await_the_same(servers)
        value = b"0123456789" * (30 << 20)

        def asked(server: HoldfastServer, *args: Argument) -> bytes:
            return ask(server, *args, within_s=300)  # a disk takes its time for so much

        assert asked(servers[0], "SET", "large", value) == b"+OK\r\n"
        wait_until(lambda: asked(servers[1], "EXISTS", "large") == b":1\r\n", "it arrives", 600)
        for server in servers:
            server.restart()
            assert asked(server, "STRLEN", "large") == b":%d\r\n" % len(value)
        assert asked(servers[0], "ACTIVE", "DIGEST") == asked(servers[1], "ACTIVE", "DIGEST")
