"""The server's clock jumps, with the effects that the guide describes."""

from holdfast.builds import Build
from tests.builds.conftest import Bench, Play


def test_a_clock_that_is_set_back_takes_no_build_from_a_living_worker(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        await b.queue.enqueue(Build(1, "a"))
        await b.queue.enqueue(Build(2, "b"))
        await b.queue.enqueue(Build(3, "c", delay_s=60))
        alive, dead = await b.queue.claim("alive", 30), await b.queue.claim("dead", 30)
        assert (alive.build_id, dead.build_id) == (1, 2)
        first = await b.queue.set_periodic("p", "30 12 * * *", Build(None, "p"))
        b.now_ms = first
        assert len(await b.queue.check_timeouts()) == 4  # the periodic build among them
        alive = await b.queue.claim("alive", 30)
        assert alive.build_id is not None
        assert alive.token is not None
        b.pass_min(-60)
        for _ in range(6):
            lost, _ = await b.queue.heartbeat([(alive.build_id, alive.token)], 30)
            assert lost == set()
            b.pass_s(10)
            assert await b.queue.check_timeouts() == []
        assert (await b.queue.complete(alive.build_id, token=alive.token)).status == "CLEANED"
        b.now_ms = first
        await b.queue.check_timeouts()
        assert [record.job_id for record in await b.queue.list()].count("p") == 1

    play(scenario)


def test_a_clock_that_jumps_ahead_costs_an_attempt_and_no_build(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        await b.queue.enqueue(Build(1, "a", delay_s=3600))
        await b.queue.enqueue(Build(2, "b"))
        claimed = await b.queue.claim("w", 30)
        b.pass_min(61)
        done = {said.build_id: said.action for said in await b.queue.check_timeouts()}
        assert done == {1: "START", 2: "RETRY"}
        assert await b.queue.told("w", 1) == (2, claimed.token)
        assert (await b.queue.complete(2, token=claimed.token)).status == "STALE"
        again = [(await b.queue.claim("w", 30)).build_id for _ in range(2)]
        assert sorted(again, key=str) == [1, 2]

    play(scenario)
