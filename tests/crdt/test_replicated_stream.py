"""Streams: all entries are kept, ids are each replica's own, groups go when they are destroyed."""

import pytest

from holdfast.store.values.stream_id import to_row
from tests.crdt.network import Replica, cluster, sync

X, G = b"x", b"group"


@pytest.fixture
def replicas() -> list[Replica]:
    return cluster(2)


def ids(replica: Replica) -> list[int]:
    return [entry_id for entry_id, _ in replica.view(X)]


def test_both_entries_are_kept_and_their_ids_differ(replicas: list[Replica]) -> None:
    one, two = replicas
    first, second = one.xadd(X, b"f", b"1"), two.xadd(X, b"f", b"2")
    assert first != second
    assert first >> 64 == second >> 64 == one.clock.now_ms()
    sync(one, two)
    assert one.view(X) == two.view(X) == [(first, (b"f", b"1")), (second, (b"f", b"2"))]
    part = two.key(X).part("stream")
    assert (part.last_id, part.entries_added) == (second, 2)
    assert one.xadd(X, b"f", b"3") > second


def test_entries_that_were_given_the_same_id_are_both_kept(replicas: list[Replica]) -> None:
    for replica in replicas:
        replica.xadd(X, b"by", b"%d" % replica.number, entry_id=5)
    sync(*replicas)
    for replica in replicas:
        assert replica.view(X) == [(5, (b"by", b"1")), (5, (b"by", b"2"))]


def test_xdel_and_del_remove_the_entries_that_they_saw(replicas: list[Replica]) -> None:
    one, two = replicas
    seen = one.xadd(X, b"f", b"1")
    sync(*replicas)
    one.xdel(X, seen)
    two.delete(X)
    unseen = two.xadd(X, b"f", b"2")
    sync(*replicas)
    assert ids(one) == ids(two) == [unseen]
    assert one.key(X).part("stream").max_deleted_id == seen


def test_an_empty_stream_still_knows_its_last_id(replicas: list[Replica]) -> None:
    one, two = replicas
    last = one.xadd(X, b"f", b"1")
    one.xdel(X, last)
    sync(*replicas)
    assert two.view(X) == []
    assert two.key(X).type == "stream"
    assert two.xadd(X, b"f", b"2") > last


def test_a_destroyed_group_stays_destroyed_despite_concurrent_reads(
    replicas: list[Replica],
) -> None:
    one, two = replicas
    one.xadd(X, b"f", b"1")
    one.xgroup_create(X, G)
    sync(*replicas)
    one.xgroup_destroy(X, G)
    assert two.xreadgroup(X, G, b"consumer") == ids(two)
    sync(*replicas)
    for replica in replicas:
        assert replica.groups(X) == {}
        assert len(list(replica.key(X).facts())) == 3  # the entry, the last id, the count


def test_entries_read_on_two_replicas_are_pending_and_the_furthest_position_counts(
    replicas: list[Replica],
) -> None:
    one, two = replicas
    first = one.xadd(X, b"f", b"1")
    one.xgroup_create(X, G)
    sync(*replicas)
    one.xreadgroup(X, G, b"c1")
    second = two.xadd(X, b"f", b"2")
    two.xreadgroup(X, G, b"c2")
    sync(*replicas)
    group = one.groups(X)[G]
    assert group == two.groups(X)[G]
    assert group.last_id == second
    assert set(group.consumers) == {b"c1", b"c2"}
    assert set(group.pending) == {to_row(first), to_row(second)}
    one.xack(X, G, first, second)
    sync(*replicas)
    assert two.groups(X)[G].pending == {}


def test_groups_created_at_once_are_one(replicas: list[Replica]) -> None:
    one, two = replicas
    entry = one.xadd(X, b"f", b"1")
    sync(*replicas)
    one.xgroup_create(X, G)
    two.xgroup_create(X, G)
    two.xreadgroup(X, G, b"c2")
    sync(*replicas)
    group = one.groups(X)[G]
    assert group == two.groups(X)[G]
    assert (group.last_id, set(group.pending)) == (entry, {to_row(entry)})
    one.xgroup_delconsumer(X, G, b"c2")
    sync(*replicas)
    assert (two.groups(X)[G].consumers, two.groups(X)[G].pending) == ({}, {})
    two.xgroup_destroy(X, G)
    sync(*replicas)
    assert one.groups(X) == {}
