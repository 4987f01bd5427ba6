"""Properties that hold in every run: seeded networks with cuts, duplicates, restarts and clocks
that disagree. The name of a failing test has its seed, which replays alone."""

import random
from itertools import combinations

import pytest

from holdfast.crdt import positions
from holdfast.crdt.effects import Effect, RowChange
from tests.crdt.load import FAMILIES, Load, disturb, heal, network
from tests.crdt.network import Replica, Snapshot
from tests.crdt.test_advance import advance

SEEDS = range(40)


def views(replica: Replica) -> dict[bytes, object]:
    return {
        name: (key.type, key.view(), key.expires_at_ms)
        for name, key in sorted(replica.keys.items())
        if key.type is not None
    }


def number_of(replica: Replica) -> int:
    """The digest as one number, as operators will compare it."""
    return sum(key.digest(name) for name, key in replica.keys.items())


def converge(
    seed: int, of: type[Replica] = Replica, steps: int = 50, families: str = FAMILIES
) -> list[Replica]:
    """Run a network, and compare all replicas that have seen the same, during the run and after
    it."""
    rng = random.Random(seed)
    replicas = network(rng, rng.choice([2, 3, 5]), of)
    load = Load(rng, families)
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
        assert number_of(replica) == number_of(first)
    return replicas


@pytest.mark.parametrize("seed", SEEDS)
def test_replicas_that_have_seen_the_same_are_equal(seed: int) -> None:
    converge(seed)


@pytest.mark.parametrize("family", FAMILIES.split())
def test_each_type_alone(family: str) -> None:
    for seed in range(10):
        converge(seed, families=family)


