"""The events of commands on keys, and their replies about time, which stands still here. tests/wire
compares the other replies."""

import pytest

from tests.commands.listening import Listening, published
from tests.harness import RedisServer
from tests.harness.in_process import InProcess

START = ["SET s v", "RPUSH l a b", "SET t v EXAT 33000000000"]
CHANGES = [
    *("DEL s new l", "UNLINK s s", "EXISTS s new", "TYPE new", "TOUCH s new", "TTL new", "PTTL s"),
    *("RENAME s new", "RENAME s l", "RENAME s s", "RENAME new s", "RENAME t s", "RENAMENX s new"),
    *(
        "RENAMENX s l",
        "COPY s new",
        "COPY s l",
        "COPY s l REPLACE",
        "COPY l new DB 3",
        "COPY new s",
    ),
    *("MOVE s 2", "MOVE new 2", "EXPIRE s 10", "EXPIRE s 0", "EXPIRE s -5", "EXPIRE new 5"),
    *("EXPIRE s 10 XX", "EXPIRE t 10 XX", "PEXPIREAT s 1", "EXPIRE t 0 GT", "EXPIRE s 5 GT"),
    *("PERSIST t", "PERSIST s", "PERSIST new", "EXPIRETIME new", "FLUSHDB", "FLUSHALL"),
    *("SWAPDB 0 1", "RANDOMKEY", "KEYS *", "SCAN 0", "OBJECT ENCODING new", "OBJECT FREQ new"),
    *("OBJECT IDLETIME s", "DBSIZE"),
]


@pytest.mark.oracle
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_announced_as_redis_does(loud_oracle: RedisServer, change: str) -> None:
    commands = [*START, change]
    assert Listening().announce(commands) == published(loud_oracle, commands)


def test_looking_at_a_key_is_no_use_of_it() -> None:
    setting = InProcess()
    peer = setting.peer()
    peer.command("SET", "k", "v")
    setting.clock.advance(10)
    for look in ("TTL k", "PTTL k", "TYPE k", "EXISTS k", "OBJECT ENCODING k", "OBJECT IDLETIME k"):
        peer.command(*look.split())
    assert peer.command("OBJECT", "IDLETIME", "k") == b":10\r\n"
    peer.command("TOUCH", "k")
    assert peer.command("OBJECT", "IDLETIME", "k") == b":0\r\n"
    setting.clock.advance(5)
    peer.command("GET", "k")
    assert peer.command("OBJECT", "IDLETIME", "k") == b":0\r\n"


def test_an_expired_key_is_nowhere() -> None:
    setting = InProcess()
    peer = setting.peer()
    peer.command("SET", "k", "v", "PX", 100)
    setting.clock.advance(0.1)
    peer.command("SET", "other", "v")
    assert peer.command("KEYS", "*") == b"*1\r\n$5\r\nother\r\n"
    assert peer.command("SCAN", 0, "COUNT", 1) == b"*2\r\n$1\r\n0\r\n*1\r\n$5\r\nother\r\n"
    assert peer.command("RANDOMKEY") == b"$5\r\nother\r\n"
    assert peer.command("DEL", "k") == b":0\r\n"


def test_scan_passes_over_other_databases_in_few_calls() -> None:
    """All databases share one order of keys; a small one among large ones must not suffer."""
    setting = InProcess()
    peer = setting.peer()
    for index in range(3000):
        peer.send("SET", index, "v")
    peer.replies()
    peer.command("COPY", 0, "a", "DB", 1)
    peer.command("SELECT", 1)
    for index in range(20):
        peer.command("SET", f"b{index}", "v")
    calls, cursor, names = 0, b"0", 0
    while calls == 0 or cursor != b"0":
        lines = peer.command("SCAN", cursor).split(b"\r\n")
        cursor, names, calls = lines[2], names + int(lines[3][1:]), calls + 1
    assert names == 21
    assert calls <= 3 + 3000 // 1000 + 21 // 10


def test_randomkey_reaches_every_key() -> None:
    peer = InProcess().peer()
    for index in range(40):
        peer.command("SET", index, "v")
    assert len({peer.command("RANDOMKEY") for _ in range(2000)}) == 40
