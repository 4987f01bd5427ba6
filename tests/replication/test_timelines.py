"""The timelines of the design, by commands: two nodes run commands, then sync, and clients of both
see the expected values. tests/crdt tests the values themselves."""

import pytest

from tests.harness.rawclient import Argument
from tests.replication.nodes import Node, sync


class Timeline:
    def __init__(self) -> None:
        self.one, self.two = Node(1), Node(2)

    def sync(self) -> None:
        sync(self.one, self.two)

    def both(self, *args: Argument) -> list[str]:
        """The words of a reply that both give."""
        replies = {node(*args) for node in (self.one, self.two)}
        assert len(replies) == 1, replies
        lines = replies.pop().decode().split("\r\n")[:-1]
        return [line for line in lines if line[:1] not in ("*", "$")] if len(lines) > 1 else lines

    def tick(self) -> None:
        for node in (self.one, self.two):
            node.clock.advance(0.01)


@pytest.fixture
def line() -> Timeline:
    return Timeline()


def test_sadd_and_sadd(line: Timeline) -> None:
    line.one("SADD", "k", "a")
    line.two("SADD", "k", "b")
    line.sync()
    assert line.both("SMISMEMBER", "k", "a", "b") == [":1", ":1"]


def test_srem_and_sadd(line: Timeline) -> None:
    line.one("SADD", "k", "a", "b")
    line.sync()
    line.one("SREM", "k", "a")
    line.one("SREM", "k", "c")
    line.two("SADD", "k", "c")
    line.sync()
    assert line.both("SMISMEMBER", "k", "a", "b", "c") == [":0", ":1", ":1"]


def test_a_member_that_is_added_again_survives(line: Timeline) -> None:
    line.one("SADD", "k", "a")
    line.sync()
    line.one("SREM", "k", "a")
    assert line.two("SADD", "k", "a") == b":0\r\n"
    line.sync()
    assert line.both("SMEMBERS", "k") == ["a"]


def test_sadd_and_del(line: Timeline) -> None:
    line.one("SADD", "k", "e1")
    line.sync()
    line.one("SADD", "k", "e2")
    line.two("DEL", "k")
    line.sync()
    assert line.both("SMEMBERS", "k") == ["e2"]


def test_counters(line: Timeline) -> None:
    line.one("INCRBY", "k", 7)
    line.two("INCRBY", "k", 3)
    line.sync()
    assert line.both("GET", "k") == ["10"]
    line.one("DECRBY", "k", 3)
    line.two("INCRBY", "k", 6)
    line.sync()
    assert line.both("GET", "k") == ["13"]


def test_hash_fields_and_counters_in_them(line: Timeline) -> None:
    line.one("HSET", "k", "f1", "a")
    line.two("HSET", "k", "f2", "b")
    for node in (line.one, line.two):
        node("HINCRBY", "k", "n", 2)
    line.sync()
    assert line.both("HMGET", "k", "f1", "f2", "n") == ["a", "b", "4"]


def test_hdel_and_hset(line: Timeline) -> None:
    line.one("HSET", "k", "f", "a")
    line.sync()
    line.one("HDEL", "k", "f")
    line.two("HSET", "k", "f", "b")
    line.sync()
    assert line.both("HGET", "k", "f") == ["b"]


def test_strings(line: Timeline) -> None:
    line.two("SET", "k", "earlier")
    line.tick()
    line.one("SET", "k", "later")
    line.sync()
    assert line.both("GET", "k") == ["later"]


def test_strings_of_the_same_instant(line: Timeline) -> None:
    line.one("SET", "k", "one's")
    line.two("SET", "k", "two's")
    line.sync()
    assert line.both("GET", "k") == ["one's"]


def test_zadd_one_after_the_other(line: Timeline) -> None:
    line.one("ZADD", "k", "1.1", "x")
    line.sync()
    line.two("ZADD", "k", "1.2", "y")
    line.sync()
    assert line.both("ZRANGE", "k", 0, -1) == ["x", "y"]


def test_zadd_and_a_later_zadd(line: Timeline) -> None:
    line.one("ZADD", "k", "1.1", "x")
    line.tick()
    line.two("ZADD", "k", "2.1", "x")
    line.sync()
    assert float(line.both("ZSCORE", "k", "x")[0]) == 2.1


def test_zadd_and_zadd_at_the_same_instant(line: Timeline) -> None:
    line.one("ZADD", "k", "1.1", "x")
    line.two("ZADD", "k", "2.1", "x")
    line.sync()
    assert float(line.both("ZSCORE", "k", "x")[0]) == 1.1


