"""The property tests must be able to fail: each of these mistakes, made on purpose, breaks them."""

import random
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from holdfast.crdt import causal_log as log
from holdfast.crdt import cells, dots
from holdfast.crdt import replicated_key as keys
from holdfast.crdt import replicated_list as lists
from holdfast.crdt.causal_log import Record
from holdfast.crdt.cell import Total, Write
from holdfast.crdt.cells import Cells, Name
from holdfast.crdt.dots import Author, Vector
from holdfast.crdt.exact_numbers import total
from holdfast.crdt.flush import clearings
from tests.crdt import network, test_replicated_list, test_timelines
from tests.crdt.network import Replica
from tests.crdt.test_properties import converge
from tests.crdt.test_properties import (
    test_merging_states_is_applying_operations as merge_like_apply,
)
from tests.crdt.test_timelines import Timeline

pytestmark = pytest.mark.source_only
SEEDS = range(40)


def breaks(check: Callable[[int], object]) -> bool:
    """Whether one of some seeds finds the mistake. Which error it is found by is all the same:
    a mistake may also end in a value that contradicts itself."""
    for seed in SEEDS:
        try:
            check(seed)
        except Exception:  # noqa: BLE001
            return True
    return False


def test_without_mistakes_nothing_breaks() -> None:
    assert not breaks(converge)


class Unordered(Replica):
    """Takes every new record, in any order."""

    is_news = staticmethod(lambda _seen, _record: True)

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.applied: set[tuple[int, int]] = set()
        self.rng = random.Random(self.number)

    def receive(self, records: Iterable[Record]) -> None:
        shuffled = list(records)
        self.rng.shuffle(shuffled)
        for record in shuffled:
            if (record.origin, record.seq) not in self.applied | {(self.number, record.seq)}:
                self.applied.add((record.origin, record.seq))
                super().receive([record])


def test_dropping_causal_order() -> None:
    assert breaks(lambda seed: converge(seed, Unordered))
    assert breaks(lambda seed: converge(seed, Unordered, families="list"))


def test_one_single_cell_for_the_last_write(monkeypatch: pytest.MonkeyPatch) -> None:
    keep = Cells._keep

    def keep_one(self: Cells, name: Name, writes: list[Write]) -> None:
        writes.sort(key=lambda write: self.precedence(name, write))
        keep(self, name, writes[-1:])

    monkeypatch.setattr(Cells, "_keep", keep_one)
    assert breaks(lambda seed: converge(seed, families="text"))
    assert breaks(lambda seed: converge(seed, families="zset"))


class Forgetful(Author):
    """Begins to count anew with every change, so that indexes and dots come again."""

    __slots__ = ()

    def __init__(self, replica: int, hlc: int, seen: Vector) -> None:
        super().__init__(replica, hlc, seen)
        self.seq = 0


def test_a_reused_index() -> None:
    class Reusing(Replica):
        author_of = Forgetful

    assert breaks(lambda seed: converge(seed, Reusing, families="list"))


class Selfish(Replica):
    """Every second replica decides ties for the higher one. `key` comes before all that it does."""

    def key(self, name: bytes) -> keys.ReplicatedKey:
        Selfish.sign = -1 if self.number % 2 else 1
        return super().key(name)

    sign = -1


def test_a_tie_break_that_is_reversed_on_some_replicas(monkeypatch: pytest.MonkeyPatch) -> None:
    def precedence(_self: Cells, _name: Name, write: Write) -> Any:
        return write[1], Selfish.sign * dots.replica_of(write[0]), write[0]

    monkeypatch.setattr(Cells, "precedence", precedence)
    assert breaks(lambda seed: converge(seed, Selfish, families="text"))


def test_a_tie_break_that_is_reversed_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replicas agree, but not on the promised result."""

    def precedence(_self: Cells, _name: Name, write: Write) -> Any:
        return write[1], dots.replica_of(write[0]), write[0]

    monkeypatch.setattr(Cells, "precedence", precedence)
    with pytest.raises(AssertionError):
        test_timelines.test_set_at_the_same_instant_goes_to_the_lower_replica(Timeline())
    with pytest.raises(AssertionError):
        test_timelines.test_zadd_at_the_same_instant_goes_to_the_lower_replica(Timeline())


def test_lset_without_a_tie_break(monkeypatch: pytest.MonkeyPatch) -> None:
    """Among equal stamps the record that arrives last wins."""
    set_ = lists.ReplicatedList._set

    def later_wins(
        self: lists.ReplicatedList, key: bytes, value: bytes, hlc: int, replica: int
    ) -> Any:
        if self._stamps.get(key, (0, 0))[0] == hlc:
            del self._stamps[key]
        return set_(self, key, value, hlc, replica)

    monkeypatch.setattr(lists.ReplicatedList, "_set", later_wins)
    assert breaks(lambda seed: converge(seed, families="lset"))
    with pytest.raises(AssertionError):
        test_replicated_list.TestLset().test_concurrent_lset_at_the_same_instant_lower_replica_wins()


def test_resets_that_subtract_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A counter that takes every reset for news."""

    def subtract(one: Total, other: Total) -> Total:
        seq, now, reset_seq, reset_amount, by = one
        amount = total([reset_amount, other[3]])
        return seq, now, max(reset_seq, other[2]), amount, by

    monkeypatch.setattr(cells, "with_reset", subtract)
    assert breaks(lambda seed: converge(seed, families="text"))


def test_forgetting_resets_before_all_members_have_confirmed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Operations alone would work; a merge of states needs the forgotten residue."""
    monkeypatch.setattr(log.Confirmations, "stable", lambda _self, seen: dict(seen))
    monkeypatch.setattr(log.CausalLog, "cut", lambda _self, _stable: 0)
    assert breaks(merge_like_apply)


def test_a_flush_that_removes_writes_of_others_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    def take_all(effect: Any, key: keys.ReplicatedKey, points: Any) -> Any:
        everything = dict.fromkeys(range(10), 1 << 40)
        return clearings((effect[0], everything, *effect[2:]), key, points)

    monkeypatch.setattr(network, "clearings", take_all)
    assert breaks(lambda seed: converge(seed, families="text"))
    assert breaks(lambda seed: converge(seed, families="list"))


def test_a_flush_that_does_not_know_how_far_a_counter_had_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(network, "points_of", lambda _: {})
    assert breaks(lambda seed: converge(seed, steps=150, families="text"))
