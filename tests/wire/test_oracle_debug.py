"""DEBUG: the helpers that both have, as redis-server has them."""

import random
from collections.abc import Iterator

import pytest

from tests.harness import HoldfastServer, Pair
from tests.wire.same import Line, assert_same


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HoldfastServer]:
    folder = tmp_path_factory.mktemp("server")
    with HoldfastServer(folder, "--enable-debug-command", "yes") as server:
        yield server


VALUES: list[Line] = [
    *("SET s text", "SET n 12", "SET empty ''", "SET b x PX 10000000", "RPUSH l a b 1 a"),
    *("SADD i 1 2 3", "SADD m a b c", "HSET h f v g w", "ZADD z 1.5 a -inf b 1e300 c 0.1 d 3 e"),
    *("XADD x 1-1 f v g w", "XADD x 2-0 other 5", "XADD x 3-7 f v", "XDEL x 2-0"),
    *("XGROUP CREATE x group 0", "XREADGROUP GROUP group c COUNT 1 STREAMS x >"),
]


def test_the_digest_of_data_is_that_of_redis(pair: Pair) -> None:
    empty = pair.same("DEBUG", "DIGEST")
    assert_same(pair, VALUES)
    in_one = pair.same("DEBUG", "DIGEST")
    pair.play("SELECT 3\nSET other database\nSELECT 0")
    assert len({empty, in_one, pair.same("DEBUG", "DIGEST")}) == 3
    assert_same(pair, ["DEBUG DIGEST-VALUE s n empty b l i m h z x missing", "DEBUG DIGEST-VALUE"])


def test_the_digest_of_random_data_is_that_of_redis(pair: Pair, rng: random.Random) -> None:
    lines = [
        f"{command} {command}{rng.randrange(5)} {rng.randrange(99)} {rng.randrange(99)}"
        for command in ("RPUSH", "SADD", "HSET", "ZADD", "SETRANGE")
        for _ in range(60)
    ]
    rng.shuffle(lines)
    assert_same(pair, [*lines, "DEBUG DIGEST"])


def test_the_digest_reads_keys_that_only_the_file_has(pair: Pair, server: HoldfastServer) -> None:
    assert_same(pair, VALUES)
    digest = pair.same("DEBUG", "DIGEST")
    assert pair.ours.command("DEBUG", "RELOAD") == b"+OK\r\n"
    assert pair.ours.command("DEBUG", "DIGEST") == digest


def test_values_of_each_type(pair: Pair) -> None:
    kinds = "string integer double bignum null array set map attrib verbatim true false nope"
    assert_same(pair, [f"DEBUG PROTOCOL {kind}" for kind in kinds.split()])


def test_scripts_may_be_allowed_all_commands(pair: Pair) -> None:
    call = "return redis.call('debug', 'protocol', "
    kinds = "string integer double bignum null array attrib verbatim true false"
    scripts: list[Line] = [
        ("EVAL", f"redis.setresp({version}) {call}'{kind}')", 0)
        for version in (2, 3)
        for kind in kinds.split()
    ]
    assert assert_same(pair, scripts[:1])[0][:1] == b"-"
    allowed, denied = "DEBUG SET-DISABLE-DENY-SCRIPTS 1", "DEBUG SET-DISABLE-DENY-SCRIPTS 0"
    assert_same(pair, [allowed, *scripts, denied, scripts[0]])


def test_a_reload_that_would_load_keys_twice(pair: Pair) -> None:
    pair.same("FUNCTION", "FLUSH")
    pair.same("FUNCTION", "LOAD", "#!lua name=l\nredis.register_function('f', function() end)")
    assert b"Error trying to load the RDB" in pair.same("DEBUG", "RELOAD", "NOFLUSH")
    assert_same(pair, ["DEBUG RELOAD NOFLUSH MERGE", "FUNCTION LIST", "FUNCTION FLUSH"])


def test_an_expired_key_is_still_there(pair: Pair) -> None:
    """For DEBUG OBJECT alone."""
    pair.same("DEBUG", "SET-ACTIVE-EXPIRE", "0")
    pair.same("SET", "k", "v", "PXAT", "1")
    pair.same("MULTI")
    for line in ("SET k v PX 1", "DEBUG SLEEP 0.002"):
        pair.same(*line.split())
    pair.same("EXEC")
    for client in (pair.ours, pair.oracle):
        assert client.command("DEBUG", "OBJECT", "k").startswith(b"+Value at:")
    assert_same(pair, ["EXISTS k", "DEBUG OBJECT k", "DEBUG SET-ACTIVE-EXPIRE 1"])


@pytest.mark.parametrize("line", ["SCAN 0", "RANDOMKEY", "KEYS *"])
def test_which_commands_remove_expired_keys_that_they_meet(pair: Pair, line: str) -> None:
    pair.same("DEBUG", "SET-ACTIVE-EXPIRE", "0")
    pair.same("MULTI")
    for queued in ("SET k v PX 1", "SET l v PX 1", "DEBUG SLEEP 0.002"):
        pair.same(*queued.split())
    pair.same("EXEC")
    assert_same(pair, ["DBSIZE", line, "DBSIZE", "DEBUG SET-ACTIVE-EXPIRE 1"])


@pytest.mark.parametrize("size", ["1b", "5kb", "0", "x", "-1"])
def test_sizes_of_nodes_that_lists_do_not_have(pair: Pair, size: str) -> None:
    pair.same("DEBUG", "QUICKLIST-PACKED-THRESHOLD", size)
    pair.same("DEBUG", "QUICKLIST-PACKED-THRESHOLD", "0")
