"""Active-active engines in this process: no sockets, clocks that stand still, links by hand.

Commands become records and records become visible values as in a server. Only the test decides
which node pulls from which, and when.
"""

import random
from pathlib import Path

from holdfast import all_commands as all_commands
from holdfast.clock import ManualClock
from holdfast.replication.feeds import Feed
from holdfast.replication.intake import Intake
from holdfast.replication.messages import BEHIND, FOLLOWS, MESSAGE_BYTES, OWES, Hello
from holdfast.replication.replicator import Replicator
from holdfast.server.config.config import Config
from holdfast.server.core.engine import Engine
from holdfast.store.check import check_file
from holdfast.store.memory.expiry import expire_due
from holdfast.store.memory.key import FollowedKey
from holdfast.store.replicated.record_log import LIMIT_BYTES, PART_BYTES
from holdfast.store.replicated.replicated_keyspace import ReplicatedKeyspace
from holdfast.store.replicated.stage import ReplicationStage
from holdfast.store.replicated.survey import Survey
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
        self._links: dict[int, Kept] = {}  # that go on, by the node that we pull from
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
        self.stage.log.part_bytes = self._part_bytes
        self.engine.turn.end()

    @property
    def keyspace(self) -> ReplicatedKeyspace:
        keyspace = self.engine.keyspace
        assert isinstance(keyspace, ReplicatedKeyspace)
        return keyspace

    @property
    def stage(self) -> ReplicationStage:
        return self.keyspace.stage

    @property
    def replicator(self) -> Replicator:
        assert isinstance(self.engine.peers, Replicator)
        return self.engine.peers

    @replicator.setter
    def replicator(self, replicator: Replicator) -> None:
        self.engine.peers = replicator

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
        stage = self.stage
        vector = dict(stage.vector)
        return Hello(
            "test",
            self.number,
            stage.replica,
            vector,
            self.clock.now_ms(),
            stage.members.view,
        )

    def pull(self, other: "Node", *, most: int | None = None, keep: bool = False) -> None:
        """Apply the records of the other node, or its first messages; then confirm. A link that is
        kept continues where it was, as real links do."""
        members, others = self.stage.members, other.stage.members
        others.admit(self.number, self.stage.replica)
        members.admit(other.number, other.stage.replica)
        others.learn(members.view)
        members.learn(others.view)
        link = self._links.pop(other.number, None)
        if link is None or not link.is_between(self, other):
            link = Kept(self, other)
        self.engine.refresh_clock()
        link.take(most)
        if keep and most is None:
            self._links[other.number] = link
        self.engine.blocking.serve_ready()
        self.engine.turn.end()
        other.stage.acknowledge(
            self.stage.replica,
            dict(self.stage.vector),
            self.clock.now_ms(),
            members.view,
        )

    def tidy(self, log_limit_bytes: int = LIMIT_BYTES) -> None:
        self.engine.refresh_clock()
        self.stage.tidy(log_limit_bytes)
        expire_due(self.keyspace, 1000)
        self.engine.turn.end()
        self.store.forget_lingering(1000)

    # -- checks -------------------------------------------------------------------------------

    def digest(self) -> int:
        """Nodes that have seen the same have the same."""
        return Survey(self.keyspace).finish().digest

    def check(self) -> None:
        """Clients see exactly the content of the replicated values, and both sides agree."""
        while self.keyspace.freeing.step():
            pass
        found = Survey(self.keyspace).finish().found
        assert not found, "\n".join(map(str, found))
        replica_keys = self.stage.replica_keys
        for address in replica_keys.addresses:
            replicated = replica_keys.at(address)
            key = self.keyspace.replicated_databases[address[0]].glance(address[1])
            assert replicated.shown in (None, key), address
            if isinstance(key, FollowedKey):
                assert (key.replica_key is replicated) == (replicated.shown is key), address
                assert key.replica_key in (None, replicated), address
        for found in self.stage.addresses.values():
            if type(found) is not tuple:
                assert found is replica_keys.at(found.address), found.address

    def check_file(self) -> None:
        """A server that starts with this file shows the same as it would replicate."""
        if self._path is not None:
            found = check_file(self._path)
            assert not found, "\n".join(found)


class Kept:
    """A link by which one node pulls from another."""

    def __init__(self, node: Node, other: Node) -> None:
        self._messages: list[list[bytes]] = []
        self._replica = node.stage.replica
        self._feed = Feed(other.stage, node.hello(), self._messages.append, other.message_bytes)
        self._intake = Intake(node.stage)
        self._taken = 0

    def is_between(self, node: Node, other: Node) -> bool:
        """Whether both nodes are still the same: neither restarted, was loaded again, or became
        another replica."""
        return (
            self._feed.stage is other.stage
            and self._intake.stage is node.stage
            and self._replica == node.stage.replica
        )

    def take(self, most: int | None) -> None:
        feed, intake, messages = self._feed, self._intake, self._messages
        while True:
            for _ in range(2):
                feed.relay()
            while feed.pump():
                pass
            if self._taken == len(messages) or self._taken == most:
                break
            for kind, *parts in messages[self._taken : most]:
                for data in parts:
                    if kind not in (BEHIND, FOLLOWS, OWES):
                        intake.take(kind, data)
                while not intake.finish_some():
                    pass
                self._taken += 1
            vector = dict(intake.stage.vector)
            feed.acknowledged(vector, self._taken, takes_snapshot=True)


def sync(*nodes: Node) -> None:
    """All nodes pull from each other, until all have all records."""
    for _ in range(2):
        for one in nodes:
            for other in nodes:
                if one is not other:
                    one.pull(other)
    for node in nodes:
        node.check()
    assert len({node.digest() for node in nodes}) == 1
