"""Commands that wait, against redis-server: which client gets which element, in which order, byte
for byte.

The differences that docs/compatibility.md lists have tests of their own here, which show both.
"""

import shlex
from collections.abc import Callable

import pytest

from tests.blocking.talk import PONG
from tests.harness import Pair, encode_command
from tests.harness.rawclient import Argument


def block(pair: Pair, *args: Argument) -> None:
    """As tests/blocking/talk.py: when the PING is answered, the command waits."""
    pair.send(encode_command("PING") + encode_command(*args))
    assert pair.same_reply() == PONG


def assert_quiet(other: Pair, *pairs: Pair) -> None:
    """No client of `pairs` has been answered by either server."""
    assert other.same("PING") == PONG
    for pair in pairs:
        assert pair.ours.is_quiet()
        assert pair.oracle.is_quiet()


def transaction(pair: Pair, commands: str) -> None:
    for command in ("MULTI", *commands.split(";"), "EXEC"):
        pair.same(*command.split())


BLOCKED = [
    "BLPOP k 0",
    "BRPOP x k 0",
    "BLMOVE k to LEFT RIGHT 0",
    "BLMOVE k to RIGHT LEFT 100",
    "BRPOPLPUSH k to 0",
    "BLMPOP 0 1 k LEFT",
    "BLMPOP 0 2 x k RIGHT COUNT 2",
]


@pytest.mark.parametrize("waiting", BLOCKED)
@pytest.mark.parametrize(
    "push", ["RPUSH k a", "LPUSH k a b c", "RPOPLPUSH full k", "RENAME full k", "COPY full k"]
)
def test_a_waiter_is_served(pair: Pair, peer: Callable[[], Pair], waiting: str, push: str) -> None:
    pair.same("RPUSH", "full", "1", "2", "3")
    waiter = peer()
    block(waiter, *shlex.split(waiting))
    assert_quiet(pair, waiter)
    pair.same(*shlex.split(push))
    waiter.same_reply(waiting)
    pair.same("LRANGE", "k", 0, -1)
    pair.same("LRANGE", "to", 0, -1)
    assert_quiet(pair, waiter)


def test_all_kinds_of_waiters_in_one_queue(pair: Pair, peer: Callable[[], Pair]) -> None:
    waiters = [peer() for _ in BLOCKED]
    for waiter, waiting in zip(waiters, BLOCKED, strict=True):
        block(waiter, *shlex.split(waiting))
    pair.same("RPUSH", "k", *"abcdefghijklm")
    for waiter, waiting in zip(waiters, BLOCKED, strict=True):
        waiter.same_reply(waiting)
    pair.same("LRANGE", "k", 0, -1)
    pair.same("LRANGE", "to", 0, -1)


def test_more_waiters_than_elements(pair: Pair, peer: Callable[[], Pair]) -> None:
    waiters = [peer() for _ in range(5)]
    for waiter in waiters:
        block(waiter, "BLPOP", "k", 0)
    pair.same("RPUSH", "k", "a", "b", "c")
    for waiter in waiters[:3]:
        waiter.same_reply()
    assert_quiet(pair, *waiters[3:])
    pair.same("LPUSH", "k", "d", "e", "f")
    for waiter in waiters[3:]:
        waiter.same_reply()
    pair.same("LRANGE", "k", 0, -1)


def test_a_chain_of_moves(pair: Pair, peer: Callable[[], Pair]) -> None:
    first, second, third = peer(), peer(), peer()
    block(third, "BLPOP", "c", 0)
    block(second, "BLMOVE", "b", "c", "LEFT", "LEFT", 0)
    block(first, "BRPOPLPUSH", "a", "b", 0)
    pair.same("RPUSH", "a", "x")
    for waiter in (first, second, third):
        waiter.same_reply()
    pair.same("EXISTS", "a", "b", "c")


