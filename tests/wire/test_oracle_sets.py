"""Set commands against redis-server, byte for byte, in RESP2 and RESP3.

Sets of integers are shown in numeric order; others are in any order, so those are compared as sets.
"""

import pytest

from tests.harness import HoldfastServer, Pair, RedisServer
from tests.wire.same import assert_same

SET_COMMANDS = (
    *("sadd", "srem", "sismember", "smismember", "scard", "smembers", "spop", "srandmember"),
    *("smove", "sinter", "sinterstore", "sintercard", "sunion", "sunionstore", "sdiff"),
    *("sdiffstore", "sscan"),
)

INTEGERS = """
    SADD a 5 -3 40 1 9223372036854775807 -9223372036854775808
    SADD b 40 5 100 7
    SADD c 5 7 1 2 3
    SADD one 5
    SET s string
"""
SCENARIOS = {
    "add and remove": """
        SADD k 3 1 2 3
        SADD k 2 1
        SADD k
        SMEMBERS k
        SCARD k
        SCARD missing
        SISMEMBER k 1
        SISMEMBER k 01
        SISMEMBER missing 1
        SMISMEMBER k 1 9 2
        SMISMEMBER missing 1 9
        SMISMEMBER k
        SREM k 1 9 1
        SMEMBERS k
        SREM k 2 3 4
        EXISTS k
        SREM k 1
        SREM k
        SMEMBERS missing
        TYPE k
        SET s string
        SADD s 1
        SREM s 1
        SCARD s
        SISMEMBER s 1
        SMISMEMBER s 1
        SMEMBERS s
    """,
    "encoding": f"""
        SADD k 1 2 3
        OBJECT ENCODING k
        SADD k 9223372036854775807 -9223372036854775808 0
        OBJECT ENCODING k
        SADD k x
        OBJECT ENCODING k
        SREM k x
        OBJECT ENCODING k
        SADD zeros 01
        OBJECT ENCODING zeros
        SADD plus +1
        OBJECT ENCODING plus
        SADD minus -0
        OBJECT ENCODING minus
        SADD far 9223372036854775808
        OBJECT ENCODING far
        SADD empty ""
        OBJECT ENCODING empty
        SADD many {" ".join(map(str, range(512)))}
        OBJECT ENCODING many
        SMEMBERS many
        SADD many 511
        OBJECT ENCODING many
        SADD many 512
        OBJECT ENCODING many
        SREM many 1 2 3
        OBJECT ENCODING many
        SADD words a b
        OBJECT ENCODING words
    """,
    "move": """
        SADD a 1 2
        SADD b 2 3
        SMOVE a b 1
        SMEMBERS a
        SMEMBERS b
        SMOVE a b 9
        SMOVE a b 2
        EXISTS a
        SMOVE a b 2
        SMOVE b b 2
        SMOVE b b 9
        SMOVE b new 2
        SMEMBERS new
        SMOVE missing b 2
        SET s string
        SMOVE s b 2
        SMOVE b s 2
        SMOVE b s 99
        SMOVE s s 2
        SMOVE missing s 2
        SMEMBERS b
    """,
    "random": """
        SPOP missing
        SPOP missing 2
        SPOP missing 0
        SPOP missing -1
        SRANDMEMBER missing
        SRANDMEMBER missing 2
        SRANDMEMBER missing -2
        SADD one 1
        SRANDMEMBER one
        SRANDMEMBER one 0
        SRANDMEMBER one 3
        SRANDMEMBER one -3
        SRANDMEMBER one x
        SRANDMEMBER one 1 2
        SRANDMEMBER one -9223372036854775808
        SPOP one 0
        SPOP one -1
        SPOP one x
        SPOP one 1 2
        SPOP one
        EXISTS one
        SADD k 3 1 2
        SRANDMEMBER k 3
        SRANDMEMBER k 9223372036854775807
        SPOP k 3
        EXISTS k
        SADD k 3 1 2
        SPOP k 5
        EXISTS k
        SET s string
        SPOP s
        SPOP s 1
        SPOP s 0
        SPOP s x
        SRANDMEMBER s
        SRANDMEMBER s 1
        SRANDMEMBER s 0
    """,
    "inter": f"""{INTEGERS}
        SINTER a
        SINTER a b
        SINTER b a c
        SINTER a missing
        SINTER missing
        SINTER missing s
        SINTER a s
        SINTER s a
        SINTER a a
        SINTERSTORE d a b
        SMEMBERS d
        OBJECT ENCODING d
        SINTERSTORE d a missing
        EXISTS d
        SINTERSTORE s a b
        TYPE s
        SINTERSTORE a a b
        SMEMBERS a
        SINTERSTORE d
        SET s string
        SINTERSTORE d s a
        SINTERSTORE d missing s
        SINTERSTORE missing missing
    """,
    "card": f"""{INTEGERS}
        SINTERCARD 2 a b
        SINTERCARD 2 a b LIMIT 1
        SINTERCARD 2 a b LIMIT 0
        SINTERCARD 2 a b limit 100
        SINTERCARD 2 a b LIMIT 1 LIMIT 2
        SINTERCARD 1 a
        SINTERCARD 2 a missing
        SINTERCARD 2 missing s
        SINTERCARD 1 s
        SINTERCARD 0 a
        SINTERCARD -1 a
        SINTERCARD x a
        SINTERCARD 3 a b
        SINTERCARD 2 a b LIMIT
        SINTERCARD 2 a b LIMIT -1
        SINTERCARD 2 a b LIMIT x
        SINTERCARD 2 a b NOPE
        SINTERCARD 2 a b NOPE 1
        SINTERCARD 9223372036854775807 a b
        SINTERCARD 1
    """,
    "union": f"""{INTEGERS}
        SUNION a
        SUNION a b
        SUNION b missing c a
        SUNION missing
        SUNION missing s
        SUNION a s
        SUNIONSTORE d a b
        SMEMBERS d
        SUNIONSTORE d missing
        EXISTS d
        SUNIONSTORE s a
        SMEMBERS s
        SUNIONSTORE a a b c
        SMEMBERS a
        SUNIONSTORE d
    """,
    "diff": f"""{INTEGERS}
        SDIFF a
        SDIFF a b
        SDIFF a b c
        SDIFF a missing
        SDIFF missing a
        SDIFF missing s
        SDIFF a s
        SDIFF s a
        SDIFF a a
        SDIFF one b c a
        SDIFFSTORE d a b
        SMEMBERS d
        OBJECT ENCODING d
        SDIFFSTORE d a a
        EXISTS d
        SDIFFSTORE s a b
        SMEMBERS s
        SDIFFSTORE a a b
        SMEMBERS a
        SDIFFSTORE d missing a
        SDIFFSTORE d
    """,
    "store forgets the expiry": """
        SADD a 1
        SET d x
        PEXPIREAT d 4102444800000
        SUNIONSTORE d a
        PTTL d
        PEXPIREAT d 4102444800000
        SADD d 2
        PEXPIRETIME d
    """,
    "scan": """
        SSCAN missing 0
        SSCAN missing 0 COUNT nope
        SSCAN missing x
        SADD k 10 9 21 1
        SSCAN k 0
        SSCAN k 17
        SSCAN k 0 COUNT 1
        SSCAN k 0 MATCH 1*
        SSCAN k 0 MATCH * COUNT 1000
        SSCAN k 0 COUNT 0
        SSCAN k 0 COUNT x
        SSCAN k 0 COUNT
        SSCAN k 0 MATCH
        SSCAN k 0 TYPE set
        SSCAN k 0 NOPE
        SSCAN k x
        SSCAN k
        SET s string
        SSCAN s 0
        SSCAN s x
    """,
}

