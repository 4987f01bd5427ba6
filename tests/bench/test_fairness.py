"""The benchmark of fairness runs; how long a PING waits is not asked here."""

import pytest

from bench.fairness import CONTENT, FLOODS, INLINE, Flood, Pauses, measure, row
from tests.harness import HoldfastServer, RawClient, RedisServer

SHARE = 1 / 1000


@pytest.mark.parametrize("flood", [None, *FLOODS], ids=lambda flood: getattr(flood, "title", "-"))
def test_pings_are_measured_until_the_flood_is_answered(
    flood: Flood | None, server: HoldfastServer, client: RawClient, oracle: RedisServer
) -> None:
    for command in CONTENT:
        client.command(*command)
    pauses = measure(server, flood and flood.scaled(SHARE))
    assert pauses.pings > 0
    assert pauses.longest_ms >= pauses.p99_ms > 0
    assert measure(oracle, FLOODS[0].scaled(SHARE)).pings > 0


def test_a_flood_sends_each_request_as_often_as_it_says() -> None:
    for flood in FLOODS:
        sent = b"".join(flood.scaled(0.01).pieces())
        assert sent.count(flood.request) == int(flood.count * 0.01)
    assert 60_000 < len(INLINE) < 64 * 1024


def test_the_table_compares_the_medians() -> None:
    ours = [Pauses(longest_ms, 1, 1, 1, 1) for longest_ms in (1, 6, 100)]
    redis = [Pauses(longest_ms, 1, 1, 1, 1) for longest_ms in (3, 3, 4)]
    assert row("x", {"ours": ours, "redis": redis}) == "| x | 6.0 (100.0) | 3.0 (4.0) | 2.00 |"
