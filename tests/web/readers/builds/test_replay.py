"""Replay shows the builds as they were at any moment of a random life of a queue."""

import asyncio
import random
from dataclasses import replace
from typing import Any

import holdfast
from holdfast.builds import Build, BuildRecord, State
from holdfast.web.readers.builds import BuildReader, History, Replay
from tests.builds.conftest import Bench, Play, play, url
from tests.builds.test_model import Life
from tests.harness.seeds import seed_of

__all__ = ["play", "url"]  # fixtures
STEPS = 60


def known(record: BuildRecord) -> BuildRecord:
    """Why a build waits is no event: it is computed when a record is read."""
    waits = record.state in (State.BLOCKED, State.READY)
    return replace(record, reason="", blockers=()) if waits else record


class Seen(Life):
    """Remembers all records at each moment; the last look of a moment counts."""

    def __init__(self, rng: random.Random, bench: Bench) -> None:
        super().__init__(rng, bench)
        self.moments: dict[int, dict[int, BuildRecord]] = {}

    async def do(self, step: Any) -> None:
        await super().do(step)
        self.moments[self.bench.now_ms] = dict(self.records)


def test_every_moment_of_a_random_life_is_shown_as_it_was(url: str) -> None:
    seed = seed_of("replay")
    print(f"HOLDFAST_SEED={seed}")  # noqa: T201 - pytest shows it on failure

    async def main() -> None:
        async with holdfast.connect(url) as client:
            life = Seen(random.Random(seed), Bench(client))
            steps, weights = zip(*Life.STEPS, strict=True)
            for _ in range(STEPS):
                (step,) = life.rng.choices(steps, weights)
                await life.do(step)
            replayed = await BuildReader(client).replay("builds")
            assert len(life.moments) > 5
            for at_ms, records in life.moments.items():
                shown = replayed.at(at_ms)
                assert {b: known(r) for b, r in shown.items()} == {
                    b: known(r) for b, r in records.items()
                }, at_ms
            board = replayed.board(life.bench.now_ms)
            assert sum(map(len, board.values())) == len(life.records)
            assert replayed.at((replayed.first_ms or 0) - 1) == {}

    asyncio.run(main())


def test_a_slider_goes_from_change_to_change(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        await b.queue.enqueue(Build(1, "a"))
        b.pass_s(10)
        await b.queue.start(1, worker="w")
        b.pass_s(10)
        await b.queue.complete(1)
        replayed = await BuildReader(b.client).replay("builds")
        states = [replayed.at(replayed.moment(n))[1].state for n in range(-1, 9)]
        assert states[:4] == [State.READY, State.READY, State.RUNNING, State.SUCCESS]
        assert set(states[4:]) == {State.SUCCESS}  # beyond the end is the end

    play(scenario)


def test_an_empty_queue_has_no_moments() -> None:
    replayed = Replay([])
    assert (replayed.first_ms, replayed.last_ms, replayed.moment(3), replayed.at(7)) == (
        None,
        None,
        0,
        {},
    )
    assert History(1, ()).at(5) is None
