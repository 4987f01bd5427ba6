"""Publish and subscribe, byte for byte as with redis-server."""

from collections.abc import Iterator

import pytest

from tests.harness import HoldfastServer, Pair, RedisServer, wait_until
from tests.wire.play import play
from tests.wire.same import assert_same
from tests.wire.stage import Stage, open_stage

COMMANDS = (
    *("subscribe", "unsubscribe", "psubscribe", "punsubscribe", "ssubscribe", "sunsubscribe"),
    *("publish", "spublish"),
)


@pytest.fixture
def stage(server: HoldfastServer, oracle: RedisServer, protocol: int) -> Iterator[Stage]:
    with open_stage(server, oracle, protocol) as stage:
        yield stage


@pytest.mark.parametrize("name", COMMANDS)
def test_command_info(pair: Pair, name: str) -> None:
    pair.same("COMMAND", "INFO", name)
    pair.same("COMMAND", "GETKEYS", name, "a", "b")
    pair.same("COMMAND", "GETKEYS", name)


SCRIPTS = {
    "a message": "a: SUBSCRIBE x / b: PUBLISH x hello / b: PUBLISH y hello / b: PUBLISH x ''",
    "several channels": "a: SUBSCRIBE x y x / b: PUBLISH x 1 / b: PUBLISH y 2 / a: UNSUBSCRIBE x y",
    "counts": "a: SUBSCRIBE x y / a: PSUBSCRIBE p / a: SSUBSCRIBE s t / a: UNSUBSCRIBE y / "
    "a: PUNSUBSCRIBE q / a: SUNSUBSCRIBE s / a: PSUBSCRIBE q q",
    "unsubscribe from nothing": "a: UNSUBSCRIBE / a: PUNSUBSCRIBE / a: SUNSUBSCRIBE / "
    "a: UNSUBSCRIBE x y / a: PUNSUBSCRIBE x / a: SUNSUBSCRIBE x / a: SET k v",
    "unsubscribe from all": "a: SUBSCRIBE x / a: PSUBSCRIBE p / a: SSUBSCRIBE s / a: UNSUBSCRIBE / "
    "a: UNSUBSCRIBE / a: PUNSUBSCRIBE / a: SUNSUBSCRIBE / a: SUNSUBSCRIBE / a: GET k",
    "patterns": "a: PSUBSCRIBE n?w* / b: PUBLISH new 1 / b: PUBLISH now. 2 / b: PUBLISH nw 3 / "
    "b: PUBLISH NEW 4 / a: PUNSUBSCRIBE n?w* / b: PUBLISH new 5",
    "a channel and its pattern": "a: SUBSCRIBE x / a: PSUBSCRIBE x* / b: PUBLISH x 1 / "
    "b: PUBLISH xy 1",
    "a pattern is no channel": "a: PSUBSCRIBE x / a: SUBSCRIBE x* / b: PUBLISH x 1 / "
    "b: PUBLISH x* 1 / b: PUBLISH xy 1",
    "the empty channel": "a: PSUBSCRIBE * / b: PUBLISH '' 1 / a: SUBSCRIBE '' / b: PUBLISH '' 2",
    "several listeners": "a: SUBSCRIBE x / b: SUBSCRIBE x / c: PSUBSCRIBE ? / d: PUBLISH x 1",
    "shards are apart": "a: SSUBSCRIBE x / b: SUBSCRIBE x / c: PSUBSCRIBE * / d: SPUBLISH x 1 / "
    "d: PUBLISH x 2 / d: SPUBLISH y 3",
    "databases are not": "a: SUBSCRIBE x / b: SELECT 3 / b: PUBLISH x 1",
    "only some commands": "a: SUBSCRIBE x / a: GET k / a: PUBLISH x 1 / a: PING / a: PING hi / "
    "a: PING a b / a: CLIENT ID x / a: HELLO / a: NOPE / a: GET / a: MULTI / a: DISCARD",
    "shards restrict as well": "a: SSUBSCRIBE x / a: GET k / a: PING / a: SUNSUBSCRIBE x / "
    "a: GET k",
    "patterns restrict as well": "a: PSUBSCRIBE x / a: GET k / a: PING / a: PUNSUBSCRIBE / "
    "a: GET k",
    "reset": "a: SUBSCRIBE x / a: PSUBSCRIBE p* / a: SSUBSCRIBE s / a: RESET / a: GET k / "
    "b: PUBLISH x 1 / b: PUBLISH p 1 / b: SPUBLISH s 1 / b: PUBSUB NUMPAT / b: PUBSUB CHANNELS",
    "numbers": "a: SUBSCRIBE x y / a: SSUBSCRIBE s / c: SUBSCRIBE x / a: PSUBSCRIBE p q / "
    "c: PSUBSCRIBE p / b: PUBSUB NUMSUB x y z s x / b: PUBSUB NUMSUB / b: PUBSUB NUMPAT / "
    "b: PUBSUB SHARDNUMSUB s x / b: PUBSUB SHARDNUMSUB / b: PUBSUB SHARDCHANNELS / "
    "b: PUBSUB SHARDCHANNELS x* / b: PUBSUB CHANNELS y* / b: PUBSUB CHANNELS '' / b: INFO nope",
    "mistakes": "a: PUBSUB / a: PUBSUB NOPE / a: PUBSUB CHANNELS a b / a: PUBSUB NUMPAT x / "
    "a: PUBSUB SHARDCHANNELS a b / a: PUBLISH x / a: PUBLISH a b c / a: SPUBLISH x / "
    "a: SUBSCRIBE / a: PSUBSCRIBE / a: SSUBSCRIBE / a: PUBSUB HELP x",
    "publishing to oneself": "a: HELLO 3 / a: SUBSCRIBE x / a: PSUBSCRIBE * / a: PUBLISH x 1 / "
    "a: SSUBSCRIBE x / a: SPUBLISH x 2 / a: GET k / a: HELLO 2 / a: GET k / a: UNSUBSCRIBE x",
    "in a transaction": "a: SUBSCRIBE x / b: MULTI / b: PUBLISH x 1 / b: SET k 1 / "
    "b: PUBLISH x 2 / b: EXEC / b: MULTI / b: PUBLISH x 3 / b: DISCARD",
    "subscribing in a transaction": "a: MULTI / a: SUBSCRIBE x / a: PING / a: GET k / "
    "a: UNSUBSCRIBE / a: EXEC / a: GET k",
    "clients": "a: SUBSCRIBE x / a: PSUBSCRIBE p q / a: SSUBSCRIBE s / b: CLIENT LIST ID #a / "
    "b: CLIENT LIST TYPE pubsub / a: UNSUBSCRIBE x / a: PUNSUBSCRIBE p q / a: SUNSUBSCRIBE s / "
    "b: CLIENT LIST ID #a / b: CLIENT LIST TYPE pubsub",
}


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS.keys())
def test_scripts(stage: Stage, script: str) -> None:
    play(stage, *script.split(" / "))