WORDS = """
    SADD a x y "" z 1
    SADD b y z w
    SMEMBERS a
    SINTER a b
    SUNION a b missing
    SDIFF a b
    SDIFFSTORE d a b
    SMEMBERS d
    SINTERSTORE d a b
    SMEMBERS d
    SUNIONSTORE d a b
    SMEMBERS d
    SRANDMEMBER d 100
    SSCAN d 0 COUNT 1000
    SSCAN d 0 MATCH [xy] COUNT 1000
    SPOP d 100
    EXISTS d
    COPY a copy
    SMEMBERS copy
"""


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_same_replies(pair: Pair, name: str) -> None:
    assert_same(pair, [line for line in map(str.strip, SCENARIOS[name].split("\n")) if line])


def test_the_same_members_in_any_order(pair: Pair) -> None:
    lines = [line for line in map(str.strip, WORDS.split("\n")) if line]
    assert_same(pair, lines, in_any_order=True)


@pytest.mark.parametrize("name", SET_COMMANDS)
def test_command_info_equals_that_of_redis(pair: Pair, name: str) -> None:
    pair.same("COMMAND", "INFO", name)


def test_a_large_set(pair: Pair) -> None:
    for start in range(0, 5000, 500):
        pair.same("SADD", "k", *range(start, start + 500))
    pair.same("SADD", "other", *range(0, 10_000, 2))
    questions = ["SMEMBERS k", "SINTER k other", "SUNION k other", "SDIFF k other", "SDIFF other k"]
    assert_same(pair, questions, in_any_order=True)
    pair.same("SINTERCARD", 2, "k", "other", "LIMIT", 77)
    pair.same("SREM", "k", *range(0, 5000, 3))
    assert_same(pair, ["SMEMBERS k", "SSCAN k 0 COUNT 100000", "SPOP k 9999"], in_any_order=True)
    pair.same("EXISTS", "k")


def test_watchers_learn_of_each_change(
    pair: Pair, server: HoldfastServer, oracle: RedisServer
) -> None:
    changes = [
        "SADD k 1",
        "SADD k 9",
        "SREM k 9",
        "SREM k 1",
        "SMOVE k other 9",
        "SMOVE k other 1",
        "SMOVE other k 1",
        "SMOVE k k 1",
        "SPOP k 0",
        "SPOP k 10",
        "SUNIONSTORE k other",
        "SINTERSTORE k k missing",
        "SINTERSTORE missing k missing",
        "SRANDMEMBER k 10",
        "SMEMBERS k",
    ]
    watcher = Pair(server.client(), oracle.client(), 2)
    for change in changes:
        pair.same("DEL", "k", "other", "missing")
        pair.same("SADD", "k", 1, 2, 3)
        pair.same("SADD", "other", 1)
        watcher.same("WATCH", "k", "missing")
        pair.same(*change.split())
        watcher.same("MULTI")
        watcher.same("PING")
        watcher.same("EXEC")
