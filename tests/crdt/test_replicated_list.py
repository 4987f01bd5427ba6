"""The test scenarios of the list's design, by name, and the rules behind them."""

import pytest

from holdfast.clock import ManualClock
from tests.crdt.network import Replica, cluster, sync

L = b"list"


@pytest.fixture
def one() -> Replica:
    return Replica(1)


def filled(*values: bytes) -> Replica:
    replica = Replica(1)
    replica.rpush(L, *values)
    return replica


def shared(*values: bytes) -> list[Replica]:
    """Two replicas, both with these elements."""
    replicas = cluster(2)
    replicas[0].rpush(L, *values)
    sync(*replicas)
    return replicas


def both(replicas: list[Replica]) -> list[bytes]:
    """The list, which is the same everywhere once all is synced."""
    sync(*replicas)
    first, *others = [replica.lrange(L) for replica in replicas]
    assert all(other == first for other in others)
    return first


class TestLindex:
    def test_basic_positive_index(self) -> None:
        assert filled(b"a", b"b", b"c").lindex(L, 0) == b"a"

    def test_basic_negative_index(self) -> None:
        assert filled(b"a", b"b", b"c").lindex(L, -1) == b"c"

    def test_middle_element(self) -> None:
        assert filled(b"a", b"b", b"c", b"d").lindex(L, 2) == b"c"

    def test_out_of_bounds_positive(self) -> None:
        assert filled(b"a").lindex(L, 100) is None

    def test_out_of_bounds_negative(self) -> None:
        assert filled(b"a").lindex(L, -100) is None

    def test_empty_list(self, one: Replica) -> None:
        assert one.lindex(L, 0) is None

    def test_with_deleted_elements(self) -> None:
        replica = filled(b"a", b"b", b"c")
        replica.lrem(L, 1, b"b")
        assert [replica.lindex(L, i) for i in range(3)] == [b"a", b"c", None]


class TestLset:
    def test_basic_set(self) -> None:
        replica = filled(b"a", b"b")
        assert replica.lset(L, 0, b"new")
        assert replica.lrange(L) == [b"new", b"b"]

    def test_negative_index(self) -> None:
        replica = filled(b"a", b"b")
        assert replica.lset(L, -1, b"new")
        assert replica.lrange(L) == [b"a", b"new"]

    def test_out_of_bounds(self) -> None:
        replica = filled(b"a")
        assert not replica.lset(L, 100, b"new")
        assert replica.lrange(L) == [b"a"]

    def test_empty_list(self, one: Replica) -> None:
        assert not one.lset(L, 0, b"new")

    def test_concurrent_lset_newer_wins(self) -> None:
        replicas = shared(b"a")
        replicas[1].lset(L, 0, b"earlier")
        replicas[0].clock.advance(1)
        replicas[0].lset(L, 0, b"later")
        assert both(replicas) == [b"later"]

    def test_concurrent_lset_at_the_same_instant_lower_replica_wins(self) -> None:
        replicas = shared(b"a")
        replicas[0].hlc.last = replicas[1].hlc.last
        replicas[1].lset(L, 0, b"two")
        replicas[0].lset(L, 0, b"one")
        assert both(replicas) == [b"one"]

    def test_lset_on_deleted_position(self) -> None:
        """The delete wins, in whichever order the two arrive."""
        replicas = shared(b"a", b"b")
        replicas[0].lpop(L)
        replicas[1].lset(L, 0, b"new")
        assert both(replicas) == [b"b"]

    def test_lset_of_what_a_clock_far_ahead_has_set(self) -> None:
        """Its stamp is not followed, but a write that overwrites it has overwritten it."""
        ahead, behind = Replica(1, ManualClock(1_800_000_000_000)), Replica(2)
        ahead.rpush(L, b"a")
        ahead.lset(L, 0, b"b")
        behind.pull(ahead)
        assert behind.alarms
        behind.lset(L, 0, b"c")
        ahead.pull(behind)
        assert ahead.lrange(L) == behind.lrange(L) == [b"c"]


