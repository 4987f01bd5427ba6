"""The semaphore's benchmark runs, and its table marks the figures that miss their aim."""

import asyncio

from bench.semaphore import FIGURES, Row, Sizes, measure_at, table
from tests.harness import RedisServer

SMALL = Sizes(rounds=1, pairs=3, tasks=8, contended=16, working=8, handovers=2)


def test_everything_is_measured(oracle: RedisServer) -> None:
    row = asyncio.run(measure_at("redis-server", oracle.port, SMALL))
    assert all(figure.of(row) > 0 for figure in FIGURES)


def test_a_figure_that_misses_its_aim_is_marked() -> None:
    good = Row("good", 50, 2.5, 2.1, 1000, 9, 0.9, 0.8, 0.95, 3, 5)
    bad = Row("bad", 50, 2.6, 2.1, 999, 9, 0.89, 0.8, 0.94, 3.1, 5)
    lines = table([good, bad]).splitlines()
    assert lines[0].split() == ["aim", "good", "bad"]
    assert sum(line.endswith(" misses") for line in lines) == 4
    assert not any("misses  " in line for line in lines)
