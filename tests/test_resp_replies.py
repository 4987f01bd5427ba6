"""Replies: every type in both protocols, read back by a parser that is not ours."""

import math
import random
import struct
from collections.abc import Callable
from typing import Any

import hiredis
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import CommandError
from holdfast.resp import (
    NULL_ARRAY,
    OK,
    PONG,
    QUEUED,
    BigNumber,
    HumanFloat,
    Map,
    Push,
    Reply,
    SetReply,
    Several,
    Simple,
    Verbatim,
    encode,
    encode2,
    encode3,
)
from holdfast.resp.replies import bulks_in_python
from tests.harness import RawClient, RedisServer

WIRE: list[tuple[Reply, bytes, bytes]] = [
    (b"", b"$0\r\n\r\n", b"$0\r\n\r\n"),
    (b"a\r\nb", b"$4\r\na\r\nb\r\n", b"$4\r\na\r\nb\r\n"),
    (b"x" * 2000, b"$2000\r\n" + b"x" * 2000 + b"\r\n", b"$2000\r\n" + b"x" * 2000 + b"\r\n"),
    (0, b":0\r\n", b":0\r\n"),
    (-(2**63), b":-9223372036854775808\r\n", b":-9223372036854775808\r\n"),
    (True, b":1\r\n", b"#t\r\n"),
    (False, b":0\r\n", b"#f\r\n"),
    (None, b"$-1\r\n", b"_\r\n"),
    (NULL_ARRAY, b"*-1\r\n", b"_\r\n"),
    (OK, b"+OK\r\n", b"+OK\r\n"),
    (QUEUED, b"+QUEUED\r\n", b"+QUEUED\r\n"),
    (PONG, b"+PONG\r\n", b"+PONG\r\n"),
    (1.0, b"$1\r\n1\r\n", b",1\r\n"),
    (-0.0, b"$2\r\n-0\r\n", b",-0\r\n"),
    (0.1, b"$19\r\n0.10000000000000001\r\n", b",0.10000000000000001\r\n"),
    (1e300, b"$23\r\n1.0000000000000001e+300\r\n", b",1.0000000000000001e+300\r\n"),
    (math.inf, b"$3\r\ninf\r\n", b",inf\r\n"),
    (-math.inf, b"$4\r\n-inf\r\n", b",-inf\r\n"),
    (math.nan, b"$3\r\nnan\r\n", b",nan\r\n"),
    (CommandError("ERR no"), b"-ERR no\r\n", b"-ERR no\r\n"),
    (CommandError(b"ERR a\r\nb\xff"), b"-ERR a  b\xff\r\n", b"-ERR a  b\xff\r\n"),
    ([], b"*0\r\n", b"*0\r\n"),
    (
        [1, [None, b"a"]],
        b"*2\r\n:1\r\n*2\r\n$-1\r\n$1\r\na\r\n",
        b"*2\r\n:1\r\n*2\r\n_\r\n$1\r\na\r\n",
    ),
    ((), b"*0\r\n", b"*0\r\n"),
    ((b"",), b"*1\r\n$0\r\n\r\n", b"*1\r\n$0\r\n\r\n"),
    ((b"a", b"b"), b"*2\r\n$1\r\na\r\n$1\r\nb\r\n", b"*2\r\n$1\r\na\r\n$1\r\nb\r\n"),
    ((b"a", b"bb"), b"*2\r\n$1\r\na\r\n$2\r\nbb\r\n", b"*2\r\n$1\r\na\r\n$2\r\nbb\r\n"),
    ({}, b"*0\r\n", b"%0\r\n"),
    (
        {b"a": 1, b"b": None},
        b"*4\r\n$1\r\na\r\n:1\r\n$1\r\nb\r\n$-1\r\n",
        b"%2\r\n$1\r\na\r\n:1\r\n$1\r\nb\r\n_\r\n",
    ),
    (SetReply([b"a", True]), b"*2\r\n$1\r\na\r\n:1\r\n", b"~2\r\n$1\r\na\r\n#t\r\n"),
    (Several([]), b"", b""),
    (Several([Push([1]), 2]), b"*1\r\n:1\r\n:2\r\n", b">1\r\n:1\r\n:2\r\n"),
    ([Several([1, 2]), 3], b"*2\r\n:1\r\n:2\r\n:3\r\n", b"*2\r\n:1\r\n:2\r\n:3\r\n"),
    (Push([b"message", 1]), b"*2\r\n$7\r\nmessage\r\n:1\r\n", b">2\r\n$7\r\nmessage\r\n:1\r\n"),
    (Verbatim(b"hi"), b"$2\r\nhi\r\n", b"=6\r\ntxt:hi\r\n"),
    (Verbatim(b"# hi", b"mkd"), b"$4\r\n# hi\r\n", b"=8\r\nmkd:# hi\r\n"),
    (
        BigNumber(b"%d" % 2**70),
        b"$22\r\n1180591620717411303424\r\n",
        b"(1180591620717411303424\r\n",
    ),
    (HumanFloat(100.0), b"$3\r\n100\r\n", b",100\r\n"),
    (
        HumanFloat(13.361389338970184),
        b"$20\r\n13.36138933897018433\r\n",
        b",13.36138933897018433\r\n",
    ),
]


