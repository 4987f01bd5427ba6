"""Servers that take a snapshot: from one peer at a time, and with time for their clients."""

import asyncio
import re
import sys
import threading
import time
from pathlib import Path

import pytest

from holdfast.client.protocol.reply_parser import Push
from holdfast.errors import ProtocolError
from holdfast.replication import feeds
from holdfast.replication.feeds import PUMP_KEYS, Feed
from holdfast.replication.intake import Intake
from holdfast.replication.link_states import LinkState
from holdfast.replication.messages import (
    BEGIN,
    BEHIND,
    COMPLETE,
    FOLLOWS,
    KEYS,
    OWES,
    PUSH,
    RECORDS,
    pack,
)
from holdfast.replication.puller import Puller
from holdfast.replication.replicator import Replicator
from holdfast.store.store import FileStore
from tests.harness import HoldfastServer, RawClient, processes, wait_until
from tests.replication.crew import CONVERGENCE_S, ask, await_the_same, cluster
from tests.replication.nodes import Node, sync

pytestmark = pytest.mark.timeout(300)


def cut_log(node: Node) -> None:
    """All known members have confirmed all records: a new server needs a snapshot."""
    node.stage.seal()
    node.stage.log.cut(node.stage.vector)


def filled(number: int, keys: int) -> Node:
    node = Node(number)
    node("MSET", *(word for n in range(keys) for word in (f"key-{n}", "v")))
    return node


# -- in slices ------------------------------------------------------------------------------------


def test_a_server_that_sends_a_snapshot_looks_at_few_keys_at_a_time() -> None:
    one, two = filled(1, 4 * PUMP_KEYS), Node(2)
    cut_log(one)
    messages: list[list[bytes]] = []
    feed = Feed(one.stage, two.hello(), messages.append)
    feed.pump()
    feed.acknowledged({}, 1, takes_snapshot=True)
    counts = []
    while True:
        before = len(messages)
        has_more = feed.pump()
        counts.append(sum(len(each) - 1 for each in messages[before:] if each[0] == KEYS))
        if not has_more:
            break
    assert sum(counts) == 4 * PUMP_KEYS
    assert max(counts) <= PUMP_KEYS


def test_a_server_looks_at_few_records_at_a_time_that_a_peer_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(feeds, "PUMP_RECORDS", 50)
    one, two = Node(1), Node(2)
    for number in range(120):
        one("SET", f"key-{number}", "v")
    two.pull(one)
    one("SET", "last", "v")
    messages: list[list[bytes]] = []
    feed = Feed(one.stage, two.hello(), messages.append)
    assert [feed.pump() for _ in range(3)] == [True, True, False]
    assert len(messages) == 1


def test_a_snapshot_does_not_begin_with_a_list_of_all_keys() -> None:
    """To make the addresses of a million keys at once took 100 ms."""
    one = filled(1, 10_000)
    blocks = sys.getallocatedblocks()
    snapshot = one.stage.snapshot()
    assert next(snapshot)[:2] == (0, b"key-0")
    assert sys.getallocatedblocks() - blocks < 1000


def test_a_joiner_keeps_no_names_of_a_snapshot_but_of_keys_that_it_had() -> None:
    one, two = filled(1, 100), Node(2)
    two("SET", "key-7", "w")
    two("SET", "other", "w")
    one.stage.seal()
    intake = Intake(two.stage)
    intake.take(BEGIN, pack(one.stage.vector))
    for key in one.stage.snapshot():
        intake.take(KEYS, pack(key))
    assert intake._names == {(0, b"key-7")}
    intake.take(COMPLETE, pack(one.stage.vector))
    while not intake.finish_some():
        pass
    assert two("DBSIZE") == b":101\r\n"
    two.check()


