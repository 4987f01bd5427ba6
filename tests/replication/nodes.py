"""Active-active engines in this process: no sockets, clocks that stand still, links by hand.

Everything goes the way it goes in a server, from argv to records and from records to what clients
see; only that a test decides who pulls from whom, and when.
"""

import random
from pathlib import Path

from holdfast.clock import ManualClock
from holdfast.replication.feeds import Feed
from holdfast.replication.intake import Intake
from holdfast.replication.messages import BEHIND, FOLLOWS, MESSAGE_BYTES, Hello
from holdfast.server import families as families
from holdfast.server.config import Config
from holdfast.server.engine import Engine
from holdfast.store.check import check_file
from holdfast.store.expiry import expire_due
from holdfast.store.keys import FollowedKey
from holdfast.store.replicated import Replication
from holdfast.store.replicated_compare import Survey
from holdfast.store.replicated_keyspace import ReplicatedKeyspace
from holdfast.store.replicated_log import LIMIT_BYTES, PART_BYTES
from holdfast.store.store import FileStore, MemoryStore, Store
from tests.harness.in_process import Peer
from tests.harness.rawclient import Argument


class Node:
    """`message_bytes` is the size of the messages that it sends, `part_bytes` that of the rows of
    its log: larger records and keys are in pieces."""

    def __init__(
        self,
        number: int,
        path: Path | None = None,
        message_bytes: int = MESSAGE_BYTES,
        part_bytes: int = PART_BYTES,
    ) -> None:
        self.number = number
        self._path = path
        self.message_bytes = message_bytes
        self._part_bytes = part_bytes
        self.clock = ManualClock()
        self._start()

    def _start(self) -> None:
        self.store: Store = (
            MemoryStore(16, self.number)
            if self._path is None
            else FileStore(self._path, node=self.number)
        )
        while self.store.adopt_step():
            pass
        self.engine = Engine(
            self.store, Config({"appendfsync": "no"}), self.clock, random.Random(1)
        )
        self.client = Peer(self.engine)
        self.replication.log.part_bytes = self._part_bytes
        self.engine.turn.end()

    @property
    def keyspace(self) -> ReplicatedKeyspace:
        keyspace = self.engine.keyspace
        assert isinstance(keyspace, ReplicatedKeyspace)
        return keyspace

    @property
    def replication(self) -> Replication:
        return self.keyspace.replication

    def __call__(self, *args: Argument) -> bytes:
        return self.client.command(*args)

    def another_client(self) -> Peer:
        return Peer(self.engine)

    def restart(self, *, fold: bool = False) -> None:
        """As after kill -9, or in good order."""
        if fold:
            self.store.close()
        else:
            self.store.abandon()
        self._start()

    def close(self) -> None:
        self.store.abandon()

    # -- links --------------------------------------------------------------------------------

    def hello(self) -> Hello:
        replication = self.replication
        vector = dict(replication.vector)
        return Hello(
            "test",
            self.number,
            replication.replica,
            vector,
            self.clock.now_ms(),
            replication.members.view,
        )

    def pull(self, other: "Node", *, most: int | None = None) -> None:
        """Take in what the other has, or its first messages; then say so."""
        messages: list[list[bytes]] = []
        members, others = self.replication.members, other.replication.members
        others.admit(self.number, self.replication.replica)
        members.admit(other.number, other.replication.replica)
        others.learn(members.view)
        members.learn(others.view)
        feed = Feed(other.replication, self.hello(), messages.append, other.message_bytes)
        intake = Intake(self.replication)
        self.engine.refresh_clock()
        taken = 0
        while True:
            while feed.pump():
                pass
            if taken == len(messages) or taken == most:
                break
            for kind, *parts in messages[taken:most]:
                for data in parts:
                    if kind not in (BEHIND, FOLLOWS):
                        intake.take(kind, data)
                while not intake.finish_some():
                    pass
                taken += 1
            feed.acknowledged(dict(self.replication.vector), taken, takes_snapshot=True)
        self.engine.waiting.serve_ready()
        self.engine.turn.end()
        other.replication.acknowledge(
            self.replication.replica,
            dict(self.replication.vector),
            self.clock.now_ms(),
            members.view,
        )

    def tidy(self, log_limit_bytes: int = LIMIT_BYTES) -> None:
        self.engine.refresh_clock()
        self.replication.tidy(log_limit_bytes)
        expire_due(self.keyspace, 1000)
        self.engine.turn.end()
        self.store.forget_lingering(1000)

    # -- checks -------------------------------------------------------------------------------

    def check(self) -> None:
        """Clients see what the replicated values say, no more and no less; and both sides know
        each other."""
        while self.keyspace.freeing.step():
            pass
        found = Survey(self.keyspace).finish().found
        assert not found, "\n".join(map(str, found))
        slots = self.replication.slots
        for address in slots.addresses:
            replicated = slots.at(address)
            key = self.keyspace.replicated_databases[address[0]].glance(address[1])
            assert replicated.shown in (None, key), address
            if isinstance(key, FollowedKey):
                assert (key.slot is replicated) == (replicated.shown is key), address
                assert key.slot in (None, replicated), address
        for found in self.replication.addresses.values():
            if type(found) is not tuple:
                assert found is slots.at(found.address), found.address

    def check_file(self) -> None:
        """What a server that starts with this file would show is what it would replicate."""
        if self._path is not None:
            found = check_file(self._path)
            assert not found, "\n".join(found)


def sync(*nodes: Node) -> None:
    """Everybody pulls from everybody, until all have everything."""
    for _ in range(2):
        for one in nodes:
            for other in nodes:
                if one is not other:
                    one.pull(other)
    for node in nodes:
        node.check()
    assert len({node.replication.digest() for node in nodes}) == 1