@pytest.mark.parametrize(("reply", "resp2", "resp3"), WIRE, ids=lambda value: repr(value)[:30])
def test_each_type_in_both_protocols(reply: Reply, resp2: bytes, resp3: bytes) -> None:
    assert encode(reply, resp3=False) == encode2(reply) == resp2
    assert encode(reply, resp3=True) == encode3(reply) == resp3
    # Inside an array as well.
    assert encode2([reply, reply]) == b"*2\r\n" + resp2 * 2
    assert encode3([reply, reply]) == b"*2\r\n" + resp3 * 2


def test_objects_that_are_no_replies_are_refused() -> None:
    for reply in ("text", bytearray(b"a"), object()):
        with pytest.raises(KeyError):
            encode2(reply)  # type: ignore[arg-type]


# ---------------------------------------------------------------- read back

LEAF = st.one_of(
    *(st.binary(), st.integers(-(2**63), 2**63 - 1), st.booleans(), st.none()),
    *(st.just(NULL_ARRAY), st.floats(allow_nan=False)),
    st.integers().map(lambda number: BigNumber(b"%d" % number)),
    *(st.binary().map(Verbatim), st.lists(st.binary(), max_size=5).map(tuple)),
    st.from_regex(rb"[A-Z]{1,9}", fullmatch=True).map(Simple),
    st.from_regex(r"[A-Z]{1,9} [^\r\n\0]*", fullmatch=True).map(CommandError),
)


