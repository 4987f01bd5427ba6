"""Sorted sets against redis-server, byte for byte, in RESP2 and RESP3.

A scenario is a text: one command a line, words as a shell would split them.
"""

import re

import pytest

from tests.harness import HoldfastServer, Pair, RedisServer
from tests.wire.same import assert_same
from tests.wire.zset_scenarios import COMBINING, POPPING

ZSET_COMMANDS = (
    *("zadd", "zincrby", "zrem", "zcard", "zcount", "zlexcount", "zscore", "zmscore", "zrange"),
    *("zrangebyscore", "zrevrange", "zrevrangebyscore", "zrangebylex", "zrevrangebylex"),
    *("zrangestore", "zremrangebyrank", "zremrangebyscore", "zremrangebylex", "zpopmin"),
    *("zpopmax", "zmpop", "bzpopmin", "bzpopmax", "bzmpop", "zunion", "zinter", "zdiff"),
    *("zunionstore", "zinterstore", "zdiffstore", "zintercard", "zrandmember", "zscan"),
)

SCENARIOS = (
    POPPING
    | COMBINING
    | {
        "add": """
        ZADD k 1 a 2 b 1.5 c
        ZADD k 1 a 3 b
        ZADD k CH 1 a 4 b 7 d
        ZADD k NX 9 a 9 e
        ZADD k XX 8 a 9 nobody
        ZADD k XX CH 7 a 9 nobody
        ZADD k GT 1 a 100 b
        ZADD k GT CH 1 a 200 b 1 f
        ZADD k LT CH 1 a 300 b 1 g
        ZADD k GT XX CH 500 a 9 nobody
        ZADD k NX XX 1 a
        ZADD k NX GT 1 a
        ZADD k NX LT 1 a
        ZADD k GT LT 1 a
        ZADD k NX XX GT 1 a
        ZADD k nx ch 1 z
        ZADD k ch ch 2 z
        ZADD k INCR 1 a
        ZADD k INCR 1 a 2 b
        ZADD k NX INCR 1 a
        ZADD k XX INCR 1 nobody
        ZADD k NX INCR 1.5 new
        ZADD k GT INCR -1 new
        ZADD k LT INCR -1 new
        ZADD k GT INCR 0 new
        ZADD k INCR CH 1 new
        ZADD missing XX 1 a
        ZADD missing XX INCR 1 a
        EXISTS missing
        ZADD k 1
        ZADD k NX 1
        ZADD k NX
        ZADD k 1 a 2
        ZADD k NX NX
        ZADD k x a
        ZADD k 1 a x b
        ZADD k "" a
        ZADD k 1 "" 2 ""
        ZSCORE k ""
        ZADD k 3 one 4 one
        ZADD k CH 3 one 4 one
        ZRANGE k 0 -1 WITHSCORES
        SET s string
        ZADD s 1 a
        ZADD s x a
        ZADD s INCR 1 a
        ZADD s XX 1 a
        TYPE k
    """,
        "scores": """
        ZADD k 1 a
        ZADD k 0.1 b 3.0 c 1e3 d 17.000000000000000001 e .5 f 5. g 0x1p3 h +7 i 1e-310 j
        ZADD k 3.3333333333333335 l 1e17 m 123456789012345678 n 9007199254740993 o
        ZADD k inf p -inf q +inf r Infinity s -INFINITY t 1.7976931348623157e308 u
        ZADD k 0x.8 v 0X1P-2 w 1E2 x 00012 y -5e-324 z
        ZRANGE k 0 -1 WITHSCORES
        ZADD k nan a
        ZADD k -nan a
        ZADD k 1e400 a
        ZADD k -1e400 a
        ZADD k 1e-400 a
        ZADD k 0e-400 a
        ZADD k 0x a
        ZADD k 0x1p99999 a
        ZADD k 0x1p-99999 a
        ZADD k " 1" a
        ZADD k "1 " a
        ZADD k 1e a
        ZADD k 1_0 a
        ZADD k --1 a
        ZADD k infx a
        ZADD k - a
        ZSCORE k a
        ZSCORE k p
        ZSCORE k q
        ZSCORE k nobody
        ZSCORE missing a
        ZMSCORE k a nobody p a
        ZMSCORE missing a b
        ZMSCORE k
        SET s string
        ZSCORE s a
        ZMSCORE s a
        ZCARD s
        ZCARD k
        ZCARD missing
    """,
        "minus zero": """
        ZADD k -0 a -0.0 b 0 c
        ZRANGE k 0 -1 WITHSCORES
        ZADD k CH 0 a -0 c
        ZINCRBY k -0 a
        ZADD k INCR -0 new
        ZSCORE k new
        ZRANGEBYSCORE k -0 0
        ZRANGEBYSCORE k (-0 (0
    """,
        "increment": """
        ZINCRBY k 1.5 a
        ZINCRBY k 1.5 a
        ZINCRBY k -10 a
        ZINCRBY k 0 a
        ZINCRBY k inf a
        ZINCRBY k inf a
        ZINCRBY k -inf a
        ZSCORE k a
        ZINCRBY k x a
        ZINCRBY k nan a
        ZINCRBY k NX a
        ZINCRBY k 0.1 b
        ZINCRBY k 0.2 b
        ZINCRBY k 1e308 c
        ZINCRBY k 1e308 c
        ZINCRBY k 1
        SET s string
        ZINCRBY s 1 a
        ZINCRBY s x a
    """,
        "remove": """
        ZADD k 1 a 2 b 3 c
        ZREM k a nobody a
        ZREM k nobody
        ZREM missing a
        ZREM k b c
        EXISTS k
        ZREM k
        SET s string
        ZREM s a
    """,
        "rank": """
        ZADD k 1 a 2 b 2 c 3 d
        ZRANK k a
        ZRANK k c
        ZRANK k nobody
        ZREVRANK k a
        ZREVRANK k b
        ZREVRANK k nobody
        ZRANK missing a
        SET s string
        ZRANK s a
        ZREVRANK s a
        ZRANK k
    """,
        "range by index": """
        ZADD k 1 a 2 b 3 c 3 bb 4 d
        ZRANGE k 0 -1
        ZRANGE k 1 2
        ZRANGE k -2 -1 WITHSCORES
        ZRANGE k -100 100
        ZRANGE k 3 1
        ZRANGE k 5 9
        ZRANGE k 4 9
        ZRANGE k 0 -6
        ZRANGE k 0 1 REV
        ZRANGE k -2 -1 REV WITHSCORES
        ZRANGE k 9 10 REV
        ZRANGE k -100 0 REV
        ZREVRANGE k 0 1
        ZREVRANGE k 1 -2 WITHSCORES
        ZREVRANGE k 7 9
        ZREVRANGE k -3 9
        ZRANGE k 0 1 REV REV
        ZRANGE k 0 1 LIMIT 0 1
        ZRANGE k 0 1 LIMIT 1 -1
        ZRANGE k 0 1 LIMIT 0 -2
        ZREVRANGE k 0 1 LIMIT 0 1
        ZREVRANGE k 0 1 REV
        ZRANGE k x 1
        ZRANGE k 0 1.5
        ZRANGE k 0 9223372036854775808
        ZRANGE k -9223372036854775808 9223372036854775807
        ZRANGE k 0 1 NOPE
        ZRANGE k 0 1 WITHSCORES WITHSCORES
        ZRANGE missing 0 1
        ZRANGE missing 0 x
        ZRANGE missing 0 1 WITHSCORES
        SET s string
        ZRANGE s 0 1
        ZRANGE s 0 x
        ZREVRANGE s 0 1
    """,
        "range by score": """
        ZADD k -inf low 1 a 1.5 b 2 c 2 d 10 e inf high
        ZRANGEBYSCORE k -inf +inf
        ZRANGEBYSCORE k (-inf (inf
        ZRANGEBYSCORE k 1 2 WITHSCORES
        ZRANGEBYSCORE k (1 (2
        ZRANGEBYSCORE k (1 2
        ZRANGEBYSCORE k 2 1
        ZRANGEBYSCORE k (2 (2
        ZRANGEBYSCORE k inf inf
        ZRANGEBYSCORE k (inf inf
        ZRANGEBYSCORE k 0 100 LIMIT 1 2
        ZRANGEBYSCORE k 0 100 LIMIT 1 -1
        ZRANGEBYSCORE k 0 100 LIMIT -1 2
        ZRANGEBYSCORE k 0 100 LIMIT 100 2
        ZRANGEBYSCORE k 0 100 LIMIT 0 0
        ZRANGEBYSCORE k 0 100 LIMIT 0 1 LIMIT 1 1
        ZRANGEBYSCORE k 0 100 LIMIT 2 2 WITHSCORES
        ZRANGEBYSCORE k 0 100 LIMIT 0
        ZRANGEBYSCORE k 0 100 LIMIT x 1
        ZRANGEBYSCORE k 0 100 LIMIT 0 x
        ZREVRANGEBYSCORE k inf -inf
        ZREVRANGEBYSCORE k 2 1 WITHSCORES
        ZREVRANGEBYSCORE k 1 2
        ZREVRANGEBYSCORE k 100 0 LIMIT 1 2
        ZREVRANGEBYSCORE k (10 (1 LIMIT 1 10
        ZREVRANGEBYSCORE k 100 0 LIMIT -1 2
        ZRANGE k 1 2 BYSCORE
        ZRANGE k 2 1 BYSCORE REV WITHSCORES
        ZRANGE k 1 2 BYSCORE REV
        ZRANGE k (1 100 BYSCORE LIMIT 1 2
        ZRANGE k 1 2 BYSCORE BYLEX
        ZRANGE k 1 2 BYSCORE BYSCORE
        ZRANGEBYSCORE k 1 2 BYSCORE
        ZRANGEBYSCORE k 1 2 REV
        ZRANGEBYSCORE k x 2
        ZRANGEBYSCORE k 1 [2
        ZRANGEBYSCORE k ((1 2
        ZRANGEBYSCORE k nan 2
        ZRANGEBYSCORE k "" 2
        ZRANGEBYSCORE k ( 2
        ZRANGEBYSCORE k " 1" "( 2"
        ZRANGEBYSCORE k "1 " 2
        ZRANGEBYSCORE k " " 2
        ZRANGEBYSCORE k -1e400 1e400
        ZRANGEBYSCORE k 1e-400 0x2
        ZRANGEBYSCORE missing 1 2
        ZRANGEBYSCORE missing x 2
        ZCOUNT k 1 2
        ZCOUNT k (1 (2
        ZCOUNT k -inf +inf
        ZCOUNT k 2 1
        ZCOUNT k x 1
        ZCOUNT missing 1 2
        SET s string
        ZRANGEBYSCORE s 1 2
        ZRANGEBYSCORE s x 2
        ZCOUNT s 1 2
        ZCOUNT s x 2
    """,
        "range by member": """
        ZADD k 0 a 0 b 0 bb 0 c 0 d 0 ""
        ZRANGEBYLEX k - +
        ZRANGEBYLEX k [b [c
        ZRANGEBYLEX k (b (c
        ZRANGEBYLEX k [b (c
        ZRANGEBYLEX k (b [bb
        ZRANGEBYLEX k [ [b
        ZRANGEBYLEX k ( [b
        ZRANGEBYLEX k + -
        ZRANGEBYLEX k - -
        ZRANGEBYLEX k + +
        ZRANGEBYLEX k [c [b
        ZRANGEBYLEX k (b (b
        ZRANGEBYLEX k [b [b
        ZRANGEBYLEX k [aaa [bbb
        ZRANGEBYLEX k - + LIMIT 1 2
        ZRANGEBYLEX k - + LIMIT 1 -5
        ZRANGEBYLEX k - + LIMIT -1 2
        ZRANGEBYLEX k - + WITHSCORES
        ZREVRANGEBYLEX k + -
        ZREVRANGEBYLEX k - +
        ZREVRANGEBYLEX k [c (a LIMIT 1 2
        ZRANGE k [b + BYLEX
        ZRANGE k + [b BYLEX REV LIMIT 0 2
        ZRANGE k - + BYLEX WITHSCORES
        ZRANGE k a b BYLEX
        ZRANGEBYLEX k b [c
        ZRANGEBYLEX k [b c
        ZRANGEBYLEX k "" [c
        ZRANGEBYLEX k -- +
        ZRANGEBYLEX k - +x
        ZRANGEBYLEX k 1 2
        ZRANGEBYLEX missing - +
        ZRANGEBYLEX missing b -
        ZLEXCOUNT k - +
        ZLEXCOUNT k [b (d
        ZLEXCOUNT k [d (b
        ZLEXCOUNT k b d
        ZLEXCOUNT missing - +
        SET s string
        ZRANGEBYLEX s - +
        ZRANGEBYLEX s x +
        ZLEXCOUNT s - +
    """,
        "range by member where scores differ": """
        ZADD k 1 b 2 a 3 z 4 c 5 aa 6 zz
        ZRANGEBYLEX k [b [c
        ZREVRANGEBYLEX k [c [b
        ZRANGEBYLEX k [aa [b
        ZREVRANGEBYLEX k [b [aa
        ZRANGEBYLEX k - (z
        ZREVRANGEBYLEX k (z -
        ZLEXCOUNT k [a [b
        ZLEXCOUNT k (zz +
        ZREMRANGEBYLEX k [a [b
        ZRANGE k 0 -1
    """,
        "store a range": """
        ZADD k 1 a 2 b 3 c 4 d
        ZRANGESTORE to k 0 1
        ZRANGE to 0 -1 WITHSCORES
        ZRANGESTORE to k 2 (3 BYSCORE
        ZRANGE to 0 -1 WITHSCORES
        ZRANGESTORE to k 4 2 BYSCORE REV LIMIT 1 1
        ZRANGE to 0 -1 WITHSCORES
        ZRANGESTORE to k [b [c BYLEX
        ZRANGE to 0 -1 WITHSCORES
        ZRANGESTORE to k 0 1 REV
        ZRANGE to 0 -1 WITHSCORES
        ZRANGESTORE k k 1 2
        ZRANGE k 0 -1 WITHSCORES
        ZRANGESTORE to k 7 9
        EXISTS to
        SET s string EX 1000
        ZRANGESTORE s k 0 0
        TTL s
        TYPE s
        ZRANGESTORE s missing 0 0
        EXISTS s
        ZRANGESTORE to missing 0 0
        SET s string
        ZRANGESTORE to s 0 0
        ZRANGESTORE to k 0 1 WITHSCORES
        ZRANGESTORE to k 0 1 LIMIT 0 1
        ZRANGESTORE to k 0 x
        ZRANGESTORE to k x 1 BYSCORE
        ZRANGESTORE to k x y BYLEX
        ZRANGESTORE to k 0
    """,
        "remove ranges": """
        ZADD k 1 a 2 b 3 c 4 d 5 e 6 f 7 g 8 h
        ZREMRANGEBYRANK k 0 0
        ZREMRANGEBYRANK k -2 -2
        ZREMRANGEBYRANK k 5 1
        ZREMRANGEBYRANK k 100 200
        ZREMRANGEBYSCORE k (2 (4
        ZREMRANGEBYSCORE k 2 2
        ZREMRANGEBYSCORE k 100 200
        ZRANGE k 0 -1 WITHSCORES
        ZREMRANGEBYRANK k 0 -1
        EXISTS k
        ZADD k 0 a 0 b 0 c
        ZREMRANGEBYLEX k [b +
        ZREMRANGEBYLEX k [x +
        ZREMRANGEBYLEX k - +
        EXISTS k
        ZREMRANGEBYRANK missing 0 1
        ZREMRANGEBYSCORE missing 0 1
        ZREMRANGEBYLEX missing - +
        ZREMRANGEBYRANK missing x 1
        ZREMRANGEBYSCORE missing x 1
        ZREMRANGEBYLEX missing x +
        SET s string
        ZREMRANGEBYRANK s 0 1
        ZREMRANGEBYSCORE s 0 1
        ZREMRANGEBYLEX s - +
        ZREMRANGEBYRANK s x 1
    """,
    }
)


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario(pair: Pair, name: str) -> None:
    pair.play(SCENARIOS[name])


