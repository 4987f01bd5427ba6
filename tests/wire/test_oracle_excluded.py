"""Commands that are refused, or have little to tell here: known like Redis's, and polite."""

from collections.abc import Callable

import pytest

from holdfast.server.commands.excluded_commands import NO_CLUSTER, TABLE
from tests.harness import HoldfastServer, Pair
from tests.wire.same import assert_same

INSIDE = (
    *("memory|usage", "memory|stats", "memory|doctor", "memory|purge", "memory|malloc-stats"),
    *("memory|help", "latency|history", "latency|latest", "latency|reset", "latency|graph"),
    *("latency|histogram", "latency|doctor", "latency|help", "wait", "restore-asking"),
    *("module|list", "memory", "latency"),
)


# redis-server 7.0 has not got the others; tests/wire/test_valkey.py compares those of Valkey.
OF_REDIS_7 = {row[0] for row in TABLE if row[5] < "7.1" and "valkey" not in row[2]}


@pytest.mark.parametrize("name", [*sorted(OF_REDIS_7), *INSIDE])
def test_command_info_equals_that_of_redis(pair: Pair, name: str) -> None:
    assert_same(pair, [f"COMMAND INFO {name}"], in_any_order=True)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row[0])
def test_each_says_why_not_in_one_sentence(pair: Pair, row: tuple[str, int, str]) -> None:
    name, arity, *_, sentence = row
    argv = name.split("|")
    argv += ["1"] * (abs(arity) - len(argv))
    assert pair.ours.command(*argv) == f"-{sentence}\r\n".encode()
    if sentence == NO_CLUSTER and name in OF_REDIS_7 - {"asking", "cluster|help"}:
        pair.same(*argv)


def test_those_that_answer_answer_alike(pair: Pair) -> None:
    assert_same(
        pair,
        [
            *("WAIT 0 0", "WAIT 0 x", "WAIT x 0", "WAIT 0 -1", "WAIT 1", "LATENCY LATEST"),
            *("LATENCY HISTORY x", "LATENCY RESET", "LATENCY RESET x y", "LATENCY GRAPH x"),
            *("MEMORY PURGE", "MEMORY USAGE missing", "MEMORY USAGE missing SAMPLES 5", "SET k v"),
            *("MEMORY USAGE k SAMPLES -1", "MEMORY USAGE k SAMPLES x", "MEMORY USAGE k NOPE 1"),
            *("MEMORY USAGE k SAMPLES", "MEMORY NOPE", "LATENCY NOPE", "MODULE LIST", "LATENCY"),
        ],
    )


def test_the_size_of_a_value_shows(pair: Pair) -> None:
    pair.same("SET", "small", "x")
    pair.same("SET", "large", "x" * 100_000)
    for client in (pair.ours, pair.oracle):
        small, large = (int(client.command("MEMORY", "USAGE", k)[1:]) for k in ("small", "large"))
        assert 0 < small < 1000
        assert 100_000 < large < 200_000
    for question in ("STATS", "DOCTOR", "MALLOC-STATS"):
        assert pair.ours.command("MEMORY", question)[:1] in b"*%$="


@pytest.mark.parametrize("policy", ["always", "everysec", "no"])
def test_waitaof_answers_when_it_is_true(
    start_server: Callable[..., HoldfastServer], policy: str
) -> None:
    server = start_server("--appendfsync", policy)
    client = server.client()
    client.send_command("SET", "k", "v")
    client.send_command("WAITAOF", 1, 0, 0)
    assert client.read_replies(2) == [b"+OK\r\n", b"*2\r\n:1\r\n:0\r\n"]
    syncs = int(client.command("INFO", "persistence").split(b"holdfast_syncs:")[1].split()[0])
    assert syncs >= 1
    assert client.command("WAITAOF", 0, 0, 0) == b"*2\r\n:1\r\n:0\r\n"
    for wrong in ((2, 0, 0), (-1, 0, 0), (0, -1, 0), (0, 0, -1), ("x", 0, 0), (0, 0, "x")):
        assert client.command("WAITAOF", *wrong)[:5] == b"-ERR "


def test_a_database_in_memory_has_no_disk_to_wait_for(
    start_server: Callable[..., HoldfastServer],
) -> None:
    client = start_server(db=":memory:").client()
    assert client.command("WAITAOF", 0, 0, 0) == b"*2\r\n:0\r\n:0\r\n"
    assert client.command("WAITAOF", 1, 0, 0)[:5] == b"-ERR "
