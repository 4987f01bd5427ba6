"""All changes of one turn are one record, and all changes of one row in it are one effect."""

import pytest

from holdfast.crdt.causal_log import decode
from holdfast.replication.feeds import Feed
from holdfast.store.replicated.record_builder import one_by_one
from tests.harness.rawclient import Argument
from tests.replication.nodes import Node, sync


def told(node: Node, *commands: list[Argument]) -> list[tuple[bytes, str]]:
    """Names and kinds in the record of a turn."""
    log = node.stage.log
    before = len(log)
    node.client.pipeline(*commands)
    node.client.replies()
    node.check()
    assert len(log) == before + 1
    return [(name, kind) for _, name, kind, _ in one_by_one(decode(log.read(before)).changes)]


@pytest.mark.parametrize(
    ("commands", "changes"),
    [
        ([["SET", "s", 1], ["SET", "s", 2], ["SET", "s", 3]], 1),
        ([["INCR", "s"], ["INCRBY", "s", 5], ["DECR", "s"]], 1),
        ([["SET", "s", 5], ["INCR", "s"], ["INCR", "s"]], 2),
        ([["INCR", "s"], ["SET", "s", 5]], 2),
        ([["INCRBYFLOAT", "s", "0.5"], ["INCRBYFLOAT", "s", "0.5"]], 2),
        ([["HINCRBY", "h", "f", 1], ["HINCRBY", "h", "f", 2], ["HSET", "h", "g", "x"]], 2),
        ([["SADD", "t", "a"], ["SADD", "t", "a"], ["SADD", "t", "b"]], 2),
        ([["RPUSH", "l", "a"], ["RPUSH", "l", "b", "c"], ["RPUSH", "m", "x"]], 2),
        ([["RPUSH", "l", "a", "b", "c"], ["LPOP", "l"], ["LPOP", "l"]], 2),
        ([["LPUSH", "l", "a"], ["RPUSH", "l", "b"], ["LPUSH", "l", "c"]], 3),
    ],
)
def test_one_change_of_a_row_is_told(commands: list[list[Argument]], changes: int) -> None:
    one, two = Node(1), Node(2)
    assert len(told(one, *commands)) == changes
    sync(one, two)


def test_increments_of_one_turn_count_beside_those_of_others() -> None:
    one, two = Node(1), Node(2)
    one("SET", "n", 10)
    sync(one, two)
    told(one, ["INCR", "n"], ["INCRBY", "n", 4])
    told(two, ["DECR", "n"], ["DECR", "n"])
    sync(one, two)
    assert one("GET", "n") == b"$2\r\n13\r\n"


def test_a_field_written_again_before_it_got_an_expiry_survives_a_removal() -> None:
    """So it survives a removal that has not seen it, though the value is the same."""
    one, two = Node(1), Node(2)
    one("HSET", "h", "f", "x")
    sync(one, two)
    told(one, ["HSET", "h", "f", "x"], ["HEXPIRE", "h", 100, "FIELDS", 1, "f"])
    two("HDEL", "h", "f")
    sync(one, two)
    assert two("HGET", "h", "f") == b"$1\r\nx\r\n"


def test_a_member_that_was_removed_and_written_again_is_new() -> None:
    one, two = Node(1), Node(2)
    one("SADD", "s", "a", "b")
    sync(one, two)
    told(one, ["SREM", "s", "a"], ["SADD", "s", "a"])
    two("SREM", "s", "a")
    sync(one, two)
    assert two("SISMEMBER", "s", "a") == b":1\r\n"


def test_no_server_is_sent_its_own_records() -> None:
    one, two = Node(1), Node(2)
    two.pull(one)
    hello = one.hello()
    one("RPUSH", "l", "a")
    two.pull(one)
    sent: list[list[bytes]] = []
    feed = Feed(two.stage, hello, sent.append)
    feed.pump()
    assert sent == []


class Relay:
    """One wrote, two has it, and feeds three."""

    def __init__(self) -> None:
        self.one, self.two, three = Node(1), Node(2), Node(3)
        self.sent: list[list[bytes]] = []
        self.feed = Feed(self.two.stage, three.hello(), self.sent.append)
        self.one("RPUSH", "l", "a")
        self.two.pull(self.one)

    def records(self) -> list[int]:
        """Whose have been sent."""
        self.feed.pump()
        sent, self.sent[:] = self.sent[:], []
        return [decode(data).origin for _, *parts in sent for data in parts]


def test_records_of_other_servers_are_not_relayed_at_once() -> None:
    relay = Relay()
    assert not relay.feed.has_news
    assert relay.records() == []
    assert relay.feed.is_holding
    relay.feed.acknowledged(dict(relay.one.stage.vector), 0)
    relay.feed.relay()
    relay.feed.relay()
    assert relay.records() == []
    assert not relay.feed.is_holding


def test_records_that_others_did_not_send_in_time_are_relayed() -> None:
    relay = Relay()
    relay.feed.relay()
    assert relay.records() == []
    relay.feed.relay()
    assert relay.feed.has_news
    assert relay.records() == [1]
    assert not relay.feed.is_holding


def test_records_that_an_own_record_may_depend_on_go_before_it() -> None:
    relay = Relay()
    relay.two("LPOP", "l")
    assert relay.feed.has_news
    assert relay.records() == [1, 2]
