"""The thirteen failures of the system that this queue's design comes from, each by its name."""

import asyncio
import re

import pytest

import holdfast
from holdfast.builds import BadBuildError, Build, BuildQueue, BuildRecord, Run, State, Worker
from holdfast.coordination.lua_scripts import load, names
from tests.builds.conftest import Bench, Count, Play, all_ended
from tests.builds.lua_alone import PURE
from tests.client.fakes import until
from tests.harness.cluster import Nodes


async def state(queue: BuildQueue, build: int) -> State:
    return (await known(queue, build)).state


async def known(queue: BuildQueue, build: int) -> BuildRecord:
    record = await queue.get(build)
    assert record is not None
    return record


def test_1_job_ids_are_not_compared_with_build_ids(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        await b.queue.enqueue(Build(500, "7"))
        said = await b.queue.enqueue(Build(7, "8", blocked_by=["7"]))
        assert (said.action, said.blockers) == ("BLOCK", (500,))
        said = await b.queue.enqueue(Build(501, "9", blocked_by=["500"]))  # no job
        assert said.action == "START"

    play(scenario)


def test_2_blocking_a_build_does_not_mark_it_aborted(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        await b.queue.enqueue(Build(1, "a"))
        await b.queue.enqueue(Build(2, "b", blocked_by=["a"]))
        assert (await b.queue.start(2)).action == "BLOCK"
        await b.queue.stop(1)
        assert (await b.queue.start(2)).action == "START"

    play(scenario)


def test_3_a_retry_of_a_running_build_does_not_block_on_itself(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        await b.queue.enqueue(Build(1, "a", blocked_by=["a"]))
        await b.queue.start(1)
        assert (await b.queue.start(1)).action == "START"
        await b.queue.retry(1)
        assert (await b.queue.claim("w", 10)).build_id == 1

    play(scenario)


def test_4_stop_leaves_what_ran_last(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        await b.queue.enqueue(Build(2, "a", collapse=True))
        await b.queue.start(2)
        await b.queue.stop(2)
        said = await b.queue.enqueue(Build(1, "a", collapse=True))
        assert (said.action, said.reason) == ("COLLAPSE", "OLDER_THAN_LAST_RUNNING")

    play(scenario)


def test_5_side_by_side_each_build_times_out_by_itself(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        for build, minutes in ((1, 10), (2, 20)):
            await b.queue.enqueue(Build(build, "a", blocked_by_self=False, timeout_min=minutes))
            assert (await b.queue.start(build)).action == "START"
        b.pass_min(10)
        assert [said.build_id for said in await b.queue.check_timeouts()] == [1]
        assert await state(b.queue, 1) is State.FAILURE
        assert await state(b.queue, 2) is State.RUNNING
        b.pass_min(10)
        await b.queue.check_timeouts()
        assert await state(b.queue, 2) is State.FAILURE

    play(scenario)


def test_6_aborting_a_running_build_frees_its_job_at_once(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        await b.queue.enqueue(Build(1, "a"))
        await b.queue.start(1)
        await b.queue.enqueue(Build(2, "a"))
        await b.queue.enqueue(Build(3, "b", blocked_by=["a"]))
        assert set((await b.queue.abort(1)).removed) == {"run", "running"}
        assert await state(b.queue, 2) is State.READY
        await b.queue.abort(2)
        assert await state(b.queue, 3) is State.READY

    play(scenario)


def test_7_false_is_false_and_annotations_arrive(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        annotations = {
            "ci.example/collapseBuilds": "false",
            "ci.example/timeout": "7",
            "text": 'ü "quoted"\n',
            "number": 1.5,
            "none": None,
            "list": [1, {"deep": []}],
            "yes": True,
        }
        await b.queue.enqueue(Build(2, "a", blocked_by_self="false", annotations=annotations))
        said = await b.queue.start(2)
        assert said.record is not None
        assert said.record.annotations == annotations
        assert (said.record.collapse, said.record.blocked_by_self) == (False, False)
        assert said.record.timeout_ms == 7 * 60_000
        yes = {"ci.example/collapseBuilds": "true"}
        said = await b.queue.enqueue(Build(1, "a", annotations=yes))
        assert said.action == "COLLAPSE"

    play(scenario)


@pytest.mark.parametrize("value", ["no", "0", "", 0, 1, None])
def test_7_what_is_neither_true_nor_false_is_refused(value: object) -> None:
    with pytest.raises(BadBuildError, match="true or false"):
        Build(1, "a", blocked_by_self=value)  # type: ignore[arg-type]


@pytest.mark.parametrize("module", PURE)
def test_8_scripts_use_the_pure_modules(module: str) -> None:
    """test_scripts.py shows that the scripts also follow the modules."""
    sources = [load("holdfast.builds", name).source for name in names("holdfast.builds")]
    assert any(re.search(rf"= {module}\.\w+\(|if .*{module}\.", text) for text in sources)


def test_9_the_end_of_a_build_wakes_a_worker(url: str) -> None:
    """Two round trips: the call that ends one build, and the worker's that starts the other. In
    between it says nothing, so it does not poll; and no timer takes part."""

    async def scenario() -> None:
        ender, waiter = Count(), Count()
        async with (
            holdfast.connect(url, hooks=[ender]) as client,
            holdfast.connect(url, hooks=[waiter]) as watched,
        ):
            queue = BuildQueue(client)
            started = asyncio.Event()

            async def handler(run: Run) -> None:
                started.set()

            await queue.enqueue(Build(1, "a"))
            await queue.start(1)
            await queue.enqueue(Build(2, "b", blocked_by=["a"]))
            await queue.complete(9)  # the server learns the script
            async with Worker(BuildQueue(watched), handler):
                # It waits for builds and for messages.
                await until(lambda: waiter.sent.count("BLPOP") == 2)
                ender.sent.clear()
                waiter.sent.clear()
                for _ in range(20):
                    await client.ping()
                assert waiter.sent == []
                await queue.complete(1)
                await started.wait()
                assert ender.sent == ["PING"] * 20 + ["EVALSHA"]
                assert waiter.sent == ["EVALSHA"]

    asyncio.run(scenario())


def test_10_a_timeout_frees_the_job_only_of_the_build_that_timed_out(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        await b.queue.enqueue(Build(1, "a", timeout_min=5))
        await b.queue.start(1)
        await b.queue.stop(1)
        await b.queue.enqueue(Build(2, "a"))
        await b.queue.start(2)
        b.pass_min(6)
        (said,) = await b.queue.check_timeouts(1)
        assert (said.action, said.reason) == ("CLEANUP", "COMPLETED")
        assert await state(b.queue, 2) is State.RUNNING
        assert (await b.queue.enqueue(Build(3, "a"))).blockers == (2,)

    play(scenario)


@pytest.mark.parametrize("name", ["beta_builds", "team:ci", "a b"])
def test_11_timeouts_work_whatever_the_queue_is_called(play: Play, name: str) -> None:
    async def scenario(b: Bench) -> None:
        queue = b.another(name)
        await queue.enqueue(Build(1, "a", timeout_min=5))
        await queue.start(1)
        b.pass_min(5)
        assert [said.action for said in await queue.check_timeouts()] == ["TIMEOUT"]
        assert await b.queue.list() == []  # another queue is another queue

    play(scenario)


def test_12_a_worker_that_dies_while_stopping_blocks_no_build(play: Play) -> None:
    """Stopping is one call: it has happened, or the lease brings the build to another worker."""

    async def scenario(b: Bench) -> None:
        await b.queue.enqueue(Build(1, "a"))
        dead = await b.queue.claim("dead", lease_s=30)
        await b.queue.enqueue(Build(2, "b", blocked_by=["a"]))
        b.pass_s(30)
        assert [said.action for said in await b.queue.check_timeouts()] == ["RETRY"]
        alive = await b.queue.claim("alive", lease_s=30)
        assert alive.build_id == 1
        assert (await b.queue.complete(1, token=dead.token)).status == "STALE"
        assert (await b.queue.complete(1, token=alive.token)).status == "CLEANED"
        assert await state(b.queue, 2) is State.READY

    play(scenario)


def test_13_it_runs_on_a_cluster(nodes: Nodes) -> None:
    async def scenario() -> None:
        async with holdfast.connect(nodes.url) as client:
            for name in ("one", "two", "three", "four"):  # on different nodes
                queue = BuildQueue(client, name)
                ran: list[int] = []

                async def handler(run: Run, ran: list[int] = ran) -> None:
                    ran.append(run.build_id)

                for build in range(1, 7):
                    job, other = ("a", "b") if build % 2 else ("b", "a")
                    await queue.enqueue(Build(build, job, blocked_by=[other]))
                async with Worker(queue, handler, concurrency=2):
                    await all_ended(queue)
                assert sorted(ran) == [1, 2, 3, 4, 5, 6]
                for build in range(1, 7):
                    assert await queue.replay(build) == await queue.get(build)

    asyncio.run(scenario())
