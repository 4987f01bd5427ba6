"""RawClient on canned bytes, and on everything a real server can be made to say."""

import socket
from collections.abc import Iterator

import pytest

from tests.harness import RawClient, RedisServer, encode_command

REPLIES = {
    "simple string": b"+OK\r\n",
    "error": b"-ERR no\r\n",
    "integer": b":-12\r\n",
    "bulk string": b"$5\r\na\r\nbc\r\n",
    "empty bulk string": b"$0\r\n\r\n",
    "null bulk string": b"$-1\r\n",
    "null array": b"*-1\r\n",
    "empty array": b"*0\r\n",
    "nested arrays": b"*3\r\n:1\r\n*2\r\n$1\r\na\r\n*0\r\n$-1\r\n",
    "null": b"_\r\n",
    "double": b",-inf\r\n",
    "boolean": b"#t\r\n",
    "big number": b"(3492890328409238509324850943850943825024385\r\n",
    "blob error": b"!6\r\nERR no\r\n",
    "verbatim string": b"=8\r\ntxt:a\r\nb\r\n",
    "map": b"%2\r\n+a\r\n:1\r\n+b\r\n*1\r\n:2\r\n",
    "set": b"~2\r\n+a\r\n+b\r\n",
    "push": b">2\r\n+message\r\n+b\r\n",
    "attribute": b"|1\r\n+ttl\r\n:9\r\n*1\r\n+a\r\n",
    "attribute inside": b"*2\r\n|1\r\n+ttl\r\n:9\r\n+a\r\n+b\r\n",
}


@pytest.fixture
def far_end() -> Iterator[tuple[RawClient, socket.socket]]:
    ours, theirs = socket.socketpair()
    # One byte at a time: a reply may be split anywhere.
    with RawClient(ours, chunk=1) as client, theirs:
        yield client, theirs


@pytest.mark.parametrize("reply", REPLIES.values(), ids=REPLIES.keys())
def test_reads_exactly_one_reply(far_end: tuple[RawClient, socket.socket], reply: bytes) -> None:
    client, theirs = far_end
    theirs.sendall(reply + b"+next\r\n")
    assert client.read_reply() == reply
    assert client.read_reply() == b"+next\r\n"


def test_reads_many_replies_that_came_at_once() -> None:
    ours, theirs = socket.socketpair()
    with RawClient(ours) as client, theirs:
        theirs.sendall(b"".join(REPLIES.values()))
        assert client.read_replies(len(REPLIES)) == list(REPLIES.values())
        assert client.is_quiet()


@pytest.mark.parametrize("garbage", [b"HTTP/1.1 200 OK\r\n", b"\r\n", b"?1\r\n"])
def test_says_when_something_is_not_a_reply(
    far_end: tuple[RawClient, socket.socket], garbage: bytes
) -> None:
    client, theirs = far_end
    theirs.sendall(garbage)
    with pytest.raises(AssertionError, match="not a reply"):
        client.read_reply()


def test_says_what_came_before_the_connection_closed(
    far_end: tuple[RawClient, socket.socket],
) -> None:
    client, theirs = far_end
    theirs.sendall(b"$5\r\nab")
    theirs.close()
    with pytest.raises(AssertionError, match="closed; unread: b'ab'"):
        client.read_reply()


def test_says_when_no_answer_comes() -> None:
    ours, theirs = socket.socketpair()
    with RawClient(ours, timeout_s=0.01) as client, theirs:
        theirs.sendall(b"+O")
        with pytest.raises(AssertionError, match=r"no answer within 0\.01 s; unread: b'\+O'"):
            client.read_reply()
        theirs.sendall(b"K\r\n")
        assert client.read_reply() == b"+OK\r\n"


def test_reads_raw_bytes_and_the_rest(far_end: tuple[RawClient, socket.socket]) -> None:
    client, theirs = far_end
    theirs.sendall(b"abc+OK\r\nrest")
    theirs.close()
    assert client.read_raw(3) == b"abc"
    assert not client.is_quiet()
    assert client.read_reply() == b"+OK\r\n"
    assert client.read_until_closed() == b"rest"


def test_encodes_a_command() -> None:
    assert encode_command("SET", b"\xff", 12) == b"*3\r\n$3\r\nSET\r\n$1\r\n\xff\r\n$2\r\n12\r\n"
    assert encode_command("é") == b"*1\r\n$2\r\n\xc3\xa9\r\n"


# The replies of DEBUG PROTOCOL: (its argument, first byte in RESP2, first byte in RESP3).
PROTOCOL = [
    ("string", b"$", b"$"),
    ("integer", b":", b":"),
    ("double", b"$", b","),
    ("null", b"$", b"_"),
    ("array", b"*", b"*"),
    ("set", b"*", b"~"),
    ("map", b"*", b"%"),
    ("verbatim", b"$", b"="),
    ("true", b":", b"#"),
    ("false", b":", b"#"),
    ("bignum", b"$", b"("),
]


@pytest.mark.parametrize(("what", "resp2", "resp3"), PROTOCOL)
def test_reads_what_a_real_server_sends(
    oracle: RedisServer, what: str, resp2: bytes, resp3: bytes
) -> None:
    with RawClient.connect(oracle.port) as client:
        for first_byte in (resp2, resp3):
            assert client.command("DEBUG", "PROTOCOL", what)[:1] == first_byte
            assert client.command("PING") == b"+PONG\r\n"
            assert client.command("HELLO", 3)[:1] == b"%"


@pytest.mark.parametrize(("what", "first_byte"), [("attrib", b"|"), ("push", b">")])
def test_reads_what_comes_beside_a_reply(oracle: RedisServer, what: str, first_byte: bytes) -> None:
    with RawClient.connect(oracle.port) as client:
        client.command("HELLO", 3)
        reply = client.command("DEBUG", "PROTOCOL", what)
        assert reply[:1] == first_byte
        if what == "push":
            reply = client.read_reply()
        assert b"Some real reply following the" in reply
        assert client.command("PING") == b"+PONG\r\n"
