"""Events tell the whole story: what is kept, for how long, and that it makes the record again."""

from holdfast.builds import Build, State
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
            ("BuildRetried", "RUNNING"),
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


def test_what_never_was_has_no_events(play: Play) -> None:
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
        assert events[0].name == "BuildRetried"
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


def test_how_long_is_up_to_the_queue(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        queue = b.another(keep_days=1)
        for build in (1, 2):
            await queue.enqueue(Build(build, "a"))
            await queue.stop(build)
            b.pass_s(DAY_S)
        assert [record.id for record in await queue.list()] == [2]

    play(scenario)
