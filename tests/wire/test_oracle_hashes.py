"""Hash commands against redis-server, byte for byte, in RESP2 and RESP3. The oracle has no field
expiry: that is in tests/commands/test_hash_expiry.py.
"""

import pytest

from tests.harness import HoldfastServer, Pair, RedisServer
from tests.wire.same import assert_same

HASH_COMMANDS = (
    *("hset", "hsetnx", "hmset", "hget", "hmget", "hgetall", "hdel", "hexists", "hlen", "hkeys"),
    *("hvals", "hincrby", "hincrbyfloat", "hstrlen", "hscan", "hrandfield"),
)

SCENARIOS = {
    "set": """
        HSET h a 1
        HSET h a 2 b 3 c 4
        HSET h a 5 a 6
        HGETALL h
        HSET h a
        HSET h a 1 b
        hMSET h a 1 b
        HSET h
        HMSET h x 1 y 2
        HMSET h x
        HSETNX h x 9
        HSETNX h z 9
        HSETNX new f ""
        HGETALL new
        HGETALL h
        TYPE h
        SET s string
        HSET s a 1
        HMSET s a 1
        HSETNX s a 1
        HSET s a
    """,
    "get": """
        HSET h a 1 b "" c 3
        HGET h a
        HGET h b
        HGET h nope
        HGET missing a
        HMGET h a nope b a
        HMGET missing a b
        HMGET h
        HEXISTS h a
        HEXISTS h nope
        HEXISTS missing a
        HLEN h
        HLEN missing
        HSTRLEN h a
        HSTRLEN h b
        HSTRLEN h nope
        HSTRLEN missing a
        HKEYS h
        HVALS h
        HGETALL h
        HKEYS missing
        HVALS missing
        HGETALL missing
        SET s string
        HGET s a
        HMGET s a
        HEXISTS s a
        HLEN s
        HSTRLEN s a
        HKEYS s
        HVALS s
        HGETALL s
    """,
    "order": """
        HSET h z 1 a 2 m 3
        HSET h a 9
        HGETALL h
        HDEL h z
        HSET h z 4
        HGETALL h
        HINCRBY h m 1
        HKEYS h
        COPY h copy
        HGETALL copy
        RENAME copy renamed
        HGETALL renamed
    """,
    "delete": """
        HSET h a 1 b 2 c 3
        HDEL h a nope a
        HDEL h b c d
        EXISTS h
        HDEL h a
        HDEL missing a
        HDEL h
        SET s string
        HDEL s a
    """,
    "increment": """
        HINCRBY h n 5
        HINCRBY h n -7
        HINCRBY h n 9223372036854775807
        HINCRBY h n 9223372036854775807
        HINCRBY h m -9223372036854775808
        HINCRBY h m -1
        HINCRBY h n x
        HINCRBY h n 1.5
        HINCRBY h n 9223372036854775808
        HSET h text abc float 1.5 blank " 1" empty ""
        HINCRBY h text 1
        HINCRBY h float 1
        HINCRBY h blank 1
        HINCRBY h empty 1
        HGETALL h
        SET s string
        HINCRBY s n 1
        HINCRBY s n x
        HINCRBY new n x
        EXISTS new
    """,
    "increment by float": """
        HINCRBYFLOAT h n 1.5
        HINCRBYFLOAT h n -0.5
        HINCRBYFLOAT h n 1e3
        HINCRBYFLOAT h n 0.1
        HINCRBYFLOAT h third 0.333333333333333333333
        HINCRBYFLOAT h n inf
        HINCRBYFLOAT h n -inf
        HINCRBYFLOAT h n nan
        HINCRBYFLOAT h n x
        HINCRBYFLOAT h n ""
        HINCRBYFLOAT h n " 1"
        HINCRBYFLOAT new n x
        HINCRBYFLOAT new n inf
        EXISTS new
        HSET h text abc huge 1e4932 infinite inf empty "" hex 0x10
        HINCRBYFLOAT h text 1
        HINCRBYFLOAT h huge 1e4932
        HINCRBYFLOAT h infinite 1
        HINCRBYFLOAT h empty 1
        HINCRBYFLOAT h hex 1
        SET s string
        HINCRBYFLOAT s n 1
        HINCRBYFLOAT s n x
        HGETALL h
    """,
    "scan": """
        HSCAN missing 0
        HSCAN missing 0 COUNT nope
        HSCAN missing x
        HSET h a 1 b 2 abc 3 "" 4
        HSCAN h 0
        HSCAN h 17
        HSCAN h -1
        HSCAN h 0 COUNT 1
        HSCAN h 0 MATCH a*
        HSCAN h 0 MATCH * COUNT 1000
        HSCAN h 0 MATCH nope
        HSCAN h 0 COUNT 0
        HSCAN h 0 COUNT x
        HSCAN h 0 COUNT
        HSCAN h 0 MATCH
        HSCAN h 0 TYPE hash
        HSCAN h 0 NOPE
        HSCAN h x
        HSCAN h 99999999999999999999999
        HSCAN h
        SET s string
        HSCAN s 0
        HSCAN s x
    """,
    "random": """
        HRANDFIELD missing
        HRANDFIELD missing 3
        HRANDFIELD missing -3 WITHVALUES
        HSET one a 1
        HRANDFIELD one
        HRANDFIELD one 0
        HRANDFIELD one 1
        HRANDFIELD one 5
        HRANDFIELD one -3
        HRANDFIELD one 1 WITHVALUES
        HRANDFIELD one 5 withvalues
        HRANDFIELD one -3 WITHVALUES
        HRANDFIELD one 0 WITHVALUES
        HSET h c 1 b 2 a 3
        HRANDFIELD h 3
        HRANDFIELD h 9223372036854775807
        HRANDFIELD h 3 WITHVALUES
        HRANDFIELD h 4 WITHVALUES
        HRANDFIELD h x
        HRANDFIELD h 1 NOPE
        HRANDFIELD h 1 WITHVALUES NOPE
        HRANDFIELD h WITHVALUES
        HRANDFIELD h -9223372036854775808
        HRANDFIELD h 9223372036854775808
        HRANDFIELD h 4611686018427387904 WITHVALUES
        HRANDFIELD h 4611686018427387903 WITHVALUES
        HRANDFIELD h -4611686018427387905 WITHVALUES
        HRANDFIELD missing -9223372036854775807
        SET s string
        HRANDFIELD s
        HRANDFIELD s 1
        HRANDFIELD s x
    """,
    "encoding": f"""
        HSET h a 1
        OBJECT ENCODING h
        HSET h b {"x" * 64}
        OBJECT ENCODING h
        HSET h b {"x" * 65}
        OBJECT ENCODING h
        HSET h b 1
        OBJECT ENCODING h
        HSET f {"y" * 64} 1
        OBJECT ENCODING f
        HSET f {"y" * 65} 1
        OBJECT ENCODING f
        HDEL f {"y" * 65}
        OBJECT ENCODING f
        HSET many {" ".join(f"f{n} {n}" for n in range(512))}
        OBJECT ENCODING many
        HGETALL many
        HSCAN many 0 COUNT 5
        HSET many f0 again
        OBJECT ENCODING many
        HSETNX many one more
        OBJECT ENCODING many
        HDEL many one f0 f1
        OBJECT ENCODING many
        HLEN many
    """,
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_same_replies(pair: Pair, name: str) -> None:
    assert_same(pair, [line for line in map(str.strip, SCENARIOS[name].split("\n")) if line])


@pytest.mark.parametrize("name", HASH_COMMANDS)
def test_command_info_equals_that_of_redis(pair: Pair, name: str) -> None:
    pair.same("COMMAND", "INFO", name)


def test_binary_fields_and_values(pair: Pair) -> None:
    pair.same("HSET", b"\x00\r\n", b"", b"\xff", b"\r\n", b"x" * 100_000, b"\x00", b"$-1\r\n")
    pair.same("HMGET", b"\x00\r\n", b"\x00", b"", b"\r\n")
    pair.same("HSTRLEN", b"\x00\r\n", b"\r\n")


def test_a_large_hash(pair: Pair) -> None:
    for start in range(0, 5000, 500):
        pair.same("HSET", "h", *(text for n in range(start, start + 500) for text in (n, n * n)))
    pair.same("HLEN", "h")
    in_any_order = [
        "HGETALL h",
        "HKEYS h",
        "HVALS h",
        "HSCAN h 0 COUNT 100000",
        "HRANDFIELD h 5000",
    ]
    assert_same(pair, in_any_order, in_any_order=True)
    pair.same("HDEL", "h", *range(0, 5000, 3))
    assert_same(pair, ["HGETALL h", "HRANDFIELD h 9999 WITHVALUES"], in_any_order=True)


def test_watchers_learn_of_each_change(
    pair: Pair, server: HoldfastServer, oracle: RedisServer
) -> None:
    changes = [
        "HSET h a 1",
        "HSET h new 1",
        "HSETNX h a 1",
        "HSETNX missing a 1",
        "HDEL h nope",
        "HDEL h a",
        "HDEL h a b",
        "HDEL missing a",
        "HINCRBY h a 0",
        "HINCRBY h text 1",
        "HINCRBYFLOAT h a 1",
        "HGETALL h",
        "HSCAN h 0",
    ]
    watcher = Pair(server.client(), oracle.client(), 2)
    for change in changes:
        pair.same("DEL", "h", "missing")
        pair.same("HSET", "h", "a", "1", "b", "2", "text", "x")
        watcher.same("WATCH", "h", "missing")
        pair.same(*change.split())
        watcher.same("MULTI")
        watcher.same("PING")
        watcher.same("EXEC")
