"""arq, unmodified: deferred jobs, and retries that wait."""

import pytest

from tests.wire.libraries.crew import Crew, work_calmly, work_through_crashes

pytestmark = pytest.mark.timeout(300)  # of a busy machine
WORKER = ("-m", "arq", "tests.wire.libraries.arq_jobs.WorkerSettings")


def test_jobs_are_done_once(crew: Crew) -> None:
    work_calmly(crew)


def test_no_job_is_lost_when_the_server_is_killed(crew: Crew) -> None:
    def start_over() -> None:
        # A worker that quits because of the crash leaves notes that it is at work, for minutes.
        crew.stop_workers()
        if notes := crew.ask("KEYS", "arq:in-progress:*"):
            crew.ask("DEL", *notes)
        crew.start_worker()

    work_through_crashes(crew, afterwards=start_over)
