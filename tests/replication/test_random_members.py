"""Nodes join, come back from copies and are removed by one who tells the others as they meet, while
all change the same keys and forget what they may: those who remain come to the same."""

import os
import random
import shutil
from pathlib import Path

import pytest

from tests.replication.nodes import Node, sync
from tests.replication.test_random_lives import command

TIMES_LONGER = int(os.environ.get("HOLDFAST_LIVES", "1"))


class Cluster:
    def __init__(self, folder: Path, rng: random.Random) -> None:
        self._folder, self._rng = folder, rng
        self._copies = 0
        self.nodes = [self._node(1), self._node(2)]
        sync(*self.nodes)
        self.joined = 2

    def _node(self, number: int) -> Node:
        message_bytes = self._rng.choice((50, 128_000))  # of some, nearly all is in pieces
        return Node(number, self._folder / f"{number}.db", message_bytes)

    def pick(self, *but: Node) -> Node:
        return self._rng.choice([node for node in self.nodes if node not in but])

    def meet(self, one: Node, other: Node, most: int | None = None) -> None:
        """One pulls, unless either knows that the other was removed."""
        views = [node.replication.members for node in (one, other)]
        if one.number not in views[1].removed and other.number not in views[0].removed:
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
            judge.replication.members.remove([node.number])
            judge.engine.turn.end()
            # It goes on for a while: some do not know yet.
            for _ in range(self._rng.randrange(4)):
                node(*command(self._rng))
                self.meet(self.pick(node), node)
                self.meet(node, self.pick(node))
            self.nodes.remove(node)
            node.close()

    def restore(self) -> None:
        """From a copy that is older than what the others have, as somebody new."""
        node = self.pick()
        node.restart(fold=True)
        node.close()
        self._copies += 1
        path = self._folder / f"copy-{self._copies}.db"
        shutil.copy(self._folder / f"{node.number}.db", path)
        node._start()
        node(*command(self._rng))
        for _ in range(2):
            self.meet(self.pick(node), node)
        node.close()
        for old in self._folder.glob(f"{node.number}.db*"):
            old.unlink()
        path.rename(self._folder / f"{node.number}.db")
        node._start()
        replication = node.replication
        replication.identify(node.number, replication.replica + 256)
        node.engine.turn.end()


@pytest.mark.parametrize("seed", range(6 * TIMES_LONGER))
def test_whoever_remains_has_the_same(tmp_path: Path, seed: int) -> None:
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
        elif chance < 0.96:
            cluster.restore()
        else:
            for each in cluster.nodes:
                each.clock.advance(rng.choice((0.001, 1, 6)))
        if node in cluster.nodes:
            node.check()
    sync(*cluster.nodes)
    assert len({node.replication.members.view for node in cluster.nodes}) == 1
    for node in cluster.nodes:
        node.tidy()
    sync(*cluster.nodes)
    for node in cluster.nodes:
        node.close()
