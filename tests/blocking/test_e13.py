"""The tests that the blocking seed requires (E.13), over a socket against a real server.

E.13.8 is in test_e13_8_concurrency.py. Each test uses keys of its own.
"""

import itertools
import time
from collections.abc import Callable

import pytest

from tests.blocking.talk import NIL, block, bulks, complaints, leave, still_blocked
from tests.harness import HoldfastServer, RawClient, wait_until

numbers = itertools.count()


@pytest.fixture
def k() -> str:
    return f"k{next(numbers)}"


@pytest.fixture
def k1() -> str:
    return f"k{next(numbers)}"


@pytest.fixture
def k2() -> str:
    return f"k{next(numbers)}"


@pytest.fixture
def waiter(server: HoldfastServer) -> RawClient:
    return server.client()


@pytest.fixture
def pusher(server: HoldfastServer) -> RawClient:
    return server.client()


# -- E.13.1 Happy path ------------------------------------------------------------------------


@pytest.mark.parametrize("push", ["RPUSH", "LPUSH"])
@pytest.mark.parametrize("pop", ["BLPOP", "BRPOP"])
def test_e13_1_pop_blocks_then_returns_after_push(
    waiter: RawClient, pusher: RawClient, k: str, pop: str, push: str
) -> None:
    block(waiter, pop, k, 0)
    assert still_blocked(waiter, pusher)
    assert pusher.command(push, k, "a") == b":1\r\n"
    assert waiter.read_reply() == bulks(k, "a")
    assert pusher.command("LLEN", k) == b":0\r\n"


@pytest.mark.parametrize(
    ("pop", "push", "popped", "left"),
    [
        ("BLPOP", "RPUSH", "a", ["b", "c"]),
        ("BLPOP", "LPUSH", "c", ["b", "a"]),
        ("BRPOP", "RPUSH", "c", ["a", "b"]),
        ("BRPOP", "LPUSH", "a", ["c", "b"]),
    ],
)
def test_e13_1_pop_takes_from_the_correct_end(
    waiter: RawClient, pusher: RawClient, k: str, pop: str, push: str, popped: str, left: list[str]
) -> None:
    block(waiter, pop, k, 0)
    assert pusher.command(push, k, "a", "b", "c") == b":3\r\n"
    assert waiter.read_reply() == bulks(k, popped)
    assert pusher.command("LRANGE", k, 0, -1) == bulks(*left)


# -- E.13.2 Timeout ---------------------------------------------------------------------------


@pytest.mark.parametrize("pop", ["BLPOP", "BRPOP"])
def test_e13_2_pop_with_timeout_returns_nil_after_timeout(
    waiter: RawClient, pusher: RawClient, k: str, pop: str
) -> None:
    # That it is not before: tests/server/core/test_engine_blocking.py, where time can stand still.
    assert waiter.command(pop, k, "0.05") == NIL
    assert pusher.command("RPUSH", k, "a") == b":1\r\n"
    assert pusher.command("LLEN", k) == b":1\r\n"  # no client waits any more
    assert waiter.is_quiet()


@pytest.mark.parametrize("pop", ["BLPOP", "BRPOP"])
def test_e13_2_timeout_zero_blocks_indefinitely_until_an_external_trigger(
    server: HoldfastServer, waiter: RawClient, pusher: RawClient, k: str, pop: str
) -> None:
    block(waiter, pop, k, 0)
    # Timeouts of other clients come and go.
    for _ in range(3):
        assert server.client().command("BLPOP", f"{k}-other", "0.02") == NIL
    assert still_blocked(waiter, pusher)
    pusher.command("RPUSH", k, "a")
    assert waiter.read_reply() == bulks(k, "a")


# -- E.13.3 Multi-key order -------------------------------------------------------------------


def test_e13_3_k2_is_returned_if_it_becomes_available_first(
    waiter: RawClient, pusher: RawClient, k1: str, k2: str
) -> None:
    block(waiter, "BLPOP", k1, k2, 0)
    pusher.command("RPUSH", k2, "two")
    pusher.command("RPUSH", k1, "one")
    assert waiter.read_reply() == bulks(k2, "two")
    assert pusher.command("LRANGE", k1, 0, -1) == bulks("one")


@pytest.mark.parametrize("order", [0, 1], ids=["k1 first", "k2 first"])
def test_e13_3_if_both_become_available_the_first_in_key_order_wins_at_wake_time(
    waiter: RawClient, pusher: RawClient, k1: str, k2: str, order: int
) -> None:
    block(waiter, "BLPOP", k1, k2, 0)
    pushes = [("RPUSH", k1, "one"), ("RPUSH", k2, "two")]
    pusher.command("MULTI")
    for push in pushes if order == 0 else reversed(pushes):
        pusher.command(*push)
    assert pusher.command("EXEC") == b"*2\r\n:1\r\n:1\r\n"
    assert waiter.read_reply() == bulks(k1, "one")
    assert pusher.command("LRANGE", k2, 0, -1) == bulks("two")


def test_e13_3_if_both_are_available_already_the_first_in_key_order_wins(
    waiter: RawClient, pusher: RawClient, k1: str, k2: str
) -> None:
    pusher.command("RPUSH", k2, "two")
    pusher.command("RPUSH", k1, "one")
    assert waiter.command("BLPOP", k1, k2, 0) == bulks(k1, "one")
    assert waiter.command("BRPOP", k1, k2, 0) == bulks(k2, "two")


# -- E.13.4 Fairness --------------------------------------------------------------------------


