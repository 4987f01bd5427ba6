"""BullMQ's package for Python, unmodified: every step of a job is a script."""

import pytest

from tests.wire.libraries.crew import Crew, work_calmly, work_through_crashes

pytestmark = pytest.mark.timeout(300)  # of a busy machine
WORKER = ("-m", "tests.wire.libraries.bullmq_jobs", "work")


def test_jobs_are_done_once(crew: Crew) -> None:
    work_calmly(crew)
    assert crew.script_calls() > 0


def test_no_job_is_lost_when_the_server_is_killed(crew: Crew) -> None:
    crew.patience_s = 1
    work_through_crashes(crew)
