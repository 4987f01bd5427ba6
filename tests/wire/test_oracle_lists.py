"""List commands against redis-server, byte for byte, in RESP2 and RESP3.

A scenario is a text: one command a line, words as a shell would split them.
"""

import pytest

from tests.harness import HoldfastServer, Pair, RedisServer

LIST_COMMANDS = (
    *("lpush", "rpush", "lpushx", "rpushx", "lpop", "rpop", "llen", "lindex", "lset", "lrange"),
    *("linsert", "lrem", "ltrim", "lpos", "lmove", "rpoplpush", "lmpop"),
    *("blpop", "brpop", "blmove", "brpoplpush", "blmpop"),
)

SCENARIOS = {
    "push": """
        LPUSH k a
        LPUSH k b c ""
        RPUSH k d e
        LRANGE k 0 -1
        LPUSHX k x y
        RPUSHX k z
        LPUSHX missing x
        RPUSHX missing x y
        EXISTS missing
        SET s string
        LPUSH s a
        RPUSH s a
        LPUSHX s a
        RPUSHX s a
        TYPE k
        LPUSH k
        RPUSHX k
    """,
    "pop": """
        RPUSH k a b c d e f g h
        LPOP k
        RPOP k
        LPOP k 0
        LPOP k 2
        RPOP k 2
        RPOP k 0
        LPOP k 100
        EXISTS k
        LPOP k
        LPOP k 0
        LPOP k 1
        RPOP k
        RPOP k 5
        RPUSH k a b
        RPOP k 9223372036854775807
        LPOP k -1
        LPOP k x
        LPOP k 9223372036854775808
        LPOP k 1 2
        RPOP k 1 2
        LPOP
        SET s string
        LPOP s
        LPOP s 0
        RPOP s 1
        LPOP s x
    """,
    "index": """
        RPUSH k a b c
        LINDEX k 0
        LINDEX k 2
        LINDEX k 3
        LINDEX k -1
        LINDEX k -3
        LINDEX k -4
        LINDEX k x
        LINDEX k 1.0
        LINDEX k 9223372036854775807
        LINDEX k -9223372036854775808
        LINDEX k 9223372036854775808
        LINDEX missing 0
        LINDEX missing x
        SET s string
        LINDEX s 0
        LINDEX s x
        LLEN k
        LLEN missing
        LLEN s
        LLEN
    """,
    "set": """
        RPUSH k a b c
        LSET k 0 x
        LSET k -1 z
        LSET k 1 ""
        LRANGE k 0 -1
        LSET k 3 y
        LSET k -4 y
        LSET k x y
        LSET missing 0 y
        LSET missing x y
        SET s string
        LSET s 0 x
        LSET s x x
        LSET k 0
    """,
    "range": """
        RPUSH k a b c d e
        LRANGE k 0 -1
        LRANGE k 1 3
        LRANGE k -3 -2
        LRANGE k 5 10
        LRANGE k 4 10
        LRANGE k 3 1
        LRANGE k -100 100
        LRANGE k -100 -6
        LRANGE k 0 0
        LRANGE k -9223372036854775808 9223372036854775807
        LRANGE k 9223372036854775807 -9223372036854775808
        LRANGE k x 1
        LRANGE k 1 x
        LRANGE k 0 9223372036854775808
        LRANGE missing 0 -1
        LRANGE missing x 1
        SET s string
        LRANGE s 0 -1
        LRANGE s x -1
        LRANGE k 0
    """,
    "insert": """
        RPUSH k a b a c
        LINSERT k BEFORE a x
        LINSERT k after a y
        LINSERT k BEFORE nope z
        LINSERT k AFTER c end
        LRANGE k 0 -1
        LINSERT k BESIDE a x
        LINSERT missing BEFORE a x
        LINSERT missing BESIDE a x
        EXISTS missing
        SET s string
        LINSERT s BEFORE a x
        LINSERT s BESIDE a x
        LINSERT k BEFORE a
    """,
    "remove": """
        RPUSH k a b a c a d a
        LREM k 1 a
        LRANGE k 0 -1
        LREM k -1 a
        LRANGE k 0 -1
        LREM k 0 nope
        LREM k 0 a
        LRANGE k 0 -1
        LREM k -9223372036854775807 b
        LREM k 9223372036854775807 c
        LREM k x c
        LREM k -9223372036854775808 c
        LREM missing 0 a
        LREM missing x a
        LREM k 5 d
        EXISTS k
        SET s string
        LREM s 0 a
        LREM s x a
        LREM k 0
    """,
    "trim": """
        RPUSH k a b c d e f
        LTRIM k 0 -1
        LTRIM k 1 -2
        LRANGE k 0 -1
        LTRIM k -3 100
        LRANGE k 0 -1
        LTRIM k x 1
        LTRIM k 1 x
        LTRIM missing 0 1
        LTRIM missing x 1
        LTRIM k 5 10
        EXISTS k
        RPUSH k a b c
        LTRIM k 2 1
        EXISTS k
        RPUSH k a b c
        LTRIM k -100 -100
        EXISTS k
        SET s string
        LTRIM s 0 1
        LTRIM s x 1
        LTRIM k 0
    """,
    "lpos": """
        RPUSH k a b c 1 2 3 c c
        LPOS k c
        LPOS k nope
        LPOS k c RANK 2
        LPOS k c RANK -1
        LPOS k c RANK 4
        LPOS k c COUNT 2
        LPOS k c COUNT 0
        LPOS k c COUNT 0 RANK -1
        LPOS k c RANK -2 COUNT 2
        LPOS k nope COUNT 1
        LPOS k c MAXLEN 2
        LPOS k c MAXLEN 3
        LPOS k c COUNT 5 MAXLEN 3
        LPOS k c RANK -1 MAXLEN 1 COUNT 0
        LPOS k a RANK -1 MAXLEN 7
        LPOS k c MAXLEN 0 COUNT 0
        LPOS k c maxlen 100 count 1 rank 3
        LPOS k c RANK 1 RANK 2
        LPOS k c RANK 0
        LPOS k c RANK x
        LPOS k c RANK 9223372036854775807
        LPOS k c RANK -9223372036854775807
        LPOS k c COUNT -1
        LPOS k c COUNT x
        LPOS k c MAXLEN -1
        LPOS k c MAXLEN x
        LPOS k c NOPE 1
        LPOS k c RANK
        LPOS k c COUNT
        LPOS k c MAXLEN
        LPOS missing a
        LPOS missing a COUNT 1
        LPOS missing a RANK 0
        SET s string
        LPOS s a
        LPOS s a RANK 0
        LPOS k
    """,
    "move": """
        RPUSH a 1 2 3 4 5 6
        LMOVE a b LEFT LEFT
        LMOVE a b LEFT RIGHT
        LMOVE a b right left
        LMOVE a b RIGHT RIGHT
        LRANGE a 0 -1
        LRANGE b 0 -1
        RPOPLPUSH a b
        RPOPLPUSH a b
        EXISTS a
        LRANGE b 0 -1
        LMOVE b b LEFT RIGHT
        LMOVE b b LEFT LEFT
        RPOPLPUSH b b
        LRANGE b 0 -1
        RPUSH one x
        LMOVE one one LEFT RIGHT
        RPOPLPUSH one one
        LRANGE one 0 -1
        LMOVE missing b LEFT LEFT
        LMOVE missing missing LEFT LEFT
        RPOPLPUSH missing b
        LMOVE a b UP LEFT
        LMOVE b a LEFT DOWN
        SET s string
        LMOVE b s LEFT LEFT
        LMOVE s b LEFT LEFT
        LMOVE missing s LEFT LEFT
        RPOPLPUSH b s
        RPOPLPUSH s b
        RPOPLPUSH missing s
        LRANGE b 0 -1
        LMOVE a b LEFT
        RPOPLPUSH a
    """,
    "lmpop": """
        RPUSH a 1 2 3 4 5
        RPUSH b 6 7
        LMPOP 1 a LEFT
        LMPOP 2 missing a RIGHT
        LMPOP 2 a b left count 2
        LMPOP 2 a b RIGHT COUNT 10
        LMPOP 2 a b RIGHT COUNT 10
        LMPOP 2 a b LEFT
        EXISTS a b
        LMPOP 0 a LEFT
        LMPOP -1 a LEFT
        LMPOP x a LEFT
        LMPOP 2 a LEFT
        LMPOP 9223372036854775807 a LEFT
        LMPOP 9223372036854775808 a LEFT
        LMPOP 1 a MIDDLE
        LMPOP 1 a b LEFT
        LMPOP 1 a LEFT COUNT
        LMPOP 1 a LEFT COUNT 0
        LMPOP 1 a LEFT COUNT -1
        LMPOP 1 a LEFT COUNT x
        LMPOP 1 a LEFT COUNT 1 COUNT 2
        LMPOP 1 a LEFT NOPE 1
        LMPOP 1 a LEFT COUNT 1 x
        SET s string
        LMPOP 1 s LEFT
        RPUSH a 1
        LMPOP 2 s a LEFT
        LMPOP 2 a s LEFT
        LMPOP 2 a s LEFT
        LMPOP 1 a
    """,
    "blocking commands that need not wait": """
        RPUSH a 1 2 3 4 5 6 7 8
        RPUSH b x y
        BLPOP a 0
        BRPOP a 0.5
        BLPOP missing a b 1
        BRPOP b missing a 0
        BLMOVE a b LEFT RIGHT 0
        BRPOPLPUSH a b 0
        BLMPOP 0 2 missing a LEFT
        BLMPOP 0.1 2 missing a RIGHT COUNT 2
        BLMOVE b b LEFT RIGHT 1e1
        BLPOP b 0x10
        LRANGE a 0 -1
        LRANGE b 0 -1
        BLPOP b -1
        BRPOP b -0.5
        BLMOVE b a LEFT LEFT -1
        BRPOPLPUSH b a -1
        BLMPOP -1 1 b LEFT
        BLMPOP -1 x b LEFT
        BLMPOP 0 0 b LEFT
        BLMPOP 0 x b LEFT
        BLMPOP 0 2 b LEFT
        BLMPOP 0 1 b MIDDLE
        BLMPOP 0 1 b LEFT COUNT 0
        BLMPOP 0 1 b LEFT COUNT
        BLMPOP 0 1 b LEFT COUNT 1 COUNT 1
        BLMOVE b a UP LEFT 0
        BLMOVE b a LEFT UP 0
        BLMOVE b a UP LEFT x
        SET s string
        BLPOP s 0
        BLPOP missing s 0
        BLPOP s b 0
        BLPOP b s 0
        BLMOVE s b LEFT LEFT 0
        BLMOVE b s LEFT LEFT 0
        BRPOPLPUSH b s 0
        BLMPOP 0 2 missing s LEFT
        LRANGE b 0 -1
        BLPOP b
        BLMOVE b a LEFT LEFT
        BRPOPLPUSH b a
        BLMPOP 0 1 b
    """,
    "inside multi": """
        MULTI
        BLMOVE a b LEFT LEFT 0
        BRPOPLPUSH a b 0
        BLMPOP 0 1 a LEFT
        BLPOP a 0
        BRPOP a b 0
        RPUSH a 1 2 3 4
        BLPOP b a 0
        BLMOVE a b LEFT LEFT 0
        BLMPOP 0 2 x a RIGHT COUNT 5
        LPUSH s x
        LPOP b 1
        LPOP b 1
        EXEC
    """,
    "expiry": """
        RPUSH k a b
        EXPIRE k 1000
        LPUSH k c
        LPOP k
        PERSIST k
        LMOVE k other LEFT LEFT
        TTL other
        EXPIRE other 1000
        RPOPLPUSH other k
        TTL other
        TTL k
    """,
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario(pair: Pair, name: str) -> None:
    pair.play(SCENARIOS[name])


@pytest.mark.parametrize("name", LIST_COMMANDS)
def test_command_info_equals_that_of_redis(pair: Pair, name: str) -> None:
    pair.same("COMMAND", "INFO", name)


def test_binary_elements_and_keys(pair: Pair) -> None:
    pair.same("RPUSH", b"\x00\r\n\xff", b"\x00", b"", b"\r\n", b"$-1\r\n", b"x" * 100_000)
    pair.same("LRANGE", b"\x00\r\n\xff", 0, -1)
    pair.same("BRPOP", b"\x00\r\n\xff", 0)
    pair.same("LPOS", b"\x00\r\n\xff", b"\r\n")


def test_a_long_list(pair: Pair) -> None:
    for start in range(0, 5000, 500):
        pair.same("RPUSH", "k", *range(start, start + 500))
    for start, stop in [(0, 9), (2495, 2510), (-10, -1), (4990, 6000)]:
        pair.same("LRANGE", "k", start, stop)
    pair.same("LINSERT", "k", "BEFORE", 2500, "x")
    pair.same("LPOS", "k", 4999, "RANK", -1)
    pair.same("LTRIM", "k", 1000, -1000)
    pair.same("LREM", "k", 0, "x")
    pair.same("LPOP", "k", 2000)
    pair.same("LRANGE", "k", 0, -1)


def test_watchers_learn_of_each_change(
    pair: Pair, server: HoldfastServer, oracle: RedisServer
) -> None:
    changes = [
        "LPOP k",
        "LPOP k 0",
        "LPOP k 5",
        "LREM k 0 nope",
        "LREM k 0 a",
        "LTRIM k 0 -1",
        "LTRIM missing 0 1",
        "LSET k 0 a",
        "LSET k 10 a",
        "LINSERT k BEFORE nope x",
        "LINSERT k BEFORE a x",
        "LMOVE k k LEFT RIGHT",
        "LMOVE k other LEFT RIGHT",
        "LMOVE other k LEFT RIGHT",
        "LMOVE missing k LEFT RIGHT",
        "LPUSHX k x",
        "LPUSHX missing x",
        "LMPOP 1 k LEFT",
        "BLPOP k 0",
        "LRANGE k 0 -1",
    ]
    watcher = Pair(server.client(), oracle.client(), 2)
    for change in changes:
        pair.same("DEL", "k", "other", "missing")
        pair.same("RPUSH", "k", "a", "b", "c")
        pair.same("RPUSH", "other", "x")
        watcher.same("WATCH", "k", "missing")
        pair.same(*change.split())
        watcher.same("MULTI")
        watcher.same("PING")
        watcher.same("EXEC")
