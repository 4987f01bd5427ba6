"""Semaphore and Lock as users see them."""

import asyncio
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import redis.asyncio

import holdfast
from holdfast.client.errors import ClosedError
from holdfast.coordination.backend_of import backend_of
from holdfast.coordination.lua_scripts import load
from holdfast.semaphore import (
    Lock,
    Semaphore,
    keeper,
)
from tests.client.fakes import turns
from tests.harness import RedisServer
from tests.harness.sentinel import Sentinel
from tests.semaphore.conftest import KINDS, Place, emptied, taken, waiting


def test_slots_are_taken_counted_and_given_back(any_place: Place) -> None:
    async def scenario(client: Any) -> None:
        semaphore = holdfast.Semaphore(client, "gpu", 2)
        assert (await semaphore.count(), await semaphore.locked()) == (0, False)
        first = await semaphore.acquire()
        assert (await semaphore.count(), await semaphore.locked()) == (1, False)
        second = await semaphore.acquire()
        assert (await semaphore.count(), await semaphore.locked()) == (2, True)
        assert (first.slot_number, second.slot_number) == (1, 2)
        assert 0 < first.fencing_token < second.fencing_token
        assert await semaphore.release(first)
        assert not await semaphore.release(first.id)
        assert await semaphore.release(second.id)
        assert not await semaphore.release("nobody")
        assert not first.lost.is_set()
        await emptied(client)

    any_place.play(scenario)


def test_with_and_as_and_inside_each_other(place: Place) -> None:
    async def scenario(client: Any) -> None:
        semaphore = Semaphore(client, "s", 3)
        async with semaphore as outer, semaphore, semaphore.cm() as inner:
            assert outer.id != inner.id
            assert await semaphore.count() == 3
        with pytest.raises(ZeroDivisionError):
            async with semaphore:
                raise ZeroDivisionError
        cm = semaphore.cm()
        async with cm:
            pass
        with pytest.raises(RuntimeError, match="used once"):
            async with cm:
                pass
        await emptied(client)

    place.play(scenario)


def test_a_lock_is_a_semaphore_of_one(place: Place) -> None:
    async def scenario(client: Any) -> None:
        inside = 0

        async def work() -> None:
            nonlocal inside
            async with Lock(client, "deploy", ttl_s=60):
                inside += 1
                assert inside == 1
                await turns(2)
                inside -= 1

        await asyncio.gather(*(work() for _ in range(10)))

    place.play(scenario)


def test_many_tasks_share_the_slots(any_place: Place) -> None:
    async def scenario(client: Any) -> None:
        semaphore = Semaphore(client, "s", 4)
        inside, most, tokens = 0, 0, []

        async def work() -> None:
            nonlocal inside, most
            for _ in range(3):
                async with semaphore as acquisition:
                    tokens.append(acquisition.fencing_token)
                    inside += 1
                    most = max(most, inside)
                    await turns(3)
                    inside -= 1

        await asyncio.gather(*(work() for _ in range(25)))
        assert most <= 4
        assert len(set(tokens)) == 75
        await emptied(client)

    any_place.play(scenario)


def test_stats_of_all_that_are_in_use(any_place: Place) -> None:
    async def scenario(client: Any) -> None:
        names = {"a": (4, 1), "b": (2, 2), "odd*[name]": (3, 1), "idle": (9, 0)}
        held = []
        for name, (limit, count) in names.items():
            semaphore = Semaphore(client, name, limit)
            held += [await semaphore.acquire() for _ in range(count)]
        await semaphore.release(await semaphore.acquire())  # its limit is remembered for a while
        await Semaphore(client, "other", 1, namespace="adv-sem-2").acquire()
        assert [row.name for row in await semaphore.stats()] == ["b", "odd*[name]", "a"]
        assert [row.name for row in await semaphore.stats(limit=1)] == ["b"]
        (row,) = await semaphore.stats(["b", "idle"])
        assert row == ("b", 2, 0, 2)
        assert row.percent == 100

    any_place.play(scenario)


def test_arguments_that_make_no_sense() -> None:
    async def scenario() -> None:
        async with holdfast.connect("memory://") as client:
            for limit in (0, -1, 1.5, True, "2"):
                with pytest.raises(ValueError, match="a limit"):
                    Semaphore(client, "s", limit)  # type: ignore[arg-type]
            for option in ("ttl_s", "max_acquire_time_s", "heartbeat_max_interval_s"):
                for wrong in (0, -1, "5", float("nan")):
                    with pytest.raises(ValueError, match=f"{option} must be a number above 0"):
                        Semaphore(client, "s", 1, **{option: wrong})  # type: ignore[arg-type]
            for name in ("", "}"):
                with pytest.raises(ValueError, match="name"):
                    Semaphore(client, name, 1)
            no_text: Any
            for no_text in (5, b"s", None):
                with pytest.raises(TypeError, match="the name of a semaphore is a str, not"):
                    Semaphore(client, no_text, 1)
                with pytest.raises(TypeError, match="takes an acquisition or its id, not"):
                    await Semaphore(client, "s", 1).release(no_text)
            with pytest.raises(TypeError, match="the namespace of a semaphore is a str, not 5"):
                Semaphore(client, "s", 1, namespace=5)  # type: ignore[arg-type]
            with pytest.raises(TypeError, match="no client"):
                Semaphore(object(), "s", 1)
            with pytest.raises(ValueError, match="give a client"):
                Semaphore("memory://", "s", 1)

    asyncio.run(scenario())


