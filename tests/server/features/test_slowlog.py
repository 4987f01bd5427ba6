"""The slow log keeps slow commands, shortened, and no secrets."""

import pytest

from holdfast.server.features.slowlog import SlowLog
from tests.harness.in_process import InProcess


def add(log: SlowLog, *argv: bytes, name: str = "get") -> None:
    log.add(name, list(argv), 1, 2, "a:1", b"me")


def test_newest_first_and_no_more_than_the_limit() -> None:
    log = SlowLog(3)
    for number in range(5):
        add(log, b"GET", b"%d" % number)
    assert [slow.args[1] for slow in log.newest(-1)] == [b"4", b"3", b"2"]
    assert [slow.id for slow in log.newest(2)] == [4, 3]
    log.max_len = 1
    log.trim()
    assert len(log) == 1
    log.clear()
    add(log, b"GET", b"x")
    assert log.newest(-1)[0].id == 5


def test_huge_commands_are_shortened() -> None:
    log = SlowLog(3)
    add(log, b"RPUSH", *(b"%d" % n for n in range(32)))
    assert log.newest(1)[0].args[30:] == (b"29", b"... (2 more arguments)")
    add(log, b"SET", b"k" * 128, b"v" * 129)
    assert log.newest(1)[0].args[1:] == (b"k" * 128, b"v" * 128 + b"... (1 more bytes)")


@pytest.mark.parametrize(
    ("name", "argv"),
    [
        ("config|set", [b"CONFIG", b"SET", b"hz", b"10", b"RequirePass", b"secret"]),
        ("hello", [b"HELLO", b"3", b"auth", b"default", b"secret", b"SETNAME", b"x"]),
        ("hello", [b"HELLO", b"3", b"AUTH"]),
    ],
)
def test_no_passwords(name: str, argv: list[bytes]) -> None:
    log = SlowLog(3)
    add(log, *argv, name=name)
    args = log.newest(1)[0].args
    assert b"secret" not in args
    assert len(args) == len(argv)


def test_the_slow_log_follows_the_configuration() -> None:
    world = InProcess()
    peer = world.peer()
    world.set("slowlog-log-slower-than", 0)
    peer.command("GET", "a")
    assert peer.command("SLOWLOG", "LEN") == b":1\r\n"
    world.set("slowlog-log-slower-than", -1)
    peer.command("GET", "b")
    assert peer.command("SLOWLOG", "LEN") == b":2\r\n"  # with the first LEN
    world.set("slowlog-max-len", 1)
    assert peer.command("SLOWLOG", "LEN") == b":1\r\n"
    world.set("slowlog-log-slower-than", 3_600_000_000)
    peer.command("GET", "c")
    assert b"GET" not in peer.command("SLOWLOG", "GET", 10)[:60]