class TestLinsert:
    def test_insert_after_pivot(self) -> None:
        replica = filled(b"x", b"z")
        assert replica.linsert(L, "AFTER", b"x", b"y") == 3
        assert replica.lrange(L) == [b"x", b"y", b"z"]

    def test_insert_before_pivot(self) -> None:
        replica = filled(b"x", b"z")
        assert replica.linsert(L, "BEFORE", b"z", b"y") == 3
        assert replica.linsert(L, "BEFORE", b"x", b"w") == 4
        assert replica.lrange(L) == [b"w", b"x", b"y", b"z"]

    def test_pivot_not_found(self, one: Replica) -> None:
        assert filled(b"x").linsert(L, "AFTER", b"notexist", b"y") == -1
        assert one.linsert(L, "AFTER", b"notexist", b"y") == 0

    def test_multiple_same_value(self) -> None:
        replica = filled(b"x", b"x", b"x")
        replica.linsert(L, "AFTER", b"x", b"y")
        assert replica.lrange(L) == [b"x", b"y", b"x", b"x"]

    def test_concurrent_linsert_same_pivot(self) -> None:
        replicas = shared(b"x")
        replicas[0].linsert(L, "AFTER", b"x", b"y1")
        replicas[1].linsert(L, "AFTER", b"x", b"y2")
        assert both(replicas) == [b"x", b"y1", b"y2"]

    def test_linsert_on_deleted_pivot(self) -> None:
        replicas = shared(b"x", b"z")
        replicas[0].lpop(L)
        assert replicas[0].linsert(L, "AFTER", b"x", b"y") == -1
        replicas[1].linsert(L, "AFTER", b"x", b"y")  # this replica has not seen the delete yet
        assert both(replicas) == [b"y", b"z"]

    def test_concurrent_runs_do_not_interleave(self) -> None:
        replicas = shared(b"x", b"z")
        for i in range(3):
            replicas[0].linsert(L, "BEFORE", b"z", b"a%d" % i)
            replicas[1].linsert(L, "BEFORE", b"z", b"b%d" % i)
        assert both(replicas) == [b"x", b"a0", b"a1", b"a2", b"b0", b"b1", b"b2", b"z"]


class TestLtrim:
    def test_basic_trim(self) -> None:
        replica = filled(b"a", b"b", b"c", b"d")
        replica.ltrim(L, 0, 2)
        assert replica.lrange(L) == [b"a", b"b", b"c"]

    def test_negative_indices(self) -> None:
        replica = filled(b"a", b"b", b"c", b"d")
        replica.ltrim(L, -3, -1)
        assert replica.lrange(L) == [b"b", b"c", b"d"]

    def test_empty_result(self) -> None:
        replica = filled(b"a", b"b", b"c")
        replica.ltrim(L, 5, 10)
        assert replica.lrange(L) == []
        assert replica.key(L).type is None

    def test_keep_all(self) -> None:
        replica = filled(b"a", b"b", b"c")
        replica.ltrim(L, 0, -1)
        assert replica.lrange(L) == [b"a", b"b", b"c"]

    def test_concurrent_ltrim(self) -> None:
        replicas = shared(b"a", b"b", b"c", b"d")
        replicas[0].ltrim(L, 1, -1)
        replicas[1].ltrim(L, 0, -2)
        assert both(replicas) == [b"b", b"c"]

    def test_ltrim_on_empty_list(self, one: Replica) -> None:
        one.ltrim(L, 0, 1)
        assert one.lrange(L) == []


class TestLrem:
    def test_remove_all(self) -> None:
        replica = filled(b"x", b"a", b"x", b"b", b"x")
        assert replica.lrem(L, 0, b"x") == 3
        assert replica.lrange(L) == [b"a", b"b"]

    def test_remove_from_head(self) -> None:
        replica = filled(b"x", b"a", b"x", b"b", b"x")
        assert replica.lrem(L, 2, b"x") == 2
        assert replica.lrange(L) == [b"a", b"b", b"x"]

    def test_remove_from_tail(self) -> None:
        replica = filled(b"x", b"a", b"x", b"b", b"x")
        assert replica.lrem(L, -2, b"x") == 2
        assert replica.lrange(L) == [b"x", b"a", b"b"]

    def test_value_not_found(self) -> None:
        replica = filled(b"x")
        assert replica.lrem(L, 0, b"notexist") == 0
        assert replica.lrange(L) == [b"x"]

    def test_concurrent_lrem(self) -> None:
        replicas = shared(b"x", b"a", b"x")
        assert [replica.lrem(L, 0, b"x") for replica in replicas] == [2, 2]
        assert both(replicas) == [b"a"]

    def test_lrem_on_empty_list(self, one: Replica) -> None:
        assert one.lrem(L, 0, b"x") == 0