def test_keys_that_a_snapshot_lacks_go_a_slice_at_a_time() -> None:
    one, two = filled(1, 500), Node(2)
    sync(one, two)
    before = dict(two.stage.vector)
    one("FLUSHALL")
    one("SET", "k", "v")
    one.stage.seal()
    intake = Intake(two.stage)
    intake.take(BEGIN, pack(one.stage.vector))
    for key in one.stage.snapshot():
        intake.take(KEYS, pack(key))
    intake.take(COMPLETE, pack(one.stage.vector))
    sizes = []
    while not intake.finish_some():
        sizes.append(int(two("DBSIZE")[1:]))
        assert two.stage.vector == before, "not before all has gone"
    assert len(sizes) >= 2
    assert sizes == sorted(sizes, reverse=True)
    assert two("DBSIZE") == b":1\r\n"
    assert two.stage.vector == one.stage.vector


def test_the_fold_asks_for_few_rows_of_a_snapshot_at_a_time(tmp_path: Path) -> None:
    """It noted all of them at once, before it wrote the first."""
    one, two = filled(1, 300), Node(2, tmp_path / "two.db")
    cut_log(one)
    two.pull(one)
    rows = two.stage.replica_keys.unwritten_rows()
    next(rows)
    assert len(two.stage.replica_keys._being_written) == 1
    assert sum(1 for _ in rows) == 299
    two.close()


# -- one at a time --------------------------------------------------------------------------------


class Joiner:
    """With links to several peers, over which tests push chosen messages."""

    def __init__(self, *peers: Node) -> None:
        self.node = Node(9)
        self.replicator = Replicator(
            self.node.engine, "test", [f"redis://127.0.0.1:{peer.number}" for peer in peers]
        )
        self.node.replicator = self.replicator
        self.pullers = self.replicator.pullers
        for puller in self.pullers:
            puller.state = LinkState.FOLLOWING
            puller._over = asyncio.get_running_loop().create_future()

    def hears(self, puller: Puller, *messages: list[bytes]) -> None:
        puller.on_replies([Push([PUSH, *message]) for message in messages])

    async def settle(self) -> None:
        for _ in iter(lambda: any(each._going_on is not None for each in self.pullers), False):
            await asyncio.sleep(0)


def snapshot_of(node: Node) -> list[list[bytes]]:
    node.stage.seal()
    vector = pack(node.stage.vector)
    keys = [[KEYS, pack(key)] for key in node.stage.snapshot()]
    return [[BEGIN, vector], *keys, [COMPLETE, vector]]


def test_the_next_peer_has_its_turn_when_the_first_is_done_or_gone() -> None:
    async def main() -> None:
        one, two, three = filled(1, 5), filled(2, 5), filled(3, 5)
        joiner = Joiner(one, two, three)
        first, second, third = joiner.pullers
        for puller in joiner.pullers:
            joiner.hears(puller, [BEHIND, pack({1: 1})])
        assert [each.takes_snapshot for each in joiner.pullers] == [True, False, False]
        first._clean_up()
        assert [each.takes_snapshot for each in joiner.pullers] == [False, True, False]
        joiner.hears(second, *snapshot_of(two))
        await joiner.settle()
        assert second.state is LinkState.FOLLOWING
        assert [each.takes_snapshot for each in joiner.pullers] == [False, False, True]
        joiner.hears(third, [FOLLOWS, pack({})])
        assert third.state is LinkState.FOLLOWING
        assert not any(each.takes_snapshot for each in joiner.pullers)
        assert joiner.node("DBSIZE") == b":5\r\n"

    asyncio.run(main())


def test_records_of_others_wait_for_the_end_of_a_snapshot() -> None:
    """Two's log adds an element that one has seen and removed. If it were added after one's key
    was merged, it would stay: its removal is seen as soon as the snapshot is complete."""

    async def main() -> None:
        author, one, two = Node(3), Node(1), Node(2)
        author("SADD", "set", "a", "b")
        one.pull(author)
        two.pull(author)
        one("SREM", "set", "a")
        log = two.stage.log
        records = [log.read(number) for number in range(len(log))]
        joiner = Joiner(one, two)
        from_one, from_two = joiner.pullers
        begin, keys, complete = snapshot_of(one)
        joiner.hears(from_one, [BEHIND, pack({})])
        joiner.hears(from_one, begin, keys)
        joiner.hears(from_two, [RECORDS, *records])
        assert joiner.node("SMEMBERS", "set") == b"*1\r\n$1\r\nb\r\n"
        joiner.hears(from_one, complete)
        await joiner.settle()
        assert not from_two._inbox, "it was looked at then"
        assert joiner.node("SMEMBERS", "set") == b"*1\r\n$1\r\nb\r\n"
        assert joiner.node.digest() == one.digest()

    asyncio.run(main())


