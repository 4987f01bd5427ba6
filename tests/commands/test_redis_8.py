"""Smaller additions of Redis 8 to sets, sorted sets, lists and bitmaps, as documented."""

import random

import pytest

from tests.commands.asking import ask, new_peer
from tests.commands.listening import Listening
from tests.harness.in_process import InProcess

SYNTAX = b"ERR syntax error"
TWO_SOURCES = b"ERR BITOP %b must be called with at least two source keys."


# -- BITOP ------------------------------------------------------------------------------------


def bits_of(operation: str, sources: list[bytes]) -> bytes:
    """The definition, bit by bit."""
    width = max(map(len, sources))
    padded = [int.from_bytes(source.ljust(width, b"\0"), "big") for source in sources]
    result = 0
    for place in range(width * 8):
        first, *others = (number >> place & 1 for number in padded)
        bit = {
            "DIFF": first and not any(others),
            "DIFF1": any(others) and not first,
            "ANDOR": first and any(others),
            "ONE": first + sum(others) == 1,
        }[operation]
        result |= bool(bit) << place
    return result.to_bytes(width, "big")


@pytest.mark.parametrize("operation", ["DIFF", "DIFF1", "ANDOR", "ONE"])
def test_bitop(operation: str, rng: random.Random) -> None:
    peer = InProcess().peer()
    for _ in range(20):
        sources = [rng.randbytes(rng.randrange(1, 40)) for _ in range(rng.randrange(2, 5))]
        names = [f"k{n}" for n in range(len(sources))]
        for name, source in zip(names, sources, strict=True):
            peer.command("SET", name, source)
        width = max(map(len, sources))
        assert peer.command("BITOP", operation, "d", *names) == b":%d\r\n" % width
        expected = bits_of(operation, sources)
        assert peer.command("GET", "d") == b"$%d\r\n%b\r\n" % (width, expected)


@pytest.mark.parametrize(
    ("command", "reply"),
    [
        ("BITOP DIFF d a", TWO_SOURCES % b"DIFF"),
        ("BITOP diff1 d a", TWO_SOURCES % b"DIFF1"),
        ("BITOP ANDOR d a", TWO_SOURCES % b"ANDOR"),
        ("BITOP ONE d a", 3),
        ("BITOP DIFF d a missing", 3),
        ("BITOP DIFF d missing a", 3),
        ("BITOP ONE d missing missing", 0),
        ("BITOP DIFF2 d a b", SYNTAX),
    ],
)
def test_bitop_arguments(command: str, reply: object) -> None:
    assert ask(new_peer("SET a abc"), command) == reply


# -- sets and sorted sets ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "reply"),
    [
        ("SUNIONCARD 2 a b", 4),
        ("SUNIONCARD 3 a missing b", 4),
        ("SUNIONCARD 2 a b LIMIT 3", 3),
        ("SUNIONCARD 2 a b LIMIT 9", 4),
        ("SUNIONCARD 2 a b LIMIT 0", 4),
        ("SUNIONCARD 2 a b APPROX", 4),
        ("sunioncard 2 a b approx limit 2", 2),
        ("SUNIONCARD 1 missing", 0),
        ("SDIFFCARD 2 a b", 2),
        ("SDIFFCARD 1 a", 3),
        ("SDIFFCARD 2 missing a", 0),
        ("SDIFFCARD 2 a missing", 3),
        ("SDIFFCARD 2 a b LIMIT 1", 1),
        ("SDIFFCARD 2 a b LIMIT 0", 2),
        ("SDIFFCARD 2 a b APPROX", SYNTAX),
        ("SUNIONCARD 0 a", b"ERR numkeys should be greater than 0"),
        ("SDIFFCARD x a", b"ERR numkeys should be greater than 0"),
        ("SUNIONCARD 3 a b", b"ERR Number of keys can't be greater than number of args"),
        ("SUNIONCARD 2 a b LIMIT -1", b"ERR LIMIT can't be negative"),
        ("SUNIONCARD 2 a b LIMIT", SYNTAX),
        ("SDIFFCARD 2 a b NOPE", SYNTAX),
        (
            "SUNIONCARD 2 a s",
            b"WRONGTYPE Operation against a key holding the wrong kind of value",
        ),
        ("COMMAND GETKEYS SDIFFCARD 2 a b LIMIT 1", [b"a", b"b"]),
    ],
)
def test_cardinalities(command: str, reply: object) -> None:
    assert ask(new_peer("SADD a 1 2 3", "SADD b 3 4", "SET s string"), command) == reply


