"""Workers: how they handle their builds, and what happens to builds when a worker fails."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import holdfast
from holdfast.builds import Build, BuildFailed, BuildQueue, BuildRecord, Run, State, Worker
from holdfast.clock import ManualClock
from tests.builds.conftest import all_ended
from tests.client.fakes import until
from tests.harness.cluster import free_port_below

Play = Callable[[Callable[[BuildQueue], Awaitable[None]]], None]


@pytest.fixture
def play(url: str) -> Play:
    """With the server's clock: tests here wait for events, not for time to pass."""

    def run(scenario: Callable[[BuildQueue], Awaitable[None]]) -> None:
        async def main() -> None:
            async with holdfast.connect(url) as client:
                await scenario(BuildQueue(client))

        asyncio.run(main())

    return run


async def known(queue: BuildQueue, build: int) -> BuildRecord:
    record = await queue.get(build)
    assert record is not None
    assert await queue.replay(build) == record
    return record


def test_builds_run_in_order_with_their_annotations(play: Play) -> None:
    async def scenario(queue: BuildQueue) -> None:
        runs: list[Run] = []

        async def handler(run: Run) -> None:
            runs.append(run)

        for build in (1, 2, 3):
            await queue.enqueue(Build(build, "a", annotations={"n": build}))
        async with Worker(queue, handler, name="w"):
            await all_ended(queue)
        assert [(run.build_id, run.job_id, run.attempt) for run in runs] == [
            (1, "a", 1),
            (2, "a", 1),
            (3, "a", 1),
        ]
        assert [run.annotations["n"] for run in runs] == [1, 2, 3]
        assert runs[0].token < runs[1].token < runs[2].token
        record = await known(queue, 3)
        assert (record.state, record.worker, record.token) == (State.SUCCESS, "w", runs[2].token)

    play(scenario)


def test_as_many_as_it_may_run_at_once(play: Play) -> None:
    async def scenario(queue: BuildQueue) -> None:
        now, most = 0, 0
        go = asyncio.Event()

        async def handler(run: Run) -> None:
            nonlocal now, most
            now += 1
            most = max(most, now)
            if most == 3:
                go.set()
            await go.wait()
            now -= 1

        for build in range(1, 9):
            await queue.enqueue(Build(build, f"job-{build}"))
        async with Worker(queue, handler, concurrency=3):
            await all_ended(queue)
        assert most == 3

    play(scenario)


def test_how_builds_end(play: Play) -> None:
    async def scenario(queue: BuildQueue) -> None:
        async def handler(run: Run) -> bool | None:
            if run.build_id == 1:
                return True
            if run.build_id == 2:
                return False
            if run.build_id == 3:
                raise BuildFailed("the tests are red")
            if run.attempt < 3:
                raise OSError("no machine")
            return None

        for build in range(1, 5):
            await queue.enqueue(Build(build, f"job-{build}", retries=2, backoff_s=0.001))
        await queue.enqueue(Build(5, "job-5", retries=1, backoff_s=0.001))
        async with Worker(queue, handler, concurrency=2):
            await all_ended(queue)
        found = {r.id: (r.state.name, r.reason, r.attempt) for r in await queue.list()}
        assert found == {
            1: ("SUCCESS", "SUCCESS", 1),
            2: ("FAILURE", "FAILURE", 1),
            3: ("FAILURE", "the tests are red", 1),
            4: ("SUCCESS", "SUCCESS", 3),
            5: ("FAILURE", "OSError: no machine", 2),
        }

    play(scenario)


def test_the_error_of_a_handler_may_be_no_text_or_very_long(play: Play) -> None:
    """File names need not be text; an error about one would lose the result of the build."""

    async def scenario(queue: BuildQueue) -> None:
        async def handler(run: Run) -> None:
            if run.build_id == 1:
                raise BuildFailed("no file caf\udce9")
            raise OSError("x" * 1_000_000)

        await queue.enqueue(Build(1, "a"))
        await queue.enqueue(Build(2, "b", retries=0))
        async with Worker(queue, handler):
            await all_ended(queue)
        assert (await known(queue, 1)).reason == "no file caf\\udce9"
        reason = (await known(queue, 2)).reason
        assert reason.startswith("OSError: xxx")
        assert reason.endswith("x…")
        assert len(reason) == 1001

    play(scenario)


def blocking_handler() -> tuple[Callable[[Run], Awaitable[None]], asyncio.Event, list[int]]:
    """A handler that never ends, with an event for its beginning and a list of cancelled builds."""
    begun, cancelled = asyncio.Event(), list[int]()

    async def handler(run: Run) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(run.token)
            raise

    return handler, begun, cancelled