@pytest.mark.parametrize("name", ZSET_COMMANDS)
def test_command_info_equals_that_of_redis(pair: Pair, name: str) -> None:
    pair.same("COMMAND", "INFO", name)


def test_a_long_set(pair: Pair) -> None:
    for start in range(0, 3000, 500):
        words = [word for n in range(start, start + 500) for word in (n * 7919 % 1009, f"m{n}")]
        pair.same("ZADD", "k", *words)
    assert_same(
        pair,
        [
            "ZRANGE k 0 9 WITHSCORES",
            "ZRANGE k 1490 1510",
            "ZREVRANGE k 0 -1",
            "ZRANGEBYSCORE k 100 (110 WITHSCORES",
            "ZREVRANGEBYSCORE k (500 400 LIMIT 5 10",
            "ZCOUNT k (17 900",
            "ZRANK k m1234",
            "ZREVRANK k m1234",
            "ZINCRBY k 1000 m77",
            "ZPOPMIN k 7",
            "ZPOPMAX k 7",
            "ZREMRANGEBYRANK k 100 2000",
            "ZREMRANGEBYSCORE k 900 950",
            "ZRANGE k 0 -1 WITHSCORES",
            "OBJECT ENCODING k",
        ],
    )


def test_members_by_the_alphabet(pair: Pair) -> None:
    for start in range(0, 600, 200):
        words = [word for n in range(start, start + 200) for word in (0, f"{n * 7919 % 1009}")]
        pair.same("ZADD", "k", *words)
    assert_same(
        pair,
        [
            "ZRANGEBYLEX k [1 (2",
            "ZREVRANGEBYLEX k [5 [31 LIMIT 3 20",
            "ZLEXCOUNT k (10 +",
            "ZREMRANGEBYLEX k - (5",
            "ZRANGE k 0 -1",
        ],
    )


