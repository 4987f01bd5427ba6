"""RQ, unmodified: workers that fork for each job, its scheduler, its retries."""

import pytest

from tests.wire.libraries.crew import Crew, work_calmly, work_through_crashes

pytestmark = pytest.mark.timeout(300)  # of a busy machine
WORKER = ("-m", "rq.cli", "worker", "--with-scheduler")


@pytest.fixture
def crew(crew: Crew) -> Crew:
    crew.rounding_s = 1.0  # its scheduler knows whole seconds only
    return crew


def test_jobs_are_done_once(crew: Crew) -> None:
    work_calmly(crew)
    assert crew.script_calls() > 0


def test_no_job_is_lost_when_the_server_is_killed(crew: Crew) -> None:
    def kept() -> set[int]:
        """Fetched by a worker that did not hear of it. RQ takes them up again after minutes."""
        names = crew.ask("LRANGE", "rq:queue:default:intermediate", "0", "-1")
        names += crew.ask("ZRANGE", "rq:wip:default", "0", "-1")  # with the number of the try
        return {int(name.split(":")[0]) for name in names}

    def start_over() -> None:
        # A worker that quits because of the crash leaves its scheduler's lock for a minute.
        crew.stop_workers()
        crew.ask("DEL", "rq:scheduler-lock:default")
        crew.start_worker()

    work_through_crashes(crew, afterwards=start_over, kept=kept)
