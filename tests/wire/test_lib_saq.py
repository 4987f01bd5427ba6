"""SAQ, unmodified: scheduled jobs and retries; it enqueues, schedules and sweeps by scripts."""

import pytest

from tests.wire.libraries.crew import Crew, work_calmly, work_through_crashes

pytestmark = pytest.mark.timeout(300)  # of a busy machine
WORKER = ("-m", "saq", "tests.wire.libraries.saq_jobs.settings")


def test_jobs_are_done_once(crew: Crew) -> None:
    # It sweeps once when it starts, and a job that it meets between two steps is done twice.
    work_calmly(crew, lambda: crew.ask("EXISTS", "saq:default:sweep") == ["1"])
    assert crew.script_calls() > 0


def test_no_job_is_lost_when_the_server_is_killed(crew: Crew) -> None:
    def sweep() -> None:
        # Not before: SAQ itself would lose a job that it is sweeping when the server goes.
        crew.patience_s = 1
        crew.ask("DEL", "saq:default:sweep")  # its note that a worker swept a moment ago
        crew.renew_workers()

    work_through_crashes(crew, afterwards=sweep)
