"""The reply side of the protocol, without sockets."""

import math
import random
from typing import Any

import pytest

from holdfast.client.errors import ReplyTooLargeError, ServerError
from holdfast.client.protocol import reply_parser
from holdfast.client.protocol.reply_parser import Push, ReplyParser
from holdfast.errors import ProtocolError


def parse(*chunks: bytes) -> list[Any]:
    parser = ReplyParser()
    return [reply for chunk in chunks for reply in parser.feed(chunk)]


def shown(values: list[Any]) -> list[Any]:
    """A comparable form: errors and pushes become their type and their content."""

    def show(value: Any) -> Any:
        if isinstance(value, ServerError):
            return ("error", value.message)
        if isinstance(value, list):
            return (type(value).__name__, [show(item) for item in value])
        if isinstance(value, dict):
            return {key: show(item) for key, item in value.items()}
        return (type(value).__name__, "nan" if value != value else value)

    return [show(value) for value in values]


EXAMPLES: list[tuple[bytes, Any]] = [
    (b"+OK\r\n", b"OK"),
    (b":-7\r\n", -7),
    (b"$5\r\nhe\r\no\r\n", b"he\r\no"),
    (b"$0\r\n\r\n", b""),
    (b"$-1\r\n", None),
    (b"*-1\r\n", None),
    (b"_\r\n", None),
    (b"#t\r\n", True),
    (b"#f\r\n", False),
    (b",1.5\r\n", 1.5),
    (b",-inf\r\n", -math.inf),
    (b"(123456789012345678901234567890\r\n", 123456789012345678901234567890),
    (b"=6\r\ntxt:ab\r\n", b"ab"),
    (b"*0\r\n", []),
    (b"*2\r\n:1\r\n*2\r\n$1\r\na\r\n_\r\n", [1, [b"a", None]]),
    (b"~2\r\n:1\r\n:2\r\n", [1, 2]),
    (b"%2\r\n+a\r\n:1\r\n+b\r\n%1\r\n+c\r\n*1\r\n:2\r\n", {b"a": 1, b"b": {b"c": [2]}}),
    (b"%1\r\n*1\r\n:1\r\n:2\r\n", {(1,): 2}),
    (b"|1\r\n+ttl\r\n:5\r\n$1\r\nv\r\n", b"v"),
    (b"*2\r\n|1\r\n+a\r\n*1\r\n:9\r\n:1\r\n:2\r\n", [1, 2]),
    (b">2\r\n+message\r\n+hi\r\n", Push([b"message", b"hi"])),
    (b"*1\r\n" * 20 + b":1\r\n", eval("[" * 20 + "1" + "]" * 20)),
]


@pytest.mark.parametrize(("wire", "value"), EXAMPLES, ids=[str(wire[:20]) for wire, _ in EXAMPLES])
def test_a_reply_split_at_every_byte_is_the_same_reply(wire: bytes, value: Any) -> None:
    expected = shown([value, b"next"])
    wire += b"+next\r\n"
    for cut in range(1, len(wire)):
        assert shown(parse(wire[:cut], wire[cut:])) == expected, cut
    assert shown(parse(*(wire[n : n + 1] for n in range(len(wire))))) == expected


def test_errors_are_objects_wherever_they_are() -> None:
    wire = b"-ERR one\r\n*2\r\n-WRONGTYPE two\r\n:1\r\n!7\r\nERR a b\r\n"
    first, (second, one), third = parse(wire)
    assert isinstance(first, ServerError)
    assert (first.code, first.message) == (b"ERR", b"ERR one")
    assert isinstance(second, ServerError)
    assert (second.code, one) == (b"WRONGTYPE", 1)
    assert third.message == b"ERR a b"


def test_a_push_between_replies_is_told_apart() -> None:
    out = parse(b":1\r\n>2\r\n+invalidate\r\n*1\r\n+k\r\n:2\r\n")
    assert out == [1, [b"invalidate", [b"k"]], 2]
    assert [type(reply) is Push for reply in out] == [False, True, False]


def test_an_attribute_binds_to_the_next_value_only() -> None:
    assert parse(b"|1\r\n+a\r\n+b\r\n", b":1\r\n:2\r\n") == [1, 2]


def test_quick_reading_resumes_after_something_rare() -> None:
    parser = ReplyParser()
    assert parser.feed(b"%1\r\n+a\r\n:1\r\n:2\r\n") == [{b"a": 1}, 2]
    assert parser._exact is None
    assert parser.feed(b"+OK\r\n") == [b"OK"]