@pytest.mark.parametrize(
    ("command", "reply"),
    [
        ("ZUNION 2 x y AGGREGATE COUNT WITHSCORES", [b"b", b"1", b"a", b"2"]),
        ("ZUNION 3 x y s aggregate count withscores", [b"b", b"1", b"c", b"1", b"a", b"2"]),
        ("ZINTER 2 x y AGGREGATE COUNT WITHSCORES", [b"a", b"2"]),
        ("ZINTER 2 x y WEIGHTS 2 0.5 AGGREGATE COUNT WITHSCORES", [b"a", b"2.5"]),
        ("ZUNION 2 x y AGGREGATE COUNT AGGREGATE SUM WITHSCORES", [b"b", b"6", b"a", b"12"]),
        ("ZDIFF 2 x y AGGREGATE COUNT", SYNTAX),
        ("ZUNION 2 x y AGGREGATE COUNTS", SYNTAX),
    ],
)
def test_aggregate_count(command: str, reply: object) -> None:
    assert ask(new_peer("ZADD x 5 a 6 b", "ZADD y 7 a", "SADD s c"), command) == reply


def test_aggregate_count_is_stored() -> None:
    peer = new_peer("ZADD x inf a", "ZADD y -inf a")
    assert ask(peer, "ZINTERSTORE d 2 x y AGGREGATE COUNT") == 1
    assert ask(peer, "ZSCORE d a") == b"2"
    assert ask(peer, "ZUNIONSTORE d 2 x y WEIGHTS 10 20 AGGREGATE COUNT") == 1
    assert ask(peer, "ZSCORE d a") == b"30"


# -- LMOVEM and BLMOVEM -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "moved", "source", "target"),
    [
        ("LEFT RIGHT", "1", "2 3 4 5", "x y 1"),
        ("LEFT LEFT COUNT 3 OBO", "3 2 1", "4 5", "3 2 1 x y"),
        ("LEFT LEFT COUNT 3 BULK", "1 2 3", "4 5", "1 2 3 x y"),
        ("LEFT RIGHT COUNT 3 OBO", "1 2 3", "4 5", "x y 1 2 3"),
        ("LEFT RIGHT COUNT 3 BULK", "1 2 3", "4 5", "x y 1 2 3"),
        ("RIGHT RIGHT COUNT 3 OBO", "5 4 3", "1 2", "x y 5 4 3"),
        ("RIGHT RIGHT COUNT 3 BULK", "3 4 5", "1 2", "x y 3 4 5"),
        ("RIGHT LEFT COUNT 3 OBO", "3 4 5", "1 2", "3 4 5 x y"),
        ("right left count 3 bulk", "3 4 5", "1 2", "3 4 5 x y"),
        ("LEFT RIGHT COUNT 100 BULK", "1 2 3 4 5", "", "x y 1 2 3 4 5"),
        ("LEFT RIGHT EXACTLY 5 BULK", "1 2 3 4 5", "", "x y 1 2 3 4 5"),
    ],
)
def test_lmovem(options: str, moved: str, source: str, target: str) -> None:
    for name, timeout in (("LMOVEM", ""), ("BLMOVEM", "0")):
        peer = new_peer("RPUSH s 1 2 3 4 5", "RPUSH t x y")
        first, second, *rest = options.split()
        words = " ".join([first, second, timeout, *rest])
        assert ask(peer, f"{name} s t {words}") == moved.encode().split()
        assert ask(peer, "LRANGE s 0 -1") == source.encode().split()
        assert ask(peer, "LRANGE t 0 -1") == target.encode().split()


