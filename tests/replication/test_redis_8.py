"""Commands of Redis 8 on two servers that share a database: each follows the rule of its type."""

import shlex

import pytest

from tests.replication.nodes import Node, sync


def say(node: Node, line: str) -> bytes:
    return node(*shlex.split(line))


def test_bounded_increments_add_up() -> None:
    """Each server sees its own bound only, so together they may pass it."""
    one, two = Node(1), Node(2)
    say(one, "SET n 5")
    say(one, "SET f 1.5")
    sync(one, two)
    for node in (one, two):
        assert say(node, "INCREX n BYINT 10 UBOUND 12 SATURATE EX 100") == b"*2\r\n:12\r\n:7\r\n"
        say(node, "INCREX f BYFLOAT 0.25")
    say(one, "INCREX n BYINT 100 UBOUND 12")
    sync(one, two)
    for node in (one, two):
        assert say(node, "GET n") == b"$2\r\n19\r\n"
        assert say(node, "GET f") == b"$1\r\n2\r\n"
        assert say(node, "TTL n") == b":100\r\n"
        node.check()
    assert one.digest() == two.digest()


@pytest.mark.parametrize(
    ("mine", "yours", "question", "answer"),
    [
        # fields: both are kept, and one that is removed by a server that has not seen it stays
        ("HSETEX h EX 9 FIELDS 1 b 2", "HSETEX h FIELDS 1 c 3", "HMGET h b c", [b"2", b"3"]),
        ("HGETDEL h FIELDS 1 a", "HSETEX h FIELDS 1 a 2", "HGET h a", [b"2"]),
        ("HGETDEL h FIELDS 1 a", "HSET h b 1", "HMGET h a b", [None, b"1"]),
        ("HGETEX h EX 100 FIELDS 1 a", "HSET h b 1", "HTTL h FIELDS 2 a b", [100, -1]),
        ("HSETEX h PXAT 1 FIELDS 1 a 2", "HSET h b 1", "HMGET h a b", [None, b"1"]),
        # elements of both are kept
        ("LMOVEM l t LEFT RIGHT COUNT 2 BULK", "RPUSH t y", "LRANGE l 0 -1", [b"3"]),
        ("LMOVEM l l LEFT RIGHT COUNT 2 BULK", "SADD x 1", "LRANGE l 0 -1", [b"3", b"1", b"2"]),
        # a removal removes what it saw
        ("DELEX s IFEQ v", "SET s w", "GET s", [b"w"]),
        ("DELIFEQ s v", "SADD x 1", "EXISTS s", [0]),
        # strings: the later write wins
        ("SET s a IFEQ v", "SADD x 1", "GET s", [b"a"]),
        ("MSETEX 2 s a r b EX 100", "SADD x 1", "MGET s r", [b"a", b"b"]),
        ("ZUNIONSTORE z 2 y y AGGREGATE COUNT", "SADD x 1", "ZSCORE z m", [b"2"]),
        ("BITOP ONE d s s", "SADD x 1", "STRLEN d", [1]),
    ],
)  # fmt: skip
def test_two_servers(mine: str, yours: str, question: str, answer: list[object]) -> None:
    one, two = Node(1), Node(2)
    for line in ("HSET h a 1", "RPUSH l 1 2 3", "RPUSH t x", "SET s v", "ZADD y 9 m"):
        say(one, line)
    sync(one, two)
    say(one, mine)
    say(two, yours)
    sync(one, two)
    for node in (one, two):
        reply = say(node, question)
        for part in answer:
            text = b"$-1" if part is None else b":%d" % part if isinstance(part, int) else part
            assert isinstance(text, bytes)
            assert text in reply
        node.check()
    assert say(one, question) == say(two, question)
    assert one.digest() == two.digest()


def test_a_whole_hash_is_replaced() -> None:
    one, two = Node(1), Node(2)
    say(one, "HSET h old 1")
    sync(one, two)
    say(one, "HIMPORT PREPARE u a b")
    assert say(one, "HIMPORT SET h u 1 2") == b"+OK\r\n"
    sync(one, two)
    for node in (one, two):
        assert say(node, "HGETALL h") == b"*4\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nb\r\n$1\r\n2\r\n"
        node.check()


def test_a_push_of_a_peer_wakes_a_client_that_waits_for_more() -> None:
    one, two = Node(1), Node(2)
    say(one, "RPUSH l 1")
    sync(one, two)
    waiting = two.another_client()
    waiting.send("BLMOVEM", "l", "t", "LEFT", "RIGHT", 0, "EXACTLY", 2, "BULK")
    assert waiting.replies() == []
    say(one, "RPUSH l 2")
    two.pull(one)
    assert waiting.replies() == [b"*2\r\n$1\r\n1\r\n$1\r\n2\r\n"]
