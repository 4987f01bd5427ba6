"""Requests: the two readers agree at every split, and with redis-server on every byte."""

import runpy
import socket
import tracemalloc
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast.errors import CommandError
from holdfast.resp import Reply, RequestParser, encode2
from holdfast.resp.requests import MOST_AT_ONCE
from tests.harness import RedisServer, encode_command

MB = 1024 * 1024
ECHO = encode_command("ECHO", "hi")


SOURCE = runpy.run_path(str(Path(__file__).parents[1] / "src/holdfast/resp/requests.py"))


def exact_parser() -> Any:
    """The reader that defines requests, without the quick one. It is always the Python source, even
    if the tested module is compiled."""
    parser = SOURCE["RequestParser"]()
    parser._read_plain = lambda data, commands: data
    return parser


def chunks(stream: bytes, cuts: Iterable[int]) -> list[bytes]:
    edges = [0, *sorted({cut for cut in cuts if 0 < cut < len(stream)}), len(stream)]
    return [stream[a:b] for a, b in pairwise(edges)]


def feed(parser: RequestParser, parts: Iterable[bytes]) -> tuple[list[list[bytes]], str | None]:
    """All commands, and the final error."""
    commands = []
    for part in parts:
        commands += parser.feed(part)
        while parser.held:
            commands += parser.feed(b"")
    assert all(commands), "none is empty"
    return commands, None if parser.error is None else str(parser.error)


def parse(stream: bytes) -> tuple[list[list[bytes]], str | None]:
    """As above; both readers, whole and at every byte, agree on it."""
    result = feed(exact_parser(), [stream])
    assert feed(RequestParser(), [stream]) == result
    singly = [stream[i : i + 1] for i in range(len(stream))]
    assert feed(exact_parser(), singly) == result
    assert feed(RequestParser(), singly) == result
    return result


# ---------------------------------------------------------------- streams

# Few letters, so that chance makes no command that would change the oracle.
WIRE_BYTES = st.lists(st.sampled_from([bytes([b]) for b in b"*$:+-(=~|>%_#,\r\n\0 \"'\\x019afE"]))
# Not st.binary: it prefers constants of the source, such as names of commands.
ANY_BYTES = st.lists(st.integers(0, 255), max_size=20).map(bytes)
ARGUMENT = st.one_of(ANY_BYTES, WIRE_BYTES.map(b"".join), st.just(b"\r\n*1\r\n$"))
COMMAND = st.one_of(
    st.lists(ARGUMENT, min_size=1, max_size=12).map(lambda argv: encode_command(b"foo", *argv)),
    ARGUMENT.map(lambda text: encode_command("ECHO", text)),
)
ODDITY = st.sampled_from(
    [
        *(b"\r\n", b"\n", b" \r\n", b"*0\r\n", b"*-1\r\n", b"*-7\r\n", b"ECHO 'a b'\r\n"),
        *(b"*1\r\n:1\r\n", b"*1\r\n+foo\r\n", b"*1\r\n(12\r\n", b"*1\r\n=8\r\ntxt:fooo\r\n"),
        *(b"*1\r\n$-1\r\n", b"*1\r\n*1\r\n$1\r\nf\r\n", b"~1\r\n$1\r\nf\r\n", b"$1\r\nf\r\n"),
        *(b"|1\r\n$1\r\nf\r\n$1\r\nf\r\n", b">1\r\n$1\r\nf\r\n", b"%1\r\n*0\r\n:1\r\n", b":1\r\n"),
        *(b"*1\r\n$3\r\nfooXY", b"*1\rX$3\rXfooXY", b"*2\r\n$1\r\nfXY+f\r\n", b"*01\r\n", b"*\r\n"),
        *(b"*1\r\n$03\r\nfoo\r\n", b"*999\r\n", b"*3\r\n*999\r\n", b"-\xff\r\n", b",x\r\n"),
    ]
)
PIECE = st.one_of(COMMAND, COMMAND, COMMAND, ODDITY, WIRE_BYTES.map(b"".join))
VALID = st.lists(COMMAND, max_size=6).map(b"".join)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    stream = bytearray(draw(VALID))
    for _ in range(draw(st.integers(1, 3)) if stream else 0):
        at = draw(st.integers(0, len(stream) - 1))
        stream[at : at + draw(st.integers(0, 2))] = draw(WIRE_BYTES.map(b"".join))[:2]
        if not stream:
            break
    return bytes(stream)