@pytest.mark.parametrize("kind", [BEGIN, FOLLOWS, KEYS, OWES, COMPLETE])
def test_a_message_that_comes_too_early_ends_the_link(kind: bytes) -> None:
    async def main() -> None:
        joiner = Joiner(Node(1))
        (puller,) = joiner.pullers
        joiner.hears(puller, [kind, pack({})])
        assert puller._over is not None
        assert isinstance(puller._over.exception(), ProtocolError)

    asyncio.run(main())


def test_a_following_peer_is_told_of_events_that_only_a_snapshot_had() -> None:
    """Two follows one. One takes a snapshot from three, and then removes an element which it has
    from there. If two heard of the removal first, it would add the element for good afterwards."""
    one, two, three = Node(1), Node(2), Node(3)
    sync(one, two, three)
    messages: list[list[bytes]] = []
    feed = Feed(one.stage, two.hello(), messages.append)
    three("SADD", "set", "a", "b")
    cut_log(three)
    one.pull(three)
    one("SREM", "set", "a")
    feed.pump()
    assert [kind for kind, *_ in messages] == [BEHIND]
    feed.acknowledged(dict(two.stage.vector), 1, takes_snapshot=True)
    feed.pump()
    assert [kind for kind, *_ in messages] == [BEHIND, BEGIN, KEYS, COMPLETE]


def test_a_peer_that_has_all_of_the_snapshot_is_sent_records_only() -> None:
    one, two, three = Node(1), Node(2), Node(3)
    sync(one, two, three)
    messages: list[list[bytes]] = []
    feed = Feed(one.stage, two.hello(), messages.append)
    three("SADD", "set", "a", "b")
    two.pull(three)
    cut_log(three)
    one.pull(three)
    feed.acknowledged(dict(two.stage.vector), 0)
    one("SREM", "set", "a")
    feed.pump()
    assert [kind for kind, *_ in messages] == [RECORDS]


def test_a_server_that_has_half_of_a_snapshot_says_so_to_one_that_takes_a_snapshot_from_it() -> (
    None
):
    """Its keys tell of events that neither its vector nor that of its snapshot has. If a client of
    the second one were allowed to remove them, others would hear of the removal first."""

    async def main() -> None:
        one, three = filled(1, 2000), filled(3, 3)
        replicator = one.replicator = Replicator(one.engine, "test", [])
        cut_log(one)
        joiner = Joiner(one)
        messages: list[list[bytes]] = []
        feed = Feed(one.stage, joiner.node.hello(), messages.append)
        feed.pump()
        feed.acknowledged({}, 1, takes_snapshot=True)
        feed.pump()
        kinds = [kind for kind, *_ in messages]
        assert kinds == [BEHIND, BEGIN, KEYS], "it has begun"
        intake = Intake(one.stage)
        for kind, data in snapshot_of(three)[:2]:
            intake.take(kind, data)
        replicator.fell_behind(intake.snapshot_seen)
        while feed.has_news:
            feed.acknowledged({}, len(messages))
            feed.pump()
        kinds = [kind for kind, *_ in messages]
        assert kinds[3] == OWES, "before the next keys"
        assert set(kinds[4:-1]) == {KEYS}
        (puller,) = joiner.pullers
        joiner.hears(puller, *messages)
        await joiner.settle()
        assert puller.state is LinkState.FOLLOWING
        assert joiner.node.stage.vector == one.stage.vector
        assert joiner.node.stage.owed == three.stage.vector
        assert joiner.node("SET", "key", "v").startswith(b"-READONLY")
        joiner.node.pull(three)
        assert joiner.node.stage.owed == {}

    asyncio.run(main())


# -- with processes -------------------------------------------------------------------------------


def received_bytes(server: HoldfastServer) -> int:
    """By all of its links."""
    return sum(map(int, re.findall(rb"received_bytes=(\d+)", ask(server, "INFO", "replication"))))


