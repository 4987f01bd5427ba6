"""The reason why a build waits is the present one: builds that have ended are not named."""

from holdfast.builds import Build, BuildRecord, State
from tests.builds.conftest import Bench, Play


async def why(b: Bench, build: int) -> tuple[str, tuple[int, ...]]:
    record = await b.queue.get(build)
    assert record is not None
    assert await b.queue.replay(build) == record
    listed: list[BuildRecord] = await b.queue.list(job=record.job_id)
    assert record in listed
    return record.reason, record.blockers


def test_a_build_blocked_by_its_own_job_names_the_build_that_runs_now(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        builds = [Build(build, "a") for build in (1, 2, 3)]
        for build in builds:
            await b.queue.enqueue(build)
        assert await why(b, 3) == ("BLOCKED_BY_SAME_JOB", (1,))
        await b.queue.start(1)
        await b.queue.complete(1)
        assert await why(b, 3) == ("BLOCKED_BY_SAME_JOB", (2,))
        said = await b.queue.enqueue(builds[2])  # again
        assert (said.action, said.blockers) == ("BLOCK", (2,))

    play(scenario)


def test_a_build_blocked_by_other_jobs_names_those_that_are_left(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        for build, job in ((1, "a"), (2, "b"), (3, "c")):
            await b.queue.enqueue(Build(build, job))
        await b.queue.enqueue(Build(4, "d", blocked_by=["a", "b"]))
        await b.queue.enqueue(Build(5, "d"))
        assert await why(b, 4) == ("BLOCKED_BY_DEPENDENCIES", (1, 2))
        assert await why(b, 5) == ("NOT_ITS_TURN", ())
        await b.queue.stop(1)
        assert await why(b, 4) == ("BLOCKED_BY_DEPENDENCIES", (2,))
        await b.queue.stop(2)
        assert await why(b, 4) == ("READY", ())
        assert await why(b, 5) == ("BLOCKED_BY_SAME_JOB", (4,))

    play(scenario)


def test_a_build_that_waited_and_is_frozen_by_now_says_so(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        await b.queue.enqueue(Build(1, "a"))
        await b.queue.enqueue(Build(2, "a", freeze=["* 13 * * *"]))
        b.pass_min(60)
        assert await why(b, 2) == ("FREEZE_WINDOW", ())
        b.pass_min(60)
        assert await why(b, 2) == ("BLOCKED_BY_SAME_JOB", (1,))

    play(scenario)


def test_a_ready_build_that_may_not_begin_names_the_reason(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        await b.queue.enqueue(Build(1, "test", blocked_by=["compile"]))
        await b.queue.enqueue(Build(2, "compile"))
        assert await why(b, 1) == ("READY", ())
        await b.queue.start(2)
        assert await why(b, 1) == ("BLOCKED_BY_DEPENDENCIES", (2,))
        await b.queue.complete(2)
        assert await why(b, 1) == ("READY", ())

    play(scenario)


def test_looking_at_a_build_changes_nothing(play: Play) -> None:
    """Also where a build has kept its job for too long, which a decision would end."""

    async def scenario(b: Bench) -> None:
        await b.queue.enqueue(Build(1, "a"))
        await b.queue.start(1)
        await b.queue.enqueue(Build(2, "a"))
        b.pass_min(121)
        assert await why(b, 2) == ("BLOCKED_BY_SAME_JOB", (1,))
        assert [record.state for record in await b.queue.list()] == [State.BLOCKED, State.RUNNING]

    play(scenario)