def with_arrays(replies: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = st.lists(replies, max_size=5)
    maps = st.dictionaries(st.binary(), replies, max_size=5)
    odd_keys = st.integers(-9, 9) | st.binary()  # scripts can send these, and hiredis can read them
    odd_maps = st.dictionaries(odd_keys, replies, max_size=5)
    return st.one_of(
        lists,
        lists.map(SetReply),
        lists.map(Push),
        maps,
        odd_maps.map(lambda pairs: Map([item for pair in pairs.items() for item in pair])),
    )


REPLY = st.recursive(LEAF, with_arrays, max_leaves=30)


def read_back(reply: Reply, resp3: bool) -> object:
    """The reply as a client sees it."""
    match reply:
        case CommandError():
            return reply.message.decode()
        case dict() if not resp3:
            return [read_back(item, resp3) for pair in reply.items() for item in pair]
        case dict():
            return {key: read_back(value, resp3) for key, value in reply.items()}
        case Map() if resp3:
            items = [read_back(item, resp3) for item in reply]
            return dict(zip(items[::2], items[1::2], strict=True))
        case list() | tuple():
            return [read_back(item, resp3) for item in reply]
        case float() if not resp3:
            return b"%.17g" % reply
        case bool() if not resp3:
            return int(reply)
        case bytes():
            return bytes(reply)
        case int() | float():
            return reply
        case _:
            return None


@settings(max_examples=300)
@given(REPLY)
@pytest.mark.parametrize(
    ("encoder", "resp3"), [(encode2, False), (encode3, True)], ids=["resp2", "resp3"]
)
def test_hiredis_reads_the_encoded_values(
    encoder: Callable[[Reply], bytes], resp3: bool, reply: Reply
) -> None:
    reader = hiredis.Reader(replyError=str)  # type: ignore[arg-type]  # errors as text compare
    reader.feed(encoder(reply) + b"+end\r\n")
    assert reader.gets() == read_back(reply, resp3)
    assert reader.gets() == b"end"


# ---------------------------------------------------------------- redis-server


def any_bits(bits: int) -> float:
    number: float = struct.unpack("<d", struct.pack("<Q", bits))[0]
    return number


DOUBLE = st.one_of(
    st.floats(allow_nan=False),
    st.integers(0, 2**64 - 1).map(any_bits).filter(lambda number: not math.isnan(number)),
    st.decimals(-1000, 1000, places=3).map(float),
    st.integers(-(10**18), 10**18).map(float),
).filter(lambda number: number != 0 or math.copysign(1, number) > 0)
# Not -0: small sorted sets of redis-server forget its sign.


@settings(max_examples=50)
@given(st.lists(DOUBLE, min_size=1, max_size=50))
def test_doubles_look_as_in_redis_server(oracle: RedisServer, numbers: list[float]) -> None:
    with RawClient.connect(oracle.port) as client:
        for protocol, encoder in ((2, encode2), (3, encode3)):
            client.command("HELLO", protocol)
            client.command("DEL", "doubles")
            for number in numbers:
                client.command("ZADD", "doubles", repr(number), repr(number))
                assert client.command("ZSCORE", "doubles", repr(number)) == encoder(number)


@pytest.mark.parametrize(
    "number", [-1, 0, 999, 1000, 1023, 1024, 1999, 10_000, 700_007, 999_999, 1_000_000, 2**63 - 1]
)
def test_integers_that_are_put_together_look_like_others(number: int) -> None:
    assert encode2(number) == encode3(number) == f":{number}\r\n".encode()


class Kind(bytes):
    """Replies have kinds of bytes that are written otherwise."""


@pytest.mark.parametrize("seed", range(20))
def test_both_write_texts_alike(seed: int) -> None:
    in_c: Any = pytest.importorskip("holdfast.resp._bulks")
    rng = random.Random(seed)
    lengths = [0, 1, 9, 10, 11, 99, 100, 1023, 1024, 100_000]
    count = rng.choice([0, 1, 9, 10, 11, 15, 16, 100])
    texts: list[Any] = [rng.randbytes(rng.choice(lengths)) for _ in range(count)]
    expected = bulks_in_python(texts)
    assert expected is not None
    assert in_c.bulks(texts) == in_c.bulks(tuple(texts)) == in_c.bulks(SetReply(texts)) == expected
    texts.insert(rng.randint(0, count), rng.choice([None, 1, "a", Kind(b"a"), [b"a"], bytearray()]))
    assert bulks_in_python(texts) is in_c.bulks(texts) is None


def test_texts_come_in_a_tuple_or_a_list() -> None:
    in_c: Any = pytest.importorskip("holdfast.resp._bulks")
    for texts in (None, b"ab", {b"a": b"b"}, iter([b"a"])):
        with pytest.raises(TypeError):
            in_c.bulks(texts)


def test_one_text_of_another_kind_changes_only_its_own_bytes() -> None:
    texts: list[Any] = [b"a", Simple(b"b"), None, b"c"]
    assert encode2(texts) == b"*4\r\n$1\r\na\r\n+b\r\n$-1\r\n$1\r\nc\r\n"
    assert encode2(SetReply([b"a", b"b", b"c"])) == b"*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n"
    assert encode2((b"a", Kind(b"b"))) == b"*2\r\n$1\r\na\r\n$1\r\nb\r\n"