def test_lmovem_within_one_list() -> None:
    peer = new_peer("RPUSH k 1 2 3 4")
    assert ask(peer, "LMOVEM k k LEFT RIGHT COUNT 2 BULK") == [b"1", b"2"]
    assert ask(peer, "LRANGE k 0 -1") == [b"3", b"4", b"1", b"2"]
    assert ask(peer, "LMOVEM k k LEFT RIGHT COUNT 9 BULK") == [b"3", b"4", b"1", b"2"]
    assert ask(peer, "LRANGE k 0 -1") == [b"3", b"4", b"1", b"2"]
    assert ask(peer, "LMOVEM k k LEFT LEFT COUNT 2 OBO") == [b"4", b"3"]


@pytest.mark.parametrize(
    ("command", "reply"),
    [
        ("LMOVEM missing t LEFT RIGHT", None),
        ("LMOVEM missing t LEFT RIGHT COUNT 5 BULK", None),
        ("LMOVEM s t LEFT RIGHT EXACTLY 4 BULK", None),
        ("LMOVEM s t LEFT RIGHT COUNT 0 BULK", b"ERR count should be greater than 0"),
        ("LMOVEM s t LEFT RIGHT EXACTLY -1 BULK", b"ERR count should be greater than 0"),
        ("LMOVEM s t LEFT RIGHT COUNT a BULK", b"ERR count should be greater than 0"),
        ("LMOVEM s t LEFT", b"ERR wrong number of arguments for 'lmovem' command"),
        ("LMOVEM s t LEFT RIGHT COUNT 2", SYNTAX),
        ("LMOVEM s t LEFT RIGHT COUNT 2 OBO x", SYNTAX),
        ("LMOVEM s t LEFT RIGHT BAD 2 OBO", SYNTAX),
        ("LMOVEM s t LEFT RIGHT COUNT 2 BAD", SYNTAX),
        ("LMOVEM s t BAD RIGHT COUNT 2 OBO", SYNTAX),
        ("LMOVEM s t LEFT BAD COUNT 2 OBO", SYNTAX),
        ("BLMOVEM s t LEFT RIGHT -1", b"ERR timeout is negative"),
        ("BLMOVEM s t LEFT RIGHT 0 COUNT 2", SYNTAX),
        (
            "LMOVEM string t LEFT RIGHT",
            b"WRONGTYPE Operation against a key holding the wrong kind of value",
        ),
        (
            "LMOVEM s string LEFT RIGHT COUNT 2 BULK",
            b"WRONGTYPE Operation against a key holding the wrong kind of value",
        ),
    ],
)
def test_lmovem_that_moves_nothing(command: str, reply: object) -> None:
    peer = new_peer("RPUSH s a b c", "SET string v")
    assert ask(peer, command) == reply
    assert ask(peer, "LRANGE s 0 -1") == [b"a", b"b", b"c"]
    assert ask(peer, "EXISTS t") == 0


def test_nothing_is_a_null_array() -> None:
    assert new_peer().command("LMOVEM", "s", "t", "LEFT", "LEFT") == b"*-1\r\n"
    assert InProcess().peer(3).command("LMOVEM", "s", "t", "LEFT", "LEFT") == b"_\r\n"


def test_events_of_lmovem() -> None:
    events = Listening().announce(["RPUSH s 1 2", "LMOVEM s t LEFT RIGHT COUNT 5 BULK"])
    assert [(event, name) for _, event, name in events[1]] == [
        *((b"new", b"t"), (b"rpush", b"t"), (b"lpop", b"s"), (b"del", b"s")),
    ]