# -- giving up --------------------------------------------------------------------------------


@pytest.mark.parametrize("free", [0, 1])
def test_a_cancelled_acquire_leaves_no_trace(any_place: Place, free: int) -> None:
    """Cancelled at every turn of the loop from its first to its last."""

    async def scenario(client: Any) -> None:
        semaphore = Semaphore(client, "s", 1 + free)
        holder = await semaphore.acquire()
        for count in range(1, 40):
            task = asyncio.create_task(semaphore.acquire())
            await turns(count)
            if task.cancel():
                with pytest.raises(asyncio.CancelledError):
                    await task
                await waiting(semaphore, 0)
                await taken(semaphore, 1)
            else:
                await semaphore.release(task.result())
        assert await semaphore.release(holder)
        await emptied(client)

    any_place.play(scenario)


def test_a_waiter_that_is_cancelled_when_it_is_told_passes_the_slot_on(any_place: Place) -> None:
    async def scenario(client: Any) -> None:
        semaphore = Semaphore(client, "s", 1)
        for count in range(0, 24, 2):
            first = await semaphore.acquire()
            cancelled = asyncio.create_task(semaphore.acquire())
            await waiting(semaphore)
            second = asyncio.create_task(semaphore.acquire())
            await waiting(semaphore, 2)
            releasing = asyncio.create_task(semaphore.release(first))
            await turns(count)
            cancelled.cancel()
            await asyncio.gather(cancelled, return_exceptions=True)
            await releasing
            if not cancelled.cancelled():
                await semaphore.release(cancelled.result())
            await semaphore.release(await second)
        await emptied(client)

    any_place.play(scenario)


def test_a_time_limit_for_the_wait(any_place: Place) -> None:
    async def scenario(client: Any) -> None:
        holder = await Semaphore(client, "s", 1).acquire()
        semaphore = Semaphore(client, "s", 1, max_acquire_time_s=0.02)
        with pytest.raises(TimeoutError, match=r"'s': no slot within 0\.02 s"):
            async with semaphore:
                pass
        await waiting(semaphore, 0)
        await taken(semaphore, 1)
        await semaphore.release(holder)
        async with Semaphore(client, "s", 1, max_acquire_time_s=60):
            pass

    any_place.play(scenario)


@pytest.mark.parametrize("kind", ["ours", "redis-py"])
@pytest.mark.parametrize("is_waiting", [False, True])
def test_the_time_limit_for_the_wait_holds_against_a_silent_server(
    kind: str, is_waiting: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "CLEAN_UP_S", 3600.0)  # else it would only take a bit longer

    async def scenario(server: RedisServer) -> None:
        async with Place("redis" if kind == "ours" else kind, [server.port]).opened() as client:
            holder = await Semaphore(client, "s", 1).acquire()
            semaphore = Semaphore(client, "s", 1, max_acquire_time_s=0.3)
            if is_waiting:
                acquiring = asyncio.create_task(semaphore.acquire())
                await waiting(semaphore)
                os.kill(server.pid, signal.SIGSTOP)
            else:
                os.kill(server.pid, signal.SIGSTOP)
                acquiring = asyncio.create_task(semaphore.acquire())
            try:
                with pytest.raises(TimeoutError, match="no slot within"):
                    await acquiring
            finally:
                os.kill(server.pid, signal.SIGCONT)
            await waiting(semaphore, 0)  # it leaves no trace
            await semaphore.release(holder)

    with RedisServer(tmp_path) as server:
        asyncio.run(scenario(server))


# -- loops, clients, names --------------------------------------------------------------------


@pytest.mark.parametrize("any_place", [kind for kind in KINDS if kind != "memory"], indirect=True)
def test_threads_with_their_own_loops_share_a_semaphore(any_place: Place) -> None:
    semaphore = Semaphore(any_place.client, "s", 2)
    inside, most, lock = 0, 0, threading.Lock()

    async def work() -> None:
        nonlocal inside, most
        for _ in range(5):
            async with semaphore:
                with lock:
                    inside += 1
                    most = max(most, inside)
                await turns(3)
                with lock:
                    inside -= 1

    async def main() -> None:
        await asyncio.gather(*(work() for _ in range(3)))

    with ThreadPoolExecutor(4) as pool:
        for future in [pool.submit(asyncio.run, main()) for _ in range(4)]:
            future.result()
    assert 1 <= most <= 2


