"""Random lives of a queue, on a clock that the test moves. All rules are checked after every step.

The rules are written here in Python, from the records alone: at most one build of a job where
self-blocking is on; nothing is let go and nothing begins while a build that blocks it runs; nothing
begins in its freeze window or before its delay has passed; the most urgent build that may begin is
claimed first, and of two the one that was let go first; no older build after a newer one where
builds collapse; no build waits that could run, and a worker is woken for each build on offer; the
record agrees with its events; the indexes agree with the records. In the end every build has ended.
"""

import asyncio
import os
import random
from collections import Counter
from typing import Any

import pytest

import holdfast
from holdfast.builds import Build, BuildRecord, Decision, State
from holdfast.builds.build_events import pairs
from tests.builds.conftest import Bench
from tests.builds.indexes import Indexes, read_indexes
from tests.harness.seeds import seed_of

STEPS = 120
LEASE_S = 30.0
ACTIVE = (State.READY, State.RUNNING)
JOBS = "abcdef"
PARTS = 8
# Freeze windows, and the minutes of every hour that they are open in.
WINDOWS = {
    "0-6 * * * *": set(range(7)),
    "*/2 * * * ?": set(range(0, 60, 2)),
    "20-39 * * 1-12 0-7": set(range(20, 40)),
}
FREEZES: tuple[list[str], ...] = ([], [], [], *([window] for window in WINDOWS), list(WINDOWS))


