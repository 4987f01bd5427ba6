"""Delays, freeze windows, forced starts, periodic and virtual builds, priorities, circles."""

from datetime import UTC, datetime
from typing import Any

import pytest

from holdfast.builds import BadBuildError, Build, BuildQueue, BuildRecord, State
from holdfast.builds.cron_expressions import MOST_WINDOWS, BadCronError
from tests.builds.conftest import NOON_MS, Bench, Play

NOON = "* 12 * * *"  # the hour that the tests begin in
HOUR_MS = 3_600_000


async def known(queue: BuildQueue, build: int) -> BuildRecord:
    record = await queue.get(build)
    assert record is not None
    assert await queue.replay(build) == record
    return record


async def states(queue: BuildQueue) -> dict[int, State]:
    return {record.id: record.state for record in await queue.list()}


# -- delays -----------------------------------------------------------------------------------


def test_a_delayed_build_asks_when_its_time_has_come(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        said = await b.queue.enqueue(Build(1, "a", delay_s=60))
        assert (said.action, said.reason, said.state) == ("DELAY", "NOT_BEFORE", State.QUEUED)
        record = await known(b.queue, 1)
        assert (record.start_at_ms, record.reason) == (NOON_MS + 60_000, "NOT_BEFORE")
        assert (await b.queue.stats()).next_due_s == 60
        b.pass_s(59)
        assert await b.queue.check_timeouts() == []
        b.pass_s(1)
        assert [said.action for said in await b.queue.check_timeouts()] == ["START"]
        assert (await known(b.queue, 1)).state is State.READY
        assert (await b.queue.stats()).next_due_s is None

    play(scenario)


def test_a_delayed_build_does_not_start_before_its_time(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        await b.queue.enqueue(Build(1, "a", delay_s=60))
        b.pass_s(59)
        said = await b.queue.start(1)
        assert (said.action, said.reason, said.state) == ("DELAY", "NOT_BEFORE", State.QUEUED)
        b.pass_s(1)  # and nothing has looked at it
        assert (await b.queue.start(1)).state is State.RUNNING
        assert await b.queue.check_timeouts() == []

    play(scenario)


def test_the_delay_of_a_build_that_is_forced_counts_unless_its_start_is_forced(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        said = await b.queue.enqueue(Build(1, "a", delay_s=60, freeze=[NOON], force=True))
        assert said.action == "DELAY"
        assert (await b.queue.start(1)).action == "DELAY"
        assert (await b.queue.start(1, force=True)).action == "START"

    play(scenario)


def test_a_delayed_build_can_be_forced_and_aborted_before(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        await b.queue.enqueue(Build(1, "a", delay_s=60))
        await b.queue.enqueue(Build(2, "b", delay_s=60))
        assert (await b.queue.start(1, force=True)).action == "START"
        assert (await b.queue.abort(2)).removed == ("delayed",)
        b.pass_s(60)
        assert await b.queue.check_timeouts() == []
        assert await states(b.queue) == {1: State.RUNNING, 2: State.ABORTED}

    play(scenario)


# -- freeze windows ---------------------------------------------------------------------------


def test_in_a_freeze_window_a_build_is_frozen_and_thaws(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        said = await b.queue.enqueue(Build(1, "a", freeze=["0 0 ? 1 ?", NOON]))
        assert (said.action, said.reason) == ("FREEZE", "FREEZE_WINDOW")
        assert (await known(b.queue, 1)).frozen_until_ms == NOON_MS + HOUR_MS
        b.pass_min(59)
        assert await b.queue.check_timeouts() == []
        assert (await b.queue.start(1)).action == "FREEZE"
        b.pass_min(1)
        assert [said.action for said in await b.queue.check_timeouts()] == ["START"]
        assert (await known(b.queue, 1)).state is State.READY

    play(scenario)


def test_a_job_has_one_frozen_build_the_latest(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        for build in (5, 7, 6):
            await b.queue.enqueue(Build(build, "a", freeze=[NOON]))
        await b.queue.enqueue(Build(1, "b", freeze=[NOON]))
        assert await states(b.queue) == {
            5: State.COLLAPSED,
            7: State.FROZEN,
            6: State.COLLAPSED,
            1: State.FROZEN,
        }

    play(scenario)


def test_a_forced_start_bypasses_the_window(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        await b.queue.enqueue(Build(1, "a", freeze=[NOON]))
        assert (await b.queue.enqueue(Build(2, "a", freeze=[NOON], force=True))).action == "START"
        await b.queue.start(2)
        assert (await b.queue.start(1, force=True)).reason == "BLOCKED_BY_SAME_JOB"
        await b.queue.enqueue(Build(3, "b", freeze=[NOON]))
        assert (await b.queue.start(3, force=True)).action == "START"

    play(scenario)


def test_a_build_that_waits_when_a_window_opens_keeps_its_place(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        freeze = ["* 13 * * *"]
        for build in (1, 2, 3):
            await b.queue.enqueue(Build(build, "a", freeze=freeze))
        await b.queue.start(1)
        b.pass_min(60)
        await b.queue.complete(1)
        assert (await states(b.queue))[2] is State.BLOCKED
        assert (await b.queue.start(2)).reason == "FREEZE_WINDOW"
        b.pass_min(60)
        await b.queue.check_timeouts()
        assert await states(b.queue) == {1: State.SUCCESS, 2: State.READY, 3: State.BLOCKED}

    play(scenario)


def test_ready_builds_are_not_given_to_workers_in_a_window(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        await b.queue.enqueue(Build(1, "a", freeze=["* 13 * * *"]))
        b.pass_min(60)
        assert (await b.queue.claim("w", 30)).action == "NONE"
        assert (await b.queue.start(1)).action == "FREEZE"
        b.pass_min(60)
        await b.queue.check_timeouts()
        assert (await b.queue.claim("w", 30)).build_id == 1

    play(scenario)


# -- jobs that are frozen by hand -------------------------------------------------------------


def test_a_job_that_is_frozen_by_hand_starts_nothing_until_its_time(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        assert await b.queue.freeze("a", for_s=3600) == NOON_MS + HOUR_MS
        said = await b.queue.enqueue(Build(1, "a"))
        assert (said.action, said.reason) == ("FREEZE", "JOB_FROZEN")
        assert (await b.queue.enqueue(Build(2, "b"))).action == "START"
        assert (await b.queue.stats()).frozen_jobs == {"a": NOON_MS + HOUR_MS}
        b.pass_min(59)
        assert (await b.queue.start(1)).reason == "JOB_FROZEN"
        record = await known(b.queue, 1)
        assert (record.reason, record.frozen_until_ms) == ("JOB_FROZEN", NOON_MS + HOUR_MS)
        assert await b.queue.replay(1) == record
        b.pass_min(1)
        assert [said.action for said in await b.queue.check_timeouts()] == ["START"]
        assert (await b.queue.stats()).frozen_jobs == {}

    play(scenario)


def test_a_job_that_is_thawed_goes_on_at_once(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        await b.queue.freeze("a")
        await b.queue.enqueue(Build(1, "a"))
        b.pass_min(60 * 24 * 365)
        assert await b.queue.check_timeouts() == []
        await b.queue.thaw("a")
        assert (await known(b.queue, 1)).state is State.READY
        assert (await b.queue.claim("w", 30)).build_id == 1
        await b.queue.thaw("a")  # again, and of a job that nobody froze
        await b.queue.thaw("no such job")

    play(scenario)


def test_builds_that_are_ready_or_wait_stay_where_they_are_while_the_job_is_frozen(
    play: Play,
) -> None:
    async def scenario(b: Bench) -> None:
        await b.queue.enqueue(Build(1, "a"))
        await b.queue.enqueue(Build(2, "a"))
        await b.queue.freeze("a", for_s=3600)
        assert (await b.queue.stats()).on_offer == 0
        assert (await b.queue.claim("w", 30)).action == "NONE"
        assert (await known(b.queue, 1)).reason == "JOB_FROZEN"
        assert await states(b.queue) == {1: State.READY, 2: State.BLOCKED}
        await b.queue.thaw("a")
        assert (await b.queue.claim("w", 30)).build_id == 1
        await b.queue.freeze("a", for_s=3600)
        await b.queue.complete(1)
        assert (await known(b.queue, 2)).reason == "JOB_FROZEN"
        b.pass_min(60)
        await b.queue.check_timeouts()
        assert (await b.queue.claim("w", 30)).build_id == 2

    play(scenario)


def test_a_freeze_can_be_made_longer_and_shorter(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        await b.queue.freeze("a", for_s=600)
        await b.queue.enqueue(Build(1, "a"))
        await b.queue.freeze("a", for_s=3600)
        b.pass_min(10)
        await b.queue.check_timeouts()
        assert (await known(b.queue, 1)).frozen_until_ms == NOON_MS + HOUR_MS
        await b.queue.freeze("a", for_s=60)
        b.pass_min(1)
        await b.queue.check_timeouts()
        assert (await known(b.queue, 1)).state is State.READY

    play(scenario)


def test_a_thawed_build_stays_frozen_in_its_own_window(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        await b.queue.freeze("a")
        await b.queue.enqueue(Build(1, "a", freeze=[NOON]))
        assert (await known(b.queue, 1)).reason == "JOB_FROZEN"
        await b.queue.thaw("a")
        record = await known(b.queue, 1)
        assert (record.state, record.reason) == (State.FROZEN, "FREEZE_WINDOW")
        assert record.frozen_until_ms == NOON_MS + HOUR_MS
        assert await b.queue.replay(1) == record

    play(scenario)


def test_a_build_that_was_frozen_says_why_it_waits_when_it_is_ready(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        await b.queue.freeze("test", for_s=60)
        await b.queue.enqueue(Build(1, "test", blocked_by=["compile"]))
        b.pass_min(1)
        await b.queue.check_timeouts()
        assert (await known(b.queue, 1)).state is State.READY
        await b.queue.enqueue(Build(2, "compile", priority=10))
        assert (await b.queue.claim("w", 30)).build_id == 2
        record = await known(b.queue, 1)
        assert (record.state, record.blockers) == (State.READY, (2,))
        assert record.frozen_until_ms == NOON_MS + 60_000

    play(scenario)


def test_a_forced_start_bypasses_a_freeze_by_hand(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        await b.queue.freeze("a")
        await b.queue.enqueue(Build(1, "a"))
        assert (await b.queue.start(1, force=True)).action == "START"
        await b.queue.complete(1)
        assert (await b.queue.enqueue(Build(2, "a", force=True))).action == "START"

    play(scenario)


def test_a_freeze_outlives_the_builds_of_its_job(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        await b.queue.enqueue(Build(1, "a"))
        await b.queue.abort(1)
        await b.queue.freeze("a")
        b.pass_min(60 * 24 * 8)
        await b.queue.check_timeouts()
        assert await b.queue.get(1) is None
        assert (await b.queue.enqueue(Build(2, "a"))).reason == "JOB_FROZEN"

    play(scenario)


@pytest.mark.parametrize("for_s", [0, -1, float("nan"), "soon"])
def test_a_freeze_lasts_some_time(play: Play, for_s: float) -> None:
    async def scenario(b: Bench) -> None:
        with pytest.raises(BadBuildError, match="for_s is a number above 0"):
            await b.queue.freeze("a", for_s=for_s)

    play(scenario)


@pytest.mark.parametrize(
    "windows", [["* * * * *"], ["*/2 * * * *", "1-59/2 * * * *"], ["* * 1-15 * *", "* * 16-31 * *"]]
)
def test_a_build_that_freeze_windows_never_let_start_is_refused(
    play: Play, windows: list[str]
) -> None:
    async def scenario(b: Bench) -> None:
        with pytest.raises(BadBuildError, match="its freeze windows never end"):
            await b.queue.enqueue(Build(1, "a", freeze=windows))
        with pytest.raises(BadBuildError, match="its freeze windows never end"):
            await b.queue.set_periodic("p", "0 * * * *", Build(None, "a", freeze=windows))
        assert await b.queue.get(1) is None
        assert (await b.queue.enqueue(Build(1, "a", freeze=windows, force=True))).action == "START"

    play(scenario)


def test_there_is_a_limit_to_freeze_windows() -> None:
    Build(1, "a", freeze=["0 0 * * *"] * MOST_WINDOWS).fields()
    with pytest.raises(BadCronError, match="more than"):
        Build(1, "a", freeze=["0 0 * * *"] * (MOST_WINDOWS + 1)).fields()


# -- periodic builds --------------------------------------------------------------------------


def test_periodic_builds_come_when_cron_says(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        first = await b.queue.set_periodic("nightly", "30 2 * * *", Build(None, "a", retries=7))
        assert first == datetime(2023, 11, 16, 2, 30, tzinfo=UTC).timestamp() * 1000
        b.now_ms = first - 1
        assert await b.queue.check_timeouts() == []
        b.now_ms = first
        (said,) = await b.queue.check_timeouts()
        assert (said.kind, said.build_id, said.reason) == ("cron", 1, "nightly")
        assert ((await known(b.queue, 1)).job_id, (await known(b.queue, 1)).retries) == ("a", 7)
        assert (await b.queue.stats()).next_due_s == 24 * 3600
        b.pass_min(3 * 24 * 60)  # no worker asked meanwhile: one build, not three
        assert [said.build_id for said in await b.queue.check_timeouts()] == [2]
        await b.queue.remove_periodic("nightly")
        b.pass_min(3 * 24 * 60)
        assert await b.queue.check_timeouts() == []

    play(scenario)


def test_a_plan_is_replaced_by_its_name_and_never_is_an_error(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        await b.queue.set_periodic("p", "0 * * * *", Build(None, "a"))
        first = await b.queue.set_periodic("p", "H/10 * * * *", Build(None, "b"))
        assert first - b.now_ms <= 10 * 60_000
        with pytest.raises(BadCronError, match="never"):
            await b.queue.set_periodic("p", "0 0 30 2 *", Build(None, "c"))
        with pytest.raises(BadBuildError, match="gives ids to periodic builds"):
            await b.queue.set_periodic("p", "0 * * * *", Build(7, "a"))
        b.now_ms = first
        await b.queue.check_timeouts()
        assert [record.job_id for record in await b.queue.list()] == ["b"]

    play(scenario)


# -- virtual jobs -----------------------------------------------------------------------------


def test_a_virtual_build_waits_as_others_do_and_then_succeeds(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        await b.queue.enqueue(Build(1, "a"))
        assert (await b.queue.enqueue(Build(2, "v", blocked_by=["a"], virtual=True))).state is (
            State.BLOCKED
        )
        await b.queue.enqueue(Build(3, "v", virtual=True))
        await b.queue.enqueue(Build(4, "c", blocked_by=["a", "v"]))
        await b.queue.stop(1)
        assert await states(b.queue) == {
            1: State.ABORTED,
            2: State.SUCCESS,
            3: State.SUCCESS,
            4: State.READY,
        }
        record = await known(b.queue, 2)
        assert (record.reason, record.worker) == ("VIRTUAL", "")
        events = [event.name for event in await b.queue.events(2)]
        assert events == ["BuildEnqueued", "BuildBlocked", "BuildStarted", "BuildCompleted"]

    play(scenario)


def test_more_virtual_builds_than_one_call_will_take_are_due_at_once(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        await b.queue.enqueue(Build(1, "a"))
        for build in range(2, 302):
            await b.queue.enqueue(Build(build, "v", blocked_by=["a"], virtual=True))
        await b.queue.stop(1)
        stats = await b.queue.stats()
        assert 0 < stats.by_state[State.BLOCKED] < 300
        assert stats.next_due_s == 0
        await b.queue.check_timeouts()
        assert (await b.queue.stats()).by_state[State.SUCCESS] == 300

    play(scenario)


# -- priorities, circles, ids -----------------------------------------------------------------


def test_the_most_urgent_goes_first_and_else_the_first(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        for build, priority in ((1, 0), (2, 5), (3, -5), (4, 5), (5, 1000), (6, 0)):
            await b.queue.enqueue(Build(build, f"job-{build}", priority=priority))
        order = [(await b.queue.claim("w", 30)).build_id for _ in range(7)]
        assert order == [5, 2, 4, 1, 6, 3, None]

    play(scenario)


def test_jobs_that_block_each_other_are_reported_and_run(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        assert (await b.queue.enqueue(Build(1, "a", blocked_by=["b"]))).cycle == ()
        assert (await b.queue.enqueue(Build(2, "b", blocked_by=["c"]))).cycle == ()
        said = await b.queue.enqueue(Build(3, "c", blocked_by=["a"]))
        assert said.cycle == ("c", "a", "b", "c")
        assert (await known(b.queue, 3)).cycle == said.cycle
        for _ in range(3):
            done = await b.queue.claim("w", 30)
            assert done.build_id is not None
            await b.queue.complete(done.build_id)
        assert set((await states(b.queue)).values()) == {State.SUCCESS}
        assert (await b.queue.enqueue(Build(4, "c"))).cycle == ()  # no longer

    play(scenario)


def test_without_an_id_builds_get_the_next(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        await b.queue.enqueue(Build(10, "a"))
        ids = [(await b.queue.enqueue(Build(None, "b"))).build_id for _ in range(3)]
        assert ids == [11, 12, 13]

    play(scenario)


def test_enqueueing_twice_is_once_and_another_build_needs_another_id(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        build = Build(1, "a", blocked_by=["x"], annotations={"n": 1})
        first = await b.queue.enqueue(build)
        assert await b.queue.enqueue(build) == first
        assert len(await b.queue.events(1)) == 2
        said = await b.queue.enqueue(Build(1, "b"))
        assert (said.action, said.reason) == ("REFUSE", "ID_TAKEN")
        assert said.message == "build 1 exists with other settings"

    play(scenario)


def test_a_call_that_is_sent_twice_makes_one_build(play: Play) -> None:
    """As redis-py does when its connection breaks."""

    async def scenario(b: Bench) -> None:
        fields = b.queue._fields(Build(None, "a"))
        for _ in range(2):
            reply = await b.queue._run("enqueueBuild", id="", once="x", fields=fields)
            assert reply[0] == b"1"
        await b.queue.stop(1)
        for _ in range(2):
            again: dict[str, Any] = {"token": "", "reason": "", "anyway": "1", "once": "y"}
            assert (await b.queue._run("retryBuild", id=1, **again))[2] == b"2"
        assert [record.id for record in await b.queue.list()] == [2, 1]

    play(scenario)


def test_without_claims_wakes_do_not_pile_up(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        for build in range(1, 21):
            await b.queue.enqueue(Build(build, f"job-{build}", delay_s=100 - build))
            await b.queue.start(build)
            await b.queue.complete(build)
        assert await b.client.llen("{builds}:wake") <= 2

    play(scenario)


def test_the_largest_id_is_kept_exactly(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        largest = 2**52
        await b.queue.enqueue(Build(largest - 1, "a"))
        await b.queue.enqueue(Build(largest, "a"))
        assert [record.id for record in await b.queue.list()] == [largest, largest - 1]
        assert (await b.queue.stop(largest - 1)).owner == largest

    play(scenario)


# -- another attempt --------------------------------------------------------------------------


def test_attempts_that_fail_come_again_later_each_time_until_none_is_left(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        await b.queue.enqueue(Build(1, "a", retries=2, backoff_s=5))
        for attempt, pause_s in ((1, 5), (2, 10)):
            claimed = await b.queue.claim("w", 30)
            assert claimed.record is not None
            assert claimed.record.attempt == attempt
            said = await b.queue.retry(1, token=claimed.token, reason="no machine")
            assert (said.status, said.delay_s) == ("RETRIED", pause_s)
            assert (await b.queue.claim("w", 30)).action == "NONE"
            assert (await b.queue.enqueue(Build(2, "a"))).action == "BLOCK"  # it keeps its job
            b.pass_s(pause_s)
            await b.queue.check_timeouts()
        claimed = await b.queue.claim("w", 30)
        assert (await b.queue.retry(1, token=claimed.token, reason="no machine")).status == "ENDED"
        record = await known(b.queue, 1)
        assert (record.state, record.reason, record.attempt) == (State.FAILURE, "no machine", 3)
        assert (await known(b.queue, 2)).state is State.READY

    play(scenario)


def test_a_build_that_has_ended_comes_again_as_a_new_one(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        await b.queue.enqueue(Build(3, "a", annotations={"x": 1}, delay_s=5))
        b.pass_s(5)
        await b.queue.start(3)
        await b.queue.complete(3, success=False)
        said = await b.queue.retry(3)
        assert (said.status, said.build_id, said.state) == ("ENQUEUED", 4, State.READY)
        new = await known(b.queue, 4)
        assert (new.retry_of, new.annotations, new.attempt) == (3, {"x": 1}, 0)

    play(scenario)


def test_a_worker_makes_no_new_build_of_one_that_has_ended(play: Play) -> None:
    """It repeats a message that was not answered, or has not heard of an abort yet."""

    async def scenario(b: Bench) -> None:
        await b.queue.enqueue(Build(1, "a", retries=0))
        await b.queue.enqueue(Build(2, "b"))
        one, two = await b.queue.claim("w", 30), await b.queue.claim("w", 30)
        for _ in range(2):
            said = await b.queue.retry(1, token=one.token)
            assert (said.status, said.state) == ("ENDED", State.FAILURE)
        await b.queue.abort(2)
        for anyway in (True, False):
            said = await b.queue.retry(2, token=two.token, anyway=anyway)
            assert (said.status, said.state) == ("ENDED", State.ABORTED)
        assert await states(b.queue) == {1: State.FAILURE, 2: State.ABORTED}

    play(scenario)


def test_a_retry_that_makes_no_sense_says_why(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        said = await b.queue.retry(9)
        assert (said.status, said.message) == ("REFUSED", "there is no build 9")
        await b.queue.enqueue(Build(1, "a"))
        assert (await b.queue.retry(1)).message == "READY: it has not run yet"
        await b.queue.start(1)
        said = await b.queue.retry(1, token=99)
        assert (said.status, said.message) == ("STALE", "the token is 2 by now")
        await b.queue.retry(1)
        assert (await b.queue.complete(1, token=2)).message == "no worker has the build any more"

    play(scenario)
