"""Leases: how a holder keeps its slot, when it loses it, and the tokens that distinguish
holders."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.client.errors import ClientError
from holdfast.coordination.backend import Backend
from holdfast.coordination.backend_of import backend_of
from holdfast.coordination.lua_scripts import load
from holdfast.semaphore import (
    LeaseLostError,
    Semaphore,
)
from tests.client.fakes import turns
from tests.harness import HoldfastServer, RedisServer
from tests.harness.processes import ServerProcess, SteadyServer
from tests.semaphore.conftest import Place, World, eventually, taken, waiting


def test_a_slot_comes_back_within_one_interval_when_its_waiters_died_too(
    place: Place, world: World
) -> None:
    """The waiter's last pulse is younger than the holder's: it is given the slot, dead as it is."""

    async def scenario(client: Any) -> None:
        standing = World()  # so that it pulses only when this test says so
        dying = standing.semaphore(
            client, heartbeat_max_interval_s=10, now=lambda: world.clock.now_us() / 1e6
        )
        await dying.acquire()
        waiters = [asyncio.create_task(dying.acquire()) for _ in range(3)]
        await waiting(dying, 3)
        world.clock.advance(1.5)
        await dying._keeper()._ask_about([*dying._keeper()._waiting])
        last_pulse_s = world.clock.now_us() / 1e6
        await dying.close()
        alive = world.semaphore(client, heartbeat_max_interval_s=10)
        waiter = asyncio.create_task(alive.acquire())
        await waiting(alive, 4)

        async def looks() -> None:
            alive._keeper()._tend_all()
            world.clock.advance(0)
            await turns(20)

        async def is_let_in() -> bool:
            await looks()
            return sum(row.waiting for row in await alive.stats(["s"])) == 3

        async def is_in() -> bool:
            await looks()
            return waiter.done()

        world.clock.advance(8.6)  # the holder counts as dead, the waiters do not yet
        await eventually(is_let_in)
        slots = alive._settings.names.keys["main"]
        ((_, ends_s),) = await client.zrange_withscores(slots, 0, -1)
        assert abs(ends_s - last_pulse_s - 10) < 0.001, "a dead waiter begins no new lease"
        world.clock.advance(1.5)  # the interval is over for all of them
        await eventually(is_in)
        assert (await waiter).slot_number == 1
        for each in waiters:
            each.cancel()
        await asyncio.wait(waiters)

    place.play(scenario)


def test_heartbeats_keep_a_slot_and_a_place(place: Place, world: World) -> None:
    async def scenario(client: Any) -> None:
        semaphore = world.semaphore(client, heartbeat_max_interval_s=10)
        holder = await semaphore.acquire()
        waiter = asyncio.create_task(semaphore.acquire())
        await waiting(semaphore)
        commands = backend_of(client)
        keys = semaphore._settings.names.keys
        (waiting_id,) = await commands.call("ZRANGE", keys["waiting"], 0, -1)

        async def both_renewed() -> bool:
            until_s = world.clock.now_us() / 1e6 + 10
            return all(
                [
                    float(await commands.call("ZSCORE", keys[key], id)) >= until_s - 3
                    for key, id in (("main", holder.id), ("waiting_heartbeat", waiting_id))
                ]
            )

        for _ in range(30):  # three times as long as either would live
            world.clock.advance(1)
            await eventually(both_renewed)
        assert not holder.lost.is_set()
        assert await semaphore.release(holder)
        assert await semaphore.release(await waiter)

    place.play(scenario)


def test_a_time_limit_for_holding(place: Place) -> None:
    async def scenario(client: Any) -> None:
        semaphore = Semaphore(client, "s", 1, ttl_s=0.05)
        started = asyncio.Event()

        async def overrun() -> None:
            async with semaphore:
                started.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(overrun())
        await started.wait()
        with pytest.raises(LeaseLostError):
            await task
        async with semaphore.cm(cancel_on_loss=False) as acquisition:
            await acquisition.lost.wait()
        await taken(semaphore, 0)

    place.play(scenario)


def test_the_slot_of_a_dead_holder_goes_to_the_next(place: Place) -> None:
    async def scenario(client: Any) -> None:
        dead = Semaphore(client, "s", 1, heartbeat_max_interval_s=0.2)
        await dead._keeper().run(load("holdfast.semaphore", "enter"), acquisition_id="dead")
        alive = Semaphore(client, "s", 1, heartbeat_max_interval_s=5)
        async with alive:
            assert await alive.count() == 1

    place.play(scenario)


def test_a_holder_that_cannot_reach_the_server_counts_as_lost(world: World) -> None:
    """Before the server gives its slot to others."""

    async def scenario() -> None:
        async with holdfast.connect("memory://") as client:
            cut = Cut(backend_of(client))
            semaphore = world.semaphore(client, heartbeat_max_interval_s=10)
            semaphore._keeper().backend = cut
            acquisition = await semaphore.acquire()
            world.clock.advance(2)
            await turns(50)
            assert not acquisition.lost.is_set()
            cut.is_cut = True
            for _ in range(9):
                world.clock.advance(1)
                await turns(50)
                assert not acquisition.lost.is_set()
            world.clock.advance(1)
            await acquisition.lost.wait()

    asyncio.run(scenario())


class Cut:
    """Commands over a connection that may break."""

    def __init__(self, commands: Backend) -> None:
        self._commands = commands
        self.is_cut = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._commands, name)

    async def run(self, *args: Any) -> Any:
        if self.is_cut:
            raise ClientError("cut")
        return await self._commands.run(*args)


def test_only_the_body_that_was_lost_is_cancelled(place: Place) -> None:
    async def scenario(client: Any) -> None:
        semaphore = Semaphore(client, "s", 2, ttl_s=0.03)
        with pytest.raises(LeaseLostError):
            async with semaphore:
                await asyncio.Event().wait()
        await turns(5)  # no cancellation is left over
        with pytest.raises(ZeroDivisionError):
            await failing(semaphore)
        long = Semaphore(client, "long", 1)
        task = asyncio.create_task(body(long))
        await taken(long, 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def failing(semaphore: Semaphore) -> None:
        async with semaphore as acquisition:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                assert acquisition.lost.is_set()
                raise ZeroDivisionError from None

    async def body(semaphore: Semaphore) -> None:
        async with semaphore:
            await asyncio.Event().wait()

    place.play(scenario)


def test_tokens_grow_across_lost_and_new_keys(place: Place) -> None:
    async def scenario(client: Any) -> None:
        semaphore = Semaphore(client, "s", 1)
        tokens = []
        for _ in range(20):
            acquisition = await semaphore.acquire()
            tokens.append(acquisition.fencing_token)
            for key in semaphore._settings.names.keys.values():  # FLUSHDB
                await backend_of(client).call("DEL", key)
        assert tokens == sorted(set(tokens))

    place.play(scenario)


@pytest.mark.parametrize("kind", [RedisServer, HoldfastServer])
def test_tokens_grow_across_restarts(tmp_path: Path, kind: type[ServerProcess]) -> None:
    """With and without a file from which the server remembers."""

    async def token(port: int) -> int:
        async with holdfast.connect(f"redis://127.0.0.1:{port}") as client:
            acquisition = await Semaphore(client, "s", 10).acquire()
            return acquisition.fencing_token

    with kind(tmp_path) as server:
        tokens = [asyncio.run(token(server.port)) for _ in range(2)]
        server.restart()
        tokens += [asyncio.run(token(server.port)) for _ in range(2)]
    assert tokens == sorted(set(tokens))


def test_tokens_grow_when_the_clock_goes_back(place: Place, world: World) -> None:
    async def scenario(client: Any) -> None:
        now_s = 1_800_000_000.0
        semaphore = world.semaphore(client, now=lambda: now_s)
        tokens = []
        for _ in range(5):
            acquisition = await semaphore.acquire()
            tokens.append(acquisition.fencing_token)
            await semaphore.release(acquisition)
            now_s -= 1000
        assert tokens == sorted(set(tokens))

    place.play(scenario)


def test_a_process_that_ends_can_wait_until_its_slot_is_free(tmp_path: Path) -> None:
    """The server is away when the slot is released, and comes back while the semaphore closes."""

    async def scenario(server: SteadyServer) -> None:
        semaphore = Semaphore(f"redis://127.0.0.1:{server.port}", "s", 1)
        async with semaphore:
            server.kill()
        closing = asyncio.create_task(semaphore.close(grace_s=60))
        await asyncio.to_thread(server.start)
        await closing

    with SteadyServer(tmp_path) as server:
        asyncio.run(scenario(server))
        assert server.client().command("ZCARD", "adv-sem:semaphore_main:{s}") == b":0\r\n"