def test_each_reads_a_message_in_its_own_protocol(stage: Stage) -> None:
    read = play(
        stage,
        *("two: SUBSCRIBE x", "three: SUBSCRIBE x", "three: PSUBSCRIBE *", "four: SUBSCRIBE x"),
        "three: PUBLISH x hello",
        protocols={"two": 2, "three": 3, "four": 2},
    )
    message = b"3\r\n$7\r\nmessage\r\n$1\r\nx\r\n$5\r\nhello\r\n"
    assert b"*" + message in read["two"]
    assert b"*" + message in read["four"]
    assert b">" + message in read["three"]


def test_leaving_all_channels_names_each(stage: Stage) -> None:
    """In which order is the server's choice; the counts tell how many are left."""
    actor = stage.enter()
    names = [b"one", b"two", b"three"]
    actor.send_command("SUBSCRIBE", *names)
    for _ in names:
        actor.same_reply()
    actor.send_command("UNSUBSCRIBE")
    for client in (actor.ours, actor.oracle):
        left = [client.read_reply().split(b"\r\n") for _ in names]
        assert {parts[4] for parts in left} == set(names)
        assert [parts[5] for parts in left] == [b":2", b":1", b":0"]


def test_channels_are_listed(stage: Stage) -> None:
    listener, other = stage.enter(), stage.enter()
    listener.send_command("SUBSCRIBE", "one", "two", "other")
    for _ in range(3):
        listener.same_reply()
    for pattern in ((), ("*",), ("t*",), ("o*",), ("nope",)):
        other.send_command("PUBSUB", "CHANNELS", *pattern)
        ours, oracle = (client.read_reply() for client in (other.ours, other.oracle))
        assert sorted(ours.split(b"\r\n")) == sorted(oracle.split(b"\r\n"))