def test_binary_members(pair: Pair) -> None:
    pair.same("ZADD", b"\x00\r\n\xff", 1, b"\x00", 1, b"", 1, b"\r\n", 1, b"\xff", 1, b"x" * 10_000)
    pair.same("ZRANGE", b"\x00\r\n\xff", 0, -1, "WITHSCORES")
    pair.same("ZRANGEBYLEX", b"\x00\r\n\xff", b"[\x00", b"(\xff")
    pair.same("ZRANGEBYLEX", b"\x00\r\n\xff", b"-\x00x", b"+\x00x")
    pair.same("ZRANGEBYSCORE", b"\x00\r\n\xff", b"1\x00x", b"(2\x00")
    pair.same("ZADD", "k", b"1\x00", "a")


def test_random_members_of_a_large_set(pair: Pair) -> None:
    """The choice of members is random; their number and their scores are compared."""
    scores = {f"m{n}": n for n in range(300)}
    for client in (pair.ours, pair.oracle):
        client.command("ZADD", "k", *(word for m, n in scores.items() for word in (n, m)))
        for count, size in ((10, 10), (250, 250), (1000, 300), (-1000, 1000)):
            lines = client.command("ZRANDMEMBER", "k", count).split(b"\r\n")
            assert lines[0] == b"*%d" % size
            assert set(lines[2::2]) <= {member.encode() for member in scores}
            assert count < 0 or len(set(lines[2::2])) == size
        reply = client.command("ZRANDMEMBER", "k", 5, "WITHSCORES")
        pairs = re.findall(rb"\$\d+\r\nm(\d+)\r\n(?:\$\d+\r\n|,)(\d+)\r\n", reply)
        assert len(pairs) == 5
        assert all(number == score for number, score in pairs)