def test_zincrby_and_zincrby(line: Timeline) -> None:
    line.one("ZADD", "k", "1.1", "x")
    line.sync()
    for node in (line.one, line.two):
        node("ZINCRBY", "k", 1, "x")
    line.sync()
    assert float(line.both("ZSCORE", "k", "x")[0]) == 3.1


def test_zrem_and_zincrby(line: Timeline) -> None:
    line.one("ZADD", "k", "4.1", "x")
    line.sync()
    line.one("ZREM", "k", "x")
    line.two("ZINCRBY", "k", 2, "x")
    line.sync()
    assert line.both("ZSCORE", "k", "x") == ["2"]


def test_lpush_one_after_the_other(line: Timeline) -> None:
    line.one("LPUSH", "k", "hello")
    line.sync()
    line.two("LPUSH", "k", "world")
    line.sync()
    assert line.both("LRANGE", "k", 0, -1) == ["world", "hello"]


def test_linsert_and_linsert(line: Timeline) -> None:
    line.one("LPUSH", "k", "x")
    line.sync()
    line.one("LINSERT", "k", "AFTER", "x", "y1")
    line.two("LINSERT", "k", "AFTER", "x", "y2")
    line.sync()
    assert line.both("LRANGE", "k", 0, -1) == ["x", "y1", "y2"]


def test_lpush_and_del(line: Timeline) -> None:
    line.one("LPUSH", "k", "x")
    line.sync()
    line.one("LPUSH", "k", "y")
    line.two("DEL", "k")
    line.sync()
    assert line.both("LRANGE", "k", 0, -1) == ["y"]


def test_lset_and_lset(line: Timeline) -> None:
    line.one("RPUSH", "k", "a", "b")
    line.sync()
    line.two("LSET", "k", 0, "earlier")
    line.tick()
    line.one("LSET", "k", 0, "later")
    line.sync()
    assert line.both("LRANGE", "k", 0, -1) == ["later", "b"]


def test_ltrim_and_lpush(line: Timeline) -> None:
    line.one("RPUSH", "k", "a", "b", "c")
    line.sync()
    line.one("LTRIM", "k", 0, 0)
    line.two("LPUSH", "k", "new")
    line.two("LREM", "k", 0, "a")
    line.sync()
    assert line.both("LRANGE", "k", 0, -1) == ["new"]


def test_pops_are_at_least_once(line: Timeline) -> None:
    line.one("LPUSH", "k", "x", "y", "z")
    line.sync()
    assert line.two("RPOP", "k") == b"$1\r\nx\r\n"
    line.sync()
    assert line.one("RPOP", "k") == b"$1\r\ny\r\n"
    line.sync()
    assert line.both("RPOP", "k") == ["z"]
    line.sync()
    assert line.both("EXISTS", "k") == [":0"]


def test_clients_that_wait_on_two_servers_get_an_element_of_a_third_one_twice(
    line: Timeline,
) -> None:
    """The guide warns of it: consume one queue on one server."""
    three = Node(3)
    for node in (line.one, line.two):
        node.client.send("BLPOP", "k", 0)
    three("RPUSH", "k", "x")
    for node in (line.one, line.two):
        node.pull(three)
        assert node.client.replies() == [b"*2\r\n$1\r\nk\r\n$1\r\nx\r\n"]
    sync(line.one, line.two, three)
    assert line.both("EXISTS", "k") == [":0"]


def test_an_element_is_popped_once_if_a_client_waits_where_it_is_pushed(line: Timeline) -> None:
    for node in (line.one, line.two):
        node.client.send("BLPOP", "k", 0)
    line.one.another_client().command("RPUSH", "k", "x")
    line.sync()
    assert line.one.client.replies() == [b"*2\r\n$1\r\nk\r\n$1\r\nx\r\n"]
    assert line.two.client.is_waiting


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        (("APPEND", "k", "a"), ("APPEND", "k", "b")),
        (("SETRANGE", "k", 1, "a"), ("SETRANGE", "k", 3, "b")),
        (("SETBIT", "k", 62, 1), ("SETBIT", "k", 63, 1)),
    ],
    ids=lambda command: command[0],
)
def test_a_change_inside_of_a_string_writes_all_of_it(
    line: Timeline, earlier: tuple[Argument, ...], later: tuple[Argument, ...]
) -> None:
    """The guide warns of it: the later one wins, and the other change is lost."""
    line.one("SET", "k", "v")
    line.sync()
    line.two(*earlier)
    line.tick()
    line.one(*later)
    expected = line.one("GET", "k")
    line.sync()
    assert {node("GET", "k") for node in (line.one, line.two)} == {expected}