def test_an_abort_cancels_the_handler(play: Play) -> None:
    async def scenario(queue: BuildQueue) -> None:
        handler, begun, cancelled = blocking_handler()
        await queue.enqueue(Build(1, "a"))
        async with Worker(queue, handler):
            await begun.wait()
            assert (await queue.abort(1, "not needed")).status == "CLEANED"
            await until(lambda: bool(cancelled))
        record = await known(queue, 1)
        assert (record.state, record.reason) == (State.ABORTED, "not needed")

    play(scenario)


def test_a_timeout_cancels_the_handler_and_fails_the_build(play: Play) -> None:
    async def scenario(queue: BuildQueue) -> None:
        handler, _, cancelled = blocking_handler()
        await queue.enqueue(Build(1, "a", timeout_min=0.001))
        async with Worker(queue, handler):
            await all_ended(queue)
            await until(lambda: bool(cancelled))
        record = await known(queue, 1)
        assert (record.state, record.reason) == (State.FAILURE, "TIMED_OUT")

    play(scenario)


def test_a_retry_takes_the_build_from_its_worker_and_gives_it_to_one(play: Play) -> None:
    async def scenario(queue: BuildQueue) -> None:
        tokens: list[int] = []
        done = asyncio.Event()

        async def handler(run: Run) -> None:
            tokens.append(run.token)
            if len(tokens) == 1:
                await asyncio.Event().wait()
            done.set()

        await queue.enqueue(Build(1, "a"))
        async with Worker(queue, handler):
            await until(lambda: len(tokens) == 1)
            assert (await queue.retry(1)).status == "RETRIED"
            await done.wait()
            await all_ended(queue)
        assert len(tokens) == 2
        assert tokens[0] < tokens[1]
        assert (await known(queue, 1)).attempt == 2

    play(scenario)


def test_a_start_of_a_running_build_takes_it_from_its_worker(play: Play) -> None:
    async def scenario(queue: BuildQueue) -> None:
        handler, begun, cancelled = blocking_handler()
        await queue.enqueue(Build(1, "a"))
        async with Worker(queue, handler):
            await begun.wait()
            taken = await queue.start(1, worker="me")
            await until(lambda: bool(cancelled))
            assert taken.token is not None
            assert taken.token > cancelled[0]
        assert (await known(queue, 1)).worker == "me"

    play(scenario)


def test_a_delayed_build_is_started_by_an_idle_worker(play: Play) -> None:
    async def scenario(queue: BuildQueue) -> None:
        ran = asyncio.Event()

        async def handler(run: Run) -> None:
            ran.set()

        async with Worker(queue, handler):
            await queue.enqueue(Build(1, "a", delay_s=0.05))
            await ran.wait()
            await all_ended(queue)

    play(scenario)


def test_a_worker_that_takes_a_build_leaves_news_of_due_builds_to_others(play: Play) -> None:
    """The one was about to wait when a delayed build came; the other is busy from now on."""

    async def scenario(queue: BuildQueue) -> None:
        assert (await queue.claim("idle", 30)).next_due_s is None
        await queue.enqueue(Build(1, "a"))
        await queue.enqueue(Build(2, "b", delay_s=1000))
        assert (await queue.claim("busy", 30)).build_id == 1
        assert await queue.wait(30)
        assert (await queue.claim("idle", 30)).next_due_s is not None
        assert not await queue.wait(0.01)  # nothing that it does not know

    play(scenario)


def test_draining_lets_running_builds_finish_and_takes_no_more(play: Play) -> None:
    async def scenario(queue: BuildQueue) -> None:
        begun, go = asyncio.Event(), asyncio.Event()

        async def handler(run: Run) -> None:
            begun.set()
            await go.wait()

        await queue.enqueue(Build(1, "a"))
        await queue.enqueue(Build(2, "b"))
        worker = Worker(queue, handler)
        running = asyncio.create_task(worker.run())
        await begun.wait()
        stopping = asyncio.create_task(worker.stop())
        await queue.stats()
        assert not running.done()
        go.set()
        await asyncio.gather(stopping, running)
        assert (await known(queue, 1)).state is State.SUCCESS
        assert (await known(queue, 2)).state is State.READY

    play(scenario)


@pytest.mark.parametrize("how", ["grace", "cancel"])
def test_a_worker_that_leaves_gives_its_build_back_at_once(play: Play, how: str) -> None:
    async def scenario(queue: BuildQueue) -> None:
        handler, begun, cancelled = blocking_handler()
        await queue.enqueue(Build(1, "a", retries=0))
        worker = Worker(queue, handler)
        running = asyncio.create_task(worker.run())
        await begun.wait()
        if how == "grace":
            await worker.stop(grace_s=0)
        else:
            running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert cancelled
        record = await known(queue, 1)
        assert (record.state, record.worker, record.reason) == (State.RUNNING, "", "LEFT")
        assert (await queue.claim("next", 30)).build_id == 1

    play(scenario)


