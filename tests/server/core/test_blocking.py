"""The queues of waiters alone: order, limits, and leaving from anywhere."""

from collections.abc import Iterable

import pytest

from holdfast.commands.context import Block
from holdfast.commands.table import TABLE
from holdfast.errors import CommandError
from holdfast.server.core.blocking import Waiters, queue_of
from holdfast.server.sessions.session import Waiter
from holdfast.store.values.list import List
from tests.harness.in_process import InProcess

NO_LIMIT = 1_000_000


class CountedWaiter(Waiter):
    """Counts how often it is compared: searching a queue would show."""

    comparisons = 0

    def __eq__(self, other: object) -> bool:
        CountedWaiter.comparisons += 1
        return self is other

    __hash__ = Waiter.__hash__


@pytest.fixture
def setting() -> InProcess:
    return InProcess()


def waiter_for(setting: InProcess, *names: bytes, kind: type[Waiter] = Waiter) -> Waiter:
    block = Block(names, List, 0)
    return kind(setting.peer().session, TABLE["blpop"], [b"BLPOP", *names, b"0"], block)


def added(setting: InProcess, waiters: Waiters, *names: bytes) -> Waiter:
    waiter = waiter_for(setting, *names)
    waiters.add(waiter, NO_LIMIT, NO_LIMIT)
    return waiter


def queue(setting: InProcess, name: bytes) -> Iterable[Waiter] | None:
    found = queue_of(setting.engine.keyspace.databases[0], name)
    return None if found is None else list(found)


def test_a_waiter_stands_in_the_queue_of_each_of_its_keys(setting: InProcess) -> None:
    waiters = Waiters()
    first = added(setting, waiters, b"a", b"b")
    second = added(setting, waiters, b"b")
    assert queue(setting, b"a") == [first]
    assert queue(setting, b"b") == [first, second]
    assert list(waiters) == [first, second]


def test_a_key_named_twice_is_one_place_in_the_queue(setting: InProcess) -> None:
    waiters = Waiters()
    waiter = added(setting, waiters, b"a", b"b", b"a")
    assert queue(setting, b"a") == [waiter]
    assert waiters.remove(waiter)
    assert setting.awaited == []


def test_a_waiter_that_leaves_from_the_middle_disturbs_no_other(setting: InProcess) -> None:
    waiters = Waiters()
    first, second, third = (added(setting, waiters, b"a") for _ in range(3))
    waiters.remove(second)
    assert queue(setting, b"a") == [first, third]


def test_only_the_first_removal_counts(setting: InProcess) -> None:
    waiters = Waiters()
    waiter = added(setting, waiters, b"a", b"b")
    assert waiters.remove(waiter)
    assert not waiters.remove(waiter)
    assert len(waiters) == 0


def test_a_name_without_waiters_is_forgotten(setting: InProcess) -> None:
    waiters = Waiters()
    waiter = added(setting, waiters, b"a", b"b")
    other = added(setting, waiters, b"b")
    waiters.remove(waiter)
    assert setting.awaited == [b"b"]
    waiters.remove(other)
    assert setting.awaited == []


def test_removal_cancels_the_timer(setting: InProcess) -> None:
    waiters = Waiters()
    waiter = added(setting, waiters, b"a")
    waiter.timer = setting.clock.call_later(1, lambda: None)
    waiters.remove(waiter)
    assert setting.clock.pending_timers == 0


def test_too_many_for_one_key_changes_nothing(setting: InProcess) -> None:
    waiters = Waiters()
    waiters.add(waiter_for(setting, b"a"), 1, NO_LIMIT)
    with pytest.raises(CommandError, match="ERR too many blocked clients"):
        waiters.add(waiter_for(setting, b"free", b"a"), 1, NO_LIMIT)
    assert setting.awaited == [b"a"]
    assert len(waiters) == 1


def test_too_many_in_total_changes_nothing(setting: InProcess) -> None:
    waiters = Waiters()
    waiters.add(waiter_for(setting, b"a"), NO_LIMIT, 1)
    with pytest.raises(CommandError, match="ERR too many blocked clients"):
        waiters.add(waiter_for(setting, b"b"), NO_LIMIT, 1)
    assert setting.awaited == [b"a"]


@pytest.mark.source_only
def test_leaving_a_long_queue_visits_no_other_waiter(setting: InProcess) -> None:
    waiters = Waiters()
    crowd = [waiter_for(setting, b"a", b"b", kind=CountedWaiter) for _ in range(2000)]
    for waiter in crowd:
        waiters.add(waiter, NO_LIMIT, NO_LIMIT)
    CountedWaiter.comparisons = 0
    for waiter in crowd[500:1500]:
        waiters.remove(waiter)
    # Not exactly none: two hashes may meet in a dict's slot.
    assert CountedWaiter.comparisons < 100
    assert queue(setting, b"a") == crowd[:500] + crowd[1500:]