def test_messages_reach_the_clients_of_one_server(line: Timeline) -> None:
    subscriber = line.two.another_client()
    subscriber.command("SUBSCRIBE", "news")
    assert line.one("PUBLISH", "news", "hello") == b":0\r\n"
    line.sync()
    assert subscriber.replies() == []
    assert line.two("PUBLISH", "news", "hello") == b":1\r\n"


def test_a_remote_push_wakes_a_waiting_client(line: Timeline) -> None:
    line.one.client.send("BLPOP", "k", 0)
    assert line.one.client.is_waiting
    line.two("RPUSH", "k", "x")
    line.one.pull(line.two)
    assert line.one.client.replies() == [b"*2\r\n$1\r\nk\r\n$1\r\nx\r\n"]
    line.sync()
    assert line.two("EXISTS", "k") == b":0\r\n"


def test_the_longer_expiry(line: Timeline) -> None:
    line.one("SET", "k", "v")
    line.sync()
    line.one("EXPIRE", "k", 10)
    line.two("EXPIRE", "k", 50)
    line.sync()
    assert line.both("TTL", "k") == [":50"]


def test_expire_and_persist(line: Timeline) -> None:
    line.one("SET", "k", "v")
    line.sync()
    line.one("EXPIRE", "k", 10)
    assert line.two("PERSIST", "k") == b":0\r\n"
    line.sync()
    assert line.both("TTL", "k") == [":-1"]


def test_a_key_that_expires_can_be_prolonged_by_a_peer_not_heard_yet(line: Timeline) -> None:
    """Expired for every reader, but its value stays until all members were heard."""
    line.one("SET", "k", "v", "EX", 10)
    line.sync()
    line.two("EXPIRE", "k", 100)
    for node in (line.one, line.two):
        node.clock.advance(20)
    assert line.one("GET", "k") == b"$-1\r\n"
    line.one.tidy()
    line.one.pull(line.two)
    assert line.one("GET", "k") == b"$1\r\nv\r\n"


def test_an_expired_key_is_gone_once_all_members_were_heard(line: Timeline) -> None:
    line.one("SET", "k", "v", "EX", 10)
    line.sync()
    for node in (line.one, line.two):
        node.clock.advance(20)
        assert node("EXISTS", "k") == b":0\r\n"
    assert line.both("DBSIZE") == [":1"]
    line.sync()
    for node in (line.one, line.two):
        node.tidy()
    assert line.both("DBSIZE") == [":0"]
    line.sync()


def test_the_lower_node_decides_about_the_type(line: Timeline) -> None:
    line.one("SET", "k", "v")
    line.two("RPUSH", "k", "x")
    line.sync()
    assert line.both("TYPE", "k") == ["+string"]


def test_both_entries_of_a_stream(line: Timeline) -> None:
    line.one("XADD", "k", "*", "f", "1")
    line.two("XADD", "k", "*", "f", "2")
    line.sync()
    assert line.both("XLEN", "k") == [":2"]


def test_hyperloglogs(line: Timeline) -> None:
    line.one("PFADD", "k", "a", "b")
    line.two("PFADD", "k", "b", "c")
    line.sync()
    assert line.both("PFCOUNT", "k") == [":3"]


def test_transactions_and_scripts_arrive_whole(line: Timeline) -> None:
    line.one.client.transaction(("RPUSH", "k", "a"), ("INCR", "n"))
    line.one("EVAL", "redis.call('RPUSH', 'k', 'b') redis.call('INCR', 'n')", 0)
    assert len(line.one.stage.log) == 2
    line.sync()
    assert line.both("LRANGE", "k", 0, -1) == ["a", "b"]
    assert line.both("GET", "n") == ["2"]


def test_a_script_that_fails_leaves_nothing(line: Timeline) -> None:
    line.one("EVAL", "redis.call('RPUSH', 'k', 'b') return redis.call('INCR', 'k')", 0)
    line.sync()
    assert line.both("EXISTS", "k") == [":0"]
    assert len(line.one.stage.log) == 0


def test_rename_takes_the_elements_that_it_saw(line: Timeline) -> None:
    line.one("RPUSH", "k", "a")
    line.sync()
    line.one("RENAME", "k", "new")
    line.two("RPUSH", "k", "b")
    line.sync()
    assert line.both("LRANGE", "new", 0, -1) == ["a"]
    assert line.both("LRANGE", "k", 0, -1) == ["b"]


def test_commands_that_a_replicated_database_refuses(line: Timeline) -> None:
    assert line.one("SWAPDB", 0, 1).startswith(b"-ERR SWAPDB is not possible")
    assert line.one("XADD", "k", "1-1", "f", "v").startswith(b"-ERR on an active-active server")
    assert line.one("EXISTS", "k") == b":0\r\n"


