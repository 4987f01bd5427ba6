"""How long commands take: histograms, percentiles, and slow moments."""

import pytest

from holdfast.server.core.cron import Cron
from holdfast.server.features.latency import FAST_NS, Spikes, Stats
from tests.harness.in_process import InProcess, Peer


def filled(*took_ns: int) -> Stats:
    stats = Stats()
    for ns in took_ns:
        stats.record(ns)
    return stats


def test_all_calls_are_counted_quick_or_slow() -> None:
    stats = filled(0, 100, 5_000, FAST_NS - 1, FAST_NS, 3_000_000, 10**10)
    assert stats.calls == 7
    assert stats.ns == sum((0, 100, 5_000, FAST_NS - 1, FAST_NS, 3_000_000, 10**10))
    stats.reset()
    assert stats.calls == stats.ns == 0


@pytest.mark.parametrize("ns", [70_000, 1_000_000, 123_456_789, 10**10])
def test_percentiles_have_two_digits(ns: int) -> None:
    (us,) = filled(ns).percentiles_us([50])
    assert ns / 1000 <= us <= ns / 1000 * 1.016


def test_percentiles_are_in_order_of_time() -> None:
    stats = filled(*([2_000] * 98), 100_000, 5_000_000)
    p0, p50, p98, p99, p100 = stats.percentiles_us([0, 50, 98, 99, 100])
    assert p0 == p50 == p98 == pytest.approx(2, abs=0.3)
    assert p99 == pytest.approx(100, rel=0.02)
    assert p100 == pytest.approx(5000, rel=0.02)


def test_histograms_are_sums_at_powers_of_two_as_redis_shows_them() -> None:
    assert list(filled().histogram_us()) == []
    assert list(filled(22_000).histogram_us()) == [(33, 1)]
    assert list(filled(500, 900, 6_000, 30_000, 1_050_000).histogram_us()) == [
        (1, 2),
        (8, 3),
        (33, 4),
        (2113, 5),
    ]


def percentiles(peer: Peer) -> list[str]:
    reply = peer.command("INFO", "latencystats").decode()
    return [line for line in reply.split("\r\n") if line.startswith("latency_")]


def test_info_and_histogram() -> None:
    world = InProcess()
    peer = world.peer()
    for _ in range(3):
        peer.command("SET", "k", "v")
    peer.command("CONFIG", "GET", "port")
    assert peer.command("LATENCY", "HISTOGRAM", "SET", "nosuch").startswith(
        b"*2\r\n$3\r\nset\r\n*4\r\n$5\r\ncalls\r\n:3\r\n$14\r\nhistogram_usec\r\n*"
    )
    assert b"$10\r\nconfig|get\r\n" in peer.command("LATENCY", "HISTOGRAM", "config")
    lines = percentiles(peer)
    assert [line.partition(":")[0] for line in lines] == [
        "latency_percentiles_usec_set",
        "latency_percentiles_usec_config|get",
        "latency_percentiles_usec_latency|histogram",
    ]
    assert [part.partition("=")[0] for part in lines[0].partition(":")[2].split(",")] == [
        "p50",
        "p99",
        "p99.9",
    ]
    world.set("latency-tracking-info-percentiles", "0.0 100")
    assert percentiles(peer)[0].partition(":")[2].startswith("p0=")
    world.set("latency-tracking", "no")
    assert percentiles(peer) == []
    assert peer.command("LATENCY", "HISTOGRAM") == b"*0\r\n"


def test_commands_of_transactions_and_scripts_are_counted_too() -> None:
    world = InProcess()
    peer = world.peer()
    peer.transaction(("SET", "k", "v"), ("SET", "k", "v"))
    peer.command("EVAL", "redis.call('set', KEYS[1], 'v')", 1, "k")
    assert world.engine.commands.stats["set"].calls == 3


def test_a_wait_is_one_call() -> None:
    world = InProcess()
    waiter = world.blocked("BLPOP", "k", 0)
    world.peer().command("RPUSH", "k", "v")
    assert not waiter.is_waiting
    assert world.engine.commands.stats["blpop"].calls == 1


def test_of_a_second_the_slowest_stays() -> None:
    spikes = Spikes()
    spikes.add(b"command", 1, 50)
    assert spikes.events == {}
    spikes.threshold_ms = 10
    for at_s, ms in ((1, 9), (1, 30), (1, 20), (2, 15), (3, 10)):
        spikes.add(b"command", at_s, ms)
    event = spikes.events[b"command"]
    assert list(event.samples) == [(1, 30), (2, 15), (3, 10)]
    assert event.most_ms == 30
    for at_s in range(1000):
        spikes.add(b"command", at_s, 11)
    assert len(event.samples) == 160


def test_slow_commands_are_events() -> None:
    world = InProcess({"latency-monitor-threshold": "1", "enable-debug-command": "yes"})
    peer = world.peer()
    now_s = world.clock.now_ms() // 1000
    assert peer.command("LATENCY", "LATEST") == b"*0\r\n"
    peer.command("DEBUG", "SLEEP", "0.002")
    assert peer.command("LATENCY", "LATEST").startswith(
        b"*1\r\n*4\r\n$7\r\ncommand\r\n:%d\r\n:" % now_s
    )
    assert peer.command("LATENCY", "HISTORY", "command").startswith(b"*1\r\n*2\r\n:%d\r\n" % now_s)
    assert peer.command("LATENCY", "HISTORY", "nosuch") == b"*0\r\n"
    assert b"command - high " in peer.command("LATENCY", "GRAPH", "command")
    assert peer.command("LATENCY", "GRAPH", "nosuch").startswith(b"-ERR No samples available")
    assert b"command: 1 times slow" in peer.command("LATENCY", "DOCTOR")
    assert peer.command("LATENCY", "RESET", "nosuch") == b":0\r\n"
    assert peer.command("LATENCY", "RESET") == b":1\r\n"
    assert peer.command("LATENCY", "LATEST") == b"*0\r\n"


def test_the_graph_is_as_wide_as_there_are_samples() -> None:
    world = InProcess({"latency-monitor-threshold": "1"})
    spikes = world.engine.spikes
    now_s = world.engine.keyspace.now_s
    for age_s, ms in ((90_000, 5), (4000, 100), (70, 50), (1, 5)):
        spikes.add(b"command", now_s - age_s, ms)
    text = world.peer().command("LATENCY", "GRAPH", "command").decode().split("\r\n")[1]
    title, rule, *rows, _, first, second, _ = text.split("\n")
    assert title == "command - high 100 ms, low 5 ms (all time high 100 ms)"
    assert rule == "-" * 80
    assert [row.rstrip() for row in rows] == [" #", " #", " ##", "_##_"]
    assert (first, second) == ("1111", "dhms")


def test_the_cost_of_expiry_is_reported() -> None:
    world = InProcess()
    peer = world.peer()
    for number in range(2000):
        peer.command("SET", number, "v", "PX", 1)
    world.clock.advance(1)
    cron = Cron(world.engine)
    cron.tick()
    cron.stop()
    assert world.engine.meter.expiry_ns > 0
    assert b"expired_time_cap_reached_count:1\r\n" in peer.command("INFO", "stats")