STREAM = st.one_of(VALID, mutated(), st.lists(PIECE, max_size=6).map(b"".join))


@settings(max_examples=500)
@given(STREAM)
@example(b"*1\r\n$3\r\nfooXY+foo\r\n" + ECHO)
@example(ECHO + b"~1\r\n$1\r\nf\r\n")
@example(ECHO + b"*2\r\n$1\r\na\r\n")
@example(ECHO + b":1\r\n*2\r\n")
def test_both_readers_agree_whole_and_at_every_byte(stream: bytes) -> None:
    parse(stream)


@settings(max_examples=500)
@given(STREAM, st.lists(st.integers(0, 300), max_size=8))
def test_both_readers_agree_wherever_the_stream_is_cut(stream: bytes, cuts: list[int]) -> None:
    parts = chunks(stream, cuts)
    assert feed(RequestParser(), parts) == feed(exact_parser(), [stream])


@given(st.lists(st.lists(ARGUMENT, min_size=1), max_size=20), st.lists(st.integers(0, 900)))
def test_commands_arrive_as_they_were_sent(commands: list[list[bytes]], cuts: list[int]) -> None:
    stream = b"".join(encode_command(*argv) for argv in commands)
    assert feed(RequestParser(), chunks(stream, cuts)) == (commands, None)


@pytest.mark.source_only
def test_plain_commands_take_the_quick_way(monkeypatch: pytest.MonkeyPatch) -> None:
    parser = RequestParser()
    monkeypatch.setattr(parser, "_parse", None)
    many = encode_command("DEL", *range(20_000))
    for stream in (ECHO, ECHO * 16, encode_command("SET", "k", "a+b==(~|>"), many):
        assert len(parser.feed(stream)) == stream.count(b"\r\n*") + 1


# ---------------------------------------------------------------- redis-server


def reply_to(argv: list[bytes]) -> Reply:
    """The replies of redis-server to the commands of these tests."""
    if argv[0].lower() == b"echo":
        if len(argv) == 2:
            return argv[1]
        return CommandError("ERR wrong number of arguments for 'echo' command")
    args = b""
    for arg in argv[1:]:
        if len(args) >= 128:
            break
        args += b"'%b' " % arg[: 128 - len(args)].split(b"\0")[0]
    name = argv[0][:128].split(b"\0")[0]
    return CommandError(b"ERR unknown command '%b', with args beginning with: %b" % (name, args))


