"""The events of string commands; a refused command changes nothing. tests/wire compares the
replies."""

import pytest

from holdfast.errors import NOT_AN_INTEGER
from tests.commands.listening import Listening, published
from tests.harness import RedisServer
from tests.harness.in_process import InProcess

START = ["SET s v", "SET n 5", "RPUSH l a b", "SET t v EXAT 33000000000"]
CHANGES = [
    *("SET new v", "SET s v", "SET l v", "SET s v EX 10", "SET t v", "SET t v KEEPTTL"),
    *("SET s v NX", "SET s v XX", "SET new v XX", "SET s v GET", "SET new v GET EX 5"),
    *("SET s v PXAT 1", "SETNX s v", "SETNX new v", "SETEX s 10 v", "PSETEX new 1000 v"),
    *("GETSET s v", "GETSET new v", "GETDEL s", "GETDEL new", "GETEX s", "GETEX t PERSIST"),
    *("GETEX s PERSIST", "GETEX s EX 10", "GETEX s EXAT 1", "GETEX new EX 10", "MSET s 1 new 2"),
    *("MSETNX new 1 new2 2", "MSETNX new 1 s 2", "APPEND s x", "APPEND new x", "APPEND s ."),
    *("SETRANGE s 1 x", "SETRANGE new 1 x", "INCR n", "DECR n", "INCRBY n 5", "DECRBY new 5"),
    *(
        "INCRBYFLOAT n 1.5",
        "INCRBYFLOAT new 1",
        "INCR s",
        "GET s",
        "GET new",
        "GET l",
        "MGET s new",
    ),
    *("STRLEN new", "GETRANGE new 0 1", "LCS s new", "SET l v GET", "MGET new new2"),
]


@pytest.mark.oracle
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_announced_as_redis_does(loud_oracle: RedisServer, change: str) -> None:
    commands = [*START, change]
    assert Listening().announce(commands) == published(loud_oracle, commands)


@pytest.mark.parametrize(
    "refused",
    [
        *("SET s v EX 0", "SET s v NX XX", "SET l v GET", "SET s v EX 10 NOPE", "GETSET l v"),
        *("MSET s 1 n", "MSETNX new 1 s", "APPEND l x", "SETRANGE l 0 x", "SETRANGE s -1 x"),
        *("SETRANGE s 536870912 x", "INCR s", "INCR l", "INCRBY n 9223372036854775807"),
        *("INCRBYFLOAT s 1", "INCRBYFLOAT n inf", "GETEX s EX 0", "GETDEL l", "SETEX s 0 v"),
    ],
)
def test_a_refused_command_changes_nothing(refused: str) -> None:
    setting = InProcess()
    peer = setting.peer()
    for command in START:
        peer.command(*command.split())
    dirty = setting.engine.keyspace.dirty
    peer.send(*refused.split())
    assert setting.engine.keyspace.ops == []
    assert setting.engine.keyspace.dirty == dirty
    assert peer.replies()[0].startswith(b"-")


def test_a_constant_error_does_not_collect_tracebacks() -> None:
    """Each would keep the frames, and so the arguments, of the command that raised it."""
    peer = InProcess().peer()
    peer.command("SET", "s", "v")
    peer.command("INCR", "s")
    peer.transaction(("INCR", "s"))
    assert NOT_AN_INTEGER.__traceback__ is None


def test_changing_a_string_keeps_its_expiry_until_it_comes() -> None:
    setting = InProcess()
    peer = setting.peer()
    peer.command("SET", "k", "1", "PX", 1000)
    for change in (
        ("INCR", "k"),
        ("APPEND", "k", "0"),
        ("SETRANGE", "k", 0, "3"),
        ("INCRBYFLOAT", "k", 1),
    ):
        peer.command(*change)
    setting.clock.advance(0.999)
    assert peer.command("GET", "k") == b"$2\r\n31\r\n"
    assert peer.command("PTTL", "k") == b":1\r\n"
    setting.clock.advance(0.001)
    assert peer.command("GET", "k") == b"$-1\r\n"
