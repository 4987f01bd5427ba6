"""Two samples become figures: rates, percentiles, restarts, names."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import pytest

from holdfast.figures.queues import Growth, Queue
from holdfast.figures.sample import Calls, Sample, SlowCommand
from holdfast.figures.view import (
    ErrorView,
    PeerView,
    QueueView,
    View,
    compare,
    percentile_us,
    shown,
)


def sample(at_s: float, facts: Mapping[str, object] | None = None, **more: Any) -> Sample:
    texts = {name: str(value) for name, value in (facts or {}).items()}
    return Sample(at_s, facts={"run_id": "a"} | texts, **more)


def view(before: Sample | None, now: Sample) -> View:
    return compare("h:1", 1000.0, before, now)


def test_rates_are_those_since_the_sample_before() -> None:
    old = {"total_commands_processed": 100, "used_cpu_sys": 1.0, "used_cpu_user": 2.0}
    new = {"total_commands_processed": 300, "used_cpu_sys": 1.5, "used_cpu_user": 2.5}
    seen = view(sample(10.0, old), sample(12.0, new))
    assert (seen.ops_per_s, seen.cpu_share, seen.interval_s) == (100.0, 0.5, 2.0)


def test_the_first_sample_has_no_rates_but_all_else() -> None:
    seen = view(None, sample(1.0, {"total_commands_processed": 9, "used_memory": 7}, keys=3))
    assert (seen.ops_per_s, seen.interval_s, seen.commands) == (None, None, ())
    assert (seen.memory_bytes, seen.keys) == (7, 3)


def test_our_own_commands_do_not_count() -> None:
    old = sample(0.0, {"total_commands_processed": 10, "total_error_replies": 0})
    new = sample(1.0, {"total_commands_processed": 40, "total_error_replies": 3})
    calls = {"info": Calls(8, 800), "scan": Calls(5, 50), "get": Calls(17, 17)}
    own = {"info": 8, "scan": 3}
    seen = view(old, replace(new, calls=calls, own_calls=own, own_failures={"slowlog|get": 1}))
    assert (seen.ops_per_s, seen.errors_per_s) == (19.0, 2.0)
    assert {each.name: each.calls_per_s for each in seen.commands} == {"scan": 2.0, "get": 17.0}


def test_a_command_of_ours_that_was_refused_does_not_count() -> None:
    calls = {"slowlog|get": Calls(0, 0, failed=1)}
    new = sample(1.0, calls=calls, own_failures={"slowlog|get": 1})
    assert view(sample(0.0), new).commands == ()


def test_a_restart_gives_no_rates_and_says_so() -> None:
    old = sample(0.0, {"total_commands_processed": 1000}, calls={"get": Calls(9, 9)})
    new = sample(1.0, {"run_id": "b", "total_commands_processed": 2000})
    new = replace(new, calls={"get": Calls(10, 10)})
    seen = view(old, new)
    assert (seen.ops_per_s, seen.commands) == (None, ())
    assert seen.notices == ("the server has restarted: rates begin anew",)


def test_counters_that_went_back_give_no_rate() -> None:
    """CONFIG RESETSTAT."""
    old = sample(0.0, {"total_commands_processed": 9}, calls={"get": Calls(9, 9)})
    seen = view(old, sample(1.0, {"total_commands_processed": 1}, calls={"get": Calls(1, 1)}))
    assert (seen.ops_per_s, seen.commands, seen.notices) == (None, (), ())


def test_two_samples_of_one_moment_give_no_rate() -> None:
    now = sample(1.0, {"total_commands_processed": 1}, calls={"get": Calls(1, 1)})
    assert view(now, now).ops_per_s is None


def test_the_latency_is_that_of_the_calls_since_the_sample_before() -> None:
    old = sample(0.0, calls={"get": Calls(100, 0)}, buckets={"get": {1024: 100}})
    new = sample(1.0, calls={"get": Calls(110, 80)}, buckets={"get": {8: 10, 1024: 100}})
    seen = view(old, new)
    (get,) = seen.commands
    assert seen.p50_us == get.p50_us == 6.0  # in the middle of the bucket from 4 to 8
    assert (get.mean_us, get.time_share) == (8.0, 80e-6)


def test_without_a_histogram_there_is_a_mean() -> None:
    seen = view(sample(0.0), sample(1.0, calls={"get": Calls(2, 10)}))
    assert (seen.p50_us, seen.commands[0].p99_us, seen.commands[0].mean_us) == (None, None, 5.0)


def test_a_histogram_that_was_reset_has_no_negative_calls() -> None:
    old = sample(0.0, calls={"get": Calls(1, 1)}, buckets={"get": {8: 50}})
    new = sample(1.0, calls={"get": Calls(2, 2)}, buckets={"get": {8: 1, 16: 1}})
    assert view(old, new).p99_us == pytest.approx(16, rel=0.01)


@pytest.mark.parametrize(
    ("buckets", "share", "us"),
    [
        ({}, 0.5, None),
        ({8: 0}, 0.5, None),
        ({8: 4}, 0.5, 6.0),
        ({8: 4}, 1.0, 8.0),
        ({8: 98, 64: 2}, 0.5, 4 + 4 * 50 / 98),
        ({8: 98, 64: 2}, 0.99, 48.0),
    ],
)
def test_percentiles(buckets: dict[int, int], share: float, us: float | None) -> None:
    assert percentile_us(buckets, share) == us


@pytest.mark.parametrize(
    ("facts", "server"),
    [
        ({"redis_version": "7.2.0", "holdfast_version": "0.2.0"}, "holdfast 0.2.0"),
        ({"redis_version": "7.2.4", "valkey_version": "9.1.2"}, "valkey 9.1.2"),
        ({"redis_version": "7.0.15"}, "redis 7.0.15"),
        ({}, None),
    ],
)
def test_the_name_of_the_server(facts: dict[str, str], server: str | None) -> None:
    assert view(None, sample(0.0, facts)).server == server


@pytest.mark.parametrize(
    ("facts", "notice"),
    [
        ({"aof_last_write_status": "err"}, "the last write to the disk failed"),
        (
            {"aof_last_write_status": "err", "holdfast_last_error": "disk full"},
            "writes are refused: disk full",
        ),
        ({"loading": 1}, "the server is loading its data"),
        ({"active_active_state": "joining"}, "active-active: joining"),
    ],
)
def test_notices(facts: dict[str, object], notice: str) -> None:
    assert view(None, sample(0.0, facts)).notices == (notice,)


def test_peers() -> None:
    facts = {
        "peer0": "node=2,address=b:1,state=following,lag_ops=3,lag_s=1.500,last_error=",
        "peer1": "node=0,address=c:1,state=connecting,lag_ops=0,lag_s=,last_error=refused",
    }
    seen = view(None, sample(0.0, facts))
    assert seen.peers == (
        PeerView("b:1 (node 2)", "following", 1.5, 3, ""),
        PeerView("c:1", "connecting", None, 0, "refused"),
    )
    assert seen.replication_lag_s == 1.5


def test_replicas_and_masters_of_redis() -> None:
    replica = {"slave0": "ip=::1,port=7,state=online,offset=9,lag=2", "slave_repl_offset": 1}
    seen = view(None, sample(0.0, replica))
    assert seen.peers == (PeerView("::1:7 (replica)", "online", 2.0, None, ""),)
    master = {"role": "slave", "master_host": "m", "master_port": 6379, "master_link_status": "up"}
    seen = view(None, sample(0.0, master | {"master_last_io_seconds_ago": -1}))
    assert seen.peers == (PeerView("m:6379 (master)", "up", None, None, ""),)


def test_the_age_of_a_slow_command_is_by_the_clock_of_the_server() -> None:
    slow = (SlowCommand(50, 12, (b"KEYS", b"*")),)
    seen = view(None, sample(0.0, {"server_time_usec": 60_500_000}, slow=slow))
    assert [(each.age_s, each.command) for each in seen.slow] == [(10.5, "KEYS *")]


def test_queues() -> None:
    growing = [Growth(Queue("list", b"\xff"), 7, 2.0)]
    seen = compare("h:1", 0.0, None, sample(0.0), growing, 0.5)
    assert seen.queues == (QueueView("\\xff", "list", 7, 2.0),)
    assert seen.scanned_share == 0.5


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (b"jobs:1", "jobs:1"),
        ("größe".encode(), "größe"),
        (b"\xff\xfe", "\\xff\\xfe"),
        (b"a\x1b[31m\r\n", "a\\x1b[31m\\r\\n"),
        (b"\\xff", "\\\\xff"),
        ("\u202e".encode(), "\\u202e"),
    ],
)
def test_names_that_a_terminal_can_show(name: bytes, text: str) -> None:
    assert shown(name) == text


def test_every_figure_may_be_missing() -> None:
    """Of a user without permission for anything."""
    seen = compare("h:1", 0.0, Sample(0.0), Sample(1.0))
    known = {
        "address",
        "at",
        "interval_s",
        "notices",
        "peers",
        "commands",
        "slow",
        "queues",
        "errors",
    }
    for each in fields(seen):
        if each.name not in known | {"missing"}:
            assert getattr(seen, each.name) is None, each.name


def test_the_hit_share_is_that_of_the_interval() -> None:
    old = {"keyspace_hits": 100, "keyspace_misses": 100}
    new = {"keyspace_hits": 130, "keyspace_misses": 110}
    assert view(sample(0.0, old), sample(1.0, new)).hit_share == 0.75
    assert view(sample(0.0, old), sample(1.0, old)).hit_share is None  # nothing was read


def test_errors_that_come_now_stand_first() -> None:
    old = {"errorstat_ERR": "count=50", "errorstat_NOPERM": "count=1"}
    new = {"errorstat_ERR": "count=50", "errorstat_NOPERM": "count=5"}
    seen = view(sample(0.0, old), sample(2.0, new))
    assert seen.errors == (ErrorView("NOPERM", 5, 2.0), ErrorView("ERR", 50, 0.0))
