"""DUMP and RESTORE between Holdfast and redis-server: each accepts the dumps of the other, of all
types and forms; and both refuse the same."""

import random
import re
import struct
from collections.abc import Iterable

import pytest

from holdfast.store.change.change_log import ChangeLog
from holdfast.store.rdb import value_codec
from holdfast.store.rdb.crc64 import crc64
from holdfast.store.rdb.packed import packed_listpack
from holdfast.store.rdb.plain import Plain, plain_of
from holdfast.store.values.stream import Stream
from tests.harness import Pair
from tests.wire.same import Line, assert_same

FAR_MS = 33_000_000_000_000


def bulk(reply: bytes) -> bytes:
    assert reply[:1] == b"$", reply
    return reply.partition(b"\r\n")[2][:-2]


def payload(body: bytes, version: int = 10) -> bytes:
    data = body + version.to_bytes(2, "little")
    return data + crc64(data).to_bytes(8, "little")


TEXTS = [b"", b"a", b"abc" * 100, b"\x00\xff\r\n", b"-1", b"12", b"x" * 63, b"y" * 64, b"z" * 5000]
NUMBERS = [
    *(0, 1, 12, 13, 127, 128, -1, -128, -129, 4095, 4096, -4096, -4097, 32767, -32768, 32768),
    *(8388607, -8388608, 8388608, 2**31 - 1, -(2**31), 2**31, 2**63 - 1, -(2**63), 10**19),
]


def some(rng: random.Random, count: int) -> list[bytes]:
    kinds = (
        lambda: rng.randbytes(rng.randrange(40)),
        lambda: rng.choice(TEXTS),
        lambda: b"%d" % rng.choice(NUMBERS),
        lambda: b"%d" % rng.randrange(-(10**6), 10**6),
        lambda: b"compress me " * rng.randrange(30),
    )
    return list(dict.fromkeys(rng.choice(kinds)() for _ in range(count)))


def values(rng: random.Random) -> Iterable[tuple[str, Line]]:
    """Commands that make a value of a type, under the name k."""
    for text in [*TEXTS, *(b"%d" % number for number in NUMBERS), rng.randbytes(20_000)]:
        yield "string", ("SET", "k", text)
    for size in (1, 5, 100, 600, 3000):
        elements = some(rng, size) or [b"one"]
        yield "list", ("RPUSH", "k", *elements)
        yield "set", ("SADD", "k", *elements)
        yield "set", ("SADD", "k", *(rng.randrange(10 ** rng.choice((2, 9))) for _ in range(size)))
        yield "hash", ("HSET", "k", *(part for e in elements for part in (e, rng.choice(TEXTS))))
        scores = [rng.choice((0, 1.5, -3, "inf", "-inf", 1e300, rng.random())) for _ in elements]
        yield (
            "zset",
            ("ZADD", "k", *(p for pair in zip(scores, elements, strict=True) for p in pair)),
        )


SHOW = {
    "string": ["GET k", "OBJECT ENCODING k"],
    "list": ["LRANGE k 0 -1"],
    "set": ["SORT k ALPHA STORE shown", "LRANGE shown 0 -1", "SCARD k"],
    "hash": ["HLEN k"],
    "zset": ["ZRANGE k 0 -1 WITHSCORES"],
    "stream": ["XRANGE k - +", "XINFO GROUPS k"],
}


def move_both_ways(pair: Pair, kind: str) -> None:
    """k is the same on both. Each restores the dump of the other, and shows its value."""
    ours, theirs = (bulk(client.command("DUMP", "k")) for client in (pair.ours, pair.oracle))
    assert pair.oracle.command("RESTORE", "k", 0, ours, "REPLACE") == b"+OK\r\n"
    assert pair.ours.command("RESTORE", "k", 0, theirs, "REPLACE") == b"+OK\r\n"
    assert_same(pair, ["TYPE k", *SHOW[kind]])
    if kind == "stream":
        ours, theirs = (
            client.command("XINFO", "STREAM", "k") for client in (pair.ours, pair.oracle)
        )
        tree = rb"(radix-tree-(?:keys|nodes)\r\n):\d+"  # how many nodes is each server's own
        assert re.sub(tree, rb"\1", ours) == re.sub(tree, rb"\1", theirs)
    if kind == "hash":
        fields = pair.oracle.command("HKEYS", "k")
        names = [bulk(b"$" + name) for name in _bulks(fields)]
        pair.same("HMGET", "k", *names)


