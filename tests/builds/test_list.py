"""Lists: the newest first, of a job or in a state, without looking at all builds there are."""

import asyncio

import pytest

import holdfast
from holdfast.builds import Build, BuildRecord, State
from tests.builds.conftest import Bench, Count, Play


async def fill(b: Bench, count: int) -> None:
    """Builds of three jobs; every tenth has failed, the last of each job is left."""
    for build in range(1, count + 1):
        await b.queue.enqueue(Build(build, f"job-{build % 3}", blocked_by_self=False))
        if build <= count - 3:
            await b.queue.start(build)
            await b.queue.complete(build, success=build % 10 != 0)


def ids(records: list[BuildRecord]) -> list[int]:
    return [record.id for record in records]


def test_the_newest_of_a_job_and_of_a_state(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        await fill(b, 60)
        of_job = [build for build in range(60, 0, -1) if build % 3 == 1]
        assert ids(await b.queue.list(job="job-1")) == of_job
        assert ids(await b.queue.list(job="job-1", limit=3)) == of_job[:3]
        failed = [build for build in of_job if build % 10 == 0 and build <= 57]
        assert ids(await b.queue.list(job="job-1", state=State.FAILURE)) == failed
        assert ids(await b.queue.list(job="job-1", state=State.FAILURE, limit=1)) == failed[:1]
        assert ids(await b.queue.list(job="job-1", state=State.READY)) == [58]
        assert ids(await b.queue.list(state=State.READY)) == [60, 59, 58]
        assert ids(await b.queue.list(job="none")) == []
        assert ids(await b.queue.list(job="none", state=State.READY)) == []

    play(scenario)


@pytest.mark.parametrize("job", [None, "job-1"])
@pytest.mark.parametrize("state", [None, State.SUCCESS])
def test_a_long_list_comes_in_pages(
    play: Play, monkeypatch: pytest.MonkeyPatch, job: str | None, state: State | None
) -> None:
    monkeypatch.setattr("holdfast.builds.queue._PAGE", 7)

    async def scenario(b: Bench) -> None:
        await fill(b, 60)
        everything = [build for build in range(60, 0, -1) if job is None or build % 3 == 1]
        if state is not None:
            everything = [build for build in everything if build <= 57 and build % 10 != 0]
        assert ids(await b.queue.list(job=job, state=state)) == everything
        assert ids(await b.queue.list(job=job, state=state, limit=9)) == everything[:9]

    play(scenario)


def test_a_list_of_a_job_is_one_round_trip_and_no_work_for_its_other_builds(url: str) -> None:
    """The server counts the calls of a script: their number does not grow with the number of
    builds."""

    async def scenario() -> None:
        count = Count()
        async with holdfast.connect(url, hooks=[count]) as client:
            b = Bench(client)
            calls: list[dict[str, int]] = []
            for total in (60, 600):
                await client.exec("FLUSHALL")
                await fill(b, total)
                await b.queue.list(limit=1)  # the server has the script from now on
                await client.exec("CONFIG", "RESETSTAT")
                count.sent.clear()
                await b.queue.list(job="job-1", limit=5)
                await b.queue.list(job="job-1", state="ready", limit=5)
                await b.queue.list(job="job-1", state="success", limit=5)
                assert count.sent == ["EVALSHA"] * 3
                info = await client.exec("INFO", "commandstats", into=str)
                lines = [line.partition(":") for line in info.splitlines() if "calls=" in line]
                calls.append(
                    {name: int(rest.split("=")[1].split(",")[0]) for name, _, rest in lines}
                )
            assert calls[0] == calls[1]
            assert "cmdstat_zinter" not in calls[1]

    asyncio.run(scenario())
