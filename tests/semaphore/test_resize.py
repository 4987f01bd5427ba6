"""The limit: one that the server remembers, for clients that know another one or none."""

import asyncio
from typing import Any

import pytest

from holdfast.coordination.backend_of import backend_of
from holdfast.semaphore import LimitMismatchError, Lock, Semaphore, UnknownLimitError
from holdfast.semaphore.keeper import TEND
from tests.semaphore.conftest import Place, World, emptied, taken, waiting


def test_resize_lets_waiters_in(any_place: Place) -> None:
    async def scenario(client: Any) -> None:
        semaphore = Semaphore(client, "s", 1)
        other = Semaphore(client, "s", 1)
        first = await semaphore.acquire()
        waiters = [asyncio.create_task(other.acquire()) for _ in range(3)]
        await waiting(semaphore, 3)
        await semaphore.resize(3)
        await taken(semaphore, 3)
        assert semaphore.limit == 3
        await semaphore.resize(1)
        await semaphore.release(first)
        assert (await semaphore.stats(["s"]))[0][1:] == (2, 1, 1)
        for waiter in asyncio.as_completed(waiters):
            await other.release(await waiter)
        await emptied(client)

    any_place.play(scenario)


def test_a_resize_counts_for_processes_that_know_another_limit(any_place: Place) -> None:
    async def scenario(client: Any) -> None:
        fleet = [Semaphore(client, "s", 1) for _ in range(3)]
        await fleet[0].resize(3)
        held = [await each.acquire() for each in fleet]
        assert (await fleet[1].stats(["s"]))[0] == ("s", 3, 0, 3)
        newcomer = Semaphore(client, "s", 8)
        assert await newcomer.locked()
        waiter = asyncio.create_task(newcomer.acquire())
        await waiting(newcomer)
        for each in held:
            await fleet[1].release(each)
        await newcomer.release(await waiter)

    any_place.play(scenario)


def test_a_resize_is_remembered_while_the_semaphore_is_unused(place: Place, world: World) -> None:
    async def scenario(client: Any) -> None:
        semaphore = world.semaphore(client, heartbeat_max_interval_s=10)
        await semaphore.resize(2)
        world.clock.advance(1000)
        key = semaphore._settings.names.keys["max"]
        for _ in range(3):  # the long way in, and the short one
            assert await backend_of(client).call("PTTL", key) == -1
            old = world.semaphore(client, heartbeat_max_interval_s=10)
            first = await old.acquire()
            second = await old.acquire()
            assert await old.locked()
            await old.release(first)
            await old.release(second)
            await semaphore._keeper().run(TEND, acquisition_ids=[])
        with pytest.raises(LimitMismatchError, match="a limit of 2, not 1"):
            await Lock(client, "s").acquire()
        assert await backend_of(client).call("PTTL", key) == -1

    place.play(scenario)


def test_a_waiting_lock_stays_out_when_its_name_is_resized(any_place: Place) -> None:
    async def scenario(client: Any) -> None:
        lock = Lock(client, "s")
        held = await lock.acquire()
        first = asyncio.create_task(lock.acquire())
        await waiting(lock)
        second = asyncio.create_task(Lock(client, "s").acquire())
        await waiting(lock, 2)
        await Semaphore(client, "s").resize(2)
        for waiter in (first, second):
            with pytest.raises(LimitMismatchError, match="a limit of 2, not 1"):
                await waiter
        assert await lock.count() == 1
        assert await lock.release(held)
        await lock.resize(None)
        await emptied(client)

    any_place.play(scenario)


def test_a_resize_can_be_taken_back(place: Place) -> None:
    async def scenario(client: Any) -> None:
        semaphore = Semaphore(client, "s", 1)
        await semaphore.resize(2)
        first, second = await semaphore.acquire(), await semaphore.acquire()
        await semaphore.resize(None)
        with pytest.raises(LimitMismatchError, match="a limit of 2, not 1"):
            await Semaphore(client, "s", 1).acquire()
        await semaphore.release(first)
        await semaphore.release(second)
        async with Lock(client, "s") as acquisition:
            assert acquisition.slot_number == 1
        await semaphore.resize(None)  # no limit was set
        await emptied(client)

    place.play(scenario)


def test_without_a_limit_the_server_says_it(any_place: Place) -> None:
    async def scenario(client: Any) -> None:
        semaphore = Semaphore(client, "s")
        for _ in range(2):
            with pytest.raises(UnknownLimitError, match="'s' has no limit at the server: give one"):
                await semaphore.acquire()
        assert not await semaphore.locked()
        assert await semaphore.count() == 0
        async with Semaphore(client, "s", 2), semaphore as acquisition:
            assert acquisition.slot_number == 2
            assert await semaphore.locked()
        await semaphore.resize(1)
        assert semaphore.limit is None
        async with semaphore:
            waiter = asyncio.create_task(semaphore.acquire())
            await waiting(semaphore)
        await semaphore.release(await waiter)

    any_place.play(scenario)
