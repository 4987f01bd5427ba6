"""MULTI, EXEC, DISCARD, WATCH, UNWATCH: when they fail, and how, as with redis-server."""

from collections.abc import Iterator

import pytest

from tests.harness import HoldfastServer, RedisServer, wait_until
from tests.wire.stage import Actor, Stage, open_stage


@pytest.fixture
def stage(server: HoldfastServer, oracle: RedisServer, protocol: int) -> Iterator[Stage]:
    with open_stage(server, oracle, protocol) as stage:
        yield stage


# One client. Each line is a command.
SCRIPTS = {
    "empty": "MULTI / EXEC / EXEC",
    "plain": "MULTI / SET k v / GET k / INCR k / LPUSH l a b / LRANGE l 0 -1 / EXEC / GET k",
    "run-time errors do not stop it": "MULTI / SET k v / LPUSH k x / SET k w / EXEC / GET k",
    "nested": "MULTI / MULTI / SET k v / EXEC / GET k",
    "unknown command": "MULTI / SET k v / NOPE a / EXEC / GET k / EXEC",
    "wrong arity": "MULTI / SET k v / GET / EXEC / GET k",
    "unknown subcommand": "MULTI / CLIENT NOPE / EXEC",
    "container alone": "MULTI / CLIENT / EXEC",
    "subcommand arity": "MULTI / CLIENT ID x / EXEC",
    "failed, then discarded": "MULTI / NOPE / DISCARD / MULTI / PING / EXEC",
    "discard": "MULTI / SET k v / DISCARD / GET k / DISCARD",
    "discard arity": "MULTI / DISCARD x / EXEC",
    "exec arity": "EXEC x / MULTI / SET k v / EXEC x / EXEC / GET k",
    "exec arity forgets watches": "WATCH k / SET k v / EXEC x / MULTI / PING / EXEC",
    "multi arity": "MULTI x / EXEC",
    "multi arity inside": "MULTI / MULTI x / EXEC",
    "exec without multi keeps watches": "WATCH k / SET k v / EXEC / MULTI / PING / EXEC",
    "watch inside": "MULTI / WATCH k / SET k v / EXEC",
    "watch arity inside": "MULTI / WATCH / EXEC",
    "watch arity": "WATCH",
    "unwatch inside is queued": "WATCH k / SET k v / MULTI / UNWATCH / EXEC / MULTI / PING / EXEC",
    "reset inside": "MULTI / SET k v / RESET / EXEC / GET k",
    "select inside": "MULTI / SELECT 3 / SET k v / EXEC / GET k / SELECT 0 / GET k",
    "hello inside": "MULTI / HELLO 3 / PING / CLIENT TRACKINGINFO / EXEC / CLIENT GETNAME",
    "monitor inside": "MULTI / MONITOR / EXEC / PING",
    "blocking inside": "MULTI / BLMOVE a b LEFT LEFT 0 / BLPOP a 0 / EXEC",
    "auth inside": "MULTI / AUTH nobody secret / AUTH secret / EXEC",
    "own change breaks own watch": "SET k 1 / WATCH k / SET k 2 / MULTI / PING / EXEC",
    "a change to the same breaks it, too": "SET k 1 / WATCH k / SET k 1 / MULTI / PING / EXEC",
    "reading breaks nothing": "SET k 1 / WATCH k / GET k / STRLEN k / MULTI / PING / EXEC",
    "a failing change breaks nothing": "SET k 1 / WATCH k / LPUSH k x / MULTI / PING / EXEC",
    "deleting what is not there": "WATCH k / DEL k / MULTI / PING / EXEC",
    "watch twice": "WATCH k k / WATCH k / SET k 1 / MULTI / PING / EXEC / MULTI / PING / EXEC",
    "watch in another database": "WATCH k / SELECT 1 / SET k 1 / MULTI / PING / EXEC / SELECT 0",
    "exec forgets watches": "WATCH k / MULTI / PING / EXEC / SET k 1 / MULTI / PING / EXEC",
    "discard forgets watches": "WATCH k / SET k 1 / MULTI / DISCARD / MULTI / PING / EXEC",
    "reset forgets watches": "WATCH k / SET k 1 / RESET / MULTI / PING / EXEC",
    "failure forgets watches": "WATCH k / SET k 1 / MULTI / NOPE / EXEC / MULTI / PING / EXEC",
    "failure before breakage": "WATCH k / SET k 1 / MULTI / NOPE / EXEC",
    "flushing nothing": "WATCH k / FLUSHALL / FLUSHDB / MULTI / PING / EXEC",
    "flushing another": "SET k 1 / SELECT 1 / WATCH k / FLUSHDB / MULTI / PING / EXEC",
    "flushdb": "SET k 1 / WATCH k / FLUSHDB / MULTI / PING / EXEC",
    "flushall": "SET k 1 / WATCH k / SELECT 1 / FLUSHALL / MULTI / PING / EXEC",
    "swapdb away": "SET k 1 / WATCH k / SWAPDB 0 1 / MULTI / PING / EXEC / SWAPDB 0 1",
    "swapdb in": "SELECT 1 / SET k 1 / SELECT 0 / WATCH k / SWAPDB 0 1 / MULTI / PING / EXEC",
    "swapdb of nothing": "WATCH k / SET x 1 / SWAPDB 0 1 / MULTI / PING / EXEC",
    "swapdb with itself": "SET k 1 / WATCH k / SWAPDB 0 0 / MULTI / PING / EXEC",
    "swapdb of others": "SET k 1 / WATCH k / SWAPDB 1 2 / MULTI / PING / EXEC",
    "expire": "SET k 1 / WATCH k / EXPIRE k 100 / MULTI / PING / EXEC",
    "expire at once": "SET k 1 / WATCH k / EXPIRE k -1 / MULTI / PING / EXEC",
    "persist": "SET k 1 EX 100 / WATCH k / PERSIST k / MULTI / PING / EXEC",
    "persist nothing": "SET k 1 / WATCH k / PERSIST k / MULTI / PING / EXEC",
    "touch": "SET k 1 / WATCH k / TOUCH k / MULTI / PING / EXEC",
    "rename onto": "SET a 1 / WATCH k / RENAME a k / MULTI / PING / EXEC",
    "rename away": "SET k 1 / WATCH k / RENAME k a / MULTI / PING / EXEC",
    "move away": "SET k 1 / WATCH k / MOVE k 1 / MULTI / PING / EXEC",
    "copy onto": "SET a 1 / WATCH k / COPY a k / MULTI / PING / EXEC",
    "copy from": "SET k 1 / WATCH k / COPY k a / MULTI / PING / EXEC",
    "append nothing": "SET k 1 / WATCH k / SETRANGE k 0 / MULTI / PING / EXEC",
    "pop": "RPUSH k a b / WATCH k / LPOP k / MULTI / PING / EXEC",
    "pop zero": "RPUSH k a b / WATCH k / LPOP k 0 / MULTI / PING / EXEC",
    "trim nothing": "RPUSH k a b / WATCH k / LTRIM k 0 -1 / MULTI / PING / EXEC",
    "group with a new stream": "WATCH k / XGROUP CREATE k g 0 MKSTREAM / MULTI / PING / EXEC",
}
# Some of them change the groups of a stream and not its entries.
STREAM_CHANGES = (
    *("XADD k 2-1 a b", "XDEL k 1-1", "XDEL k 9-9", "XTRIM k MAXLEN 0", "XTRIM k MAXLEN 9"),
    *("XSETID k 5-5", "XGROUP CREATE k new 0", "XGROUP CREATE k new 0 MKSTREAM"),
    *("XGROUP SETID k g 0", "XGROUP DESTROY k g", "XGROUP CREATECONSUMER k g new"),
    *("XGROUP DELCONSUMER k g c", "XGROUP DELCONSUMER k g new", "XACK k g 1-1"),
    *("XREADGROUP GROUP g c STREAMS k >", "XREADGROUP GROUP g new STREAMS k 0"),
    *("XCLAIM k g new 0 1-1", "XAUTOCLAIM k g new 0 0"),
)


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS.keys())
def test_one_client(stage: Stage, script: str) -> None:
    client = stage.enter()
    for line in script.split(" / "):
        client.do(line)


