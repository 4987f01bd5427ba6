"""The soak's definition of growth, and the checks of its ledger."""

import pytest

from bench.soak import MB, Sample, find_growth, keeps_growing
from bench.soak_clients import Bounds, WrongDataError


def test_a_straight_line_keeps_growing_and_a_saw_does_not() -> None:
    assert keeps_growing(list(range(300)), slack=10)
    assert not keeps_growing([i % 17 for i in range(300)], slack=0)


def test_growth_that_has_ended_by_the_second_third_is_warming_up() -> None:
    assert not keeps_growing([min(i, 100) for i in range(300)], slack=0)


def test_a_run_too_short_to_have_thirds_shows_nothing() -> None:
    assert not keeps_growing([1, 1000], slack=0)


def test_a_growing_wal_and_too_much_memory_are_both_reported() -> None:
    samples = [Sample(rss=300 * MB, wal=i * MB, file=0, journal=0) for i in range(300)]
    wal, rss = find_growth(samples, rss_limit=200 * MB)
    assert wal.startswith("wal keeps growing")
    assert rss == "rss reached 300 MB; the limit is 200 MB"
    assert find_growth(samples[:1], rss_limit=300 * MB) == []


def test_an_unknown_outcome_is_allowed_either_way_until_a_reply_tells() -> None:
    bounds = Bounds(low=5, high=6)
    bounds.check(5, "it")
    bounds.check(6, "it")
    bounds.change(b":7\r\n", 1, "it")
    assert (bounds.low, bounds.high) == (7, 7)
    with pytest.raises(WrongDataError, match="it is 6, and should be 7 to 7"):
        bounds.check(6, "it")