def test_a_large_set_is_scanned(pair: Pair) -> None:
    members = {b"m%d" % n for n in range(1000)}
    for client in (pair.ours, pair.oracle):
        client.command("ZADD", "k", *(word for n in range(1000) for word in (n, b"m%d" % n)))
        cursor, seen, calls = b"0", set(), 0
        while not calls or cursor != b"0":
            lines = client.command("ZSCAN", "k", cursor, "COUNT", 20).split(b"\r\n")
            cursor, words = lines[2], lines[5:-1:2]
            seen |= set(words[::2])
            assert words[::2] == [b"m" + score for score in words[1::2]]
            calls += 1
        assert seen == members
        assert 10 <= calls <= 1000


def test_watchers_learn_of_each_change(
    pair: Pair, server: HoldfastServer, oracle: RedisServer
) -> None:
    changes = [
        "ZADD k 1 a",
        "ZADD k 5 a",
        "ZADD k NX 5 a",
        "ZADD k XX 5 new",
        "ZADD k INCR 0 a",
        "ZINCRBY k 1 a",
        "ZINCRBY missing 1 a",
        "ZREM k nobody",
        "ZREM k a",
        "ZREMRANGEBYRANK k 7 9",
        "ZREMRANGEBYRANK k 0 0",
        "ZREMRANGEBYSCORE k 7 9",
        "ZREMRANGEBYLEX k (x +",
        "ZPOPMIN k",
        "ZPOPMIN k 0",
        "ZPOPMIN missing",
        "ZMPOP 1 k MIN",
        "BZPOPMIN k 0",
        "ZUNIONSTORE k 1 other",
        "ZUNIONSTORE missing 1 nothing",
        "ZUNIONSTORE k 1 nothing",
        "ZINTERSTORE missing 1 other",
        "ZDIFFSTORE k 1 k",
        "ZRANGESTORE missing k 0 0",
        "ZRANGESTORE k k 7 9",
        "ZRANGE k 0 -1",
    ]
    watcher = Pair(server.client(), oracle.client(), 2)
    for change in changes:
        pair.same("DEL", "k", "other", "missing")
        pair.same("ZADD", "k", 1, "a", 2, "b", 3, "c")
        pair.same("ZADD", "other", 1, "x")
        watcher.same("WATCH", "k", "missing")
        pair.same(*change.split())
        watcher.same("MULTI")
        watcher.same("PING")
        watcher.same("EXEC")