@pytest.mark.parametrize("line", STREAM_CHANGES)
def test_a_watched_stream(stage: Stage, line: str) -> None:
    client = stage.enter()
    for command in ("XADD k 1-1 a b", "XGROUP CREATE k g 0", "XREADGROUP GROUP g c STREAMS k >"):
        client.do(command)
    for command in ("WATCH k", line, "MULTI", "PING", "EXEC"):
        client.do(command)


def test_the_pipelined_form(stage: Stage) -> None:
    client = stage.enter()
    client.send(b"WATCH k\r\nMULTI\r\nSET k v\r\nGET\r\nEXEC\r\nMULTI\r\nGET k\r\nEXEC\r\n")
    for _ in range(8):
        client.same_reply()


def test_quit_inside(stage: Stage) -> None:
    client, other = stage.enter(), stage.enter()
    client.do("MULTI")
    client.do("SET k v")
    assert client.do("QUIT") == b"+OK\r\n"
    assert client.same_end() == b""
    other.do("GET k")


def broken_by(stage: Stage, *lines: str) -> bytes:
    """The reply of EXEC to a client that watched `k` while another client ran this."""
    watcher, other = stage.enter(), stage.enter()
    watcher.do("WATCH k")
    for line in lines:
        other.do(line)
    watcher.do("MULTI")
    watcher.do("INCR counter")
    return watcher.do("EXEC")


