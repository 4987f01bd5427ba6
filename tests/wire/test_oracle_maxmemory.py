"""maxmemory as in redis-server: which commands are refused, which keys go, and how uses are
counted.

The two servers need different memory for the same data, so the limit is one byte: always too
little.
"""

from collections.abc import Iterator

import pytest

from tests.harness import HoldfastServer, Pair, RawClient, RedisServer

DEFAULTS = {
    "maxmemory": "0",
    "maxmemory-policy": "noeviction",
    "lfu-log-factor": "10",
    "lfu-decay-time": "1",
    "notify-keyspace-events": "",
}


@pytest.fixture
def limited(pair: Pair) -> Iterator[Pair]:
    """Restore all settings that a test changes: the oracle is shared."""
    yield pair
    for client in (pair.ours, pair.oracle):
        for name, value in DEFAULTS.items():
            assert client.command("CONFIG", "SET", name, value) == b"+OK\r\n"


def configure(pair: Pair, **settings: str | int) -> None:
    for name, value in settings.items():
        pair.same("CONFIG", "SET", name.replace("_", "-"), value)


def test_commands_that_are_refused_when_no_key_may_be_evicted(limited: Pair) -> None:
    limited.same("SET", "k", "v")
    limited.same("RPUSH", "l", "a", "b")
    configure(limited, maxmemory_policy="volatile-lru", maxmemory=1)
    for args in (
        ("SET", "k", "w"),
        ("SET", "new", "w", "EX", "100"),
        ("INCR", "n"),
        ("RPUSH", "l", "c"),
        ("LMOVE", "l", "l", "LEFT", "RIGHT"),
        ("COPY", "k", "k2"),
        ("BLMOVE", "none", "l", "LEFT", "LEFT", "1"),
        ("SET", "k"),
        ("NOSUCH",),
    ):
        assert limited.same(*args).startswith(b"-")
    for args in (
        ("GET", "k"),
        ("LPOP", "l"),
        ("EXPIRE", "l", "100"),
        ("PING",),
        ("RENAME", "k", "k2"),
        ("PUBLISH", "c", "m"),
        ("EXISTS", "l", "k2"),
        ("DEL", "k2"),
    ):
        limited.same(*args)


def test_transactions(limited: Pair) -> None:
    limited.same("SET", "k", "v")
    limited.same("MULTI")
    limited.same("GET", "k")
    limited.same("SET", "k", "w")
    configure(limited, maxmemory_policy="volatile-lru", maxmemory=1)  # queued, too
    limited.same("EXEC")
    limited.same("MULTI")
    limited.same("GET", "k")
    limited.same("EXEC")
    limited.same("WATCH", "k")
    limited.same("MULTI")
    limited.same("DISCARD")
    limited.same("MULTI")
    limited.same("EXEC")


def test_scripts(limited: Pair) -> None:
    limited.same("SET", "k", "v")
    limited.same("SET", "other", "v")
    configure(limited, maxmemory_policy="volatile-lru", maxmemory=1)
    write = "return redis.call('set', KEYS[1], 'w')"
    limited.same("EVAL", write, 1, "k")
    limited.same("EVAL", "return redis.call('get', KEYS[1])", 1, "k")
    limited.same("EVAL", "redis.call('del', KEYS[1]); " + write, 1, "k")
    for shebang in ("#!lua", "#!lua flags=allow-oom", "#!lua flags=no-writes"):
        limited.same("EVAL", f"{shebang}\n{write}", 1, "k")
        limited.same("EVAL", f"{shebang}\nreturn redis.call('get', KEYS[1])", 1, "other")
    limited.same("GET", "k")
    configure(limited, maxmemory=0)
    limited.same("EVAL", write, 1, "k")


@pytest.mark.parametrize(
    "policy", ["volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl"]
)
def test_only_keys_that_expire_go(limited: Pair, policy: str) -> None:
    for number in range(10):
        limited.same("SET", f"stays{number}", "v")
        limited.same("SET", f"goes{number}", "v", "EX", 1000 + number)
    configure(limited, maxmemory_policy=policy, maxmemory=1)
    limited.same("PING")
    limited.same("DBSIZE")
    for number in range(10):
        limited.same("EXISTS", f"stays{number}", f"goes{number}")


def test_it_is_told(limited: Pair, server: HoldfastServer, oracle: RedisServer) -> None:
    limited.same("SET", "k", "v", "EX", 1000)
    configure(limited, notify_keyspace_events="KEe", maxmemory_policy="volatile-ttl")
    limited.same("PSUBSCRIBE", "__key*__:*")
    for port in (server.port, oracle.port):
        with RawClient.connect(port) as other:
            assert other.command("CONFIG", "SET", "maxmemory", 1) == b"+OK\r\n"
            assert other.command("EXISTS", "k") == b":0\r\n"
    limited.same_reply()
    limited.same_reply()
    limited.same("PUNSUBSCRIBE")


@pytest.mark.parametrize(
    "uses",
    [
        [("GET", "k")] * 7,
        [("SET", "k", "w"), ("GETSET", "k", "x"), ("APPEND", "k", "y"), ("STRLEN", "k")],
        [("EXISTS", "k"), ("TYPE", "k"), ("TTL", "k"), ("OBJECT", "ENCODING", "k"), ("DUMP", "k")],
        [("TOUCH", "k", "k"), ("EXPIRE", "k", "1000"), ("PERSIST", "k"), ("GETEX", "k")],
        [("RENAME", "k", "k2"), ("RENAME", "k2", "k")],
        [("MGET", "k", "k", "none"), ("GETRANGE", "k", "0", "1"), ("SETRANGE", "k", "0", "a")],
        [("SCAN", "0"), ("KEYS", "*"), ("RANDOMKEY",), ("DBSIZE",)],
        [("EVAL", "return redis.call('get', KEYS[1])", "1", "k")],
    ],
)
def test_frequencies(limited: Pair, uses: list[tuple[str, ...]]) -> None:
    """With a factor of 0 every use is one step, so nothing is left to chance; nor to the clock,
    which might begin a minute just now."""
    configure(limited, lfu_log_factor=0, lfu_decay_time=0, maxmemory_policy="allkeys-lfu")
    limited.same("SET", "k", "v")
    limited.same("OBJECT", "FREQ", "k")
    for args in uses:
        if args[0] == "SCAN":
            for client in (limited.ours, limited.oracle):
                client.command(*args)
        else:
            limited.same(*args)
        limited.same("OBJECT", "FREQ", "k")
    limited.same("OBJECT", "FREQ", "none")
    limited.same("OBJECT", "IDLETIME", "k")


def test_restore_says_how_often(limited: Pair) -> None:
    configure(limited, lfu_decay_time=0, maxmemory_policy="allkeys-lfu")
    limited.same("SET", "k", "v")
    for client in (limited.ours, limited.oracle):
        payload = client.command("DUMP", "k").split(b"\r\n", 1)[1][:-2]
        assert client.command("RESTORE", "k2", 0, payload, "FREQ", 77) == b"+OK\r\n"
    limited.same("OBJECT", "FREQ", "k2")