def _bulks(reply: bytes) -> list[bytes]:
    """The elements of an array of bulk strings, each with its length before it."""
    found, at = [], reply.index(b"\r\n") + 2
    while at < len(reply):
        end = reply.index(b"\r\n", at)
        stop = end + 2 + int(reply[at + 1 : end]) + 2
        found.append(reply[at + 1 : stop])
        at = stop
    return found


def test_values_of_all_types_and_sizes(pair: Pair, rng: random.Random) -> None:
    for kind, line in values(rng):
        pair.same("DEL", "k")
        assert_same(pair, [line])
        move_both_ways(pair, kind)


def test_a_large_sorted_set_is_dumped_in_the_order_of_redis(pair: Pair) -> None:
    """The dump does not depend on the order in which the members came, nor on the file."""
    pair.same("ZADD", "k", *(word for n in range(500) for word in (n * 31 % 50, f"m{n}")))
    pair.same("DUMP", "k")


@pytest.mark.parametrize("protocol", [2], indirect=True)
def test_forms_that_settings_ask_for(pair: Pair, rng: random.Random) -> None:
    """Quicklists of many nodes, of long plain ones, and strings that are not compressed."""
    settings = {
        "list-max-listpack-size": ["-1", "2"],
        "list-compress-depth": ["0", "1"],
        "rdbcompression": ["no", "yes"],
    }
    before = {name: bulk_setting(pair, name) for name in settings}
    try:
        for index in (0, 1):
            for name, choices in settings.items():
                pair.oracle.command("CONFIG", "SET", name, choices[index])
            for kind, line in values(rng):
                pair.same("DEL", "k")
                assert_same(pair, [line])
                move_both_ways(pair, kind)
            pair.same("DEL", "k")
            pair.same("RPUSH", "k", "a", b"long" * 5000, "b", "c" * 9000)
            move_both_ways(pair, "list")
    finally:
        for name, value in before.items():
            pair.oracle.command("CONFIG", "SET", name, value)


def bulk_setting(pair: Pair, name: str) -> bytes:
    return pair.oracle.command("CONFIG", "GET", name).split(b"\r\n")[4]


def test_streams(pair: Pair, rng: random.Random) -> None:
    lines: list[Line] = []
    for number in range(350):
        names = rng.choice((("a",), ("a", "b"), ("x", "y", "z")))
        fields = [part for name in names for part in (name, rng.choice(TEXTS[1:]))]
        lines.append(("XADD", "k", f"{1000 + number // 3}-{number}", *fields))
    lines += [f"XDEL k {1000 + n // 3}-{n}" for n in rng.sample(range(350), 40)]
    lines += ["XGROUP CREATE k g 0", "XGROUP CREATE k empty $", "XGROUP CREATE k h 1010"]
    assert_same(pair, lines)
    move_both_ways(pair, "stream")
    dumped = bulk(pair.oracle.command("DUMP", "k"))
    for client in (pair.ours, pair.oracle):  # the same times on both: from one of them
        client.command("RESTORE", "k", 0, dumped, "REPLACE")
    for command in ("XREADGROUP GROUP g c1 COUNT 30 STREAMS k >", "XACK k g 1000-0 1001-3"):
        pair.oracle.command(*command.split())
    pair.oracle.command("XGROUP", "CREATECONSUMER", "k", "g", "idle")
    pair.oracle.command("XREADGROUP", "GROUP", "h", "c2", "COUNT", 5, "STREAMS", "k", ">")
    theirs = bulk(pair.oracle.command("DUMP", "k"))
    assert pair.ours.command("RESTORE", "k", 0, theirs, "REPLACE") == b"+OK\r\n"
    back = bulk(pair.ours.command("DUMP", "k"))
    assert pair.oracle.command("RESTORE", "back", 0, back) == b"+OK\r\n"
    for question in (
        ("XPENDING", "{}", "g"),
        ("XPENDING", "{}", "h"),
        ("XPENDING", "{}", "empty"),
        ("XLEN", "{}"),
        ("XRANGE", "{}", "-", "+"),
        ("XINFO", "GROUPS", "{}"),
    ):
        ours = pair.ours.command(*(word.format("k") for word in question))
        assert ours == pair.oracle.command(*(word.format("k") for word in question)), question
        assert ours == pair.oracle.command(*(word.format("back") for word in question)), question


