"""Blocking pops of sorted sets over a socket, as E.12 of the blocking specification says. They must
also meet the demands of E.13 on lists."""

import itertools

import pytest

from tests.blocking.talk import NIL, NIL_ARRAY, block, bulks, leave, still_blocked
from tests.harness import HoldfastServer, RawClient, wait_until

numbers = itertools.count()


@pytest.fixture
def k() -> str:
    return f"z{next(numbers)}"


@pytest.fixture
def k1() -> str:
    return f"z{next(numbers)}"


@pytest.fixture
def k2() -> str:
    return f"z{next(numbers)}"


@pytest.fixture
def waiter(server: HoldfastServer) -> RawClient:
    return server.client()


@pytest.fixture
def adder(server: HoldfastServer) -> RawClient:
    return server.client()


@pytest.mark.parametrize(
    ("pop", "member", "score"), [("BZPOPMIN", "a", "1.5"), ("BZPOPMAX", "c", "3")]
)
def test_a_pop_blocks_then_returns_key_member_and_score(
    waiter: RawClient, adder: RawClient, k: str, pop: str, member: str, score: str
) -> None:
    block(waiter, pop, k, 0)
    assert still_blocked(waiter, adder)
    assert adder.command("ZADD", k, 3, "c", 1.5, "a", 2, "b") == b":3\r\n"
    assert waiter.read_reply() == bulks(k, member, score)
    assert adder.command("ZCARD", k) == b":2\r\n"


@pytest.mark.parametrize("pop", ["BZPOPMIN", "BZPOPMAX"])
def test_a_timeout_is_nil(waiter: RawClient, k: str, pop: str) -> None:
    assert waiter.command(pop, k, 0.01) == NIL


def test_a_timeout_of_bzmpop_is_a_nil_array_as_in_redis(waiter: RawClient, k: str) -> None:
    assert waiter.command("BZMPOP", 0.01, 1, k, "MIN") == NIL_ARRAY


def test_bzmpop_takes_several(waiter: RawClient, adder: RawClient, k: str) -> None:
    block(waiter, "BZMPOP", 0, 2, "nothing", k, "MAX", "COUNT", 2)
    adder.command("ZADD", k, 1, "a", 2, "b", 3, "c")
    pairs = b"*2\r\n" + bulks("c", "3") + bulks("b", "2")
    assert waiter.read_reply() == b"*2\r\n$%d\r\n%s\r\n" % (len(k), k.encode()) + pairs


def test_the_first_key_in_order_wins(waiter: RawClient, adder: RawClient, k1: str, k2: str) -> None:
    block(waiter, "BZPOPMIN", k1, k2, 0)
    adder.command("MULTI")
    adder.command("ZADD", k2, 1, "second")
    adder.command("ZADD", k1, 9, "first")
    adder.command("EXEC")
    assert waiter.read_reply() == bulks(k1, "first", "9")


def test_the_oldest_waiter_is_served_first(
    server: HoldfastServer, waiter: RawClient, adder: RawClient, k: str
) -> None:
    second = server.client()
    block(waiter, "BZPOPMIN", k, 0)
    block(second, "BZPOPMAX", k, 0)
    adder.command("ZADD", k, 1, "a")
    assert waiter.read_reply() == bulks(k, "a", "1")
    assert still_blocked(second, adder)
    adder.command("ZADD", k, 2, "b")
    assert second.read_reply() == bulks(k, "b", "2")


def test_a_client_that_left_gets_nothing(
    server: HoldfastServer, waiter: RawClient, adder: RawClient, k: str
) -> None:
    second = server.client()
    block(waiter, "BZPOPMIN", k, 0)
    block(second, "BZPOPMIN", k, 0)
    leave(waiter, adder)
    adder.command("ZADD", k, 1, "a")
    assert second.read_reply() == bulks(k, "a", "1")


@pytest.mark.parametrize(
    "fill",
    [
        ("ZINCRBY", "{k}", "1", "a"),
        ("ZUNIONSTORE", "{k}", "1", "source"),
        ("ZRANGESTORE", "{k}", "source", "0", "0"),
        ("RENAME", "source", "{k}"),
        ("COPY", "source", "{k}"),
    ],
)
def test_however_the_key_comes(
    waiter: RawClient, adder: RawClient, k: str, fill: tuple[str, ...]
) -> None:
    adder.command("ZADD", "source", 1, "a")
    block(waiter, "BZPOPMIN", k, 0)
    adder.command(*(word.format(k=k) for word in fill))
    assert waiter.read_reply() == bulks(k, "a", "1")
    adder.command("DEL", "source")


def test_another_type_wakes_no_client(waiter: RawClient, adder: RawClient, k: str) -> None:
    block(waiter, "BZPOPMIN", k, 0)
    adder.command("RPUSH", k, "x")
    assert still_blocked(waiter, adder)
    adder.command("DEL", k)
    adder.command("ZADD", k, 1, "a")
    assert waiter.read_reply() == bulks(k, "a", "1")


def test_an_expired_set_holds_nothing(waiter: RawClient, adder: RawClient, k: str) -> None:
    adder.command("ZADD", k, 1, "old")
    adder.command("PEXPIRE", k, 1)
    wait_until(lambda: adder.command("EXISTS", k) == b":0\r\n", "it has expired")
    block(waiter, "BZPOPMIN", k, 0)
    assert still_blocked(waiter, adder)
    adder.command("ZADD", k, 2, "new")
    assert waiter.read_reply() == bulks(k, "new", "2")
