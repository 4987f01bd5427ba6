"""Clocks that are off: they are reported when that is certain, once, and when they are right again
they win no more than others."""

import logging

import pytest

from holdfast.clock import ManualClock
from holdfast.replication.drift import SAID_AGAIN_AFTER_S, Drift
from tests.replication.nodes import Node, sync


class Fast(ManualClock):
    """So far from the others, until it is set right."""

    off_ms = 3_600_000

    def now_ms(self) -> int:
        return super().now_ms() + self.off_ms


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR]


def test_a_clock_that_was_fast_wins_no_conflicts_when_it_is_right_again() -> None:
    one, two = Node(1), Node(2)
    clock = two.clock = two.engine.clock = Fast()
    two("SET", "k", "from the future")
    sync(one, two)
    clock.off_ms = 0
    for node in (one, two):
        node.clock.advance(10)
    two("SET", "k", "earlier")
    for node in (one, two):
        node.clock.advance(10)
    one("SET", "k", "later")
    sync(one, two)
    assert two("GET", "k") == b"$5\r\nlater\r\n"


def test_a_write_with_a_right_clock_replaces_a_seen_write_from_the_future() -> None:
    one, two = Node(1), Node(2)
    clock = two.clock = two.engine.clock = Fast()
    two("RPUSH", "list", "a")
    two("HSET", "hash", "f", "a")
    clock.off_ms = 0
    for node in (one, two):
        node.clock.advance(10)
    two("LSET", "list", 0, "b")
    two("HSET", "hash", "f", "b")
    two("RPUSH", "list", "c")
    sync(one, two)
    assert one("LRANGE", "list", 0, -1) == b"*2\r\n$1\r\nb\r\n$1\r\nc\r\n"
    assert one("HGET", "hash", "f") == b"$1\r\nb\r\n"


def test_a_clock_that_is_ahead_shows_in_any_message_and_one_that_is_behind_in_answers() -> None:
    clock = ManualClock()
    drift = Drift(clock)
    drift.heard(2, clock.now_ms() + 6_000)
    assert drift.ms == {2: 6_000}
    drift.heard(2, clock.now_ms() + 4_000)
    assert drift.ms == {}
    drift.heard(2, clock.now_ms() - 60_000)
    assert drift.ms == {}, "the message may have been on its way for a minute"
    asked_s = clock.monotonic_s()
    clock.advance(1)
    drift.heard(2, clock.now_ms() - 60_000, asked_s)
    assert drift.ms == {2: -59_000}
    drift.heard(2, clock.now_ms())
    assert drift.ms == {2: -59_000}, "who knows how old that is"
    drift.heard(2, clock.now_ms(), clock.monotonic_s())
    assert drift.ms == {}


def test_a_link_that_stood_still_is_no_clock_that_did() -> None:
    clock = ManualClock()
    drift = Drift(clock)
    asked_s, answered_ms = clock.monotonic_s(), clock.now_ms() + 100
    clock.advance(30)
    drift.heard(2, answered_ms, asked_s)
    assert drift.ms == {}


def test_one_line_tells_of_many_records(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    drift = Drift(clock)
    for _ in range(50):
        drift.stamped(258, 10_000)
        drift.heard(2, clock.now_ms() + 10_000)
        clock.advance(0.1)
    assert lines(caplog) == [
        "records of node 2 are stamped 10000 ms ahead of our clock",
        "the clock of node 2 is 10000 ms ahead of ours",
    ]
    clock.advance(SAID_AGAIN_AFTER_S)
    drift.stamped(258, 10_000)
    assert len(lines(caplog)) == 3
