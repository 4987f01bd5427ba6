"""Dramatiq, unmodified: every step of a job is one script, delays and retries too."""

import pytest

from tests.wire.libraries.crew import Crew, work_calmly, work_through_crashes

pytestmark = pytest.mark.timeout(300)  # of a busy machine
WORKER = ("-m", "dramatiq", "tests.wire.libraries.dramatiq_jobs", "-p", "1", "-t", "1")


def test_jobs_are_done_once(crew: Crew) -> None:
    work_calmly(crew)
    assert crew.script_calls() > 0


def test_no_job_is_lost_when_the_server_is_killed(crew: Crew) -> None:
    crew.patience_s = 1
    # A job that fails while the server is away is acknowledged without its retry being enqueued.
    work_through_crashes(crew, lambda: True, crew.renew_workers)
