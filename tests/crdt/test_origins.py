"""The mistakes of the system from which the list's design comes, one test for each."""

import gc
import sys
from types import FrameType
from typing import Any

from holdfast.crdt.causal_log import encode
from tests.crdt.network import Replica, cluster, sync

L = b"list"


def test_forgetting_what_was_deleted_does_not_lose_the_list() -> None:
    replicas = cluster(2)
    replicas[0].rpush(L, b"a", b"b", b"c")
    sync(*replicas)
    replicas[0].lpop(L)
    assert replicas[0].log.removals == 1
    sync(*replicas)
    for replica in replicas:
        replica.settle()
        assert (len(replica.log), replica.log.removals) == (0, 0)
    replicas[0].rpush(L, b"d")
    sync(*replicas)
    assert [replica.lrange(L) for replica in replicas] == [[b"b", b"c", b"d"]] * 2


def test_lset_merges() -> None:
    replicas = cluster(2)
    replicas[0].rpush(L, b"a")
    sync(*replicas)
    replicas[0].lset(L, 0, b"b")
    replicas[1].merge(replicas[0].snapshot())
    assert replicas[1].lrange(L) == [b"b"]


def test_an_element_has_one_id_everywhere_so_merging_duplicates_nothing() -> None:
    one, two = cluster(2)
    one.rpush(L, b"a", b"b")
    sync(one, two)
    assert one.digest() == two.digest()
    two.merge(one.snapshot())
    one.merge(two.snapshot())
    assert one.lrange(L) == two.lrange(L) == [b"a", b"b"]


def test_linsert_lset_ltrim_and_lrem_replicate() -> None:
    replicas = cluster(2)
    one, two = replicas
    one.rpush(L, b"a", b"b", b"c", b"d")
    one.linsert(L, "AFTER", b"a", b"x")
    one.lset(L, 0, b"A")
    one.ltrim(L, 0, 3)
    one.lrem(L, 0, b"c")
    sync(*replicas)
    assert two.lrange(L) == one.lrange(L) == [b"A", b"x", b"b"]


def test_operations_that_come_again_change_nothing() -> None:
    replicas = cluster(2)
    one, two = replicas
    one.incrby(b"n", 7)
    one.zincrby(b"z", b"m", 1.5)
    one.rpush(L, b"a")
    sync(*replicas)
    for _ in range(3):
        two.receive(one.log.unseen({}))
    assert (two.view(b"n"), two.view(b"z"), two.view(L)) == (b"7", [(1.5, b"m")], [b"a"])


def test_lpop_takes_the_element_it_popped_not_the_head() -> None:
    replicas = cluster(2)
    one, two = replicas
    one.rpush(L, b"a", b"b")
    sync(*replicas)
    two.lpush(L, b"z")
    assert one.lpop(L) == [b"a"]
    sync(*replicas)
    assert one.lrange(L) == two.lrange(L) == [b"z", b"b"]


def test_del_removes_the_elements_that_it_saw() -> None:
    replicas = cluster(2)
    one, two = replicas
    one.rpush(L, b"a")
    sync(*replicas)
    one.delete(L)
    two.rpush(L, b"b")
    assert one.view(L) is None
    sync(*replicas)
    assert one.lrange(L) == two.lrange(L) == [b"b"]


def test_a_push_costs_the_same_on_a_long_list() -> None:
    """Counted, not timed: calls, and bytes that go to the others."""

    def cost(length: int) -> tuple[int, int]:
        replica = Replica(1)
        replica.rpush(L, *[b"x"] * length)
        calls = 0

        def count(_frame: FrameType, event: str, _arg: Any) -> None:
            nonlocal calls
            calls += event in ("call", "c_call")

        gc.disable()  # garbage of other tests must not be counted
        sys.setprofile(count)
        try:
            for _ in range(10):
                replica.rpush(L, b"y")
        finally:
            sys.setprofile(None)
            gc.enable()
        *_, record = replica.log.unseen({})
        return calls, len(encode(record))

    calls, nbytes = cost(1000)
    for length in (8000, 64_000):
        more_calls, more_nbytes = cost(length)
        assert more_calls < calls + 50  # a new chunk now and then
        assert more_nbytes < nbytes + 10  # larger numbers
