"""The tests of the program. They know `connection` and not which server is behind it."""

import threading
from typing import Any

import pytest
from mailroom import (  # type: ignore[import-not-found]  # beside this file, when it runs
    Bell,
    Key,
    Outbox,
    RateLimiter,
    Register,
    transfer,
)

Connection = Any


def test_a_sender_may_send_so_many_letters(connection: Connection) -> None:
    limiter = RateLimiter(connection, limit=3, window_s=60)
    assert [limiter.allows("ann") for _ in range(5)] == [True, True, True, False, False]
    assert limiter.allows("bob")
    assert 0 < connection.ttl("rate:ann") <= 60


def test_the_window_begins_with_the_first_letter(connection: Connection) -> None:
    limiter = RateLimiter(connection, limit=3, window_s=60)
    limiter.allows("ann")
    connection.expire("rate:ann", 1000)
    limiter.allows("ann")
    assert connection.ttl("rate:ann") > 60


def test_a_carrier_takes_the_oldest_letter_unless_one_is_urgent(connection: Connection) -> None:
    outbox = Outbox(connection)
    outbox.put("first")
    outbox.put("second")
    assert outbox.carry(1) == "first"
    connection.rpush("urgent", "third")
    assert outbox.carry(1) == "third"


def test_a_carrier_waits_for_a_letter(connection: Connection) -> None:
    outbox = Outbox(connection)
    carried: list[str | None] = []
    carrier = threading.Thread(target=lambda: carried.append(outbox.carry(30)))
    carrier.start()
    outbox.put("letter")
    carrier.join()
    assert carried == ["letter"]


def test_a_carrier_goes_home_without_a_letter(connection: Connection) -> None:
    assert Outbox(connection).carry(0.01) is None


def test_a_letter_is_carried_once(connection: Connection) -> None:
    outbox = Outbox(connection)
    carried: list[str | None] = []
    carriers = [threading.Thread(target=lambda: carried.append(outbox.carry(30))) for _ in range(4)]
    for carrier in carriers:
        carrier.start()
    for number in range(4):
        outbox.put(str(number))
    for carrier in carriers:
        carrier.join()
    assert sorted(carried, key=str) == ["0", "1", "2", "3"]


def test_one_person_has_the_key(connection: Connection) -> None:
    ann, bob = (Key(connection, "key:cellar", owner) for owner in ("ann", "bob"))
    assert ann.take(60)
    assert not bob.take(60)
    assert not bob.give_back()
    assert ann.give_back()
    assert bob.take(60)


def test_clerks_share_the_register(connection: Connection) -> None:
    register = Register(connection, "clerks")
    register.open()
    register.open()
    for event in ("in", "out", "in again"):
        register.note(event)
    ann = list(register.read("ann", count=2))
    bob = list(register.read("bob", count=2))
    assert [event for _, event in ann + bob] == ["in", "out", "in again"]
    for number, _ in ann:
        register.done(number)
    assert register.take_over("ann") == ["in again"]


@pytest.mark.parametrize("rings", [1, 3])
def test_the_bell_rings_at_counters_that_listen(connection: Connection, rings: int) -> None:
    bell = Bell(connection)
    heard: list[str] = []
    counter = threading.Thread(target=bell.listen, args=(heard.append, rings))
    counter.start()
    while not bell.ring("north"):
        pass  # nobody listens yet
    for _ in range(rings - 1):
        bell.ring("south")
    counter.join()
    assert heard == ["north"] + ["south"] * (rings - 1)


def test_stamps_are_moved_once(connection: Connection) -> None:
    connection.set("stamps:ann", 10)
    assert transfer(connection, "stamps:ann", "stamps:bob", 7)
    assert not transfer(connection, "stamps:ann", "stamps:bob", 7)
    assert connection.mget("stamps:ann", "stamps:bob") == ["3", "7"]


def test_a_transfer_sees_another_one(connection: Connection) -> None:
    connection.set("stamps:ann", 10)
    results: list[bool] = []
    movers = [
        threading.Thread(
            target=lambda: results.append(transfer(connection, "stamps:ann", "stamps:bob", 4))
        )
        for _ in range(4)
    ]
    for mover in movers:
        mover.start()
    for mover in movers:
        mover.join()
    assert sorted(results) == [False, False, True, True]
    assert connection.mget("stamps:ann", "stamps:bob") == ["2", "8"]
