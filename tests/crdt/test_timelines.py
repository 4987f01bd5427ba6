"""The timelines of the design, one test each: replicas 1 and 2 run commands, then sync, and both
show the expected value. The clock stands still unless a timeline moves it."""

import pytest

from tests.crdt.network import Replica, cluster, sync

K = b"k"


class Timeline:
    """Two replicas, and a check that they agree."""

    def __init__(self) -> None:
        self.one, self.two = cluster(2)

    def sync(self) -> None:
        sync(self.one, self.two)
        assert self.one.digest() == self.two.digest()

    def shows(self, expected: object) -> None:
        """Once everything has arrived, and by operations as by states."""
        by_state = [Replica(3), Replica(3)]
        snapshots = [self.one.snapshot(), self.two.snapshot()]
        for replica, order in zip(by_state, (snapshots, snapshots[::-1]), strict=True):
            for snapshot in order:
                replica.merge(snapshot)
        self.sync()
        for replica in (self.one, self.two, *by_state):
            assert replica.view(K) == expected


@pytest.fixture
def line() -> Timeline:
    return Timeline()


def test_sadd_and_sadd(line: Timeline) -> None:
    line.one.write("set", K, b"a")
    line.two.write("set", K, b"b")
    line.shows({b"a", b"b"})


def test_srem_does_not_remove_a_concurrent_sadd(line: Timeline) -> None:
    for member in (b"a", b"b"):
        line.one.write("set", K, member)
    line.sync()
    line.one.remove("set", K, b"a")
    line.one.remove("set", K, b"c")
    line.two.write("set", K, b"c")
    line.shows({b"b", b"c"})


def test_del_does_not_remove_a_concurrent_sadd(line: Timeline) -> None:
    line.one.write("set", K, b"e1")
    line.sync()
    line.one.write("set", K, b"e2")
    line.two.delete(K)
    line.shows({b"e2"})


def test_sadd_again_survives_a_concurrent_srem(line: Timeline) -> None:
    line.one.write("set", K, b"a")
    line.sync()
    line.one.write("set", K, b"a")
    line.two.remove("set", K, b"a")
    line.shows({b"a"})


def test_increments_sum(line: Timeline) -> None:
    line.one.incrby(K, 7)
    line.two.incrby(K, 3)
    line.shows(b"10")
    line.one.incrby(K, -3)
    line.two.incrby(K, 6)
    line.shows(b"13")


def test_fields_of_a_hash_are_apart(line: Timeline) -> None:
    line.one.write("hash", K, b"f1", b"a")
    line.two.write("hash", K, b"f2", b"b")
    line.shows({b"f1": b"a", b"f2": b"b"})


def test_hset_wins_over_a_concurrent_hdel(line: Timeline) -> None:
    line.one.write("hash", K, b"f", b"a")
    line.sync()
    line.one.remove("hash", K, b"f")
    line.two.write("hash", K, b"f", b"b")
    line.shows({b"f": b"b"})


def test_counters_in_a_hash_sum(line: Timeline) -> None:
    line.one.write("hash", K, b"f", b"5")
    line.sync()
    line.one.hincrby(K, b"f", 7)
    line.two.hincrby(K, b"f", 3)
    line.shows({b"f": b"15"})


def test_zadd_in_turn(line: Timeline) -> None:
    line.one.write("zset", K, b"x", 1.1)
    line.sync()
    line.two.write("zset", K, b"y", 1.2)
    line.shows([(1.1, b"x"), (1.2, b"y")])


def test_the_later_zadd_wins(line: Timeline) -> None:
    line.one.write("zset", K, b"x", 1.1)
    line.one.clock.advance(1)
    line.two.write("zset", K, b"x", 2.1)
    line.shows([(2.1, b"x")])


def test_zadd_at_the_same_instant_goes_to_the_lower_replica(line: Timeline) -> None:
    line.one.write("zset", K, b"x", 1.1)
    line.two.write("zset", K, b"x", 2.1)
    line.shows([(1.1, b"x")])


def test_zincrby_sums(line: Timeline) -> None:
    line.one.write("zset", K, b"x", 1.1)
    line.sync()
    line.one.zincrby(K, b"x", 1.0)
    line.two.zincrby(K, b"x", 1.0)
    line.shows([(3.1, b"x")])


def test_zrem_leaves_a_concurrent_zincrby_alone(line: Timeline) -> None:
    line.one.write("zset", K, b"x", 4.1)
    line.sync()
    line.one.remove("zset", K, b"x")
    line.two.zincrby(K, b"x", 2.0)
    line.shows([(2.0, b"x")])


def test_lpush_in_turn(line: Timeline) -> None:
    line.one.lpush(K, b"hello")
    line.sync()
    line.two.lpush(K, b"world")
    line.shows([b"world", b"hello"])


def test_linsert_behind_the_same_element(line: Timeline) -> None:
    line.one.rpush(K, b"x")
    line.sync()
    line.one.linsert(K, "AFTER", b"x", b"y1")
    line.two.linsert(K, "AFTER", b"x", b"y2")
    line.shows([b"x", b"y1", b"y2"])


