"""A Redis replica follows an active-active server: it has what clients see there."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.psync.command_reader import CommandReader
from holdfast.server.config.config import Config
from holdfast.server.core.engine import Engine
from holdfast.store.memory.database import Database
from holdfast.store.rdb.plain import plain_of
from holdfast.store.store import MemoryStore
from tests.commands.streams.talk import parsed
from tests.harness import HoldfastServer, RawClient, RedisServer, free_port, wait_until
from tests.harness.in_process import Peer
from tests.replication.nodes import Node, sync
from tests.replication.test_random_lives import TIMES_LONGER, command
from tests.server.primary.following import follow, wait_for_replica
from tests.server.primary.test_redis_follows import contents

Content = dict[tuple[int, bytes], object]


class Follower:
    """Does what the stream of a node says, as a replica does."""

    def __init__(self, node: Node) -> None:
        self._node = node
        node.engine.primary.begin()
        self.engine = Engine(MemoryStore(16), Config({}), node.clock, random.Random(1))
        self._client = Peer(self.engine)
        self._reader = CommandReader(0)
        self._offset = 0

    def catch_up(self) -> None:
        backlog = self._node.engine.primary.backlog
        assert backlog is not None
        data = backlog.since(self._offset + 1)
        self._offset += len(data)
        keyspace = self.engine.keyspace
        keyspace.is_replica = keyspace.obeys_primary = True
        for each in self._reader.feed(data):
            reply = self._client.command(*each.argv)
            assert not reply.startswith(b"-"), (each.argv, reply)
        keyspace.obeys_primary = False

    def check(self) -> None:
        ours = content(self._node.engine)  # fields that have expired go when they are read
        self.catch_up()
        assert content(self.engine) == ours


def content(engine: Engine) -> Content:
    """What clients see. Fields of hashes without their times: the node lets them expire."""
    client = Peer(engine)
    found: Content = {}
    for database in engine.keyspace.databases:
        client.command("SELECT", database.index)
        for name in parsed(client.command("KEYS", "*")):
            found[database.index, name] = (value_of(database, name.encode(), client),)
    client.leave()
    return found


def value_of(database: Database, name: bytes, client: Peer) -> object:
    key = database.find(name)
    assert key is not None
    plain = plain_of(key.value)
    expires_at_ms = key.expires_at_ms
    match plain.type:
        case "hash":
            return expires_at_ms, sorted((field, text) for field, text, _ in plain.content)
        case "set" | "zset":
            return expires_at_ms, sorted(plain.content)
        case "stream":
            info = parsed(client.command("XINFO", "STREAM", name))
            facts = dict(zip(info[::2], info[1::2], strict=True))
            groups = parsed(client.command("XINFO", "GROUPS", name))
            shown = [(group[1], group[7]) for group in groups]
            pending = [
                [
                    (entry, consumer, count)
                    for entry, consumer, _, count in parsed(
                        client.command("XPENDING", name, group[1], "-", "+", 99)
                    )
                ]
                for group in groups
            ]
            ids = facts["last-generated-id"], facts["entries-added"]
            entries = parsed(client.command("XRANGE", name, "-", "+"))
            return expires_at_ms, ids, shown, pending, entries
        case _:
            return expires_at_ms, plain.content


@pytest.mark.parametrize("seed", range(16 * TIMES_LONGER))
def test_it_has_what_clients_see(seed: int) -> None:
    rng = random.Random(seed)
    family = rng.choice(("", "", "L", "H", "S", "Z", "X", "X"))
    nodes = [Node(number) for number in (1, 2, 3)]
    follower = Follower(nodes[0])
    for _ in range(rng.randrange(40, 160)):
        node = rng.choice(nodes)
        chance = rng.random()
        if chance < 0.7:
            node(*command(rng, node, family))
        elif chance < 0.75:
            node.client.transaction(*[command(rng, node, family) for _ in range(3)])
        elif chance < 0.95:
            node.pull(rng.choice([each for each in nodes if each is not node]))
        elif chance < 0.97:
            node.tidy(rng.choice((10**7, 1000)))
        else:
            for each in nodes:
                each.clock.advance(rng.choice((0.001, 1, 6)))
        follower.check()
    sync(*nodes)
    follower.check()
    for node in nodes:
        node.close()


def test_a_record_is_one_transaction() -> None:
    """No client of the replica sees a part of it."""
    one, two = Node(1), Node(2)
    follower = Follower(one)
    two.client.transaction(("RPUSH", "l", "a"), ("SET", "s", "1"), ("SADD", "m", "x"))
    one.pull(two)
    backlog = one.engine.primary.backlog
    assert backlog is not None
    names = [each.argv[0] for each in CommandReader(0).feed(backlog.since(1))]
    assert names == [b"SELECT", b"MULTI", b"SET", b"RESTORE", b"RESTORE", b"EXEC"]
    follower.check()


def test_a_change_inside_of_a_large_value_is_sent_as_such() -> None:
    one, two = Node(1), Node(2)
    for kind in ("RPUSH", "SADD", "HSET"):
        one(kind, kind, *range(2000))
    sync(one, two)
    follower = Follower(one)
    backlog = one.engine.primary.backlog
    assert backlog is not None
    two("LINSERT", "RPUSH", "BEFORE", "1000", "between")
    two("LREM", "RPUSH", 1, "500")
    two("RPUSH", "RPUSH", "last")
    two("SADD", "SADD", "more")
    two("HSET", "HSET", "0", "changed")
    two("HDEL", "HSET", "2")
    one.pull(two)
    assert len(backlog.since(1)) < 1000
    del follower


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[HoldfastServer, HoldfastServer]]:
    ports = free_port(), free_port()
    servers = [
        HoldfastServer(
            tmp_path / str(number),
            *("--active-active", "yes", "--node-id", str(number)),
            *("--peer", f"redis://127.0.0.1:{ports[2 - number]}"),
            *("--port", str(ports[number - 1])),
        )
        for number in (1, 2)
    ]
    with servers[0], servers[1]:
        yield servers[0], servers[1]


@pytest.mark.oracle
def test_redis_follows_one_of_two_servers(
    pair: tuple[HoldfastServer, HoldfastServer], tmp_path: Path, rng: random.Random
) -> None:
    """Before the snapshot and after it, clients write to both servers."""
    clients = [server.client() for server in pair]
    write(clients, rng)
    with RedisServer(tmp_path / "replica") as replica:
        copy = follow(pair[0], replica)
        write(clients, rng)
        for kind in ("RPUSH", "SADD", "PFADD"):
            clients[1].command(kind, f"last:{kind}", "a", "b")
        meet(clients)
        ours = contents(clients[0])
        wait_for_replica(clients[0])
        theirs = contents(copy)
        assert theirs == ours
        assert {(0, b"last:RPUSH"), (0, b"last:SADD"), (0, b"last:PFADD")} <= set(theirs)


def write(clients: list[RawClient], rng: random.Random) -> None:
    for _ in range(300):
        words = command(rng)
        rng.choice(clients).command(*words)


def meet(clients: list[RawClient]) -> None:
    """Until both servers have the same."""

    def are_equal() -> bool:
        return len({client.command("ACTIVE", "DIGEST") for client in clients}) == 1

    wait_until(are_equal, "they are equal")
