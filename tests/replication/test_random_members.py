"""Nodes join, come back from copies and are removed; the node that removes one tells the others
as they meet. Meanwhile all change the same keys and forget residue. The remaining nodes become
equal."""

import os
import random
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from holdfast.errors import CommandError
from holdfast.replication.replicator import Replicator
from holdfast.store.backup import backup
from tests.replication.nodes import Node, sync
from tests.replication.test_random_lives import command

TIMES_LONGER = int(os.environ.get("HOLDFAST_LIVES", "1"))


def begin(node: Node) -> Node:
    node.replicator = Replicator(node.engine, "test", [])
    node.engine.turn.end()
    return node


def know_each_other(one: Node, other: Node) -> None:
    """As by a greeting: one that peers know more of than it does becomes a new replica."""
    for node, peer in ((one, other), (other, one)):
        replicator, met = node.replicator, peer.replicator
        assert replicator is not None
        assert met is not None
        with suppress(CommandError):
            replicator.identity.check_history(met.hello())
        replicator.identity.check_history(met.hello())
        assert replicator.state == "member"
        node.engine.turn.end()


class Cluster:
    def __init__(self, folder: Path, rng: random.Random) -> None:
        self._folder, self._rng = folder, rng
        self.nodes = [self._node(1), self._node(2)]
        sync(*self.nodes)
        self.joined = 2

    def _node(self, number: int) -> Node:
        return begin(Node(number, self._folder / f"{number}.db"))

    def pick(self, *but: Node) -> Node:
        return self._rng.choice([node for node in self.nodes if node not in but])

    def meet(self, one: Node, other: Node, most: int | None = None) -> None:
        """One pulls, unless either knows that the other was removed."""
        views = [node.stage.members for node in (one, other)]
        if one.number not in views[1].removed and other.number not in views[0].removed:
            know_each_other(one, other)
            one.pull(other, most=most)

    def join(self) -> None:
        """Known to one at first."""
        if self.joined < 6:
            self.joined += 1
            node = self._node(self.joined)
            node.pull(self.pick())
            self.nodes.append(node)

    def remove(self) -> None:
        if len(self.nodes) > 3:
            judge = self.pick()
            node = self.pick(judge)
            judge.stage.members.remove([node.number])
            judge.engine.turn.end()
            # It goes on for a while: some do not know yet.
            for _ in range(self._rng.randrange(4)):
                node(*command(self._rng))
                self.meet(self.pick(node), node)
                self.meet(node, self.pick(node))
            self.nodes.remove(node)
            node.close()

    def restore(self) -> None:
        """Restart from a copy that may be older than the others' records. It covers all ways to
        make one: the node is told of the copy by the files beside it or, if they were copied too,
        by a peer."""
        node = self.pick()
        path = self._folder / f"{node.number}.db"
        copy = self._folder / "copy"
        copy.mkdir()
        how = self._rng.choice(("file", "backup", "clone"))
        if how == "backup":
            backup(path, copy / path.name)
        else:
            node.restart(fold=True)
            begin(node)
            node.store.close()
            shutil.copy(path, copy)
            if how == "clone":
                shutil.copy(f"{path}-life", copy)
            node._start()
            begin(node)
        for _ in range(self._rng.randrange(3)):
            node(*command(self._rng))
        for _ in range(2):
            self.meet(self.pick(node), node)
        node.store.sync()
        node.close()
        for end in ("", "-wal", "-shm"):
            path.with_name(path.name + end).unlink(missing_ok=True)
        for file in copy.iterdir():
            file.replace(self._folder / file.name)
        copy.rmdir()
        before = node.stage.replica
        node._start()
        begin(node)
        assert how == "clone" or node.stage.replica > before
        if how == "clone":  # it must not be written to before it has met one that knows
            for other in self.nodes:
                if other is not node:
                    self.meet(node, other)


@pytest.mark.parametrize("seed", range(6 * TIMES_LONGER))
def test_the_remaining_servers_are_equal(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    cluster = Cluster(tmp_path, rng)
    for _ in range(rng.randrange(40, 120)):
        node = cluster.pick()
        chance = rng.random()
        if chance < 0.5:
            node(*command(rng))
        elif chance < 0.8:
            cluster.meet(node, cluster.pick(node), rng.choice((None, None, 1)))
        elif chance < 0.92:
            node.tidy()
        elif chance < 0.94:
            cluster.join()
        elif chance < 0.95:
            cluster.remove()
        elif chance < 0.98:
            cluster.restore()
        else:
            for each in cluster.nodes:
                each.clock.advance(rng.choice((0.001, 1, 6)))
        if node in cluster.nodes:
            node.check()
    sync(*cluster.nodes)
    assert len({node.stage.members.view for node in cluster.nodes}) == 1
    for node in cluster.nodes:
        node.tidy()
    sync(*cluster.nodes)
    for node in cluster.nodes:
        node.close()