def test_the_target_of_a_move_became_a_string(pair: Pair, peer: Callable[[], Pair]) -> None:
    mover, popper = peer(), peer()
    block(mover, "BLMOVE", "k", "to", "LEFT", "LEFT", 0)
    block(popper, "BLPOP", "k", 0)
    pair.same("SET", "to", "string")
    pair.same("RPUSH", "k", "a", "b")
    assert mover.same_reply()[:10] == b"-WRONGTYPE"
    popper.same_reply()
    pair.same("LRANGE", "k", 0, -1)


def test_the_awaited_key_becomes_a_string_and_a_list_again(
    pair: Pair, peer: Callable[[], Pair]
) -> None:
    waiter = peer()
    block(waiter, "BLPOP", "k", 0)
    pair.same("SET", "k", "string")
    assert_quiet(pair, waiter)
    pair.same("DEL", "k")
    pair.same("RPUSH", "k", "a")
    waiter.same_reply()


def test_another_awaited_key_is_a_string_by_now(pair: Pair, peer: Callable[[], Pair]) -> None:
    waiters = [peer(), peer()]
    block(waiters[0], "BLPOP", "s", "k", 0)
    block(waiters[1], "BLMPOP", 0, 2, "s", "k", "RIGHT")
    pair.same("SET", "s", "string")
    pair.same("RPUSH", "k", "a", "b")
    for waiter in waiters:
        waiter.same_reply()


@pytest.mark.parametrize(
    "queued",
    [
        "RPUSH k a;LPOP k",
        "RPUSH k a;DEL k",
        "RPUSH k a;DEL k;SET k x",
        "RPUSH k a;RENAME k elsewhere",
        "RPUSH k a;PEXPIRE k -1",
    ],
)
def test_filled_and_emptied_in_one_transaction(
    pair: Pair, peer: Callable[[], Pair], queued: str
) -> None:
    waiter = peer()
    block(waiter, "BLPOP", "k", 0)
    transaction(pair, queued)
    assert_quiet(pair, waiter)
    pair.same("DEL", "k")
    pair.same("RPUSH", "k", "b")
    waiter.same_reply()


@pytest.mark.parametrize(
    "queued",
    [
        "RPUSH k a;LPUSH k b;LPUSH k c",
        "RPUSH k a;DEL k;RPUSH k b",
        "RPUSH k a b c d;LTRIM k 2 -1",
        "SET k x;DEL k;RPUSH k a",
        "BLPOP k 0;RPUSH k a",
    ],
)
def test_filled_in_a_transaction(pair: Pair, peer: Callable[[], Pair], queued: str) -> None:
    waiters = [peer(), peer()]
    for waiter in waiters:
        block(waiter, "BLPOP", "k", 0)
    transaction(pair, queued)
    waiters[0].same_reply()
    pair.same("RPUSH", "k", "last")
    waiters[1].same_reply()
    pair.same("LRANGE", "k", 0, -1)


def test_keys_of_a_waiter_become_ready_in_its_own_order(
    pair: Pair, peer: Callable[[], Pair]
) -> None:
    """In another order redis-server takes the first that was written: a listed difference."""
    waiter = peer()
    block(waiter, "BLPOP", "k1", "k2", 0)
    transaction(pair, "RPUSH k1 a;RPUSH k2 b")
    waiter.same_reply()
    pair.same("LRANGE", "k2", 0, -1)


def test_pipelined_behind_a_wait(pair: Pair, peer: Callable[[], Pair]) -> None:
    waiter = peer()
    commands = ["BLPOP k 0", "PING", "BLMOVE k to LEFT LEFT 0", "LLEN to", "NOPE", "BLPOP k 0"]
    waiter.send(b"".join(encode_command(*command.split()) for command in commands))
    assert_quiet(pair, waiter)
    pair.same("RPUSH", "k", "a")
    waiter.same_reply()
    waiter.same_reply()
    pair.same("RPUSH", "k", "b", "c")
    for _ in range(4):
        waiter.same_reply()


