"""Celery, unmodified: a worker that forks, countdowns, retries, results, groups and chords."""

import json

import pytest

from tests.wire.libraries.crew import Crew, work_calmly, work_through_crashes

pytestmark = pytest.mark.timeout(300)  # of a busy machine
WORKER = ("-m", "celery", "-A", "tests.wire.libraries.celery_jobs", "worker", "-c", "1")


def test_jobs_are_done_once_and_results_come_back(crew: Crew) -> None:
    work_calmly(crew)
    assert json.loads(crew.run("results", "12").splitlines()[0]) == [
        number**2 for number in range(12)
    ]
    assert json.loads(crew.run("canvas").splitlines()[0]) == {
        "group": [number**2 for number in range(100, 104)],
        "chord": sum(number**2 for number in range(200, 205)),
        "chain": 81,
    }
    assert crew.script_calls() > 0


class Still:
    """Whether Celery, which has a job to work on, pops no more for a while."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self._pops, self._looks = "", 0

    def __call__(self) -> bool:
        stats, clients = self._crew.info("commandstats"), self._crew.info("clients")
        pops = "".join(line for line in stats.splitlines() if line.startswith("cmdstat_brpop:"))
        is_same = pops == self._pops and "blocked_clients:0" in clients
        self._pops, self._looks = pops, self._looks + 1 if is_same else 0
        return self._looks > 50


def test_no_job_is_lost_when_the_server_is_killed(crew: Crew) -> None:
    crew.patience_s = 3
    # A popped job exists only in the reply, here as with Redis.
    work_through_crashes(crew, Still(crew))
