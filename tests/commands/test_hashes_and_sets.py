"""The events of hash and set commands, and the choices of the random ones. tests/wire compares the
replies."""

import pytest

from tests.commands.listening import Listening, published
from tests.harness import RedisServer
from tests.harness.in_process import InProcess, Peer

START = ["HSET h a 1 b 2", "HSET one a 1", "SADD s 1 2 3", "SADD t 3", "SET text x"]
CHANGES = [
    *("HSET h a 5", "HSET h a 1 c 2", "HSET new a 1", "HMSET new a 1", "HSETNX h a 1"),
    *("HSETNX h c 1", "HSETNX new a 1", "HDEL h a nope", "HDEL h nope", "HDEL h a b", "HDEL new a"),
    *("HINCRBY h a 1", "HINCRBY new a 1", "HINCRBY h a x", "HINCRBYFLOAT h a 1.5"),
    *("HINCRBYFLOAT new a inf", "HGET new a", "HGETALL h", "HLEN new", "HMGET new a"),
    "HGET text a",
    *("HRANDFIELD new", "HRANDFIELD new 5", "HSCAN new 0", "HSTRLEN new a", "HEXISTS new a"),
    *("SADD s 1", "SADD s 1 9", "SADD new 1", "SADD text 1", "SREM s 9", "SREM s 1", "SREM t 3"),
    *("SREM s 1 2 3", "SREM new 1", "SMOVE s t 1", "SMOVE s t 3", "SMOVE t s 3", "SMOVE t new 3"),
    *("SMOVE s s 1", "SMOVE s text 1", "SMOVE new s 1", "SMOVE s t 9", "SPOP t", "SPOP s 10"),
    *("SPOP s 0", "SPOP new", "SPOP new 2", "SRANDMEMBER new", "SRANDMEMBER new 2", "SCARD new"),
    *("SMEMBERS new", "SISMEMBER new 1", "SMISMEMBER new 1 2", "SSCAN new 0", "SINTER s new t"),
    *("SINTER new new", "SUNION new s", "SDIFF s new", "SINTERCARD 2 s new", "SINTERSTORE new s t"),
    *("SINTERSTORE t s new", "SINTERSTORE new s other", "SINTERSTORE text s t"),
    "SINTERSTORE s s t",
    *("SUNIONSTORE new s t", "SUNIONSTORE text s", "SUNIONSTORE s new", "SUNIONSTORE s s"),
    *("SDIFFSTORE new s t", "SDIFFSTORE s s s", "SDIFFSTORE new new s", "SDIFFSTORE new s text"),
]  # fmt: skip


@pytest.mark.oracle
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_announced_as_redis_does(loud_oracle: RedisServer, change: str) -> None:
    commands = [*START, change]
    assert Listening().announce(commands) == published(loud_oracle, commands)


@pytest.fixture
def peer() -> Peer:
    peer = InProcess().peer()
    peer.command("SADD", "s", *range(100), "x")
    peer.command("HSET", "h", *(text for number in range(1000) for text in (number, -number)))
    return peer


def words(reply: bytes) -> list[bytes]:
    """Of an array of bulk strings."""
    return reply.split(b"\r\n")[2:-1:2]


@pytest.mark.parametrize("command", [("SRANDMEMBER", "s"), ("HRANDFIELD", "h")])
def test_random_choices(peer: Peer, command: tuple[str, str]) -> None:
    everything = words(peer.command(*command, 5000))
    assert len(set(everything)) == len(everything) == (101 if command[1] == "s" else 1000)
    for count in (1, 5, len(everything) - 1):
        chosen = words(peer.command(*command, count))
        assert len(set(chosen)) == len(chosen) == count
        assert set(chosen) <= set(everything)
    assert len(words(peer.command(*command, -3000))) == 3000
    assert set(words(peer.command(*command, -30_000))) == set(everything)
    assert len({peer.command(*command) for _ in range(100)}) > 20


def test_values_go_with_their_fields(peer: Peer) -> None:
    for count in (7, -7):
        chosen = words(peer.command("HRANDFIELD", "h", count, "WITHVALUES"))
        assert len(chosen) == 14
        assert [-int(field) for field in chosen[::2]] == [int(value) for value in chosen[1::2]]


def test_popped_members_are_gone(peer: Peer) -> None:
    popped = words(peer.command("SPOP", "s", 30))
    popped += [peer.command("SPOP", "s").split(b"\r\n")[1] for _ in range(30)]
    left = words(peer.command("SMEMBERS", "s"))
    assert len(set(popped)) == 60
    assert set(popped).isdisjoint(left)
    assert len(left) == 41


@pytest.mark.parametrize("command", [("SSCAN", "s"), ("HSCAN", "h")])
def test_a_scan_in_parts(peer: Peer, command: tuple[str, str]) -> None:
    seen: list[bytes] = []
    cursor, calls = b"0", 0
    while calls == 0 or cursor != b"0":
        lines = peer.command(*command, cursor, "COUNT", 10).split(b"\r\n")
        cursor, calls = lines[2], calls + 1
        seen += lines[5:-1:2]
    if command[0] == "HSCAN":
        assert [-int(field) for field in seen[::2]] == [int(value) for value in seen[1::2]]
        seen = seen[::2]
    assert len(seen) == len(set(seen)) == (101 if command[1] == "s" else 1000)
    assert calls == -(-len(seen) // 10)


def test_a_scan_of_names_alone(peer: Peer) -> None:
    """As in Redis 7.4."""
    with_values = peer.command("HSCAN", "h", 0, "COUNT", 50).split(b"\r\n")
    names = peer.command("HSCAN", "h", 0, "NOVALUES", "COUNT", 50).split(b"\r\n")
    assert names[:3] == with_values[:3]
    assert names[5:-1:2] == with_values[5:-1:4]
    assert peer.command("HSCAN", "h", 0, "NOVALUES", "MATCH", "17", "COUNT", 1000).endswith(
        b"*1\r\n$2\r\n17\r\n"
    )
    for command in (("SSCAN", "s", 0), ("SCAN", 0)):
        assert peer.command(*command, "NOVALUES") == b"-ERR syntax error\r\n"