class TestLmoveAndLpos:
    def test_lmove_is_one_record(self) -> None:
        replicas = shared(b"a", b"b")
        one, two = replicas
        with one.multi():
            one.rpush(b"other", *one.lpop(L))
        two.pull(one, 1)
        assert (two.lrange(L), two.lrange(b"other")) == ([b"b"], [b"a"])

    def test_concurrent_lmove_delivers_at_least_once(self) -> None:
        replicas = shared(b"a")
        for replica in replicas:
            with replica.multi():
                replica.rpush(b"other", *replica.lpop(L))
        assert both(replicas) == []
        assert [replica.lrange(b"other") for replica in replicas] == [[b"a", b"a"]] * 2

    def test_lpos(self) -> None:
        value = filled(b"x", b"a", b"x", b"x").key(L).part("list")
        assert list(value.find(b"x")) == [0, 2, 3]
        assert list(value.find(b"x", 2)) == [2, 3]
        assert list(value.find(b"x", -2)) == [2, 0]
        assert list(value.find(b"?")) == []


class TestIntegrationAndMerge:
    def test_concurrent_insertion_preservation(self) -> None:
        replicas = cluster(2)
        replicas[0].lpush(L, b"x")
        sync(*replicas)
        replicas[0].linsert(L, "AFTER", b"x", b"y1")
        replicas[1].linsert(L, "AFTER", b"x", b"y2")
        assert [replica.lrange(L) for replica in replicas] == [[b"x", b"y1"], [b"x", b"y2"]]
        assert both(replicas) == [b"x", b"y1", b"y2"]

    def test_del_and_push_concurrent(self) -> None:
        replicas = shared(b"x", b"y")
        replicas[0].delete(L)
        replicas[1].rpush(L, b"new")
        assert both(replicas) == [b"new"]

    def test_ltrim_and_lpush_concurrent(self) -> None:
        replicas = shared(b"a", b"b", b"c")
        replicas[0].ltrim(L, 0, 0)
        replicas[1].lpush(L, b"new")
        assert both(replicas) == [b"new", b"a"]

    def test_merge_ordering_consistency(self) -> None:
        """Five writers, every order of arrival; in one single state and by operations."""
        replicas = cluster(5)
        replicas[0].rpush(L, b"x")
        sync(*replicas)
        for replica in replicas:
            replica.rpush(L, b"r%d" % replica.number)
            replica.lpush(L, b"l%d" % replica.number)
            replica.linsert(L, "AFTER", b"x", b"i%d" % replica.number)
        snapshots = [replica.snapshot() for replica in replicas]
        for first in range(5):
            merged = Replica(9)
            for i in range(5):
                merged.merge(snapshots[(first + i * 2) % 5])
            order = merged.lrange(L)
            assert len(order) == 16
            assert both(replicas) == order

    def test_rpush_and_rpush_concurrent_earlier_first(self) -> None:
        replicas = cluster(3)
        replicas[2].rpush(L, b"x")
        sync(*replicas)
        replicas[1].rpush(L, b"b")
        replicas[0].clock.advance(1)
        replicas[0].rpush(L, b"a")
        assert both(replicas) == [b"x", b"b", b"a"]

    def test_concurrent_batches_stay_together(self) -> None:
        replicas = shared(b"x")
        for i in range(3):
            replicas[0].rpush(L, b"a%d" % i)
            replicas[1].rpush(L, b"b%d" % i)
            replicas[0].lpush(L, b"c%d" % i)
            replicas[1].lpush(L, b"d%d" % i)
        merged = b" ".join(both(replicas))
        for run in (b"a0 a1 a2", b"b0 b1 b2", b"c2 c1 c0", b"d2 d1 d0"):
            assert run in merged

    def test_pushes_behind_a_clock_that_is_far_ahead(self) -> None:
        """A stamp of the future must not keep ours from being last, or first."""
        ahead, behind = Replica(2, ManualClock(1_800_000_000_000)), Replica(1)
        ahead.rpush(L, b"x")
        ahead.lpush(L, b"w")
        behind.pull(ahead)
        behind.rpush(L, b"y")
        behind.lpush(L, b"v")
        assert behind.lrange(L) == [b"v", b"w", b"x", b"y"]