class Life:
    def __init__(self, rng: random.Random, bench: Bench) -> None:
        self.rng = rng
        self.bench = bench
        self.queue = bench.queue
        self.next_id = 1
        self.claims: dict[int, int] = {}  # builds of living workers, and their tokens
        self.records: dict[int, BuildRecord] = {}
        self.freezes: dict[str, set[int]] = {}  # by freeze in the record, the minutes
        self.forced: int | None = None  # the build whose start was forced in this step
        self.undelayed: set[int] = set()  # those whose start was ever forced
        self.is_wake_lost = False  # since the last claim
        self.newest_started: dict[str, int] = {}
        self.jobs = {job: self.settings(job) for job in JOBS}

    def settings(self, job: str) -> dict[str, Any]:
        rng = self.rng
        return {
            "blocked_by_self": rng.random() < 0.6,
            "blocked_by_same_job": rng.random() < 0.5,
            "virtual": rng.random() < 0.1,
            "retries": rng.choice([0, 1, 3]),
        }

    # -- steps --------------------------------------------------------------------------------

    async def enqueue(self) -> None:
        job = self.rng.choice(JOBS)
        build_id = self.next_id + self.rng.choice([0, 0, 0, 5])
        if self.rng.random() < 0.1 and self.next_id > 3:
            build_id = self.rng.randrange(1, self.next_id)  # an older one, or one that is there
        self.next_id = max(self.next_id, build_id + 1)
        build = Build(
            build_id,
            job,
            **self.jobs[job],
            blocked_by=self.rng.sample(JOBS, self.rng.choice([0, 0, 1, 1, 2])),
            collapse=self.rng.random() < self.rng.choice([0, 0.7]),
            delay_s=self.rng.choice([0, 0, 0, 40]),
            priority=self.rng.choice([0, 0, 5, -5]),
            freeze=self.rng.choice(FREEZES),
            force=self.rng.random() < 0.1,
            timeout_min=self.rng.choice([None, 3]),
        )
        minutes = set[int]().union(*(WINDOWS[window] for window in build.freeze))
        self.freezes[build.fields()["freeze"]] = minutes
        await self.queue.enqueue(build)

    async def claim(self) -> None:
        self.is_wake_lost = False
        said = await self.queue.claim("worker", LEASE_S)
        if said.record is not None:
            assert said.token is not None
            assert said.token > max(self.claims.values(), default=0)
            self.claims[said.record.id] = said.token
        self.check_claim(said)

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
            del self.claims[build]  # and the queue is not told

    async def die_awake(self) -> None:
        """A worker takes a wake-up, and dies before it claims. Another one claims then."""
        if not self.is_wake_lost:
            self.is_wake_lost = True
            await self.bench.client.lpop("{builds}:wake")

    async def abort(self) -> None:
        await self.queue.abort(self.rng.randrange(1, self.next_id + 2))

    async def retry(self) -> None:
        running = [build for build, r in self.records.items() if r.state is State.RUNNING]
        some = running if self.rng.random() < 0.8 else list(self.records)
        if some:
            said = await self.queue.retry(self.rng.choice(some))
            self.next_id = max(self.next_id, said.build_id + 1)

    async def start(self) -> None:
        build, force = self.rng.randrange(1, self.next_id + 1), self.rng.random() < 0.2
        if force:
            self.forced = build
            self.undelayed.add(build)
        said = await self.queue.start(build, worker="hand", lease_s=LEASE_S, force=force)
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
        *((retry, 8), (start, 4), (beat, 5), (time, 8), (die_awake, 4)),
    )

    async def live(self) -> None:
        steps, weights = zip(*self.STEPS, strict=True)
        for _ in range(STEPS):
            (step,) = self.rng.choices(steps, weights)
            await self.do(step)
        await self.end()

    async def do(self, step: Any) -> None:
        self.forced = None
        try:
            await step(self)
            await self.check()
        except AssertionError as error:
            error.add_note(f"after {step.__name__}: {self.unfinished()}")
            raise

    async def end(self) -> None:
        """Workers that do nothing wrong any more finish all there is."""
        for _ in range(1000):
            begun = -1
            while begun != len(self.claims):
                begun = len(self.claims)
                await self.do(Life.claim)
            for record in self.unfinished():
                if record.state is State.RUNNING and record.worker:
                    await self.queue.complete(record.id, token=record.token)
                    self.claims.pop(record.id, None)
                    await self.check()
            if not self.unfinished():
                break
            stats = await self.queue.stats()
            assert stats.on_offer or stats.next_due_s is not None, "nothing will ever happen"
            if not stats.on_offer:
                self.bench.pass_s(stats.next_due_s or 1)
                await self.queue.check_timeouts()
                await self.check()
        else:
            raise AssertionError(f"still not ended: {self.unfinished()}")
        listed = {record.id: record for record in await self.queue.list(limit=1000)}
        assert listed == self.records
        names = {name async for name in self.bench.client.scan_iter("{builds}:build:[0-9]*")}
        assert names == {f"{{builds}}:build:{build}" for build in listed}

    def unfinished(self) -> list[BuildRecord]:
        return [record for record in self.records.values() if not record.state.is_final]

    # -- the rules ----------------------------------------------------------------------------

    async def check(self) -> None:
        before = self.records
        self.records = dict(before)
        indexes = await read_indexes(self.bench.client, JOBS)
        changing = {
            build
            for state, ids in indexes.states.items()
            for build in ids
            if not state.is_final or build not in before or not before[build].state.is_final
        }
        for record in await asyncio.gather(*map(self.queue.get, changing)):
            assert record is not None
            self.records[record.id] = record
        self.check_starts(before)
        self.check_begins(before)
        self.check_waiting()
        self.check_indexes(indexes)
        changed = [build for build in changing if self.records[build] != before.get(build)]
        replayed = await asyncio.gather(*map(self.queue.replay, changed))
        assert replayed == [self.records[build] for build in changed]

    def active(self, job: str) -> list[BuildRecord]:
        return [r for r in self.records.values() if r.job_id == job and r.state in ACTIVE]

    def blockers(self, record: BuildRecord, states: tuple[State, ...] = ACTIVE) -> list[int]:
        """Builds of other jobs that it is blocked by, in these states."""
        others = [job for job in record.blocked_by if job != record.job_id]
        return [r.id for job in others for r in self.active(job) if r.state in states]

    def check_starts(self, before: dict[int, BuildRecord]) -> None:
        """The builds that were let go in this step; they may also have begun in it."""
        for job, settings in self.jobs.items():
            if settings["blocked_by_self"]:
                assert len(self.active(job)) <= 1, f"two of {job} at once"
        was_active = {build for build, record in before.items() if record.state in ACTIVE}
        new = [
            record
            for record in self.records.values()
            if (record.state in ACTIVE or record.started_at_ms is not None)
            and record.id not in was_active
            and not (record.id in before and before[record.id].state.is_final)
        ]
        for record in new:
            beside = was_active.intersection(self.blockers(record))
            assert not beside, f"{record.id} is let go beside {beside}"
        for record in sorted(new, key=lambda record: record.id):
            newest = self.newest_started.get(record.job_id, 0)
            assert not record.collapse or record.id > newest, f"{record.id} after {newest}"
        for record in new:
            newest = self.newest_started.get(record.job_id, 0)
            self.newest_started[record.job_id] = max(newest, record.id)

    def check_begins(self, before: dict[int, BuildRecord]) -> None:
        """The builds that began in this step; they may have been let go long before."""
        was_running = {build for build, r in before.items() if r.state is State.RUNNING}
        for record in self.records.values():
            old = before.get(record.id)
            if record.started_at_ms is None or (old and old.started_at_ms is not None):
                continue
            beside = was_running.intersection(self.blockers(record, (State.RUNNING,)))
            assert not beside, f"{record.id} begins beside {beside}"
            if record.id != self.forced:
                assert not self.is_frozen(record), f"{record.id} begins in its freeze window"
            if record.id not in self.undelayed:
                assert (record.start_at_ms or 0) <= self.bench.now_ms, f"{record.id} is delayed"

    def check_claim(self, said: Decision) -> None:
        """The most urgent of those that may begin was claimed, as it was before the claim."""
        urgency = -1000 if said.record is None else said.record.priority
        for record in self.records.values():
            if record.state is State.READY and not self.is_hindered(record):
                assert said.record is not None, f"{record.id} could be claimed"
                assert record.priority <= urgency, f"{record.id} is more urgent"
                if record.priority == urgency and said.reason == "READY":
                    assert ready_at(record) >= ready_at(said.record), f"{record.id} was first"

    def is_hindered(self, record: BuildRecord) -> bool:
        """A READY build that may not begin."""
        return self.is_frozen(record) or bool(self.blockers(record, (State.RUNNING,)))

    def check_waiting(self) -> None:
        """No build waits that could run, and every waiting build has a reason."""
        for record in self.records.values():
            if record.state is State.BLOCKED:
                self.check_why(record)
            assert (record.state is State.QUEUED) == (record.reason == "NOT_BEFORE")
        for job in JOBS:
            waiting = [r for r in self.records.values() if r.job_id == job]
            waiting = sorted(
                (r for r in waiting if r.state is State.BLOCKED), key=lambda record: record.id
            )
            collapsing = [r for r in waiting if r.collapse]
            assert collapsing in ([], waiting[-1:]), "a pointless build waits"
            for record in waiting[:1] + collapsing:
                assert self.must_wait(record), f"{record.id} could run"

    def check_why(self, record: BuildRecord) -> None:
        blockers = self.blockers(record)
        named = [self.records[build] for build in record.blockers]
        assert all(other.state in ACTIVE for other in named), f"{record} waits for what has ended"
        if self.is_frozen(record):
            assert record.reason == "FREEZE_WINDOW", record
        elif blockers:
            assert record.reason == "BLOCKED_BY_DEPENDENCIES", record
            assert set(record.blockers) == set(blockers)
        else:
            assert record.reason in ("BLOCKED_BY_SAME_JOB", "NOT_ITS_TURN"), record
            assert {other.job_id for other in named} <= {record.job_id}

    def must_wait(self, record: BuildRecord) -> bool:
        if self.blockers(record) or self.is_frozen(record):
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

    def is_frozen(self, record: BuildRecord) -> bool:
        minute = self.bench.now_ms // 60_000 % 60
        return not record.force and minute in self.freezes["\n".join(record.freeze)]

    def check_indexes(self, found: Indexes) -> None:
        ids = {state: {r.id for r in self.records.values() if r.state is state} for state in State}
        assert found.states == ids
        of = {job: {r.id for r in self.records.values() if r.job_id == job} for job in JOBS}
        assert found.waiting == {job: ids[State.BLOCKED] & of[job] for job in JOBS}
        assert found.running == {job: {r.id for r in self.active(job)} for job in JOBS}
        for build in found.held:
            record = self.records[build]
            assert record.state is State.READY
            assert self.is_hindered(record), f"{build} could begin"
        for job in JOBS:
            waiting = [self.records[build] for build in ids[State.BLOCKED] | found.held]
            dependents = Counter(r.job_id for r in waiting if job in r.blocked_by)
            assert found.dependents[job] == dependents
        later = found.due("offer")
        unowned = {
            r.id
            for r in self.records.values()
            if r.state is State.READY or (r.state is State.RUNNING and r.token is None)
        }
        assert found.ready | later == unowned
        assert not found.ready & later
        assert found.held <= later
        assert found.due("run") == ids[State.RUNNING]
        assert not found.ready or found.is_woken, "no worker is woken for what is on offer"