@pytest.mark.source_only
def test_a_joiner_takes_one_snapshot_and_not_one_from_each_peer(tmp_path: Path) -> None:
    with cluster(tmp_path, 3) as servers:
        await_the_same(servers)
        with RawClient.connect(servers[0].port) as client:
            for number in range(200):
                client.command("SET", f"key-{number}", b"x" * 10_000)
        await_the_same(servers)
        no_records = b"log_records\r\n:0\r\n"
        wait_until(
            lambda: all(no_records in ask(server, "ACTIVE", "INFO") for server in servers),
            "the logs are cut",
            CONVERGENCE_S,
        )
        joiner = HoldfastServer(tmp_path / "node-4", "--active-active", "--node-id", "4")
        for number in (1, 2, 3):
            joiner.args += ("--peer", f"unix://{tmp_path}/{number}.sock")
        with joiner:
            wait_until(
                lambda: (
                    ask(joiner, "ACTIVE", "PEERS").count(b"following") == 3
                    and ask(joiner, "ACTIVE", "DIGEST") == ask(servers[0], "ACTIVE", "DIGEST")
                ),
                "it has all that they have",
                CONVERGENCE_S,
            )
            assert 2_000_000 < received_bytes(joiner) < 3_000_000


class Prober(threading.Thread):
    """Asks a server again and again; `longest_s` is the longest that it had to wait."""

    def __init__(self, server: HoldfastServer) -> None:
        super().__init__(daemon=True)
        self._client = RawClient.connect(server.port, 120)
        self._enough = threading.Event()
        self.longest_s = 0.0

    def run(self) -> None:
        while not self._enough.wait(0.002):
            started_s = time.monotonic()
            self._client.command("PING")
            self.longest_s = max(self.longest_s, time.monotonic() - started_s)

    def stop(self) -> float:
        self._enough.set()
        self.join()
        self._client.close()
        return self.longest_s


@pytest.mark.slow
@pytest.mark.source_only
@pytest.mark.timeout(3600)
def test_joining_two_servers_that_have_a_million_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """How long it took, and the longest pauses of the joiner and of a server that was there."""
    monkeypatch.setattr(processes, "START_TIMEOUT_S", 1200)
    keys = 1_000_000
    path = tmp_path / "one.db"
    store = FileStore(path)
    for number in range(keys):
        store.keyspace.databases[0].set_string(b"key:%d" % number, b"x" * 32, None)
        if number % 10_000 == 0:
            store.commit()
            store.fold()
    store.close()

    def node(number: int, *peers: HoldfastServer) -> HoldfastServer:
        db = path if number == 1 else None
        server = HoldfastServer(tmp_path / f"node-{number}", db=db)
        server.args = ("--active-active", "--node-id", str(number))
        for peer in peers:
            server.args += ("--peer", f"redis://127.0.0.1:{peer.port}")
        return server

    def is_linked_to(server: HoldfastServer, count: int) -> bool:
        return ask(server, "ACTIVE", "PEERS", within_s=120).count(b"following") == count

    with node(1) as one, node(2, one) as two:
        assert ask(one, "ACTIVE", "JOIN", f"redis://127.0.0.1:{two.port}") == b"+OK\r\n"
        wait_until(lambda: is_linked_to(two, 1), "two has joined", 1200)
        with node(3, one, two) as three:
            for server in (one, two):
                url = f"redis://127.0.0.1:{three.port}"
                assert ask(server, "ACTIVE", "JOIN", url) == b"+OK\r\n"
            probers = [Prober(server) for server in (one, two, three)]
            for prober in probers:
                prober.start()
            started_s = time.monotonic()
            wait_until(lambda: is_linked_to(three, 2), "three has joined", 1200)
            took_s = time.monotonic() - started_s
            pauses = ", ".join(f"{1000 * prober.stop():.0f} ms" for prober in probers)
            with capsys.disabled():
                print(f"\njoined in {took_s:.0f} s; longest pauses: {pauses}")  # noqa: T201
            assert ask(three, "DBSIZE") == b":%d\r\n" % keys
            assert received_bytes(three) < 1.5 * received_bytes(two)
            for server in (two, three):
                assert "does not answer any more" not in server.stderr, "no link was dropped"