def test_del_does_not_remove_a_concurrent_lpush(line: Timeline) -> None:
    line.one.rpush(K, b"x")
    line.sync()
    line.one.lpush(K, b"y")
    line.two.delete(K)
    line.shows([b"y"])


def test_every_element_is_popped_at_least_once(line: Timeline) -> None:
    line.one.lpush(K, b"x", b"y", b"z")
    line.sync()
    assert line.two.rpop(K) == [b"x"]
    line.sync()
    assert line.one.rpop(K) == [b"y"]
    line.sync()
    assert line.one.rpop(K) == line.two.rpop(K) == [b"z"]
    line.shows(None)


def test_the_longest_expiry_wins(line: Timeline) -> None:
    line.one.set(K, b"v")
    line.sync()
    line.one.expire(K, 10)
    line.two.expire(K, 50)
    line.shows(b"v")
    assert line.one.ttl_s(K) == line.two.ttl_s(K) == 50
    line.one.expire(K, 20)  # having seen both
    line.sync()
    assert line.one.ttl_s(K) == line.two.ttl_s(K) == 20


def test_persist_is_longer_than_any_expiry(line: Timeline) -> None:
    line.one.set(K, b"v")
    line.one.expire(K, 5)
    line.sync()
    line.one.expire(K, 10)
    line.two.persist(K)
    line.shows(b"v")
    assert line.one.ttl_s(K) is line.two.ttl_s(K) is None


def test_the_later_set_wins(line: Timeline) -> None:
    line.two.set(K, b"earlier")
    line.one.clock.advance(1)
    line.one.set(K, b"later")
    line.shows(b"later")


def test_set_at_the_same_instant_goes_to_the_lower_replica(line: Timeline) -> None:
    line.two.set(K, b"two")
    line.one.set(K, b"one")
    line.shows(b"one")


def test_del_removes_the_write_it_saw_and_not_the_one_that_hid_it() -> None:
    """The reason for keeping all unseen writes: with a single cell, the replica that got the higher
    write first would end up empty, and would have deleted a value that DEL never saw."""
    one, two, three = cluster(3)
    one.clock.advance(1)
    one.set(K, b"high")
    one.hlc.last += 1 << 16
    two.set(K, b"low")
    three.pull(one)
    three.delete(K)
    sync(one, two, three)
    assert [replica.view(K) for replica in (one, two, three)] == [b"low"] * 3


def test_set_resets_the_counter_it_saw(line: Timeline) -> None:
    line.one.incrby(K, 7)
    line.sync()
    line.one.set(K, b"100")
    line.two.incrby(K, 1)
    line.shows(b"101")


def test_del_of_a_counter_leaves_concurrent_increments(line: Timeline) -> None:
    line.one.incrby(K, 7)
    line.two.incrby(K, 3)
    line.sync()
    line.one.delete(K)
    line.two.delete(K)  # both: the value they saw is removed once, not twice
    line.two.incrby(K, 2)
    line.shows(b"2")


def test_a_reset_counter_leaves_nothing_behind(line: Timeline) -> None:
    line.one.incrby(K, 7)
    line.sync()
    line.one.delete(K)
    line.shows(None)
    for replica in (line.one, line.two):
        replica.settle()
        assert list(replica.key(K).rows()) == []
    line.two.incrby(K, 1)
    line.one.incrby(K, 1)
    line.shows(b"2")


def test_decimals_add_up_as_decimals(line: Timeline) -> None:
    line.one.set(K, b"0.1")
    line.sync()
    line.one.incrby(K, "0.2")
    line.two.incrby(K, "0.7")
    line.shows(b"1")


def test_a_text_written_while_others_count_is_shown_as_it_is(line: Timeline) -> None:
    line.one.set(K, b"hello")
    line.two.incrby(K, 1)
    line.shows(b"hello")


def test_the_lower_replicas_type_wins(line: Timeline) -> None:
    line.two.rpush(K, b"x")
    line.one.set(K, b"text")
    line.shows(b"text")
    line.two.incrby(b"other", 1)
    line.two.set(K, b"new")  # also removes the list, which is hidden
    line.sync()
    line.one.delete(K)
    line.shows(None)
    assert line.one.key(K).type is None


def test_a_change_of_the_visible_type_ends_the_hidden_one(line: Timeline) -> None:
    line.one.rpush(K, b"x")
    line.two.set(K, b"text")
    line.shows([b"x"])
    line.one.rpush(K, b"y")
    line.one.lpop(K, 2)
    line.shows(None)


def test_hyperloglog_takes_the_maximum(line: Timeline) -> None:
    line.one.pfadd(K, (3, 5), (4, 1))
    line.two.pfadd(K, (3, 2), (9, 7))
    line.sync()
    registers = line.one.view(K)
    assert [registers[i] for i in (3, 4, 9)] == [5, 1, 7]
    line.shows(registers)


def test_del_of_a_hyperloglog_wins(line: Timeline) -> None:
    line.one.pfadd(K, (3, 5))
    line.sync()
    line.one.delete(K)
    line.two.pfadd(K, (4, 5))
    line.shows(None)