def test_an_empty_stream(pair: Pair) -> None:
    assert_same(pair, ["XGROUP CREATE k g $ MKSTREAM"])
    move_both_ways(pair, "stream")
    assert_same(pair, ["DEL k", "XADD k 5-1 a b", "XDEL k 5-1"])
    move_both_ways(pair, "stream")


# -- dumps of older versions -----------------------------------------------------------------------


def ziplist(elements: list[bytes]) -> bytes:
    """As Redis before 7.0 packed them."""
    body, tail, previous = b"", 10, 0
    for element in elements:
        tail = 10 + len(body)
        entry = bytes([previous]) if previous < 254 else b"\xfe" + struct.pack("<I", previous)
        if element.lstrip(b"-").isdigit() and len(element) < 19:
            number = int(element)
            if 0 <= number <= 12:
                entry += bytes([0xF1 + number])
            else:
                for code, size in ((0xFE, 1), (0xC0, 2), (0xF0, 3), (0xD0, 4), (0xE0, 8)):
                    if -(1 << size * 8 - 1) <= number < 1 << size * 8 - 1:
                        entry += bytes([code]) + number.to_bytes(size, "little", signed=True)
                        break
        elif len(element) < 64:
            entry += bytes([len(element)]) + element
        elif len(element) < 16384:
            entry += struct.pack(">H", 0x4000 | len(element)) + element
        else:
            entry += b"\x80" + struct.pack(">I", len(element)) + element
        body += entry
        previous = len(entry)
    return struct.pack("<IIH", 11 + len(body), tail, len(elements)) + body + b"\xff"


def string(text: bytes) -> bytes:
    return b"\x80" + struct.pack(">I", len(text)) + text


ELEMENTS = [
    b"a",
    b"b" * 70,
    b"0",
    b"12",
    b"13",
    b"-5",
    b"1000",
    b"-70000",
    b"9000000000",
    b"c" * 300,
]
PAIRS = [b"f", b"v", b"g", b"12", b"h" * 100, b"w" * 300]
SCORES = [b"a", b"-1.5", b"b", b"0", b"c", b"7", b"d", b"inf"]
ZIPMAP = b"\x02\x01f\x01\x00v\x02gg\x03\x02vvv??\xff"
OLD = {
    "plain list": b"\x01\x02\x01a\x01b",
    "ziplist": b"\x0a" + string(ziplist(ELEMENTS)),
    "quicklist": b"\x0e\x02" + string(ziplist(ELEMENTS)) + string(ziplist([b"z" * 20_000])),
    "hash": b"\x04\x02\x01f\x01v\x01g\x01w",
    "zipmap": b"\x09" + string(ZIPMAP),
    "hash ziplist": b"\x0d" + string(ziplist(PAIRS)),
    "zset ziplist": b"\x0c" + string(ziplist(SCORES)),
    "zset as text": b"\x03\x03\x01a\x031.5\x01b\xff\x01c\xfe",
    "int8": b"\x00\xc0\x85",
    "int16": b"\x00\xc1\x85\x01",
    "int32": b"\x00\xc2\x85\x01\x02\x80",
    "lzf": b"\x00\xc3\x05\x0a\x00a\xe0\x00\x00",
    "64-bit length": b"\x00\x81" + struct.pack(">Q", 3) + b"abc",
}
BROKEN = {
    "nothing": b"",
    "unknown type": b"\x63abc",
    "module": b"\x07abc",
    "short": b"\x00\x15abc",
    "no length": b"\x00",
    "empty list": b"\x01\x00",
    "empty hash": b"\x04\x00",
    "empty set": b"\x02\x00",
    "empty zset": b"\x05\x00",
    "set twice": b"\x02\x02\x01a\x01a",
    "list too short": b"\x01\x03\x01a",
    "special for a length": b"\x01\xc0\x01",
    "lzf outside": b"\x00\xc3\x02\x03\x20\x05",
}


