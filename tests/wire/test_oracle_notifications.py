"""Keyspace notifications, as redis-server publishes them."""

from collections.abc import Callable, Iterator

import pytest

from tests.harness import HoldfastServer, RedisServer
from tests.wire.play import play
from tests.wire.stage import Stage, open_stage


@pytest.fixture
def stage(server: HoldfastServer, oracle: RedisServer, protocol: int) -> Iterator[Stage]:
    with open_stage(server, oracle, protocol) as stage:
        yield stage


COMMANDS = (
    "SET k v",
    "SET k v EX 100",
    "APPEND k v",
    "INCR n",
    "GET missing",
    "LPUSH l a b c",
    "LPOP l",
    "LPOP l 10",
    "RENAME k r",
    "EXPIRE r 100",
    "PERSIST r",
    "COPY r c",
    "MOVE c 3",
    "DEL r",
    "SET gone v",
    "EXPIRE gone -1",
    "MSET a 1 b 2",
    "GETDEL a",
    "GETEX b EX 100",
    "GETEX b PERSIST",
    "RPUSH x a",
    "LMOVE x y LEFT LEFT",
    "SETRANGE s 2 x",
    "UNLINK s y",
    "SELECT 5",
    "SET k v",
    "FLUSHALL",
)


@pytest.mark.parametrize(
    "flags", ["KEA", "KEAmn", "KA", "EA", "A", "", "Kl", "E$", "Kg", "EKx$", "KEn", "Em", "KEd"]
)
def test_flags_choose_the_published_events(stage: Stage, flags: str) -> None:
    play(
        stage,
        f"boss: CONFIG SET notify-keyspace-events '{flags}'",
        "boss: CONFIG GET notify-keyspace-events",
        "listener: PSUBSCRIBE __key*",
        *[f"writer: {command}" for command in COMMANDS],
    )


def test_they_follow_config_set_at_once(stage: Stage) -> None:
    read = play(
        stage,
        *("listener: PSUBSCRIBE __keyevent@0__:*", "writer: SET k 1"),
        *("writer: CONFIG SET notify-keyspace-events E$", "writer: SET k 2", "writer: LPUSH l x"),
        *("writer: CONFIG SET notify-keyspace-events El", "writer: SET k 3", "writer: LPUSH l x"),
        *("writer: CONFIG SET notify-keyspace-events ''", "writer: SET k 4", "writer: LPUSH l x"),
    )
    assert read["listener"].count(b"__keyevent@0__:set") == 1
    assert read["listener"].count(b"__keyevent@0__:lpush") == 1


def test_a_transaction_tells_in_order(stage: Stage) -> None:
    play(
        stage,
        *("boss: CONFIG SET notify-keyspace-events KEA", "listener: PSUBSCRIBE *"),
        *("w: MULTI", "w: SET a 1", "w: PUBLISH x y", "w: DEL a", "w: LPUSH l 1", "w: EXEC"),
    )


def test_a_served_waiter_tells_too(stage: Stage) -> None:
    listener, waiter, other = stage.enter(), stage.enter(), stage.enter()
    other.do("CONFIG SET notify-keyspace-events KEA")
    listener.do("PSUBSCRIBE *")
    waiter.send_command("BLMOVE", "from", "to", "LEFT", "LEFT", 0)
    other.wait_for_blocked(1)
    other.do("RPUSH from x")
    waiter.same_reply()
    for _ in range(8):
        listener.same_reply()


@pytest.mark.parametrize("read_it", [True, False], ids=["read", "left alone"])
def test_expired_keys_are_told(stage: Stage, read_it: bool) -> None:
    listener, other = stage.enter(), stage.enter()
    other.do("CONFIG SET notify-keyspace-events KEx")
    listener.do("PSUBSCRIBE *")
    other.do("SET k v PX 1")
    if read_it:
        for client in (other.ours, other.oracle):
            while client.command("GET", "k") not in (b"$-1\r\n", b"_\r\n"):
                pass
    assert b"__keyspace@0__:k\r\n$7\r\nexpired" in listener.same_reply()
    assert b"__keyevent@0__:expired\r\n$1\r\nk" in listener.same_reply()


def test_the_flags_that_the_server_is_started_with_hold(
    start_server: Callable[..., HoldfastServer],
) -> None:
    server = start_server("--notify-keyspace-events", "KEA")
    listener, writer = server.client(), server.client()
    listener.command("SUBSCRIBE", "__keyspace@0__:k")
    writer.command("SET", "k", "v")
    assert listener.read_reply() == (
        b"*3\r\n$7\r\nmessage\r\n$16\r\n__keyspace@0__:k\r\n$3\r\nset\r\n"
    )