def ready_at(record: BuildRecord) -> int:
    assert record.ready_at_ms is not None
    return record.ready_at_ms


def live(url: str, seed: int) -> None:
    print(f"HOLDFAST_SEED={seed}")  # noqa: T201 - pytest captures it and shows it on failure

    async def main() -> None:
        # Thousands of histories take hours, and a machine may be busy for longer than a timeout.
        patience = holdfast.connect(url, request_timeout_s=120, silence_timeout_s=None)
        async with patience as client:
            await client.exec("FLUSHALL")
            await Life(random.Random(seed), Bench(client)).live()

    asyncio.run(main())


def seeds(name: str, count: int) -> list[int]:
    return list(dict.fromkeys(seed_of(f"{name} {number}") for number in range(count)))


def test_random_lives(url: str) -> None:
    for seed in seeds("life", 3):
        live(url, seed)


@pytest.mark.slow
@pytest.mark.timeout(6 * 3600)
@pytest.mark.parametrize("part", range(PARTS))
def test_many_random_lives(url: str, part: int) -> None:
    """HOLDFAST_HISTORIES=10000 make faults ARGS="-k random_lives": so many on each server."""
    histories = int(os.environ.get("HOLDFAST_HISTORIES", "800"))
    for seed in seeds(f"part {part} life", -(-histories // PARTS)):
        live(url, seed)


def test_pairs_are_read_as_they_are_written() -> None:
    assert pairs([b"a", b"1", b"b", b""]) == {"a": "1", "b": ""}
