"""The log: causal order by construction, cuts at records that all members have, records as
bytes."""

from typing import Any

import pytest

from holdfast.crdt.causal_log import (
    CausalLog,
    Confirmations,
    GapError,
    Record,
    decode,
    encode,
    is_news,
)
from holdfast.crdt.dots import includes, join, meet
from holdfast.crdt.effects import CLEAR, DELETE, INSERT, MANY, frozen
from tests.crdt.network import Replica, cluster, sync


def record(origin: int, seq: int, after: int | None = None) -> Record:
    return Record(origin, seq - 1 if after is None else after, seq, 0, ())


def test_vectors() -> None:
    one, other = {1: 5, 2: 3}, {2: 7, 3: 1}
    assert join(one, other) == {1: 5, 2: 7, 3: 1}
    assert meet([one, other]) == {2: 3}
    assert includes(one, {1: 5})
    assert not includes(one, other)


def test_a_record_that_the_vector_covers_is_no_news() -> None:
    assert is_news({}, record(1, 1))
    assert not is_news({1: 3}, record(1, 3))
    assert not is_news({1: 3}, record(1, 2))
    assert is_news({1: 3}, record(1, 9, after=3))


def test_a_gap_is_an_error_and_not_skipped_over() -> None:
    with pytest.raises(GapError, match="record 5 of replica 1 does not follow 3"):
        is_news({1: 3}, record(1, 5))


def test_a_relay_keeps_the_order_of_causes() -> None:
    """3 hears from 2 only, which has the insertion of 1 and its own deletion after it."""
    one, two, three = cluster(3)
    one.rpush(b"l", b"a")
    two.pull(one)
    two.lpop(b"l")
    three.pull(two)
    assert [record.origin for record in three.log.unseen({})] == [1, 2]
    three.pull(one)
    assert three.view(b"l") is None


def test_a_transaction_is_one_record() -> None:
    one, two = cluster(2)
    with one.multi():
        one.rpush(b"l", b"a", b"b")
        one.lpop(b"l")
        one.set(b"s", b"x")
        one.delete(b"l")
        one.rpush(b"l", b"c")
    assert len(one.log) == 1
    two.pull(one)
    assert (two.view(b"l"), two.view(b"s")) == ([b"c"], b"x")


def test_a_record_survives_being_bytes() -> None:
    one = Replica(1)
    one.rpush(b"l", b"a")
    one.ltrim(b"l", 5, 6)
    one.incrby(b"n", "0.5")
    one.zincrby(b"z", b"m", 0.5)
    one.xadd(b"x", b"f", b"v")
    for written in one.log.unseen({}):
        read = decode(encode(written))
        assert read._replace(changes=frozen(read.changes)) == written


def test_removals_are_counted_until_all_members_have_confirmed_them() -> None:
    log: CausalLog[Record] = CausalLog()
    removals: tuple[Any, ...] = (
        (b"k", "list", (DELETE, (b"p",))),
        (b"k", "set", (CLEAR, {}, (), 0)),
    )
    many = (b"k", "stream", (MANY, ((INSERT, ()), (DELETE, ()))))
    log.append(Record(1, 0, 1, 0, (*removals, many, (b"k", "list", (INSERT, ())))))
    assert log.removals == 3
    assert log.cut({}) == []
    assert [record.seq for record in log.cut({1: 1})] == [1]
    assert (len(log), log.removals, log.base) == (0, 0, {1: 1})


def test_a_replica_behind_the_cut_needs_a_snapshot() -> None:
    one, two = cluster(2)
    one.rpush(b"l", b"a")
    sync(one, two)
    one.settle()
    assert one.log.can_serve(two.seen)
    assert not one.log.can_serve({})


def test_stable_events_are_those_that_every_member_has_acknowledged() -> None:
    confirmations = Confirmations([2, 3])
    assert confirmations.stable({1: 9, 2: 9}) == {}
    confirmations.acknowledge(2, {1: 4, 2: 9})
    confirmations.acknowledge(3, {1: 6, 2: 8})
    assert confirmations.stable({1: 9, 2: 9}) == {1: 4, 2: 8}
    confirmations.acknowledge(4, {})  # not a member: no cut waits for it
    confirmations.forget(2)
    assert confirmations.stable({1: 9, 2: 9}) == {1: 6, 2: 8}


def test_an_acknowledgement_waits_for_what_its_sender_wrote_before_it() -> None:
    confirmations = Confirmations([2])
    confirmations.acknowledge(2, {1: 4, 2: 7})
    assert confirmations.stable({1: 9, 2: 6}) == {}
    assert confirmations.stable({1: 9, 2: 7}) == {1: 4, 2: 7}


def test_a_queue_leaves_nothing_behind() -> None:
    one, two = cluster(2)
    for _ in range(20):
        one.rpush(b"queue", *[b"job"] * 50)
        sync(one, two)
        assert len(two.lpop(b"queue", 50)) == 50
        sync(one, two)
        for replica in (one, two):
            replica.settle()
            assert (len(replica.log), replica.digest()) == (0, {})


def test_a_sender_goes_on_where_it_was() -> None:
    one = Replica(1)
    for value in (b"a", b"b", b"c"):
        one.rpush(b"l", value)
    assert [record.seq for record in one.log.since(1)] == [2, 3]
    one.log.cut({1: 2})
    assert one.log.start == 2
    assert [record.seq for record in one.log.since(2)] == [3]