def answer(port: int, stream: bytes) -> bytes:
    """All that redis-server sends for these bytes and the end of the stream."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as sock:
        sock.sendall(stream)
        sock.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: sock.recv(65536), b""))


def expected_answer(stream: bytes) -> bytes:
    commands, error = parse(stream)
    replies = [encode2(reply_to(argv)) for argv in commands]
    if error is not None:
        replies.append(encode2(CommandError(b"ERR " + error.encode("latin-1"))))
    return b"".join(replies)


@settings(max_examples=500)
@given(STREAM)
def test_redis_server_sees_the_same_commands_and_errors(oracle: RedisServer, stream: bytes) -> None:
    assert expected_answer(stream) == answer(oracle.port, stream)


INLINE_TEXT = st.lists(
    st.sampled_from([bytes([b]) for b in b"\"\"''\\\\xnrtba019AFfg \t\v\f\r\x80\xff"]), max_size=30
).map(b"".join)


@settings(max_examples=500)
@given(INLINE_TEXT)
@example(b'f "\\x41\\x4g\\n\\r\\t\\b\\a\\q\\""')
@example(b"f 'a\\'b\\n'")
@example(b"f 'a\\'")
@example(b'f"a"')
@example(b'f "a"f')
@example(b"f\va \v")
@example(b"\xa0f")
@example(b'""')
def test_redis_server_splits_inline_commands_alike(oracle: RedisServer, line: bytes) -> None:
    stream = line + b"\r\n" + ECHO
    assert expected_answer(stream) == answer(oracle.port, stream)


LINE = 64 * 1024
FAULTS = {
    b"*1048577000000\r\n": "invalid multibulk length",
    b"*9223372036854775808\r\n": "invalid multibulk length",
    b"*-9223372036854775809\r\n": "invalid multibulk length",
    b"*-9223372036854775808\r\n": None,
    b"*+1\r\n": "invalid multibulk length",
    b"*-0\r\n": "invalid multibulk length",
    b"*1\n$1\r\n": "invalid multibulk length",
    b"*1\r\n$-1\r\n": "invalid bulk length",
    b"*1\r\n$536870913\r\n": "invalid bulk length",
    b"*1\r\n$536870912\r\n": None,
    b"*1\r\nfoo\r\n": "expected '$', got 'f'",
    b"*1\r\n\xe9\r\n": "expected '$', got '\xe9'",
    b"*1\r\n\r\n\r\n": "expected '$', got '\r'",
    b"*1\r\nf": None,
    b"*1\r\n\0\r\n": None,
    b"a\0b\r\n": None,
    b"a'b\r\n": "unbalanced quotes in request",
    b"a" * LINE: None,
    b"a" * (LINE + 1): "too big inline request",
    b"\0" * (LINE + 1): "too big inline request",
    b"*" + b"1" * LINE: "too big mbulk count string",
    b"*1\r\n$" + b"1" * LINE: "too big bulk count string",
    # More digits than Python makes an integer of.
    b"*" + b"1" * 5000 + b"\r\n": "invalid multibulk length",
    b"*1\r\n$" + b"9" * 5000 + b"\r\nx\r\n": "invalid bulk length",
}


@pytest.mark.parametrize(("stream", "error"), FAULTS.items(), ids=lambda value: repr(value)[:40])
def test_faults(oracle: RedisServer, stream: bytes, error: str | None) -> None:
    full = None if error is None else f"Protocol error: {error}"
    assert feed(exact_parser(), [stream]) == feed(RequestParser(), [stream]) == ([], full)
    # After a command, too; and the commands before a fault are delivered.
    assert feed(RequestParser(), [ECHO + stream]) == ([[b"ECHO", b"hi"]], full)
    wire = b"" if full is None else encode2(CommandError(b"ERR " + full.encode("latin-1")))
    assert answer(oracle.port, stream) == wire


def test_after_a_fault_nothing_is_read() -> None:
    parser = RequestParser()
    assert parser.feed(ECHO + b"*x\r\n" + ECHO) == [[b"ECHO", b"hi"]]
    assert parser.error is not None
    assert parser.feed(ECHO) == []


# ---------------------------------------------------------------- limits


def test_before_authentication_requests_are_small(tmp_path_factory: pytest.TempPathFactory) -> None:
    streams = {
        encode_command("DEL", *range(10)): "Protocol error: unauthenticated multibulk length",
        encode_command("ECHO", b"x" * 16385): "Protocol error: unauthenticated bulk length",
        encode_command("DEL", *range(9)): None,
        encode_command("ECHO", b"x" * 16384): None,
    }
    for stream, error in streams.items():
        assert feed(RequestParser(authenticated=False), [stream])[1] == error
    with RedisServer(tmp_path_factory.mktemp("oracle"), "--requirepass", "secret") as server:
        for stream, error in streams.items():
            reply = f"-ERR {error}" if error else "-NOAUTH Authentication required."
            # It closes with the rest unread, and the reset could overtake the reply.
            sent = stream[:30] if error else stream
            assert answer(server.port, sent) == reply.encode() + b"\r\n"


@pytest.mark.parametrize("long", [["ECHO", *range(20)], ["ECHO", "x" * 20_000]])
def test_a_long_command_waits_for_the_authentication_before_it(long: list[str]) -> None:
    auth, long_argv = encode_command("AUTH", "secret"), [str(arg).encode() for arg in long]
    stream = auth + encode_command(*long) + ECHO

    parser = RequestParser(authenticated=False)
    assert (parser.feed(stream), parser.held) == ([[b"AUTH", b"secret"]], True)
    parser.authenticated = True
    assert (parser.feed(b""), parser.held) == ([long_argv, [b"ECHO", b"hi"]], False)

    parser = RequestParser(authenticated=False)
    parser.feed(stream)
    assert parser.feed(b"") == []
    assert parser.error is not None


def test_limits_can_be_changed_while_a_command_arrives() -> None:
    parser = RequestParser()
    assert parser.feed(b"*3\r\n$1\r\na\r\n") == []
    parser.max_bulk_len = 4
    assert parser.feed(b"$4\r\naaaa\r\n$5\r\n") == []
    assert str(parser.error) == "Protocol error: invalid bulk length"
    parser = RequestParser()
    parser.max_args = 2
    assert parser.feed(encode_command(1, 2) + encode_command(1, 2, 3)) == [[b"1", b"2"]]
    assert str(parser.error) == "Protocol error: invalid multibulk length"


@pytest.mark.parametrize("arg", [b"x" * 100, b"x" * 100_000])
def test_an_incomplete_command_cannot_outgrow_the_buffer_limit(arg: bytes) -> None:
    parser = RequestParser()
    parser.max_buffered = 500_000
    parser.feed(b"*1000000\r\n")
    fed = 0
    while parser.error is None:
        assert parser.feed(b"$%d\r\n%b\r\n" % (len(arg), arg)) == []
        fed += len(arg)
    assert 500_000 < fed <= 500_000 + len(arg)
    assert not parser._buffer
    assert not parser._argv


@pytest.mark.parametrize(
    "stream",
    [
        *(b"*1000000\r\n", b"*1000000000\r\n", b"*1\r\n$500000000\r\n", b"*1\r\n*1000000000\r\n"),
        *(b"~1000000000\r\n", b"|100000000\r\n", b">1000000000\r\n", b"%1000000000\r\n"),
        *(
            b"*9999\r\n" * 10_000,
            b"*9999\r\n$1\r\na\r\n" * 10_000,
            b"*1\r\n~9999\r\n" * 10_000,
            b"*99\r\n" * 50_000,
        ),
    ],
    ids=lambda stream: repr(stream[:30]),
)
def test_announcing_much_reserves_nothing(stream: bytes) -> None:
    parser = RequestParser()
    tracemalloc.start()
    try:
        parser.feed(stream)
        # A line is an object of at least 40 bytes; nothing is reserved for a length that was only
        # announced.
        assert tracemalloc.get_traced_memory()[1] < MB + 32 * len(stream)
    finally:
        tracemalloc.stop()


def test_a_giant_value_costs_as_much_as_it_is_long() -> None:
    value, chunk = b"\r\n*1\r\n" * 6_000_000, 4096  # quadratic, this would copy 150 GB
    stream = encode_command("SET", "k", value) + ECHO
    parts = (stream[i : i + chunk] for i in range(0, len(stream), chunk))
    assert feed(RequestParser(), parts) == ([[b"SET", b"k", value], [b"ECHO", b"hi"]], None)


def test_a_long_pipeline_leaves_nothing_behind() -> None:
    stream = encode_command("SET", "key", "x" * 32) * 20_000
    parser = RequestParser()
    count = 0
    for i in range(0, len(stream), 1000):
        count += len(parser.feed(stream[i : i + 1000]))
        assert len(parser._buffer) < 100
    assert count == 20_000
    assert not parser._buffer


@pytest.mark.parametrize("line", [b"a\n", b"\r\n", b"*0\r\n"])
def test_commands_that_are_read_slowly_are_read_in_pieces(line: bytes) -> None:
    parser = RequestParser()
    count = 3 * MOST_AT_ONCE
    pieces = [parser.feed(line * count + encode_command("PING"))]
    while parser.held:
        pieces.append(parser.feed(b""))
    assert len(pieces) >= 3
    assert all(len(piece) <= MOST_AT_ONCE + 1 for piece in pieces)
    commands = [argv for piece in pieces for argv in piece]
    assert commands == [*[[b"a"]] * (count if line == b"a\n" else 0), [b"PING"]]
