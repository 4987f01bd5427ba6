"""Which messages a waiter believes without asking."""

import asyncio
from typing import Any

import pytest

from holdfast.client.backends import commands_of
from holdfast.semaphore import keeper
from holdfast.semaphore.waiter import Waiter
from tests.client.fakes import turns
from tests.semaphore.conftest import Place, World, emptied, taken, waiting


@pytest.mark.parametrize(
    ("token", "heartbeat_s", "now_s", "is_believed"),
    [
        (101, 10, 1009, True),
        (100, 10, 1001, False),  # from before the server last called it waiting
        (101, 10, 1010, False),  # the server may have given up by now
        (101, 9, 1001, False),  # or may do so earlier than the waiter would expect
        (101, 11, 1001, True),
    ],
)
def test_a_message_is_believed_if_it_cannot_be_wrong(
    token: int, heartbeat_s: float, now_s: float, is_believed: bool
) -> None:
    waiter = Waiter()
    waiter.still_waits(last_token=100, asked_s=1000)
    waiter.believe(["id", str(token), "2", str(heartbeat_s)], 10, now_s)
    assert (waiter.acquisition is not None) == is_believed
    if waiter.acquisition is not None:
        assert waiter.acquisition.fencing_token == token
        assert waiter.acquisition.slot_number == 2
        assert waiter.acquisition.renewed_s == 1000


def test_a_waiter_that_was_never_called_waiting_believes_nothing() -> None:
    waiter = Waiter()
    waiter.believe(["id", "999999999999999999", "1", "10"], 10, 0)
    assert waiter.acquisition is None


def test_messages_that_are_old_or_make_no_sense_let_nobody_in(place: Place, world: World) -> None:
    async def scenario(client: Any) -> None:
        commands = commands_of(client)
        semaphore = world.semaphore(client)
        first = await semaphore.acquire()
        waiter = asyncio.create_task(semaphore.acquire())
        await waiting(semaphore)
        names = semaphore._settings.names
        (id,) = await commands.call("ZRANGE", names.keys["waiting"], 0, -1)
        box, _, _ = id.decode().partition("/")
        for message in (b"%s 5 1 180", b"%s", b"%s a b c", b"not %s 9999999999999999 1", b"\xc3%s"):
            await commands.call("RPUSH", names.mailbox(box), message % id)
        while await commands.call("EXISTS", names.mailbox(box)):  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.001)
        await turns(50)
        assert not waiter.done()
        await waiting(semaphore)
        await semaphore.release(first)
        await semaphore.release(await waiter)
        await emptied(client)

    place.play(scenario)


def test_the_heartbeat_of_many_goes_in_batches(
    redis_place: Place, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "_BATCH", 2)

    async def scenario(client: Any) -> None:
        semaphore = world.semaphore(client, 2, heartbeat_max_interval_s=10)
        held = [await semaphore.acquire() for _ in range(2)]
        waiters = [asyncio.create_task(semaphore.acquire()) for _ in range(5)]
        await waiting(semaphore, 5)
        for _ in range(8):  # much longer than any of them would live
            beaten_s = semaphore._keeper()._beaten_s
            while semaphore._keeper()._beaten_s == beaten_s:
                world.clock.advance(0.5)
                await turns(5)
                await semaphore.count()
        await waiting(semaphore, 5)
        await taken(semaphore, 2)
        for acquisition in held:
            assert await semaphore.release(acquisition)
        for waiter in asyncio.as_completed(waiters):
            assert await semaphore.release(await waiter)

    redis_place.play(scenario)


@pytest.mark.parametrize("options", [{"ttl_s": 500}, {"heartbeat_max_interval_s": 500}, {}])
def test_who_is_let_in_has_its_own_time_limits(
    place: Place, world: World, options: dict[str, Any]
) -> None:
    async def scenario(client: Any) -> None:
        commands = commands_of(client)
        one = world.semaphore(client, heartbeat_max_interval_s=10)
        other = world.semaphore(client, **{"heartbeat_max_interval_s": 10} | options)
        first = await one.acquire()
        waiter = asyncio.create_task(other.acquire())
        await waiting(one)
        world.clock.advance(0.5)
        await one.release(first)
        acquisition = await waiter
        await taken(one, 1)
        now_s = world.clock.now_us() / 1e6
        keys = other._settings.names.keys
        until_s = float(await commands.call("ZSCORE", keys["main"], acquisition.id))
        limit = await commands.call("ZSCORE", keys["ttl"], acquisition.id)
        heartbeat_s = options.get("heartbeat_max_interval_s", 10)
        assert until_s == pytest.approx(now_s + heartbeat_s, abs=1e-3)
        assert (limit is None) == ("ttl_s" not in options)
        assert limit is None or float(limit) == pytest.approx(now_s + 500, abs=1e-3)

    place.play(scenario)