@pytest.mark.parametrize("line", ["SET k 1", "LPUSH k 1", "SELECT 1 / SET k 1", "SET other 1"])
def test_another_client_changes_a_key(stage: Stage, line: str) -> None:
    broken_by(stage, *line.split(" / "))


def test_another_transaction_changes_a_key(stage: Stage) -> None:
    broken_by(stage, "MULTI", "SET k 1", "EXEC")
    broken_by(stage, "MULTI", "SET k 1", "DISCARD")


def test_a_change_after_multi_breaks_it_too(stage: Stage) -> None:
    watcher, other = stage.enter(), stage.enter()
    watcher.do("WATCH k")
    watcher.do("MULTI")
    other.do("SET k 1")
    watcher.do("PING")
    watcher.do("EXEC")


def wait_until_gone(actor: Actor, name: str) -> None:
    for client in (actor.ours, actor.oracle):
        wait_until(
            lambda client=client: client.command("EXISTS", name) == b":0\r\n",  # type: ignore[misc]
            f"{name} expires",
        )


def test_a_watched_key_that_expires_breaks_it(stage: Stage) -> None:
    watcher, other = stage.enter(), stage.enter()
    for lifetime_ms in (30, 300, 3000):  # on a busy machine it may expire before it is watched
        watcher.do("UNWATCH")
        watcher.do(f"SET k 1 PX {lifetime_ms}")
        watcher.do("WATCH k")
        other.send_command("EXISTS", "k")
        if other.ours.read_reply() == other.oracle.read_reply() == b":1\r\n":
            break
    wait_until_gone(other, "k")
    watcher.do("MULTI")
    watcher.do("PING")
    assert watcher.do("EXEC") in (b"*-1\r\n", b"_\r\n")


def test_a_key_that_had_expired_when_it_was_watched_does_not(stage: Stage) -> None:
    watcher = stage.enter()
    watcher.do("SET k 1 PX 1")
    wait_until_gone(watcher, "k")
    watcher.do("WATCH k")
    watcher.do("MULTI")
    watcher.do("PING")
    assert watcher.do("EXEC") == b"*1\r\n+PONG\r\n"


def test_a_push_inside_wakes_a_waiter_after_all_of_it(stage: Stage) -> None:
    waiter, other = stage.enter(), stage.enter()
    waiter.send_command("BLPOP", "k", 0)
    other.wait_for_blocked(1)
    for line in ("MULTI", "RPUSH k a", "RPUSH k b", "LPUSH k c", "EXEC"):
        other.do(line)
    waiter.same_reply()
    other.do("LRANGE k 0 -1")


def test_a_key_that_comes_and_goes_inside_wakes_no_client(stage: Stage) -> None:
    waiter, other = stage.enter(), stage.enter()
    waiter.send_command("BLPOP", "k", 0)
    other.wait_for_blocked(1)
    for line in ("MULTI", "RPUSH k a", "DEL k", "EXEC", "PING"):
        other.do(line)
    assert waiter.is_quiet()
    other.do("RPUSH k b")
    waiter.same_reply()


def test_the_password_is_asked_before_anything_is_queued(stage: Stage) -> None:
    boss = stage.enter()
    boss.do("CONFIG SET requirepass secret")
    client = stage.enter(protocol=2)
    for line in ("MULTI", "SET k v", "EXEC", "NOPE", "GET", "AUTH secret", "MULTI", "PING"):
        client.do(line)
    boss.do("CONFIG SET requirepass other")
    client.do("EXEC")