def test_a_chunk_may_end_between_two_elements() -> None:
    assert parse(b":0\r\n*3\r\n:1\r\n", b":2\r\n", b":3\r\n:4\r\n") == [0, [1, 2, 3], 4]


def test_a_bulk_string_may_contain_whatever_looks_like_a_reply() -> None:
    text = b"\r\n|1\r\n+a\r\n:1\r\n!3\r\nERR\r\n%1000000\r\n*99999999\r\n"
    wire = b"$%d\r\n%b\r\n" % (len(text), text)
    assert parse(b":1\r\n" + wire + wire + b":2\r\n") == [1, text, text, 2]


def test_a_large_reply_in_many_pieces() -> None:
    text = random.Random(1).randbytes(700_000)
    items = b"".join(b"$%d\r\n%d\r\n" % (len(str(n)), n) for n in range(100_000))
    wire = b":1\r\n$%d\r\n%b\r\n*100000\r\n%b+end\r\n" % (len(text), text, items)
    chunks = [wire[n : n + 65536] for n in range(0, len(wire), 65536)]
    one, bulk, array, end = parse(*chunks)
    assert (one, bulk, end) == (1, text, b"end")
    assert array == [b"%d" % n for n in range(100_000)]


@pytest.mark.parametrize(
    "wire",
    [
        b"$99999999999999999999\r\n",
        b"$4294967296\r\n",
        b"*4294967296\r\n",
        b"+" + b"x" * (reply_parser.MAX_LINE_BYTES + 1) + b"\r\n",
        b"-" + b"x" * (reply_parser.MAX_LINE_BYTES + 1) + b"\r\n",
        b"*2\r\n:1\r\n+" + b"x" * (reply_parser.MAX_LINE_BYTES + 1) + b"\r\n",
        b">%d\r\n" % (reply_parser.MAX_ELEMENTS + 1),
        b">2\r\n+message\r\n$%d\r\n" % (reply_parser.MAX_BULK_BYTES + 1),
        b":1\r\n*100000000000000\r\n",
        b"+" + b"x" * (300 << 10),
        b"*1\r\n" * 5000,
        b"%1\r\n" + b"*1\r\n" * 200,
        b"%2\r\n+a\r\n:1\r\n+a\r\n:2\r\n",
        b"hello\r\n",
        b":12a\r\n",
        b":9223372036854775808\r\n",
        b"$-2\r\n",
        b"!x\r\n",
        b"(1.5\r\n",
        b"!3\r\nERRxx",
        b"*?\r\n",
        b"\r\n",
    ],
    ids=lambda wire: str(wire[:16]),
)
def test_oversize_and_malformed_input_is_a_protocol_error(wire: bytes) -> None:
    with pytest.raises(ProtocolError):
        parse(wire, b"+OK\r\n" * 20)
    with pytest.raises(ProtocolError):
        parse(b":1\r\n" + wire, b"+OK\r\n" * 20)


def test_a_reply_as_large_as_allowed_is_read() -> None:
    line = b"x" * (reply_parser.MAX_LINE_BYTES - 1)
    assert parse(b"+" + line + b"\r\n:1\r\n") == [line, 1]
    text = b"y" * (3 * reply_parser.MAX_LINE_BYTES)  # a bulk string is no line
    wire = b"$%d\r\n%b\r\n" % (len(text), text)
    assert parse(b":1\r\n" + wire + wire + b":2\r\n") == [1, text, text, 2]
    assert parse(*(wire[n : n + 5000] for n in range(0, len(wire), 5000)), b":3\r\n") == [text, 3]


@pytest.mark.parametrize("step", [1000, 4096, 65536])
@pytest.mark.parametrize("start", [b"+", b"-ERR ", b"*3\r\n:1\r\n+", b":1\r\n(", b"%1\r\n+"])
def test_a_line_without_an_end_is_given_up_in_time(start: bytes, step: int) -> None:
    parser = ReplyParser()
    parser.feed(start)
    for fed in range(step, 1 << 20, step):
        try:
            parser.feed(b"1" * step)
        except ProtocolError:
            break
        assert fed <= reply_parser.MAX_LINE_BYTES