def test_blmovem_waits_for_the_first_element() -> None:
    setting = InProcess()
    waiting, peer = (
        setting.blocked("BLMOVEM", "s", "t", "LEFT", "RIGHT", 0, "COUNT", 5, "BULK"),
        (setting.peer()),
    )
    ask(peer, "RPUSH s a b")
    assert waiting.replies() == [b"*2\r\n$1\r\na\r\n$1\r\nb\r\n"]


@pytest.mark.parametrize(
    ("begin", "growth"),
    [
        ("DEL s", ["RPUSH s 1", "RPUSH s 2 3"]),
        ("RPUSH s 1 2", ["LINSERT s AFTER 2 3"]),
        ("RPUSH s 1 2", ["LMOVE feed s LEFT RIGHT"]),
        ("RPUSH s 1 2", ["LMOVEM feed s LEFT RIGHT"]),
        ("RPUSH s 2 3", ["LPUSHX s 1"]),
        ("RPUSH s 1", ["SORT numbers STORE s"]),
        ("RPUSH s 1", ["EVAL \"return redis.call('RPUSH', 's', 2, 3)\" 0"]),
        ("RPUSH s 1", ["RPUSH other 1 2 3", "RENAME other s"]),
        ("RPUSH s 1", ["DEL s", "RPUSH s 1 2", "LPOP s", "LPUSH s 1", "RPUSH s 3"]),
    ],
)
def test_blmovem_waits_for_the_exact_number(begin: str, growth: list[str]) -> None:
    setting = InProcess()
    peer = setting.peer()
    for line in ("RPUSH feed 3", "RPUSH numbers 3 1 2", begin):
        ask(peer, line)
    waiting = setting.blocked("BLMOVEM", "s", "t", "LEFT", "RIGHT", 0, "EXACTLY", 3, "BULK")
    for line in growth:
        assert waiting.replies() == []
        assert ask(peer, "EXISTS t") == 0
        ask(peer, line)
    assert waiting.replies() == [b"*3\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n"]
    assert ask(peer, "EXISTS s") == 0
    assert not setting.engine.keyspace.databases[0].watched, "no key is watched any more"


def test_blmovem_ends() -> None:
    setting = InProcess()
    args = ("BLMOVEM", "s", "t", "LEFT", "RIGHT", 1, "EXACTLY", 3, "BULK")
    waiting = setting.blocked(*args)
    setting.clock.advance(1.001)
    assert waiting.replies() == [b"*-1\r\n"]
    assert setting.peer().transaction(args) == b"*1\r\n*-1\r\n"
    gone = setting.blocked(*args)
    setting.engine.disconnected(gone.session)
    assert not setting.engine.keyspace.databases[0].watched


def test_a_short_wait_lets_others_pop() -> None:
    """A client that waits for more than there is does not hold back the clients behind it."""
    setting = InProcess()
    first = setting.blocked("BLMOVEM", "s", "t", "LEFT", "RIGHT", 0, "EXACTLY", 3, "BULK")
    second = setting.blocked("BLPOP", "s", 0)
    ask(setting.peer(), "RPUSH s 1")
    assert first.replies() == []
    assert second.replies() == [b"*2\r\n$1\r\ns\r\n$1\r\n1\r\n"]


def test_a_failed_script_wakes_nobody_in_vain() -> None:
    setting = InProcess()
    peer = setting.peer()
    ask(peer, "RPUSH s 1")
    waiting = setting.blocked("BLMOVEM", "s", "t", "LEFT", "RIGHT", 0, "EXACTLY", 2, "BULK")
    ask(peer, "EVAL \"redis.call('RPUSH', 's', 2) error('no')\" 0")
    assert waiting.replies() == []
    assert ask(peer, "LRANGE s 0 -1") == [b"1"]
    ask(peer, "RPUSH s 2")
    assert len(waiting.replies()) == 1
