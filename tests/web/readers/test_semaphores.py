"""Holders and waiters of semaphores are shown in order, and a forced release wakes the next one."""

import asyncio
from typing import Any

import pytest

from holdfast import Lock, Semaphore
from holdfast.client import Client
from holdfast.web.readers.semaphores import SemaphoreId, SemaphoreReader, parse_key
from tests.web.readers.conftest import Play


async def waiters(reader: SemaphoreReader, id: SemaphoreId, count: int) -> None:
    """Until so many wait; pytest's timeout is the limit."""
    while (await reader.read(id)).waiting != count:  # noqa: ASYNC110 - there is no event
        await asyncio.sleep(0.005)


def test_holders_and_waiters_are_shown_in_order(play: Play) -> None:
    async def scenario(client: Client) -> None:
        semaphore = Semaphore(client, "<b>ä", 2, ttl_s=500, heartbeat_max_interval_s=60)
        held = [await semaphore.acquire() for _ in range(2)]
        reader = SemaphoreReader(client)
        id = SemaphoreId("adv-sem", "<b>ä")
        tasks = []
        for n in range(1, 4):
            tasks.append(asyncio.create_task(semaphore.acquire()))
            await waiters(reader, id, n)
        (listed,) = await reader.look()
        assert listed.id == id
        assert (listed.limit, listed.taken, listed.waiting, listed.is_resized) == (2, 2, 3, False)
        state = await reader.read(id)
        assert {each.id for each in state.holders} == {each.id for each in held}
        for holder in state.holders:
            assert 0 < holder.lease_left_s <= 60
            assert holder.limit_left_s is not None
            assert 0 < holder.limit_left_s <= 500
        assert state.last_token == max(each.fencing_token for each in held)
        assert [each.is_alive for each in state.waiters] == [True] * 3
        waited = [each.waited_s for each in state.waiters]
        assert waited == sorted(waited, reverse=True)
        assert [each.waiting for each in reader.contention(id)] == [3]

        first = state.waiters[0].id
        assert await reader.force_release(id, held[0].id)
        granted = await tasks[0]
        assert granted.id == first  # first come, first served
        assert not await reader.force_release(id, held[0].id)  # it has no slot any more
        last = state.waiters[2].id
        assert not await reader.force_release(id, last)  # it only waited
        assert last not in {each.id for each in (await reader.read(id)).waiters}
        for task in tasks[1:]:
            task.cancel()
        await asyncio.gather(*tasks[1:], return_exceptions=True)
        await semaphore.release(held[1])
        await semaphore.release(granted)
        await semaphore.close()

    play(scenario)


def test_a_holder_learns_that_its_slot_was_taken(play: Play) -> None:
    async def scenario(client: Client) -> None:
        lock = Lock(client, "door", hash_tag=False, heartbeat_max_interval_s=0.3)
        held = await lock.acquire()
        reader = SemaphoreReader(client)
        (state,) = await reader.look()
        assert state.id == SemaphoreId("adv-sem", "door", hash_tag=False)
        assert await reader.force_release(state.id, held.id)
        await held.lost.wait()
        await lock.close()

    play(scenario)


def test_a_resized_limit_stays_when_nobody_holds(play: Play) -> None:
    async def scenario(client: Client) -> None:
        semaphore = Semaphore(client, "pool")
        await semaphore.resize(7)
        (state,) = await SemaphoreReader(client).look()
        assert (state.limit, state.is_resized, state.taken) == (7, True, 0)
        await client.exec("DEL", "adv-sem:semaphore_max:{pool}", into=Any)
        await semaphore.close()

    play(scenario)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (b"adv-sem:semaphore_max:{a:b}", SemaphoreId("adv-sem", "a:b")),
        (b"adv-sem:semaphore_max:plain", SemaphoreId("adv-sem", "plain", hash_tag=False)),
        (b"x:y:semaphore_max:{\xff}", SemaphoreId("x:y", "\udcff")),
        (b"semaphore_max", None),
    ],
)
def test_names_are_read_out_of_keys(key: bytes, expected: SemaphoreId | None) -> None:
    found = parse_key(key)
    assert found == expected
    if found is not None:
        name = found.names.keys["max"]
        assert name.encode("utf-8", "surrogateescape") == key