ELEMENTS, BYTES = 1000, 300_000
TOO_MANY = ELEMENTS + 1
LONG = b"$%d\r\n%b\r\n" % (BYTES + 1, b"x" * (BYTES + 1))
TOO_LARGE = {
    "array": b"*%d\r\n%b" % (TOO_MANY, b"$100\r\n%b\r\n" % (b"x" * 100) * TOO_MANY),
    "set": b"~%d\r\n%b" % (TOO_MANY, b"*2\r\n:1\r\n$90\r\n%b\r\n" % (b"x" * 90) * TOO_MANY),
    "map": b"%%%d\r\n%b" % (TOO_MANY, b"+key\r\n$100\r\n%b\r\n" % (b"x" * 100) * TOO_MANY),
    "array in a map": b"%%1\r\n+key\r\n*%d\r\n%b" % (TOO_MANY, b":1\r\n" * TOO_MANY),
    "attribute": b"|%d\r\n%b:1\r\n" % (TOO_MANY, b"+a\r\n+b\r\n" * TOO_MANY),
    "string": LONG,
    "verbatim string": b"=" + LONG[1:],
    "error": b"!" + LONG[1:],
    "string in an array": b"*3\r\n:1\r\n%b:2\r\n" % LONG,
    "last string of an array": b"*2\r\n:1\r\n%b" % LONG,
    "two strings": b"*2\r\n" + LONG + LONG,
}


@pytest.mark.parametrize("step", [1000, 4096, 65536])
@pytest.mark.parametrize("name", TOO_LARGE)
def test_a_reply_that_is_too_large_costs_its_neighbours_nothing(name: str, step: int) -> None:
    wire = b"+before\r\n" + TOO_LARGE[name] + b"*2\r\n:1\r\n$1\r\nx\r\n" + b"+after\r\n"
    parser = ReplyParser(ELEMENTS, BYTES)
    got = [reply for n in range(0, len(wire), step) for reply in parser.feed(wire[n : n + step])]
    before, error, *others = got
    assert before == b"before"
    assert isinstance(error, ReplyTooLargeError)
    assert error.may_have_executed
    assert "allows no more" in str(error)
    assert others == [[1, b"x"], b"after"]
    assert parser.is_between_replies


def test_nothing_of_a_reply_that_is_too_large_is_kept() -> None:
    parser = ReplyParser(ELEMENTS, BYTES)
    assert parser.feed(b"*2\r\n+a\r\n$%d\r\n" % (1 << 30)) == []
    assert parser._exact is not None
    for _ in range(100):
        assert parser.feed(b"x" * 65536) == []
        assert not parser._exact._buffer
    assert not parser._exact._open[0].items


@pytest.mark.parametrize("before", [b"", b":1\r\n", b"*2\r\n+a\r\n", b"%1\r\n+a\r\n"])
def test_a_string_that_is_as_large_as_allowed_is_waited_for(before: bytes) -> None:
    parser = ReplyParser()
    parser.feed(before + b"$%d\r\n" % reply_parser.MAX_BULK_BYTES)
    assert parser._exact is not None
    assert not parser._exact._bytes_to_drop


def test_noise_raises_nothing_but_protocol_errors(rng: random.Random) -> None:
    wires = [wire for wire, _ in EXAMPLES]
    for _ in range(3000):
        wire = bytearray(b"".join(rng.choices(wires, k=rng.randint(1, 6))))
        for _ in range(rng.randint(0, 4)):
            at = rng.randrange(len(wire) + 1)
            wire[at : at + rng.randint(0, 2)] = rng.choice([b"", b"\r\n", b"9", rng.randbytes(2)])
        parser = ReplyParser()
        pos = 0
        try:
            while pos < len(wire):
                step = rng.randint(1, 30)
                parser.feed(bytes(wire[pos : pos + step]))
                pos += step
        except ProtocolError:
            pass


def test_both_readers_agree_on_what_is_well_formed(rng: random.Random) -> None:
    def value(depth: int) -> bytes:
        kind = rng.choice("+$:_#,*~-" if depth else "+$:_#,-")
        if kind in "*~":
            items = [value(depth - 1) for _ in range(rng.randint(0, 4))]
            return b"%b%d\r\n%b" % (kind.encode(), len(items), b"".join(items))
        text = rng.randbytes(rng.randint(0, 8))
        return {
            "+": b"+" + text.hex().encode() + b"\r\n",
            "-": b"-ERR " + text.hex().encode() + b"\r\n",
            "$": b"$%d\r\n%b\r\n" % (len(text), text),
            ":": b":%d\r\n" % rng.randint(-(2**63), 2**63 - 1),
            "_": b"_\r\n",
            "#": b"#t\r\n",
            ",": b",%r\r\n" % rng.random(),
        }[kind]

    for _ in range(500):
        wire = b"".join(value(3) for _ in range(rng.randint(1, 8)))
        cuts = sorted(rng.randrange(len(wire)) for _ in range(rng.randint(0, 4)))
        chunks = [wire[a:b] for a, b in zip([0, *cuts], [*cuts, len(wire)], strict=True)]
        exact = shown(reply_parser.ExactReader().feed(wire))
        assert shown(parse(*chunks)) == exact