@pytest.mark.parametrize("form", OLD)
def test_older_forms(pair: Pair, form: str) -> None:
    data = payload(OLD[form], version=6)
    pair.same("RESTORE", "k", 0, data)
    pair.same("TYPE", "k")
    for show in (
        "GET k",
        "LRANGE k 0 -1",
        "ZRANGE k 0 -1 WITHSCORES",
        "HMGET k f g gg " + "h" * 100,
    ):
        pair.same(*show.split())


@pytest.mark.parametrize("ids", ["", "5", "567"])
def test_a_stream_of_redis_6_has_no_counts(pair: Pair, ids: str) -> None:
    """How many entries a group has read follows from its last id, or is unknown."""
    elements: list[int | bytes] = [len(ids), 0, 1, b"f", 0]
    for ms in ids:
        elements += [2, int(ms) - 5, 0, b"v", 4]
    node = b"\x01" + string(struct.pack(">QQ", 5, 0)) + string(packed_listpack(elements))
    groups = b"".join(b"\x01%c%c\0\0\0" % (ord("a") + ms, ms) for ms in range(9))
    data = b"\x0f%b%c\x07\0\x09%b" % (node if ids else b"\0", len(ids), groups)
    assert pair.same("RESTORE", "k", 0, payload(data, version=9)) == b"+OK\r\n"
    if ids:  # an empty one has another number of radix tree nodes
        pair.same("XINFO", "STREAM", "k", "FULL")
    pair.same("XINFO", "GROUPS", "k")


@pytest.mark.parametrize("form", BROKEN)
def test_broken_ones_are_refused(pair: Pair, form: str) -> None:
    pair.same("RESTORE", "k", 0, payload(BROKEN[form]))
    pair.same("EXISTS", "k")


def test_damaged_ones_do_no_harm(pair: Pair, rng: random.Random) -> None:
    """With a checksum that is right: we refuse it or take it, and go on."""
    for kind, line in values(rng):
        pair.same("DEL", "k")
        assert_same(pair, [line])
        body = bytearray(bulk(pair.oracle.command("DUMP", "k"))[:-10])
        for _ in range(5):
            body[rng.randrange(len(body))] = rng.randrange(256)
            reply = pair.ours.command("RESTORE", "k", 0, payload(bytes(body)), "REPLACE")
            assert reply in (b"+OK\r\n", b"-ERR Bad data format\r\n"), (kind, bytes(body))
    assert pair.ours.command("PING") == b"+PONG\r\n"


@pytest.mark.parametrize("number", [-2, -(2**63), 2**63 - 1, -5])
def test_numbers_of_64_bits_in_a_stream(pair: Pair, number: int) -> None:
    """Redis has some without a sign, and shows all with one. The file has only such with one."""
    stream, log = Stream(1), ChangeLog()
    stream.add(5, (b"f", b"v"), log)
    stream.set_meta(5, 0, number, log)
    stream.set_group(b"g", 5, number, log)
    stream.see_consumer(stream.groups[b"g"], b"c", number, log)
    stream.assign(stream.groups[b"g"], 5, (b"c", number, number), log)
    dumped = value_codec.dump(plain_of(stream))
    assert_same(pair, [("RESTORE", "k", 0, dumped), "XINFO STREAM k FULL", "XINFO GROUPS k"])
    assert pair.ours.command("SAVE") == b"+OK\r\n"
    assert bulk(pair.ours.command("DUMP", "k")) == dumped


