"""The clock never goes back, and a wrong clock of another replica does not pull it away."""

from holdfast.clock import ManualClock
from holdfast.crdt.hlc import HybridClock, ms_of


def test_stamps_rise_while_the_wall_clock_stands_still_or_goes_back() -> None:
    now_ms = 1000
    clock = HybridClock(lambda: now_ms)
    first, second = clock.tick(), clock.tick()
    now_ms = 10
    assert first < second < clock.tick()
    now_ms = 2000
    assert ms_of(clock.tick()) == 2000


def test_more_stamps_in_a_millisecond_than_fit_borrow_from_the_next() -> None:
    clock = HybridClock(lambda: 1000, last=(1000 << 16) + 0xFFFF)
    assert ms_of(clock.tick()) == 1001


def test_a_stamp_is_later_than_all_that_were_seen() -> None:
    wall = ManualClock()
    clock = HybridClock(wall.now_ms)
    peer = HybridClock(lambda: wall.now_ms() + 4000)
    seen = peer.tick()
    assert clock.observe(seen) == 0
    assert clock.tick() > seen


def test_a_drifting_peer_raises_an_alarm_and_is_not_followed() -> None:
    wall = ManualClock()
    clock = HybridClock(wall.now_ms)
    before = clock.tick()
    peer = HybridClock(lambda: wall.now_ms() + 3_600_000)
    assert clock.observe(peer.tick()) == 3_600_000
    assert ms_of(clock.tick()) == wall.now_ms() == ms_of(before)


def test_the_clock_goes_on_where_it_was_after_a_restart() -> None:
    clock = HybridClock(lambda: 5)
    clock.tick()
    last = clock.tick()
    assert HybridClock(lambda: 1, last).tick() > last


def test_a_clock_that_was_ahead_and_is_set_right_gives_right_stamps_again() -> None:
    wall = ManualClock()
    fast = HybridClock(lambda: wall.now_ms() + 3_600_000)
    fast.tick()
    repaired = HybridClock(wall.now_ms, fast.last)
    first = repaired.tick()
    assert ms_of(first) == wall.now_ms()
    assert repaired.tick() > first
