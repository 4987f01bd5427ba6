"""Wake-ups: a lost one delays no build while another worker is idle, and they do not pile up."""

import asyncio

import holdfast
from holdfast.builds import Build, BuildQueue, Run, Worker
from tests.builds.conftest import Bench, Count, Play
from tests.client.fakes import until

LONG_S = 600.0


def test_a_wake_up_that_a_dying_worker_took_delays_no_build(url: str) -> None:
    async def scenario() -> None:
        ran = asyncio.Event()

        async def handler(run: Run) -> None:
            ran.set()

        count = Count()
        async with (
            holdfast.connect(url) as client,
            holdfast.connect(url) as doomed,
            holdfast.connect(url, hooks=[count]) as watched,
        ):
            queue = BuildQueue(client)
            dying = asyncio.create_task(BuildQueue(doomed).wait(LONG_S))
            while "blocked_clients:1" not in await client.exec("INFO", "clients", into=str):  # noqa: ASYNC110 - there is no event
                await asyncio.sleep(0.001)
            async with Worker(BuildQueue(watched), handler, lease_s=LONG_S):
                await until(lambda: count.sent.count("BLPOP") == 2)  # it is idle
                await queue.enqueue(Build(1, "a"))
                assert await dying  # it was first, and will never claim
                await ran.wait()  # pytest's timeout is far below the lease

    asyncio.run(scenario())


def test_an_idle_worker_asks_again_within_a_third_of_its_lease() -> None:
    """More wake-ups may be lost than there are: a host that is cut off has several workers."""

    async def scenario() -> None:
        waits: list[float] = []

        class Watched(BuildQueue):
            async def wait(self, timeout_s: float) -> bool:
                waits.append(timeout_s)
                return await super().wait(timeout_s)

        async def handler(run: Run) -> None: ...

        async with (
            holdfast.connect("memory://") as client,
            Worker(Watched(client), handler, lease_s=30),
        ):
            await until(lambda: bool(waits))
        assert waits == [10.0]

    asyncio.run(scenario())


def test_builds_that_come_and_go_unclaimed_leave_no_heap_of_wake_ups(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        for build in range(1, 51):
            await b.queue.enqueue(Build(build, "a"))
            await b.queue.abort(build)
        assert await b.client.llen("{builds}:wake") <= 2
        for build in range(51, 61):
            await b.queue.enqueue(Build(build, f"job-{build}"))
        assert 10 <= await b.client.llen("{builds}:wake") <= 20

    play(scenario)


def test_a_worker_that_finds_nothing_removes_the_wake_ups(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        await b.queue.enqueue(Build(1, "a"))
        assert (await b.queue.claim("w", 30)).build_id == 1
        assert (await b.queue.claim("w", 30)).action == "NONE"
        assert await b.client.llen("{builds}:wake") == 0

    play(scenario)
