"""A queue in use when its workers are updated: data that older scripts wrote stays valid.

`queue_of_0.1.0.json` is such a queue, as commands that create its keys. Builds 3, 4 and 11 run; 2
and 9 are on offer, although build 3, which runs, blocks 2; 5 is READY and held by its freeze
window; 6 is delayed, without a reason; 7 is frozen for ever; 10 waits and names build 8, which has
ended; 1 and 8 are to be forgotten in a week.
"""

import json
from pathlib import Path

from holdfast.builds import Build, State
from tests.builds.conftest import Bench, Play

OLD = json.loads(Path(__file__).with_name("queue_of_0.1.0.json").read_text())


async def restore(b: Bench) -> None:
    b.now_ms = OLD["now_ms"]
    for command in OLD["commands"]:
        await b.client.exec(*command)


async def state(b: Bench, build: int) -> State:
    record = await b.queue.get(build)
    assert record is not None
    assert await b.queue.replay(build) == record
    return record.state


def test_old_ready_and_running_builds_are_claimed_and_ended_by_the_rules_of_today(
    play: Play,
) -> None:
    async def scenario(b: Bench) -> None:
        await restore(b)
        record = await b.queue.get(10)
        assert record is not None
        assert (record.reason, record.blockers) == ("BLOCKED_BY_SAME_JOB", (9,))
        claimed = await b.queue.claim("new", 3600)
        assert claimed.build_id == 9  # not 2: build 3 runs
        assert (await b.queue.claim("new", 3600)).action == "NONE"
        three = await b.queue.get(3)
        assert three is not None
        assert (await b.queue.complete(3, token=three.token)).status == "CLEANED"
        assert (await b.queue.claim("new", 3600)).build_id == 2
        assert (await b.queue.complete(9, token=claimed.token)).status == "CLEANED"
        assert (await b.queue.claim("new", 3600)).build_id == 10

    play(scenario)


def test_all_that_time_will_bring_still_comes(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        await restore(b)
        assert (await b.queue.start(6)).action == "DELAY"
        b.pass_min(14)
        done = {said.build_id: said.action for said in await b.queue.check_timeouts()}
        assert done[5] == "OFFER"
        assert done[6] == "START"
        assert done[11] == "RETRY"  # its worker is lost
        assert (await b.queue.claim("new", 30)).build_id == 11
        assert (await b.queue.claim("new", 30)).build_id == 5
        b.pass_min(46)
        assert "cron" in {said.kind for said in await b.queue.check_timeouts()}
        assert await state(b, 7) is State.FROZEN
        await b.queue.abort(7)

    play(scenario)


def test_a_queue_that_was_left_idle_is_forgotten_without_another_build(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        await restore(b)
        for build in range(1, 12):
            await b.queue.abort(build)
        await b.queue.remove_periodic("hourly")
        b.pass_min(7 * 24 * 60)
        assert (await b.queue.claim("new", 30)).next_due_s == 0
        await b.queue.check_timeouts()
        assert await b.queue.list() == []

    play(scenario)


def test_a_worker_of_an_older_version_may_still_be_there(play: Play) -> None:
    """Its scripts end a held build without knowing that it is held."""

    async def scenario(b: Bench) -> None:
        await restore(b)
        assert (await b.queue.start(2)).action == "BLOCK"
        await b.queue.abort(2)
        await b.client.exec("HSET", "{builds}:job:test", "held", "5")
        await b.client.exec("HINCRBY", "{builds}:dependents:compile", "test", 1)
        assert (await b.queue.complete(3)).status == "CLEANED"
        await b.queue.enqueue(Build(20, "test", blocked_by=["compile"], priority=99))
        claimed = await b.queue.claim("new", 30)
        assert claimed.build_id == 20
        assert await b.client.exists("{builds}:dependents:compile") == 0

    play(scenario)


def test_old_and_new_builds_live_side_by_side(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        await restore(b)
        assert (await b.queue.enqueue(Build(None, "test", blocked_by=["a"]))).build_id == 12
        await b.queue.abort(7)
        for _ in range(100):
            while (claimed := await b.queue.claim("new", 30)).record is not None:
                await b.queue.complete(claimed.record.id, token=claimed.token)
            if not (await b.queue.stats()).unfinished:
                break
            b.pass_min(1)
            await b.queue.check_timeouts()
            await b.queue.remove_periodic("hourly")
        for record in await b.queue.list():
            assert record.state.is_final
            assert await b.queue.replay(record.id) == record
        dependents = [key async for key in b.client.scan_iter("*dependents*")]
        assert dependents == []

    play(scenario)