def test_a_handler_that_finished_as_the_worker_left_has_built_it(play: Play) -> None:
    async def scenario(queue: BuildQueue) -> None:
        begun = asyncio.Event()

        async def handler(run: Run) -> None:
            begun.set()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()

        await queue.enqueue(Build(1, "a"))
        worker = Worker(queue, handler)
        running = asyncio.create_task(worker.run())
        await begun.wait()
        await worker.stop(grace_s=0)
        await running
        assert (await known(queue, 1)).state is State.SUCCESS

    play(scenario)


def test_a_handler_that_cancels_itself_has_failed_to_run(play: Play) -> None:
    async def scenario(queue: BuildQueue) -> None:
        async def handler(run: Run) -> None:
            raise asyncio.CancelledError

        await queue.enqueue(Build(1, "a", retries=1, backoff_s=0.001))
        async with Worker(queue, handler):
            await all_ended(queue)
        record = await known(queue, 1)
        assert (record.state, record.attempt) == (State.FAILURE, 2)

    play(scenario)


def test_a_worker_can_be_stopped_while_the_server_is_away(start_server: Any) -> None:
    async def scenario() -> None:
        server = start_server()
        async with holdfast.connect(f"redis://127.0.0.1:{server.port}") as client:

            async def handler(run: Run) -> None: ...

            async with Worker(BuildQueue(client), handler):
                await client.ping()
                server.kill()
                await until(lambda: not client.is_connected)

    asyncio.run(scenario())


def test_a_worker_that_has_stopped_can_work_again(play: Play) -> None:
    async def scenario(queue: BuildQueue) -> None:
        async def handler(run: Run) -> None: ...

        worker = Worker(queue, handler)
        for build in (1, 2):
            await queue.enqueue(Build(build, "a"))
            async with worker:
                await all_ended(queue)

    play(scenario)


def test_an_idle_worker_stops(play: Play) -> None:
    async def scenario(queue: BuildQueue) -> None:
        async def handler(run: Run) -> None: ...

        async with Worker(queue, handler):
            pass
        await queue.enqueue(Build(1, "a"))
        assert (await queue.claim("w", 30)).build_id == 1

    play(scenario)


class Moving:
    """A queue and a worker on one clock, which the test moves."""

    def __init__(self, client: Any) -> None:
        self.clock = ManualClock()
        self.queue = BuildQueue(client, now_ms=self.clock.now_ms)


def test_signs_of_life_keep_a_build_and_its_worker_together() -> None:
    async def scenario() -> None:
        async with holdfast.connect("memory://") as client:
            moving = Moving(client)
            handler, begun, cancelled = blocking_handler()
            await moving.queue.enqueue(Build(1, "a"))
            worker = Worker(moving.queue, handler, lease_s=30, clock=moving.clock)
            running = asyncio.create_task(worker.run())
            await begun.wait()
            key = "{builds}:due"
            for _ in range(4):  # longer than the lease
                before = await client.exec("ZSCORE", key, "run:1", into=float)
                moving.clock.advance(10)
                while await client.exec("ZSCORE", key, "run:1", into=float) == before:  # noqa: ASYNC110 - there is none
                    await asyncio.sleep(0)
                assert await moving.queue.check_timeouts() == []
            assert not cancelled
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(scenario())


def test_a_worker_learns_with_its_next_sign_of_life_that_a_build_is_lost() -> None:
    async def scenario() -> None:
        async with holdfast.connect("memory://") as client:
            moving = Moving(client)
            handler, begun, cancelled = blocking_handler()
            await moving.queue.enqueue(Build(1, "a"))
            worker = Worker(moving.queue, handler, lease_s=30, clock=moving.clock, name="slow")
            running = asyncio.create_task(worker.run())
            await begun.wait()
            await client.hset("{builds}:build:1", {"token": "99"})  # without the worker's knowledge
            moving.clock.advance(10)
            await until(lambda: bool(cancelled))
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            assert await client.hget("{builds}:build:1", "token") == "99"

    asyncio.run(scenario())


def test_a_worker_survives_a_server_that_goes_away(start_server: Any) -> None:
    async def scenario() -> None:
        # Not a port that the kernel could give to another process while the server is away.
        server = start_server("--port", str(free_port_below(20_000)))
        url = f"redis://127.0.0.1:{server.port}"
        ran: list[int] = []

        async def handler(run: Run) -> None:
            ran.append(run.build_id)
            if run.build_id == 1:
                server.kill()  # so its end cannot be told yet

        async with holdfast.connect(url) as client:
            queue = BuildQueue(client)
            await queue.enqueue(Build(1, "a"))
            await queue.enqueue(Build(2, "a"))
            async with Worker(queue, handler):
                await until(lambda: ran == [1])
                await asyncio.to_thread(server.start)
                await until(lambda: 2 in ran)
                await until_ended(queue)
            assert ran == [1, 2]

    asyncio.run(scenario())


async def until_ended(queue: BuildQueue) -> None:
    while True:
        try:
            await all_ended(queue)
            return
        except holdfast.HoldfastError:
            await asyncio.sleep(0.01)