@pytest.mark.parametrize("mode", ["OFF", "SKIP"])
def test_a_client_without_replies_still_gets_messages(stage: Stage, mode: str) -> None:
    listener, other = stage.enter(), stage.enter()
    listener.send_command("CLIENT", "REPLY", mode)
    listener.send_command("SUBSCRIBE", "x", "y")
    listener.same_reply()
    listener.same_reply()
    other.do("PUBLISH x 1")
    listener.same_reply()
    listener.do("UNSUBSCRIBE x")


def test_quitting_ends_subscriptions(stage: Stage) -> None:
    listener, other = stage.enter(), stage.enter()
    listener.do("SUBSCRIBE x")
    listener.do("PSUBSCRIBE x*")
    assert listener.do("QUIT") == b"+OK\r\n"
    assert listener.same_end() == b""
    for client in (other.ours, other.oracle):
        wait_until(
            lambda client=client: client.command("PUBLISH", "x", "1") == b":0\r\n",  # type: ignore[misc]
            "nobody listens",
        )
    other.do("PUBSUB NUMPAT")
    other.do("PUBSUB CHANNELS")


def test_leaving_ends_subscriptions(stage: Stage) -> None:
    listener, other = stage.enter(), stage.enter()
    listener.do("SUBSCRIBE x")
    listener.ours.close()
    listener.oracle.close()
    for client in (other.ours, other.oracle):
        wait_until(
            lambda client=client: client.command("PUBLISH", "x", "1") == b":0\r\n",  # type: ignore[misc]
            "nobody listens",
        )


def test_numbers_of_subscriptions_in_info(stage: Stage) -> None:
    listener, other = stage.enter(), stage.enter()
    for line in ("SUBSCRIBE x", "SUBSCRIBE y", "PSUBSCRIBE p", "SSUBSCRIBE s"):
        listener.do(line)
    for client in (other.ours, other.oracle):
        info = client.command("INFO", "stats")
        for fact in (b"pubsub_channels:2", b"pubsub_patterns:1", b"pubsubshard_channels:1"):
            assert fact in info


def test_a_pipeline_that_subscribes_and_leaves(pair: Pair) -> None:
    assert_same(
        pair,
        ["SUBSCRIBE a", "PING", "GET k", "UNSUBSCRIBE a", "GET k", "PSUBSCRIBE p", "RESET", "PING"],
    )


def test_a_waiting_client_has_messages_in_between(stage: Stage) -> None:
    if stage.protocol == 2:
        pytest.skip("RESP2 does not let a subscriber wait")
    waiter, other = stage.enter(), stage.enter()
    waiter.do("SUBSCRIBE x")
    waiter.send_command("BLPOP", "k", 0)
    for client in (other.ours, other.oracle):
        wait_until(
            lambda client=client: b"flags=Pb" in client.command("CLIENT", "LIST"),  # type: ignore[misc]
            "it waits",
        )
    other.do("PUBLISH x 1")
    assert waiter.same_reply().startswith(b">3")
    other.do("RPUSH k v")
    assert waiter.same_reply().startswith(b"*2")
