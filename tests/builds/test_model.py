"""Random lives of a queue, on a clock that the test moves; after every step all that must hold.

What must hold is written here in Python, from the records alone: per job at most one build where
self-blocking is on; nothing starts while something that it is blocked by runs; no older build
after a newer one where builds collapse; nothing waits that could run, and a worker is woken for
what is on offer; the record is what its events tell; the indexes are what the records say. In the
end every build has ended.
"""

import asyncio
import os
import random
from typing import Any

import pytest

import holdfast
from holdfast.builds import Build, BuildRecord, State
from holdfast.builds.events import pairs
from tests.builds.conftest import Bench

STEPS = 120
LEASE_S = 30.0
ACTIVE = (State.READY, State.RUNNING)
JOBS = "abcdef"
WINDOW_MIN = 7  # a freeze window is the first seven minutes of every hour


class Life:
    def __init__(self, rng: random.Random, bench: Bench) -> None:
        self.rng = rng
        self.bench = bench
        self.queue = bench.queue
        self.next_id = 1
        self.claims: dict[int, int] = {}  # builds of living workers, and their tokens
        self.records: dict[int, BuildRecord] = {}
        self.newest_started: dict[str, int] = {}
        self.jobs = {job: self.settings(job) for job in JOBS}

    def settings(self, job: str) -> dict[str, Any]:
        rng = self.rng
        return {
            "blocked_by_self": rng.random() < 0.6,
            "blocked_by_same_job": rng.random() < 0.5,
            "virtual": rng.random() < 0.1,
            "freeze": [f"0-{WINDOW_MIN - 1} * * * *"] if rng.random() < 0.2 else [],
            "retries": rng.choice([0, 1, 3]),
        }

    # -- steps --------------------------------------------------------------------------------

    async def enqueue(self) -> None:
        job = self.rng.choice(JOBS)
        build_id = self.next_id + self.rng.choice([0, 0, 0, 5])
        if self.rng.random() < 0.1 and self.next_id > 3:
            build_id = self.rng.randrange(1, self.next_id)  # an older one, or one that is there
        self.next_id = max(self.next_id, build_id + 1)
        await self.queue.enqueue(
            Build(
                build_id,
                job,
                **self.jobs[job],
                blocked_by=self.rng.sample(JOBS, self.rng.choice([0, 0, 0, 1, 2])),
                collapse=self.rng.random() < self.rng.choice([0, 0.7]),
                delay_s=self.rng.choice([0, 0, 0, 40]),
                priority=self.rng.choice([0, 0, 5]),
                force=self.rng.random() < 0.1,
                timeout_min=self.rng.choice([None, 3]),
            )
        )

    async def claim(self) -> None:
        said = await self.queue.claim("worker", LEASE_S)
        if said.record is not None:
            assert said.token is not None
            assert said.token > max(self.claims.values(), default=0)
            self.claims[said.record.id] = said.token

    def some_claim(self) -> int | None:
        return self.rng.choice(list(self.claims)) if self.claims else None

    async def complete(self) -> None:
        build = self.some_claim()
        if build is None:
            return
        token = self.claims.pop(build)
        before = self.records[build]
        said = await self.queue.complete(build, self.rng.random() < 0.7, token=token)
        is_mine = before.token == token and before.state is State.RUNNING
        assert (said.status == "CLEANED") == is_mine

    async def fail(self) -> None:
        build = self.some_claim()
        if build is not None:
            await self.queue.retry(build, token=self.claims.pop(build), reason="FAILED")

    async def die(self) -> None:
        build = self.some_claim()
        if build is not None:
            del self.claims[build]  # and nobody is told

    async def abort(self) -> None:
        await self.queue.abort(self.rng.randrange(1, self.next_id + 2))

    async def retry(self) -> None:
        running = [build for build, r in self.records.items() if r.state is State.RUNNING]
        some = running if self.rng.random() < 0.8 else list(self.records)
        if some:
            said = await self.queue.retry(self.rng.choice(some))
            self.next_id = max(self.next_id, said.build_id + 1)

    async def start(self) -> None:
        build = self.rng.randrange(1, self.next_id + 1)
        said = await self.queue.start(build, worker="hand", lease_s=LEASE_S)
        if said.token is not None:
            self.claims[build] = said.token

    async def beat(self) -> None:
        lost, _ = await self.queue.heartbeat(self.claims.items(), LEASE_S)
        for build in lost:
            del self.claims[build]

    async def time(self) -> None:
        self.bench.pass_s(self.rng.choice([1, 10, 31, 60, 200, 400]))
        await self.queue.check_timeouts()

    STEPS = (
        *((enqueue, 30), (claim, 25), (complete, 18), (fail, 6), (die, 4), (abort, 5)),
        *((retry, 8), (start, 4), (beat, 5), (time, 8)),
    )

    async def live(self) -> None:
        steps, weights = zip(*self.STEPS, strict=True)
        for _ in range(STEPS):
            (step,) = self.rng.choices(steps, weights)
            await step(self)
            await self.check(step.__name__)
        await self.end()

    async def end(self) -> None:
        """Workers that do nothing wrong any more finish all there is."""
        for _ in range(1000):
            while (await self.queue.claim("last", LEASE_S)).record is not None:
                pass
            for build in await self.queue.list(state=State.RUNNING):
                if build.worker:
                    await self.queue.complete(build.id, token=build.token)
            await self.check("end")
            if all(record.state.is_final for record in self.records.values()):
                return
            self.bench.pass_s(20)
            await self.queue.check_timeouts()
        raise AssertionError(f"still not ended: {self.unfinished()}")

    def unfinished(self) -> list[BuildRecord]:
        return [record for record in self.records.values() if not record.state.is_final]

    # -- what must hold -----------------------------------------------------------------------

    async def check(self, step: str) -> None:
        before = self.records
        self.records = {record.id: record for record in await self.queue.list(limit=1000)}
        new = [
            record
            for record in self.records.values()
            if (record.state in ACTIVE or record.started_at_ms is not None)
            and (record.id not in before or before[record.id].state not in ACTIVE)
            and not (record.id in before and before[record.id].state.is_final)
        ]
        was_active = {build for build, record in before.items() if record.state in ACTIVE}
        try:
            self.check_starts(new, was_active)
            self.check_waiting()
            await self.check_indexes()
            for build, record in self.records.items():
                if record != before.get(build):
                    assert await self.queue.replay(build) == record
        except AssertionError as error:
            error.add_note(f"after {step}: {self.unfinished()}")
            raise

    def active(self, job: str) -> list[BuildRecord]:
        return [r for r in self.records.values() if r.job_id == job and r.state in ACTIVE]

    def check_starts(self, new: list[BuildRecord], was_active: set[int]) -> None:
        for job, settings in self.jobs.items():
            if settings["blocked_by_self"]:
                assert len(self.active(job)) <= 1, f"two of {job} at once"
        for record in new:
            for other in record.blocked_by:
                for blocker in self.active(other) if other != record.job_id else []:
                    assert blocker.id not in was_active, f"{record.id} beside {blocker.id}"
        for record in sorted(new, key=lambda record: record.id):
            newest = self.newest_started.get(record.job_id, 0)
            assert not record.collapse or record.id > newest, f"{record.id} after {newest}"
        for record in new:
            newest = self.newest_started.get(record.job_id, 0)
            self.newest_started[record.job_id] = max(newest, record.id)

    def check_waiting(self) -> None:
        """Nobody waits who could run."""
        for job in JOBS:
            waiting = [r for r in self.records.values() if r.job_id == job]
            waiting = sorted(
                (r for r in waiting if r.state is State.BLOCKED), key=lambda record: record.id
            )
            collapsing = [r for r in waiting if r.collapse]
            assert collapsing in ([], waiting[-1:]), "a pointless build waits"
            for record in waiting[:1] + collapsing:
                assert self.must_wait(record), f"{record.id} could run"

    def must_wait(self, record: BuildRecord) -> bool:
        others = [job for job in record.blocked_by if job != record.job_id]
        if any(self.active(job) for job in others):
            return True
        if record.freeze and not record.force and self.minute() < WINDOW_MIN:
            return True
        same = self.active(record.job_id)
        if any(other.state is State.READY for other in same):
            return True
        if not same or not (record.blocked_by_self or not record.blocked_by_same_job):
            return False
        if record.blocked_by_self:
            return True
        started = [r.started_at_ms for r in self.records.values() if r.job_id == record.job_id]
        last = max(at for at in started if at is not None)
        return self.bench.now_ms < last + record.same_job_wait_ms

    def minute(self) -> int:
        return self.bench.now_ms // 60_000 % 60

    async def check_indexes(self) -> None:
        ids = {state: {r.id for r in self.records.values() if r.state is state} for state in State}
        keys = {key async for key in self.bench.client.scan_iter("{builds}:*", count=1000)}
        for job in JOBS:
            of_job = {r.id for r in self.records.values() if r.job_id == job}
            assert await self.members(f"waiting:{job}") == ids[State.BLOCKED] & of_job
            assert await self.members(f"running:{job}") == {r.id for r in self.active(job)}
            dependents: dict[str, int] = {}
            for build in ids[State.BLOCKED]:
                if job in self.records[build].blocked_by:
                    name = self.records[build].job_id
                    dependents[name] = dependents.get(name, 0) + 1
            stored = await self.bench.client.hgetall(f"{{builds}}:dependents:{job}")
            assert {name: int(count) for name, count in stored.items()} == dependents
        for state in State:
            assert await self.members(f"state:{state.name}") == ids[state]
        ready = await self.members("ready")
        due = await self.bench.client.exec("ZRANGE", "{builds}:due", 0, -1, into=list[str])
        later = {int(what[6:]) for what in due if what.startswith("offer:")}
        unowned = {
            r.id
            for r in self.records.values()
            if r.state is State.READY or (r.state is State.RUNNING and r.token is None)
        }
        assert ready | later == unowned
        assert not ready & later
        assert {int(what[4:]) for what in due if what.startswith("run:")} == ids[State.RUNNING]
        assert not ready or "{builds}:wake" in keys, "nobody is woken for what is on offer"

    async def members(self, index: str) -> set[int]:
        found = await self.bench.client.exec("ZRANGE", f"{{builds}}:{index}", 0, -1, into=list[int])
        return set(found)


def live(url: str, seed: int) -> None:
    print(f"HOLDFAST_SEED={seed}")  # noqa: T201 - pytest captures it and shows it on failure

    async def main() -> None:
        async with holdfast.connect(url) as client:
            await client.exec("FLUSHALL")
            await Life(random.Random(seed), Bench(client)).live()

    asyncio.run(main())


def seeds(count: int) -> list[int]:
    given = os.environ.get("HOLDFAST_SEED")
    if given:
        return [int(given)]
    return [random.SystemRandom().getrandbits(32) for _ in range(count)]


def test_random_lives(url: str) -> None:
    for seed in seeds(2):
        live(url, seed)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_many_random_lives(url: str) -> None:
    for seed in seeds(200):
        live(url, seed)


def test_pairs_are_read_as_they_are_written() -> None:
    assert pairs([b"a", b"1", b"b", b""]) == {"a": "1", "b": ""}
