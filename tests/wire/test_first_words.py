"""The smallest conversation, byte for byte as with redis-server."""

import pytest

from tests.harness import Pair, encode_command


def test_ping_echo_set_get(pair: Pair) -> None:
    assert pair.same("PING") == b"+PONG\r\n"
    pair.same("ECHO", b"\x00\xff\r\n")
    pair.same("SET", "k", "v")
    assert pair.same("GET", "k") == b"$1\r\nv\r\n"
    pair.same("GET", "missing")


def test_replies_come_in_the_order_of_a_pipeline(pair: Pair) -> None:
    commands = [("SET", "n", "1"), ("INCR", "n"), ("LPUSH", "n", "x"), ("GET", "n"), ("DEL", "n")]
    pair.send(b"".join(encode_command(*command) for command in commands))
    for command in commands:
        pair.same_reply(command)


@pytest.mark.parametrize(
    "args", [("NOSUCH", "a", "b"), ("GET",), ("GET", "a", "b"), ("SET", "k", "v", "NOPE")]
)
def test_mistakes_get_the_same_words(pair: Pair, args: tuple[str, ...]) -> None:
    assert pair.same(*args)[:1] == b"-"
    assert pair.same("PING") == b"+PONG\r\n"


def test_inline_commands(pair: Pair) -> None:
    pair.send(b'SET k "a b"\r\nGET k\r\n')
    assert pair.same_reply() == b"+OK\r\n"
    assert pair.same_reply() == b"$3\r\na b\r\n"