def test_databases_wait_apart(pair: Pair, peer: Callable[[], Pair]) -> None:
    zero, one = peer(), peer()
    one.same("SELECT", 1)
    block(zero, "BLPOP", "k", 0)
    block(one, "BLPOP", "k", 0)
    pair.same("SELECT", 1)
    pair.same("RPUSH", "k", "in 1")
    one.same_reply()
    assert_quiet(pair, zero)
    pair.same("RPUSH", "k", "moved")
    pair.same("MOVE", "k", 0)
    zero.same_reply()
    block(one, "BLPOP", "swapped", 0)
    pair.same("SELECT", 2)
    pair.same("RPUSH", "swapped", "in 2")
    pair.same("SWAPDB", 1, 2)
    one.same_reply()


@pytest.mark.parametrize(
    "waiting", ["BLMOVE k to LEFT LEFT 0.01", "BRPOPLPUSH k to 0.01", "BLMPOP 0.01 1 k LEFT"]
)
def test_timeouts(pair: Pair, waiting: str) -> None:
    pair.same(*waiting.split())
    pair.same("PING")


@pytest.mark.parametrize("waiting", ["BLPOP k 0.01", "BRPOP k 0.01"])
def test_timeouts_that_differ_in_resp2_only(pair: Pair, waiting: str) -> None:
    """A listed difference: the seed wants a null bulk string, redis-server sends a null array."""
    if pair.protocol == 3:
        pair.same(*waiting.split())
    else:
        assert pair.ours.command(*waiting.split()) == b"$-1\r\n"
        assert pair.oracle.command(*waiting.split()) == b"*-1\r\n"


@pytest.mark.parametrize("timeout", ["x", "", "1 ", "1x"])
def test_timeouts_that_are_none_differ_in_their_text(pair: Pair, timeout: str) -> None:
    """A listed difference, for all that wait."""
    for before, after in [(("BLPOP", "k"), ()), (("BLMPOP",), ("1", "k", "LEFT"))]:
        args = (*before, timeout, *after)
        assert pair.ours.command(*args) == b"-ERR timeout is not an integer or out of range\r\n"
        assert pair.oracle.command(*args) == b"-ERR timeout is not a float or out of range\r\n"


@pytest.mark.parametrize("reply", ["ON", "OFF", "SKIP"])
def test_client_reply_modes(pair: Pair, peer: Callable[[], Pair], reply: str) -> None:
    waiter = peer()
    commands = [f"CLIENT REPLY {reply}", "BLPOP k 0", "PING"]
    waiter.send(b"".join(encode_command(*command.split()) for command in commands))
    on_again = peer()
    block(on_again, "BLPOP", "k", 0)
    pair.same("RPUSH", "k", "a")
    pair.same("RPUSH", "k", "b")
    on_again.same_reply()
    if reply != "OFF":
        waiter.same_reply()
    waiter.send(encode_command("CLIENT", "REPLY", "ON"))
    waiter.same_reply()
    assert_quiet(pair, *([waiter] if reply == "OFF" else []))


@pytest.mark.parametrize("how", [[], ["TIMEOUT"], ["ERROR"]])
@pytest.mark.parametrize(
    "waiting", ["BRPOPLPUSH k to 0", "BLMOVE k to LEFT LEFT 5", "BLMPOP 0 1 k LEFT"]
)
def test_client_unblock(pair: Pair, peer: Callable[[], Pair], waiting: str, how: list[str]) -> None:
    waiter = peer()
    ids = [client.command("CLIENT", "ID")[1:-2] for client in (waiter.ours, waiter.oracle)]
    block(waiter, *waiting.split())
    for client, number in zip((pair.ours, pair.oracle), ids, strict=True):
        assert client.command("CLIENT", "UNBLOCK", number, *how) == b":1\r\n"
    waiter.same_reply()
    waiter.same("PING")
    pair.same("RPUSH", "k", "a")
    pair.same("LLEN", "k")
