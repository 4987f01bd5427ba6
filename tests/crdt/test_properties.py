"""What must hold whatever happens: seeded networks with cuts, duplicates, restarts and clocks
that disagree. A failing seed is in the test's name and replays alone."""

import random
from itertools import combinations

import pytest

from tests.crdt.load import Load, disturb, heal, network
from tests.crdt.network import Replica

SEEDS = range(60)


def converge(seed: int, of: type[Replica] = Replica, steps: int = 60, families: str = "") -> None:
    """Run a network, and compare whoever has seen the same, during the run and after it."""
    rng = random.Random(seed)
    replicas = network(rng, rng.choice([2, 3, 5]), of)
    load = Load(rng, families) if families else Load(rng)
    for _ in range(steps):
        load.step(rng.choice(replicas))
        if rng.random() < 0.7:
            disturb(rng, replicas)
        for one, other in combinations(replicas, 2):
            if one.seen == other.seen:
                assert one.digest() == other.digest()
    heal(replicas)
    first, *others = replicas
    for replica in others:
        assert replica.seen == first.seen
        assert replica.digest() == first.digest()
        assert views(replica) == views(first)


def views(replica: Replica) -> dict[bytes, object]:
    return {
        name: (key.type, key.view(), key.expires_at_ms)
        for name, key in sorted(replica.keys.items())
        if key.type is not None
    }


@pytest.mark.parametrize("seed", SEEDS)
def test_who_has_seen_the_same_has_the_same(seed: int) -> None:
    converge(seed)