def test_a_url_gives_each_loop_a_client_of_its_own(redis_place: Place) -> None:
    semaphore = Semaphore(redis_place.url, "s", 1)

    async def main() -> None:
        async with semaphore:
            assert await semaphore.count() == 1

    for _ in range(2):
        asyncio.run(main())

    async def closing() -> None:
        await main()
        await semaphore.close()
        await semaphore.close()
        await main()

    asyncio.run(closing())


def test_a_client_belongs_to_one_loop(redis_place: Place) -> None:
    async def scenario(client: Any) -> None:
        semaphore = Semaphore(client, "s", 1)
        await semaphore.release(await semaphore.acquire())
        with pytest.raises(RuntimeError, match="give the semaphore a URL"):
            await asyncio.to_thread(asyncio.run, semaphore.count())

    redis_place.play(scenario)


def test_waiters_of_a_closed_client_are_told(place: Place) -> None:
    async def scenario(client: Any) -> None:
        async with place.opened() as other:
            if place.kind == "memory":
                other = client
            first = Semaphore(client, "s", 1, cancel_on_loss=False)
            await first.acquire()
            semaphore = Semaphore(other, "s", 1, heartbeat_max_interval_s=5)
            waiter = asyncio.create_task(semaphore.acquire())
            await waiting(first)
            await other.close()
            with pytest.raises(ClosedError):
                await waiter

    place.play(scenario)


def test_through_sentinels(oracle: RedisServer, tmp_path: Path) -> None:
    async def compete(client: Any) -> None:
        semaphore = Semaphore(client, "through sentinels", 1)
        first = await semaphore.acquire()
        waiter = asyncio.create_task(semaphore.acquire())
        await waiting(semaphore)
        await semaphore.release(first)
        await semaphore.release(await waiter)

    async def scenario(port: int) -> None:
        async with holdfast.connect(f"redis+sentinel://127.0.0.1:{port}/main") as client:
            await compete(client)
        sentinels: Any = redis.asyncio.Sentinel([("127.0.0.1", port)])  # type: ignore[no-untyped-call]
        async with sentinels.master_for("main") as master:
            await compete(master)
        for sentinel in sentinels.sentinels:
            await sentinel.aclose()

    config = tmp_path / "sentinel.conf"
    config.write_text(f"sentinel monitor main 127.0.0.1 {oracle.port} 1\n")
    with Sentinel(tmp_path / "sentinel", config) as sentinel:
        asyncio.run(scenario(sentinel.port))


def test_bare_names_share_slots_with_the_library_of_the_seed(redis_place: Place) -> None:
    """Which runs the six scripts with names of its own, here by hand."""

    async def scenario(client: Any) -> None:
        commands = backend_of(client)
        prefix = "adv-sem:semaphore_"
        main, ttl, waiting_key, beats = (
            f"{prefix}{kind}:s" for kind in ("main", "ttl", "waiting", "waiting_heartbeat")
        )
        pattern = "adv-sem:acquisition_notification:@@@ACQUISITION_ID@@@"

        async def run(name: str, *args: Any) -> Any:
            source = load("holdfast.semaphore", name).source
            return await commands.call("EVAL", source, *args)

        async def wake() -> Any:
            return await run(
                "wake_up_nexts", 4, main, ttl, waiting_key, beats, 1, 60, "", "", pattern
            )

        await run("queue", 2, waiting_key, beats, "theirs", 60, "", "")
        assert await wake() == 1
        assert await commands.pop("adv-sem:acquisition_notification:theirs", timeout_s=None)

        semaphore = Semaphore(client, "s", 1, hash_tag=False)
        ours = asyncio.create_task(semaphore.acquire())
        while not await commands.call("EXISTS", waiting_key):  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.001)
        await run("queue", 2, waiting_key, beats, "theirs again", 60, "", "")
        assert await run("release", 4, main, ttl, waiting_key, beats, "theirs") == 1
        assert await wake() == 1
        acquisition = await ours
        assert await semaphore.release(acquisition)
        assert await commands.pop("adv-sem:acquisition_notification:theirs again", timeout_s=None)
        assert await run("release", 4, main, ttl, waiting_key, beats, "theirs again") == 1

    redis_place.play(scenario)


def test_bare_names_leave_no_trace_either(redis_place: Place) -> None:
    async def scenario(client: Any) -> None:
        semaphore = Semaphore(client, "s", 1, hash_tag=False)
        first = await semaphore.acquire()
        waiter = asyncio.create_task(semaphore.acquire())
        await waiting(semaphore)
        assert [row.name for row in await semaphore.stats()] == ["s"]
        await semaphore.release(first)
        await turns(3)
        waiter.cancel()
        await asyncio.gather(waiter, return_exceptions=True)
        if not waiter.cancelled():
            await semaphore.release(waiter.result())
        await emptied(client)

    redis_place.play(scenario)
