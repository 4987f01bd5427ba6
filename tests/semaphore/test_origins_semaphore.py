"""Where the library that the semaphore's seed comes from fails: we do not. One section a failure,
in the order in which they were found there."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
import redis.asyncio

import holdfast
from holdfast.client.topology.slots import slot_of
from holdfast.coordination.backend_of import backend_of
from holdfast.semaphore import Acquisition, LeaseLostError, LimitMismatchError, Semaphore
from holdfast.semaphore.names import Names
from tests.harness import RedisServer
from tests.semaphore.conftest import Place, World, emptied, keys_of, place_of, taken, waiting

# -- 1. Release wakes no waiter: hand-over to one idle waiter takes 0.6 s ---------------------


def test_1_release_wakes_the_next_waiter_itself(any_place: Place, world: World) -> None:
    """No clock moves, so no poll can have helped."""

    async def scenario(client: Any) -> None:
        semaphore = world.semaphore(client)
        first = await semaphore.acquire()
        waiter = asyncio.create_task(semaphore.acquire())
        await waiting(semaphore)
        await semaphore.release(first)
        second = await waiter
        assert second.fencing_token > first.fencing_token
        await semaphore.release(second)
        await emptied(client)

    any_place.play(scenario)


# -- 2. The short time limit of one client deletes the key of all -----------------------------


def test_2_a_short_ttl_harms_no_holder_with_a_longer_one(place: Place) -> None:
    async def scenario(client: Any) -> None:
        long = Semaphore(client, "s", 2, heartbeat_max_interval_s=600)
        short = Semaphore(client, "s", 2, ttl_s=0.02, heartbeat_max_interval_s=0.1)
        holder = await long.acquire()
        brief = await short.acquire()
        await brief.lost.wait()
        await taken(long, 1)
        for kind in ("main", "max"):
            life_ms = await backend_of(client).call("PTTL", long._settings.names.keys[kind])
            assert life_ms > 500_000
        assert await long.release(holder)

    place.play(scenario)


# -- 3. A client whose clock is 200 s ahead evicts live holders -------------------------------


def test_3_the_clock_of_a_client_decides_nothing(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(client: Any) -> None:
        semaphore = Semaphore(client, "s", 1, heartbeat_max_interval_s=100)
        first = await semaphore.acquire()
        real = time.time, time.time_ns
        if place.kind != "memory":  # where the client's clock is the server's
            monkeypatch.setattr(time, "time", lambda: real[0]() + 200)
            monkeypatch.setattr(time, "time_ns", lambda: real[1]() + 200 * 10**9)
        ahead = Semaphore(client, "s", 1, heartbeat_max_interval_s=100, max_acquire_time_s=0.05)
        with pytest.raises(TimeoutError):
            await ahead.acquire()
        assert await ahead.count() == 1
        assert await semaphore.release(first)

    place.play(scenario)


# -- 4. State lost or waiter purged: it hangs for ever ----------------------------------------


def test_4_a_waiter_whose_place_is_gone_queues_again(any_place: Place, world: World) -> None:
    async def scenario(client: Any) -> None:
        semaphore = world.semaphore(client)
        first = await semaphore.acquire()
        waiter = asyncio.create_task(semaphore.acquire())
        await waiting(semaphore)

        keys = semaphore._settings.names.keys
        for key in ("waiting", "waiting_heartbeat"):  # purged, as after a long pause
            await backend_of(client).call("DEL", keys[key])
        world.clock.advance(1.1)
        await waiting(semaphore)

        for key in keys.values():  # FLUSHDB
            await backend_of(client).call("DEL", key)
        world.clock.advance(1.1)
        second = await waiter
        await first.lost.wait()
        assert not await semaphore.release(first)
        assert await semaphore.release(second)

    any_place.play(scenario)


# -- 5. cancel() during release() is swallowed ------------------------------------------------


@pytest.mark.parametrize("turns", range(6))
def test_5_a_cancelled_release_releases_and_is_cancelled(any_place: Place, turns: int) -> None:
    async def scenario(client: Any) -> None:
        semaphore = Semaphore(client, "s", 1)
        acquisition = await semaphore.acquire()
        releasing = asyncio.create_task(semaphore.release(acquisition))
        await asyncio.sleep(0)  # a task that has never run has begun nothing
        for _ in range(turns):
            await asyncio.sleep(0)
        if releasing.cancel():
            with pytest.raises(asyncio.CancelledError):
                await releasing
        await taken(semaphore, 0)
        await emptied(client)

    any_place.play(scenario)


# -- 6. Server down: ConnectionError after 6.5 s instead of TimeoutError after 0.5 s ----------


@pytest.mark.parametrize("kind", ["ours", "ours, by URL", "redis-py"])
def test_6_a_server_that_is_down_is_a_timeout(tmp_path: Path, kind: str) -> None:
    async def scenario() -> None:
        with RedisServer(tmp_path) as server:
            url = f"redis://127.0.0.1:{server.port}"
            async with holdfast.connect(url) as ours, redis.asyncio.from_url(url) as other:
                client: Any = {"ours": ours, "ours, by URL": url, "redis-py": other}[kind]
                semaphore = Semaphore(client, "s", 1, max_acquire_time_s=0.3)
                waited = Semaphore(client, "s", 1, max_acquire_time_s=0.3)
                if kind != "ours, by URL":  # which has no connection even at first
                    await semaphore.acquire()
                    waiter = asyncio.create_task(waited.acquire())
                    await waiting(semaphore)
                server.kill()
                with pytest.raises(TimeoutError, match="no slot within"):
                    await semaphore.acquire()
                if kind != "ours, by URL":
                    with pytest.raises(TimeoutError, match="no slot within"):
                        await waiter
                await asyncio.gather(semaphore.close(), waited.close())

    asyncio.run(scenario())


# -- 7. Same name with different limits: both granted, no error -------------------------------


def test_7_another_limit_is_an_error_unless_it_is_resized(place: Place) -> None:
    async def scenario(client: Any) -> None:
        two = Semaphore(client, "s", 2)
        three = Semaphore(client, "s", 3)
        acquisition = await two.acquire()
        with pytest.raises(LimitMismatchError, match="a limit of 2, not 3") as raised:
            await three.acquire()
        assert raised.value.limit == 2
        assert await three.count() == 1
        await two.release(acquisition)
        acquisition = await three.acquire()  # no client uses it: the first one decides again
        with pytest.raises(LimitMismatchError, match="a limit of 3, not 2"):
            await two.acquire()
        await two.resize(2)  # counts for all clients, whatever limit they have
        others = [await two.acquire()]
        assert await three.locked()
        for each in (acquisition, *others):
            assert await two.release(each)

    place.play(scenario)


# -- 8. The in-memory variant is not FIFO -----------------------------------------------------


def test_8_no_waiter_overtakes(any_place: Place) -> None:
    async def scenario(client: Any) -> None:
        semaphore = Semaphore(client, "s", 1)
        order: list[int] = []

        async def hold(n: int) -> None:
            async with semaphore:
                order.append(n)

        first = await semaphore.acquire()
        tasks = []
        for n in range(10):
            tasks.append(asyncio.create_task(hold(n)))
            await waiting(semaphore, n + 1)
        release = asyncio.create_task(semaphore.release(first))
        barging = asyncio.create_task(hold(10))
        await asyncio.gather(release, barging, *tasks)
        assert order == list(range(11))

    any_place.play(scenario)


# -- 9. Keys linger for decades when there is no TTL ------------------------------------------


def test_9_every_key_goes_away(any_place: Place) -> None:
    async def scenario(client: Any) -> None:
        commands = backend_of(client)
        semaphore = Semaphore(client, "s", 1, heartbeat_max_interval_s=60)
        first = await semaphore.acquire()
        waiter = asyncio.create_task(semaphore.acquire())
        await waiting(semaphore)
        assert len(await keys_of(client)) == 4
        async for key in commands.scan("*"):
            assert 0 < await commands.call("PTTL", key) <= 3_600_000, key
        await semaphore.release(first)
        await semaphore.release(await waiter)
        await emptied(client)
        async for key in commands.scan("*"):
            assert 0 < await commands.call("PTTL", key) <= 3_600_000, key

    any_place.play(scenario)


# -- 10. A holder is never told that it lost its slot; no fencing token -----------------------


def test_10_a_holder_is_told_and_its_token_is_old(place: Place, world: World) -> None:
    async def scenario(client: Any) -> None:
        semaphore = world.semaphore(client)
        other = world.semaphore(client)
        inside = asyncio.Event()
        held: list[Acquisition] = []

        async def body() -> None:
            async with semaphore as acquisition:
                held.append(acquisition)
                inside.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(body())
        await inside.wait()
        world.clock._now_us += 200_000_000  # the server's time, while the process stands still
        next_one = await other.acquire()
        assert not held[0].lost.is_set()
        world.clock.advance(36)
        with pytest.raises(LeaseLostError):
            await task
        assert held[0].lost.is_set()
        assert next_one.fencing_token > held[0].fencing_token
        assert await other.release(next_one)

    place.play(scenario)


# -- 11. No cluster support -------------------------------------------------------------------


def test_11_all_keys_of_a_semaphore_are_in_one_slot() -> None:
    for name in ("gpu", "a{b}c", "{x}", "x}"):
        names = Names("adv-sem", name)
        keys = [*names.keys.values(), names.mailbox("box"), names.mailbox("0123")]
        assert len({slot_of(key) for key in keys}) == 1
        assert len(set(keys)) == len(keys)


def test_11_many_semaphores_work_on_all_nodes_of_a_cluster(
    request: pytest.FixtureRequest,
) -> None:
    async def scenario(client: Any) -> None:
        async def compete(name: str) -> None:
            semaphore = Semaphore(client, name, 1)
            first = await semaphore.acquire()
            waiter = asyncio.create_task(semaphore.acquire())
            await waiting(semaphore)
            await semaphore.release(first)
            await semaphore.release(await waiter)

        await asyncio.gather(*(compete(f"s{n}") for n in range(12)))
        await emptied(client)

    for kind in ("cluster", "redis-py-cluster"):
        place_of(request, kind).play(scenario)