class TestFlush:
    def test_concurrent_changes_of_others_survive_a_flush(self, line: Timeline) -> None:
        line.one("MSET", "a", 1, "b", 2, "c", 3)
        line.one("RPUSH", "list", "x", "y")
        line.one("INCRBY", "n", 5)
        line.one("HINCRBY", "h", "f", 5)
        line.one("HSET", "h", "gone", 1)
        line.sync()
        line.one("FLUSHALL")
        line.two("SET", "b", "new")
        line.two("RPUSH", "list", "z")
        line.two("INCRBY", "n", 1)
        line.two("HINCRBY", "h", "f", 1)
        line.two("EXPIRE", "c", 100)
        line.sync()
        assert line.both("DBSIZE") == [":4"]
        assert line.both("GET", "b") == ["new"]
        assert line.both("GET", "n") == ["1"]
        assert line.both("HGETALL", "h") == ["f", "1"]
        assert line.both("LRANGE", "list", 0, -1) == ["z"]

    def test_a_counter_that_its_author_went_on_with(self, line: Timeline) -> None:
        """The other has seen 5 of it, and flushes; also when that is heard after two more."""
        line.two("INCRBY", "n", 5)
        line.sync()
        line.two("INCRBY", "n", 2)
        line.one("FLUSHDB")
        line.two("INCRBY", "n", 3)
        line.sync()
        assert line.both("GET", "n") == ["5"]
        line.one("INCRBY", "n", 1)
        line.sync()
        assert line.both("GET", "n") == ["6"]

    def test_both_flush(self, line: Timeline) -> None:
        line.one("SET", "a", 1)
        line.sync()
        line.one("FLUSHALL")
        line.one("SET", "b", 1)
        line.two("FLUSHALL")
        line.two("INCR", "c")
        line.sync()
        assert line.both("DBSIZE") == [":2"]

    def test_one_database_and_a_transaction(self, line: Timeline) -> None:
        """The effects of a transaction before it are gone, and those after it stay."""
        line.one("SET", "a", 1)
        line.one("MOVE", "a", 1)
        line.one.client.transaction(
            ("SET", "b", 1),
            ("FLUSHDB",),
            ("SET", "c", 1),
            ("RPUSH", "d", 1),
            ("FLUSHDB",),
            ("SET", "e", 1),
        )
        line.sync()
        assert line.both("KEYS", "*") == ["e"]
        for node in (line.one, line.two):
            node("SELECT", 1)
        assert line.both("KEYS", "*") == ["a"]
        for node in (line.one, line.two):
            node("SELECT", 0)

    def test_a_script_that_fails_has_not_flushed(self, line: Timeline) -> None:
        line.one("SET", "a", 1)
        line.sync()
        line.one("EVAL", "redis.call('flushall') redis.call('set', 'b', 1) error('no')", 0)
        line.sync()
        assert line.both("KEYS", "*") == ["a"]
        line.one("SET", "a", 2)
        line.sync()
        assert line.both("GET", "a") == ["2"]

    def test_a_flush_is_few_bytes_and_keeps_nothing(self, line: Timeline) -> None:
        for number in range(100):
            line.one("SET", f"key-{number}", number)
            line.two("RPUSH", f"list-{number}", number)
        line.sync()
        before = line.one.stage.log.total_bytes
        line.one("FLUSHALL")
        assert line.one.stage.log.total_bytes - before < 100
        line.sync()
        for node in (line.one, line.two):
            assert node.stage.replica_keys.addresses == []
            assert node.stage.addresses == {}


def test_a_group_lags_by_the_entries_that_it_was_not_given() -> None:
    """After any reads and deletes the lag is never negative."""
    one, two = Node(1), Node(2)
    for _ in range(3):
        one("XADD", "s", "*", "f", "v")
    sync(one, two)
    two("XGROUP", "CREATE", "s", "g", "0")
    two("XREADGROUP", "GROUP", "g", "me", "STREAMS", "s", ">")
    sync(one, two)
    for node in (one, two):
        node.clock.advance(1)
    one("DEL", "s")
    two("XADD", "s", "*", "f", "v")
    two("XGROUP", "CREATE", "s", "h", "0")
    two("XREADGROUP", "GROUP", "h", "me", "STREAMS", "s", ">")
    sync(one, two)
    for node in (one, two):
        assert lags(node) == [0]
    one("XADD", "s", "*", "f", "v")
    sync(one, two)
    for node in (one, two):
        assert lags(node) == [1]
        assert b"lag\r\n:1" in node("XINFO", "STREAM", "s", "FULL")


def lags(node: Node) -> list[int]:
    lines = node("XINFO", "GROUPS", "s").split(b"\r\n")
    return [int(lines[at + 1][1:]) for at, line in enumerate(lines) if line == b"lag"]
