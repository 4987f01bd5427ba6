"""Replies of servers as samples: both protocols, and servers that know less."""

import pytest

from holdfast.client import ServerError
from holdfast.figures.sample import (
    COURTESY,
    QUESTIONS,
    Calls,
    Missing,
    SlowCommand,
    read,
    read_calls,
    read_histogram,
    refusal,
    stat_name,
)


def test_a_whole_sample() -> None:
    replies = {
        ("INFO", "stats"): b"# Stats\r\ntotal_commands_processed:7\r\n",
        ("INFO", "commandstats"): b"# C\r\ncmdstat_config|get:calls=2,usec=9,failed_calls=1\r\n",
        ("INFO", "replication"): b"peer0:address=[::1]:7,lag_s=0.5\r\n",
        ("SLOWLOG", "GET", "10"): [[3, 1700000000, 12000, [b"SET", b"\xff"], b"::1", b""]],
        ("DBSIZE",): 5,
    }
    sample = read(1.5, 0.001, replies, {"info": 3}, {})
    assert sample.number("total_commands_processed") == 7
    assert sample.facts["peer0"] == "address=[::1]:7,lag_s=0.5"
    assert sample.calls == {"config|get": Calls(calls=2, total_us=9, failed=1)}
    assert sample.slow == (SlowCommand(1700000000, 12000, (b"SET", b"\xff")),)
    assert (sample.keys, sample.own_calls) == (5, {"info": 3})


def test_a_server_that_says_nothing() -> None:
    sample = read(1.5, None, dict.fromkeys(QUESTIONS), {}, {})
    assert (sample.facts, sample.calls, sample.buckets, sample.slow) == ({}, {}, None, None)
    assert sample.keys is None
    assert sample.number("uptime_in_seconds") is None


def test_a_fact_that_is_no_number_is_unknown() -> None:
    sample = read(0.0, None, {("INFO", "server"): b"os:Linux\r\n"}, {}, {})
    assert sample.number("os") is None


@pytest.mark.parametrize(
    "reply",
    [
        {b"set": {b"calls": 9, b"histogram_usec": {2: 4, 16: 9}}},
        [b"set", [b"calls", 9, b"histogram_usec", [2, 4, 16, 9]]],
    ],
    ids=["RESP3", "RESP2"],
)
def test_buckets_have_their_own_calls_only(reply: object) -> None:
    assert read_histogram(reply) == {"set": {2: 4, 16: 5}}


def test_rejected_calls_are_failures() -> None:
    assert read_calls("calls=1,usec=2,rejected_calls=3,failed_calls=4").failed == 7
    assert read_calls("calls=1,usec=2").failed == 0  # Redis before 6.2


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("INFO", "stats"), "info"),
        (("SLOWLOG", "GET", "10"), "slowlog|get"),
        (("LLEN", b"\xff"), "llen"),
        (COURTESY, "client|no-touch"),
    ],
)
def test_names_are_those_of_commandstats(words: tuple[object, ...], name: str) -> None:
    assert stat_name(words) == name


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (
            "NOPERM User x has no permissions to run the 'latency|histogram' command",
            "not permitted",
        ),
        ("ERR Unknown subcommand or wrong number of arguments", "unknown to this server"),
        ("ERR something else", "ERR something else"),
    ],
)
def test_refusals(message: str, reason: str) -> None:
    asked = ("LATENCY", "HISTOGRAM")
    assert refusal(asked, ServerError(message)) == Missing("LATENCY HISTOGRAM", reason)