def test_no_field_expires_at_the_end_of_time(pair: Pair) -> None:
    """Redis 7.4 has 48 bits for it."""
    for expires_at_ms, reply in (2**48 - 1, b"+OK\r\n"), (2**48, b"-ERR Bad data format\r\n"):
        dumped = value_codec.dump(Plain("hash", [(b"f", b"v", expires_at_ms)]))
        assert pair.ours.command("RESTORE", "k", 0, dumped, "REPLACE") == reply
    flat = packed_listpack([b"f", b"v", 2**48])
    body = b"\x19" + bytes(8) + bytes([len(flat)]) + flat
    assert pair.ours.command("RESTORE", "k2", 0, payload(body)) == b"-ERR Bad data format\r\n"


# -- options and errors ----------------------------------------------------------------------------

VALUE = payload(b"\x00\x01v")


def test_options_and_errors(pair: Pair) -> None:
    lines: list[Line] = [
        *("DUMP missing", "DUMP", "DUMP a b", "SET busy x", "RPUSH l a"),
        ("RESTORE", "busy", "0", VALUE),
        ("RESTORE", "busy", "x", VALUE),
        ("RESTORE", "busy", "0", "bad", "NOPE"),
        ("RESTORE", "busy", "0", VALUE, "REPLACE"),
        "GET busy",
        ("RESTORE", "l", "0", VALUE, "replace", "ABSTTL"),
        *("TYPE l", "TTL l"),
        ("RESTORE", "a", "-1", VALUE),
        ("RESTORE", "a", "x", VALUE),
        ("RESTORE", "a", "0", b""),
        ("RESTORE", "a", "0", VALUE[:-1]),
        ("RESTORE", "a", "0", VALUE[:-1] + b"x"),
        ("RESTORE", "a", "0", payload(b"\x00\x01v", 99)),
        ("RESTORE", "a", FAR_MS, VALUE, "ABSTTL"),
        "PEXPIRETIME a",
        ("RESTORE", "b", 1_000_000, VALUE),
        ("RESTORE", "late", 2**63 - 1, VALUE, "ABSTTL"),
        "PEXPIRETIME late",
        ("RESTORE", "late", 2**63 - 1, VALUE, "REPLACE"),  # too late to be a time
        ("RESTORE", "later", 2**63 - 1, VALUE),
        "EXISTS late later",
        ("RESTORE", "past", 1, VALUE, "ABSTTL"),
        "EXISTS past",
        ("RESTORE", "a", 1, VALUE, "ABSTTL", "REPLACE"),
        "EXISTS a",
        ("RESTORE", "i", "0", VALUE, "IDLETIME", "1000"),
        "OBJECT IDLETIME i",
        ("RESTORE", "j", "0", VALUE, "IDLETIME", "-1"),
        ("RESTORE", "j", "0", VALUE, "IDLETIME", "x"),
        ("RESTORE", "j", "0", VALUE, "IDLETIME"),
        ("RESTORE", "j", "0", VALUE, "FREQ", "256"),
        ("RESTORE", "j", "0", VALUE, "FREQ", "-1"),
        ("RESTORE", "j", "0", VALUE, "FREQ", "x"),
        ("RESTORE", "j", "0", VALUE, "FREQ", "5", "IDLETIME", "5"),
        ("RESTORE", "j", "0", VALUE, "IDLETIME", "5", "FREQ", "5"),
        ("RESTORE", "j", "0", VALUE, "IDLETIME", "5", "IDLETIME", "6"),
        ("RESTORE", "f", "0", VALUE, "FREQ", "5", "FREQ", "6"),
        ("RESTORE", "g", "0", VALUE, "NOPE"),
        ("RESTORE", "g", "0"),
    ]
    assert_same(pair, lines)


@pytest.mark.parametrize("name", ["dump", "restore"])
def test_command_info_equals_that_of_redis(pair: Pair, name: str) -> None:
    assert_same(pair, [f"COMMAND INFO {name}"], in_any_order=True)