@pytest.mark.source_only  # compiled, the depth is a constant
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("depth", [positions.MAX_DEPTH, 1])
def test_no_two_elements_ever_swap(seed: int, depth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All replicas that see two elements see them in the same order, at any time. Elements are told
    apart by their values, which are unique and never replaced."""
    monkeypatch.setattr(positions, "MAX_DEPTH", depth)
    rng = random.Random(seed)
    replicas = network(rng, 4)
    load = Load(rng, "order")
    is_before: set[tuple[bytes, bytes]] = set()
    for _ in range(80):
        load.step(rng.choice(replicas))
        disturb(rng, replicas)
        for replica in replicas:
            pairs = set(combinations(replica.lrange(b"order"), 2))
            assert not is_before & {(after, before) for before, after in pairs}
            is_before |= pairs


@pytest.mark.parametrize("seed", range(20))
def test_an_element_stays_unless_a_replica_that_saw_it_took_it(seed: int) -> None:
    rng = random.Random(seed)
    replicas = network(rng, 3)
    load = Load(rng, "order")
    pushed: set[bytes] = set()
    taken: set[bytes] = set()
    for _ in range(80):
        replica = rng.choice(replicas)
        before = set(replica.lrange(b"order"))
        load.step(replica)
        after = set(replica.lrange(b"order"))
        pushed |= after - before
        taken |= before - after
        disturb(rng, replicas)
    heal(replicas)
    for replica in replicas:
        assert set(replica.lrange(b"order")) == pushed - taken


@pytest.mark.parametrize("seed", range(20))
def test_counters_are_exact(seed: int) -> None:
    rng = random.Random(seed)
    replicas = network(rng, 3)
    expected = {b"n": 0, b"z": 0}
    for _ in range(60):
        amount = rng.randint(-1000, 1000)
        name = rng.choice(list(expected))
        expected[name] += amount
        if name == b"n":
            rng.choice(replicas).incrby(name, amount)
        else:
            rng.choice(replicas).zincrby(name, b"m", float(amount))
        disturb(rng, replicas)
    heal(replicas)
    for replica in replicas:
        assert int(replica.view(b"n")) == expected[b"n"]
        assert replica.view(b"z") == [(expected[b"z"], b"m")]


@pytest.mark.parametrize("seed", range(30))
def test_merging_states_is_applying_operations(seed: int) -> None:
    rng = random.Random(seed)
    replicas = network(rng, 3)
    load = Load(rng)
    for _ in range(60):
        load.step(rng.choice(replicas))
        if rng.random() < 0.5:
            disturb(rng, replicas)
        if rng.random() < 0.3:
            one, other = rng.sample(replicas, 2)
            by_operations, by_state = one.twin(), one.twin()
            by_operations.receive(other.log.unseen(one.seen))
            by_state.merge(other.snapshot())
            assert by_state.seen == by_operations.seen
            assert by_state.digest() == by_operations.digest()
            assert views(by_state) == views(by_operations)


@pytest.mark.parametrize("seed", range(20))
def test_states_and_operations_may_be_mixed(seed: int) -> None:
    """A replica that merged a state cannot relay its content as operations, only as a state
    again."""
    rng = random.Random(seed)
    replicas = network(rng, 4)
    load = Load(rng)
    for _ in range(60):
        load.step(rng.choice(replicas))
        one, other = rng.sample(replicas, 2)
        if rng.random() < 0.2:
            one.merge(other.snapshot())
        else:
            one.pull(other)
        disturb(rng, replicas)
        for one, other in combinations(replicas, 2):
            if one.seen == other.seen:
                assert one.digest() == other.digest()
    heal(replicas)
    assert all(replica.digest() == replicas[0].digest() for replica in replicas)
    assert all(views(replica) == views(replicas[0]) for replica in replicas)


@pytest.mark.parametrize("seed", range(10))
def test_a_replica_that_joins_late_gets_a_snapshot_and_then_the_log(seed: int) -> None:
    rng = random.Random(seed)
    replicas = network(rng, 2)
    load = Load(rng)
    for _ in range(60):
        load.step(rng.choice(replicas))
    heal(replicas)
    for replica in replicas:
        replica.settle()
    joiner = Replica(9)
    assert not replicas[0].log.can_serve(joiner.seen)
    joiner.incrby(b"mine", 1)  # its earlier writes must not get lost
    load.may_flush = False
    for replica in replicas:
        replica.confirmations.admit(joiner.number)
        joiner.confirmations.admit(replica.number)
    joiner.pull(replicas[0])
    for _ in range(30):
        load.step(rng.choice([*replicas, joiner]))
        disturb(rng, [*replicas, joiner])
    heal([*replicas, joiner])
    for replica in replicas:
        assert replica.digest() == joiner.digest()
        assert replica.view(b"mine") == b"1"


class OneByOne(Replica):
    """Flushes by the deletion of every key."""

    def flush(self) -> None:
        with self.multi() as author:
            for name, key in list(self.keys.items()):
                for kind, part in key.parts:
                    self.emit(name, kind, part.clear(author))


@pytest.mark.parametrize("seed", range(20))
def test_a_flush_is_the_deletion_of_every_key(seed: int) -> None:
    at_once, one_by_one = converge(seed), converge(seed, OneByOne)
    assert [views(each) for each in at_once] == [views(each) for each in one_by_one]


class Twice(Replica):
    def apply(self, name: bytes, kind: str, effect: Effect) -> list[RowChange]:
        changes = super().apply(name, kind, effect)
        assert super().apply(name, kind, effect) == []
        return changes


@pytest.mark.parametrize("seed", range(20))
def test_applying_twice_is_applying_once(seed: int) -> None:
    once = converge(seed)
    twice = converge(seed, Twice)
    assert [replica.digest() for replica in twice] == [replica.digest() for replica in once]


class Hasty(Replica):
    """Takes the usual changes of strings and lists the short way."""

    advanced = 0

    def apply(self, name: bytes, kind: str, effect: Effect) -> list[RowChange]:
        if advance(self.key(name), effect, kind):
            self.advanced += 1
            return []
        return super().apply(name, kind, effect)


def test_the_short_way_leads_to_the_same_place() -> None:
    advanced = 0
    for seed in range(40):
        slowly, hastily = (converge(seed, of, families="text any list") for of in (Replica, Hasty))
        assert [each.digest() for each in hastily] == [each.digest() for each in slowly]
        assert [views(each) for each in hastily] == [views(each) for each in slowly]
        advanced += sum(each.advanced for each in hastily if isinstance(each, Hasty))
    assert advanced > 100


class Audited(Replica):
    """Keeps a table by the rows that changes report, and sometimes goes a step back and forth."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self.table: dict[tuple[bytes, str, object], object] = {}
        self.rng = random.Random(self.number)

    def apply(self, name: bytes, kind: str, effect: Effect) -> list[RowChange]:
        part = self.key(name).part(kind)
        if self.rng.random() < 0.2:
            before = dict(part.rows())
            changes = super().apply(name, kind, effect)
            for sub, _, old in reversed(changes):
                part.apply(sub, old)
            assert dict(part.rows()) == before
        changes = super().apply(name, kind, effect)
        self._write(name, [(kind, change) for change in changes])
        return changes

    def merge(self, snapshot: Snapshot) -> None:
        raise AssertionError("nobody lags behind the cut here")

    def settle(self) -> None:
        stable = self.confirmations.stable(self.seen)
        self.log.cut(stable)
        for name, key in self.keys.items():
            self._write(name, key.settle(stable))

    def _write(self, name: bytes, changes: list[tuple[str, RowChange]]) -> None:
        for kind, (sub, new, old) in changes:
            assert self.table.pop((name, kind, sub), None) == old
            if new is not None:
                self.table[name, kind, sub] = new

    def rows(self) -> dict[tuple[bytes, str, object], object]:
        return {
            (name, kind, sub): row
            for name, key in self.keys.items()
            for kind, sub, row in key.rows()
        }


@pytest.mark.parametrize("seed", range(20))
def test_changes_report_every_row_and_can_be_undone(seed: int) -> None:
    for replica in converge(seed, Audited):
        assert isinstance(replica, Audited)
        assert replica.table == replica.rows()
