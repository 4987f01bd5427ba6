"""Events tell everything: which are kept, for how long, and that the record can be rebuilt from
them."""

import asyncio

from holdfast.builds import Build, BuildQueue, Run, State, Worker
from tests.builds.conftest import Bench, Play

DAY_S = 24 * 3600


def test_every_change_is_told_in_order(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        await b.queue.enqueue(Build(1, "a", annotations={"branch": "main"}))
        await b.queue.enqueue(Build(2, "a"))
        claimed = await b.queue.claim("w", 30)
        b.pass_s(1)
        await b.queue.retry(1, token=claimed.token, anyway=True)
        await b.queue.claim("w", 30)
        await b.queue.complete(1)
        await b.queue.abort(2)
        events = await b.queue.events(1)
        assert [(event.name, event.state.name) for event in events] == [
            ("BuildEnqueued", "QUEUED"),
            ("BuildUnblocked", "READY"),
            ("BuildStarted", "RUNNING"),
            ("BuildRetried", "RUNNING"),
            ("BuildStarted", "RUNNING"),
            ("BuildCompleted", "SUCCESS"),
        ]
        assert events[0].fields["annotations"] == '{"branch": "main"}'
        assert events[3].at_ms == events[2].at_ms + 1000
        assert [event.name for event in await b.queue.events(2)] == [
            "BuildEnqueued",
            "BuildBlocked",
            "BuildUnblocked",
            "BuildAborted",
        ]
        for build in (1, 2):
            assert await b.queue.replay(build) == await b.queue.get(build)

    play(scenario)


def test_each_retry_is_told_once(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        async def told() -> tuple[int, int]:
            names = [event.name for event in await b.queue.events(1)]
            assert await b.queue.replay(1) == await b.queue.get(1)
            return names.count("BuildRetried"), names.count("BuildStarted")

        await b.queue.enqueue(Build(1, "a", retries=9, backoff_s=0))
        claimed = await b.queue.claim("w", 30)
        assert await told() == (0, 1)
        await b.queue.retry(1, token=claimed.token, reason="it failed")
        assert await told() == (1, 1)
        await b.queue.claim("w", 30)
        assert await told() == (1, 2)
        b.pass_s(30)
        await b.queue.check_timeouts()  # its worker is lost
        await b.queue.claim("w", 30)
        assert await told() == (2, 3)
        await b.queue.retry(1)  # by hand, twice before a worker has it
        await b.queue.retry(1)
        await b.queue.claim("w", 30)
        assert await told() == (4, 4)
        await b.queue.start(1)  # and another takes it from its worker
        assert await told() == (5, 4)

    play(scenario)


def test_an_unknown_build_has_no_events(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        assert await b.queue.events(9) == []
        assert await b.queue.replay(9) is None
        assert await b.queue.get(9) is None

    play(scenario)


def test_of_many_events_the_oldest_are_folded_and_replay_still_tells_all(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        queue = b.another(keep_events=10)
        await queue.enqueue(Build(1, "a", retries=1000, annotations={"x": "y"}))
        for _ in range(30):
            await queue.claim("w", 30)
            await queue.retry(1)
        events = await queue.events(1)
        assert len(events) == 10
        assert {event.name for event in events} == {"BuildStarted", "BuildRetried"}
        assert await queue.replay(1) == await queue.get(1)

    play(scenario)


def test_builds_are_forgotten_a_week_after_they_ended(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        await b.queue.enqueue(Build(1, "a"))
        await b.queue.enqueue(Build(2, "b"))
        await b.queue.stop(1)
        b.pass_s(7 * DAY_S - 1)
        await b.queue.enqueue(Build(3, "c"))
        await b.queue.stop(3)
        assert await b.queue.get(1) is not None
        b.pass_s(1)
        await b.queue.enqueue(Build(4, "c"))
        await b.queue.stop(4)
        assert await b.queue.get(1) is None
        assert await b.queue.events(1) == []
        assert [record.id for record in await b.queue.list()] == [4, 3, 2]
        names = {key async for key in b.client.scan_iter("*", count=1000)}
        assert not any(name.endswith((":1", "builds:a", "job:a")) for name in names)
        assert "{builds}:job:b" in names
        left = await b.queue.get(2)
        assert left is not None  # it has not ended
        assert left.state is State.READY

    play(scenario)


def test_an_idle_queue_forgets_old_builds(play: Play) -> None:
    """No build ends any more and no build is due: kept records become due by themselves."""

    async def scenario(b: Bench) -> None:
        for build in range(1, 151):
            await b.queue.enqueue(Build(build, "a"))
            await b.queue.stop(build)
        assert (await b.queue.stats()).next_due_s == 7 * DAY_S
        b.pass_s(7 * DAY_S - 1)
        assert (await b.queue.claim("idle", 30)).next_due_s == 1
        assert await b.queue.check_timeouts() == []
        assert len(await b.queue.list(limit=1000)) == 150
        b.pass_s(1)
        calls = 0
        while (await b.queue.claim("idle", 30)).next_due_s == 0:  # as a worker does
            await b.queue.check_timeouts()
            calls += 1
        assert calls == 2  # a call forgets some, so that builds come in between
        assert await b.queue.list() == []
        names = {key async for key in b.client.scan_iter("*", count=1000)}
        assert names == {"{builds}"}
        assert (await b.queue.stats()).next_due_s is None

    play(scenario)


def test_an_idle_worker_forgets_old_builds(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        queue = BuildQueue(b.client, "now", keep_days=0.05 / DAY_S)  # the server's clock

        async def handler(run: Run) -> None: ...

        await queue.enqueue(Build(1, "a"))
        async with Worker(queue, handler):
            while await queue.get(1) is not None:  # noqa: ASYNC110 - there is no event
                await asyncio.sleep(0.001)

    play(scenario)


def test_how_long_is_up_to_the_queue(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        queue = b.another(keep_days=1)
        for build in (1, 2):
            await queue.enqueue(Build(build, "a"))
            await queue.stop(build)
            b.pass_s(DAY_S)
        assert [record.id for record in await queue.list()] == [2]

    play(scenario)