@pytest.mark.parametrize("at_once", [True, False], ids=["one push", "two pushes"])
def test_e13_4_the_first_blocked_receives_the_first_pushed(
    server: HoldfastServer, pusher: RawClient, k: str, at_once: bool
) -> None:
    first, second = server.client(), server.client()
    block(first, "BLPOP", k, 0)
    block(second, "BLPOP", k, 0)
    if at_once:
        pusher.command("RPUSH", k, "a", "b")
    else:
        pusher.command("RPUSH", k, "a")
        assert still_blocked(second, pusher)
        pusher.command("RPUSH", k, "b")
    assert first.read_reply() == bulks(k, "a")
    assert second.read_reply() == bulks(k, "b")


# -- E.13.5 Disconnect cancellation -----------------------------------------------------------


def test_e13_5_the_next_waiter_receives_the_element_of_one_that_disconnected(
    server: HoldfastServer, pusher: RawClient, k: str
) -> None:
    gone, next_one = server.client(), server.client()
    block(gone, "BLPOP", k, 0)
    block(next_one, "BLPOP", k, 0)
    leave(gone, pusher)
    assert pusher.command("RPUSH", k, "a") == b":1\r\n"
    assert next_one.read_reply() == bulks(k, "a")
    assert complaints(server) == []  # nothing was written to a closed socket


def test_e13_5_without_another_waiter_the_element_stays(
    server: HoldfastServer, pusher: RawClient, k: str
) -> None:
    gone = server.client()
    block(gone, "BLPOP", k, "other", 0)
    leave(gone, pusher)
    pusher.command("RPUSH", k, "a")
    assert pusher.command("LRANGE", k, 0, -1) == bulks("a")
    assert complaints(server) == []


# -- E.13.6 TTL interaction -------------------------------------------------------------------


def test_e13_6_a_key_that_expires_while_awaited_returns_only_when_a_push_recreates_it(
    waiter: RawClient, pusher: RawClient, k: str
) -> None:
    block(waiter, "BLPOP", k, 0)
    # An awaited key can only have a TTL while it is no list: a list would be popped.
    assert pusher.command("SET", k, "not a list", "PX", 10) == b"+OK\r\n"
    assert still_blocked(waiter, pusher)
    wait_until(lambda: pusher.command("EXISTS", k) == b":0\r\n", "the key expires")
    assert still_blocked(waiter, pusher)
    assert pusher.command("RPUSH", k, "new") == b":1\r\n"
    assert waiter.read_reply() == bulks(k, "new")


def test_e13_6_an_expired_key_gives_no_phantom_items(
    waiter: RawClient, pusher: RawClient, k: str
) -> None:
    pusher.command("RPUSH", k, "phantom")
    pusher.command("PEXPIRE", k, 1)
    expired_s = time.monotonic() + 0.002
    # No command reads the key. The expired key is still stored, unless the server has swept it.
    wait_until(lambda: time.monotonic() > expired_s, "the key has expired")
    block(waiter, "BLPOP", k, 0)
    assert still_blocked(waiter, pusher)
    assert pusher.command("RPUSH", k, "new") == b":1\r\n"
    assert waiter.read_reply() == bulks(k, "new")


def test_e13_6_blocking_keeps_no_ttl_alive(waiter: RawClient, pusher: RawClient, k: str) -> None:
    pusher.command("RPUSH", k, "a", "b")
    pusher.command("EXPIRE", k, 1000)
    assert waiter.command("BLPOP", k, 0) == bulks(k, "a")
    assert 0 < int(pusher.command("TTL", k)[1:]) <= 1000  # neither gone nor longer
    assert waiter.command("BLPOP", k, 0) == bulks(k, "b")
    block(waiter, "BLPOP", k, 0)
    pusher.command("RPUSH", k, "c", "d")
    assert waiter.read_reply() == bulks(k, "c")
    assert pusher.command("TTL", k) == b":-1\r\n"  # a new key, without the old one's TTL


# -- E.13.7 Persistence and restart behaviour -------------------------------------------------


@pytest.mark.parametrize("crash", [False, True], ids=["SIGTERM", "SIGKILL"])
def test_e13_7_blocking_state_does_not_persist_and_clients_must_ask_again(
    start_server: Callable[..., HoldfastServer], crash: bool
) -> None:
    server = start_server()
    waiter = server.client()
    server.client().command("RPUSH", "other", "x")
    block(waiter, "BLPOP", "k", 0)
    if crash:
        server.kill()
    else:
        assert server.terminate() == 0
    assert waiter.read_until_closed() == b""
    server.restart()
    pusher = server.client()
    assert pusher.command("RPUSH", "k", "a") == b":1\r\n"
    assert pusher.command("LRANGE", "k", 0, -1) == bulks("a")  # no client waits
    again = server.client()
    assert again.command("BLPOP", "k", 0) == bulks("k", "a")
    block(again, "BLPOP", "k", 0)
    pusher.command("RPUSH", "k", "b")
    assert again.read_reply() == bulks("k", "b")
    assert pusher.command("LRANGE", "other", 0, -1) == bulks("x")


def test_e13_7_what_a_woken_client_received_is_gone_after_a_crash(
    start_server: Callable[..., HoldfastServer],
) -> None:
    server = start_server()
    waiter, pusher = server.client(), server.client()
    block(waiter, "BLPOP", "k", 0)
    pusher.command("RPUSH", "k", "a", "b")
    assert waiter.read_reply() == bulks("k", "a")
    server.kill()
    server.restart()
    assert server.client().command("LRANGE", "k", 0, -1) == bulks("b")
