"""A READY build may start, but does not run yet. Everything that may block it is checked again when
a worker claims it. Until then the build keeps its job and its place."""

from holdfast.builds import Build, BuildRecord, State
from tests.builds.conftest import Bench, Play


async def known(b: Bench, build: int) -> BuildRecord:
    record = await b.queue.get(build)
    assert record is not None
    assert await b.queue.replay(build) == record
    return record


async def ready_beside_its_blocker(b: Bench, **options: object) -> None:
    """Build 2 is READY, and so is build 3, whose job it is blocked by and which is more urgent."""
    await b.queue.enqueue(Build(1, "compile"))
    await b.queue.start(1)
    await b.queue.enqueue(Build(2, "test", blocked_by=["compile"], **options))  # type: ignore[arg-type]
    await b.queue.enqueue(Build(3, "compile", priority=10))
    await b.queue.complete(1)
    for build in (2, 3):
        assert (await known(b, build)).state is State.READY


def test_no_build_is_claimed_while_one_that_it_is_blocked_by_runs(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        await ready_beside_its_blocker(b)
        assert (await b.queue.claim("w", 30)).build_id == 3
        assert (await b.queue.claim("w", 30)).action == "NONE"
        assert (await b.queue.stats()).on_offer == 0
        await b.queue.complete(3)
        assert (await b.queue.claim("w", 30)).build_id == 2

    play(scenario)


def test_no_build_is_started_by_hand_while_one_that_it_is_blocked_by_runs(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        await ready_beside_its_blocker(b)
        await b.queue.start(3)
        for _ in range(2):  # to ask again changes nothing
            said = await b.queue.start(2)
            assert (said.action, said.reason) == ("BLOCK", "BLOCKED_BY_DEPENDENCIES")
            assert (said.state, said.blockers) == (State.READY, (3,))
        await b.queue.abort(3)
        assert (await b.queue.start(2)).state is State.RUNNING
        assert await b.client.exists("{builds}:dependents:compile") == 0

    play(scenario)


def test_a_ready_build_does_not_wait_for_one_that_is_no_more_than_ready(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        await ready_beside_its_blocker(b)
        assert (await b.queue.start(2)).state is State.RUNNING
        assert (await b.queue.start(3)).state is State.RUNNING  # it is not blocked by build 2

    play(scenario)


def test_a_build_that_a_freeze_window_held_waits_for_builds_that_began_in_it(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        await b.queue.enqueue(
            Build(1, "deploy", blocked_by=["migrate"], freeze=["* 13 * * *"], priority=5)
        )
        b.pass_min(60)
        assert (await b.queue.claim("w", 30)).action == "NONE"
        await b.queue.enqueue(Build(2, "migrate"))
        assert (await b.queue.claim("w", 7200)).build_id == 2
        b.pass_min(60)
        await b.queue.check_timeouts()
        assert (await b.queue.claim("w", 30)).action == "NONE"
        assert (await b.queue.start(1)).blockers == (2,)
        await b.queue.complete(2)
        assert (await b.queue.claim("w", 30)).build_id == 1

    play(scenario)


def test_a_held_build_keeps_its_place_before_later_builds(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        await ready_beside_its_blocker(b)
        await b.queue.claim("w", 30)
        assert (await b.queue.claim("w", 30)).action == "NONE"
        await b.queue.enqueue(Build(4, "compile"))
        await b.queue.enqueue(Build(5, "other"))
        await b.queue.complete(3)
        order = [(await b.queue.claim("w", 30)).build_id for _ in range(3)]
        assert order == [2, 5, 4]

    play(scenario)


def test_a_build_that_a_freeze_window_held_keeps_its_place(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        await b.queue.enqueue(Build(1, "deploy", freeze=["* 13 * * *"]))
        await b.queue.enqueue(Build(2, "report", freeze=["* 13 * * *"]))
        b.pass_min(60)
        assert (await b.queue.claim("w", 30)).action == "NONE"
        await b.queue.enqueue(Build(3, "other"))
        b.pass_min(60)
        await b.queue.check_timeouts()
        order = [(await b.queue.claim("w", 30)).build_id for _ in range(3)]
        assert order == [1, 2, 3]

    play(scenario)


def test_a_held_build_keeps_its_job(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        await ready_beside_its_blocker(b)
        await b.queue.claim("w", 30)
        assert (await b.queue.claim("w", 30)).action == "NONE"
        said = await b.queue.enqueue(Build(4, "test", collapse=True))
        assert (said.action, said.blockers) == ("BLOCK", (2,))
        said = await b.queue.enqueue(Build(5, "smoke", blocked_by=["test"]))
        assert (said.action, said.blockers) == ("BLOCK", (2,))

    play(scenario)


def test_a_held_build_can_be_aborted_and_leaves_nothing_behind(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        await ready_beside_its_blocker(b)
        await b.queue.claim("w", 30)
        assert (await b.queue.claim("w", 30)).action == "NONE"
        assert (await b.queue.abort(2)).status == "CLEANED"
        assert await b.client.exists("{builds}:dependents:compile") == 0
        await b.queue.complete(3)
        assert (await b.queue.claim("w", 30)).action == "NONE"
        assert (await b.queue.stats()).unfinished == 0

    play(scenario)


def test_a_build_behind_an_overdue_one_does_not_wait_for_a_check(play: Play) -> None:
    """A worker that claims also ends builds that have kept a job for too long, as a worker that
    asks does."""

    async def scenario(b: Bench) -> None:
        await ready_beside_its_blocker(b)
        await b.queue.start(3)
        assert (await b.queue.claim("w", 30)).action == "NONE"
        b.pass_min(120)
        assert (await b.queue.start(2)).state is State.RUNNING
        assert (await known(b, 3)).reason == "TIMED_OUT"

    play(scenario)
