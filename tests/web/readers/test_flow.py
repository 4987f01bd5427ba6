"""Rates from two looks: what came, minus what went, is the growth."""

from holdfast.web.readers.queues import Count, Direction, QueueId, QueueState, Role, flow

ID = QueueId("rq", b"q")


def state(waiting: int, added: int | None = None, finished: int | None = None) -> QueueState:
    counts = (Count("queued", Role.WAITING, waiting), Count("failed", Role.FAILED, 7))
    return QueueState(ID, counts, added=added, finished=finished)


def test_lengths_alone_tell_the_direction() -> None:
    moved = flow(0.0, state(10), 2.0, state(30))
    assert moved is not None
    assert (moved.net_per_s, moved.direction) == (10.0, Direction.GROWING)
    assert (moved.in_per_s, moved.out_per_s) == (None, None)
    moved = flow(0.0, state(10), 2.0, state(4))
    assert moved is not None
    assert moved.direction is Direction.DRAINING


def test_one_counter_tells_both_rates() -> None:
    moved = flow(0.0, state(10, added=100), 2.0, state(4, added=110))
    assert moved is not None
    assert (moved.in_per_s, moved.out_per_s) == (5.0, 8.0)
    moved = flow(0.0, state(10, finished=100), 2.0, state(14, finished=110))
    assert moved is not None
    assert (moved.in_per_s, moved.out_per_s) == (7.0, 5.0)


def test_a_counter_that_was_reset_tells_nothing() -> None:
    moved = flow(0.0, state(10, added=100), 2.0, state(10, added=3))
    assert moved is not None
    assert (moved.in_per_s, moved.out_per_s, moved.direction) == (None, None, Direction.STEADY)


def test_looks_at_the_same_moment_tell_nothing() -> None:
    assert flow(1.0, state(1), 1.0, state(2)) is None
