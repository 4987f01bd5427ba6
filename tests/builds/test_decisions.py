"""The table of decisions, row by row, on redis-server and on Holdfast."""

import pytest

from holdfast.builds import Build, State
from tests.builds.conftest import Bench, Play


def test_1_no_configuration(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        said = await b.queue.start(7)
        assert (said.action, said.reason) == ("ABORT", "BUILD_CONFIG_MISSING")
        assert await b.queue.get(7) is None

    play(scenario)


def test_2_it_was_aborted(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        await b.queue.enqueue(Build(1, "a"))
        await b.queue.abort(1)
        said = await b.queue.start(1)
        assert (said.action, said.reason) == ("ABORT", "BUILD_ABORTED")

    play(scenario)


def test_2_it_was_aborted_before_it_came(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        assert (await b.queue.abort(1)).status == "ALREADY_CLEAN"
        said = await b.queue.enqueue(Build(1, "a"))
        assert (said.action, said.reason) == ("ABORT", "BUILD_ABORTED")
        assert said.state is State.ABORTED
        assert await b.queue.replay(1) == await b.queue.get(1)
        left_ms = await b.client.exec("PTTL", "{builds}:aborted:1", into=int)
        assert left_ms == -2  # used up
        await b.queue.abort(2)
        left_ms = await b.client.exec("PTTL", "{builds}:aborted:2", into=int)
        assert 29 * 60_000 < left_ms <= 30 * 60_000

    play(scenario)


def test_2_a_retry_of_a_running_build_that_was_aborted(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        await b.queue.enqueue(Build(1, "a"))
        await b.queue.start(1)
        await b.queue.abort(1)
        said = await b.queue.start(1)
        assert (said.action, said.reason) == ("ABORT", "BUILD_ABORTED")

    play(scenario)


def test_3_it_is_itself_the_running_build(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        await b.queue.enqueue(Build(1, "a", collapse=True))
        first = await b.queue.start(1)
        await b.queue.enqueue(Build(2, "a", collapse=True))
        again = await b.queue.start(1)
        assert (again.action, again.reason) == ("START", "RETRY")
        assert again.state is State.RUNNING
        assert first.token is not None
        assert again.token is not None
        assert again.token > first.token
        assert again.record is not None
        assert again.record.attempt == 2

    play(scenario)


def test_4_older_than_the_last_one_that_ran(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        await b.queue.enqueue(Build(5, "a", collapse=True))
        await b.queue.start(5)
        await b.queue.complete(5)
        said = await b.queue.enqueue(Build(4, "a", collapse=True))
        assert (said.action, said.reason) == ("COLLAPSE", "OLDER_THAN_LAST_RUNNING")
        assert said.state is State.COLLAPSED
        assert (await b.queue.enqueue(Build(3, "a"))).action == "START"  # collapse is off

    play(scenario)


def test_4_the_last_one_that_ran_is_the_newest_that_ever_did(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        for build in (9, 5):
            await b.queue.enqueue(Build(build, "a"))
            await b.queue.start(build)
            await b.queue.complete(build)
        said = await b.queue.enqueue(Build(7, "a", collapse=True))
        assert (said.action, said.reason) == ("COLLAPSE", "OLDER_THAN_LAST_RUNNING")

    play(scenario)


def test_4_older_than_the_newest_that_waits(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        for build in (1, 9, 20, 12):  # the newest is the maximum, not the last that came
            await b.queue.enqueue(Build(build, "a"))
        said = await b.queue.enqueue(Build(15, "a", collapse=True))
        assert (said.action, said.reason) == ("COLLAPSE", "NEWER_BUILD_EXISTS")
        assert (await b.queue.enqueue(Build(21, "a", collapse=True))).action == "BLOCK"

    play(scenario)


def test_4_a_newer_build_collapses_the_one_that_waits(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        for build in (1, 2, 3, 4):
            await b.queue.enqueue(Build(build, "a", collapse=True))
        states = {record.id: record.state for record in await b.queue.list(job="a")}
        assert states == {
            1: State.READY,
            2: State.COLLAPSED,
            3: State.COLLAPSED,
            4: State.BLOCKED,
        }

    play(scenario)


def test_5_another_job_that_it_is_blocked_by_runs(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        for build, job in ((1, "a"), (2, "b"), (3, "c")):
            await b.queue.enqueue(Build(build, job))
        said = await b.queue.enqueue(Build(4, "d", blocked_by=["a", "b", "quiet"]))
        assert (said.action, said.reason) == ("BLOCK", "BLOCKED_BY_DEPENDENCIES")
        assert said.blockers == (1, 2)
        await b.queue.stop(1)
        again = await b.queue.start(4)
        assert (again.action, again.blockers) == ("BLOCK", (2,))
        await b.queue.stop(2)
        assert (await b.queue.start(4)).action == "START"

    play(scenario)


def test_6_the_same_job_runs(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        await b.queue.enqueue(Build(1, "a"))
        await b.queue.start(1)
        said = await b.queue.enqueue(Build(2, "a"))
        assert (said.action, said.reason) == ("BLOCK", "BLOCKED_BY_SAME_JOB")
        assert said.blockers == (1,)

    play(scenario)


def test_6_with_self_blocking_off_it_runs_beside(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        for build in (1, 2, 3):
            await b.queue.enqueue(Build(build, "a", blocked_by_self=False))
        for build in (1, 2, 3):
            assert (await b.queue.start(build)).action == "START"

    play(scenario)


def test_6_beside_the_same_job_after_five_minutes(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        beside = {"blocked_by_self": False, "blocked_by_same_job": False}
        await b.queue.enqueue(Build(1, "a", **beside))  # type: ignore[arg-type]
        await b.queue.start(1)
        said = await b.queue.enqueue(Build(2, "a", **beside))  # type: ignore[arg-type]
        assert (said.action, said.reason, said.blockers) == ("BLOCK", "BLOCKED_BY_SAME_JOB", (1,))
        b.pass_s(5 * 60 - 1)
        await b.queue.check_timeouts()
        assert (await b.queue.start(2)).action == "BLOCK"
        b.pass_s(1)
        await b.queue.check_timeouts()
        record = await b.queue.get(2)
        assert record is not None
        assert record.state is State.READY

    play(scenario)


def test_7_only_the_oldest_that_waits_may_go(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        await b.queue.enqueue(Build(1, "other"))
        await b.queue.enqueue(Build(2, "a", blocked_by=["other"]))
        said = await b.queue.enqueue(Build(3, "a"))  # nothing blocks it but its turn
        assert (said.action, said.reason) == ("BLOCK", "NOT_ITS_TURN")
        await b.queue.stop(1)
        states = {record.id: record.state for record in await b.queue.list(job="a")}
        assert states == {2: State.READY, 3: State.BLOCKED}

    play(scenario)


def test_7_the_newest_may_go_if_builds_collapse(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        await b.queue.enqueue(Build(1, "other"))
        await b.queue.enqueue(Build(2, "a", blocked_by=["other"]))
        assert (await b.queue.enqueue(Build(3, "a", collapse=True))).action == "START"

    play(scenario)


def test_8_it_starts(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        said = await b.queue.enqueue(Build(1, "a", timeout_min=10))
        assert (said.action, said.reason, said.state) == ("START", "READY", State.READY)
        said = await b.queue.start(1)
        assert (said.action, said.reason, said.state) == ("START", "READY", State.RUNNING)
        assert said.record is not None
        assert said.record.limit_at_ms == b.now_ms + 10 * 60_000
        assert (await b.queue.list(state="BLOCKED")) == []

    play(scenario)


@pytest.mark.parametrize(
    ("timeout_min", "hold_min", "held_min"), [(10, 50, 40), (None, 50, 50), (None, None, 120)]
)
def test_8_a_build_keeps_its_job_for_a_limited_time_even_without_a_check(
    play: Play, timeout_min: float | None, hold_min: float | None, held_min: float
) -> None:
    async def scenario(b: Bench) -> None:
        queue = b.another(hold_min=hold_min)
        await queue.enqueue(Build(1, "a", timeout_min=timeout_min))
        await queue.start(1)
        b.pass_s(60 * held_min - 1)
        assert (await queue.enqueue(Build(2, "a"))).action == "BLOCK"
        b.pass_s(1)
        assert (await queue.start(2)).action == "START"
        record = await queue.get(1)
        assert record is not None
        assert (record.state, record.reason) == (State.FAILURE, "TIMED_OUT")

    play(scenario)


# -- stop -------------------------------------------------------------------------------------


def test_stop_cleans_and_names_its_work_and_the_next_build_of_the_job(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        for build in (1, 2, 3):
            await b.queue.enqueue(Build(build, "a"))
        await b.queue.start(1)
        said = await b.queue.stop(1)
        assert (said.status, said.state) == ("CLEANED", State.ABORTED)
        assert (set(said.removed), said.owner) == ({"run", "running"}, 2)
        said = await b.queue.stop(3)
        assert (said.status, said.removed, said.owner) == ("CLEANED", ("waiting",), 2)
        said = await b.queue.stop(1)
        assert (said.status, said.removed, said.owner) == ("NOT_RUNNING", (), 2)
        assert (await b.queue.stop(2)).status == "CLEANED"
        said = await b.queue.stop(1)
        assert (said.status, said.owner) == ("ALREADY_CLEAN", None)

    play(scenario)


def test_an_illegal_change_changes_nothing_and_says_why(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        await b.queue.enqueue(Build(1, "a"))
        await b.queue.enqueue(Build(2, "a"))
        before = await b.queue.get(2)
        said = await b.queue.complete(2)
        assert (said.status, said.removed) == ("REFUSED", ())
        assert said.message == "BLOCKED to SUCCESS is not a legal change"
        assert await b.queue.get(2) == before
        await b.queue.start(1)
        await b.queue.complete(1, success=False)
        before = await b.queue.get(1)
        again = await b.queue.start(1)
        assert (again.action, again.message) == ("REFUSE", "FAILURE is final")
        assert await b.queue.get(1) == before
        assert len(await b.queue.events(1)) == 4

    play(scenario)


# -- timeouts ---------------------------------------------------------------------------------


def test_timeout_checks(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        async def check(build: int) -> tuple[str, str]:
            (said,) = await b.queue.check_timeouts(build)
            return said.action, said.reason

        assert await check(7) == ("CLEANUP", "COMPLETED")
        await b.queue.enqueue(Build(1, "a"))
        await b.queue.start(1)
        await b.queue.enqueue(Build(2, "a"))
        assert await check(2) == ("CLEANUP", "NOT_RUNNING")
        b.pass_s(90 * 60 - 1)
        assert await check(1) == ("SKIP", "RUNNING")
        b.pass_s(1)
        assert await check(1) == ("TIMEOUT", "TIMED_OUT")
        assert await check(1) == ("CLEANUP", "COMPLETED")
        one, two = await b.queue.get(1), await b.queue.get(2)
        assert one is not None
        assert two is not None
        assert (one.state, two.state) == (State.FAILURE, State.READY)
        await b.queue.stop(2)
        await b.queue.enqueue(Build(3, "c", delay_s=60))
        assert await check(3) == ("CLEANUP", "NOTHING_RUNNING")

    play(scenario)
