"""The readers show what each library, unmodified, has done: a job done, a job failed, a job that
runs, and jobs that wait."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast.client import Client
from holdfast.web.readers.queues import (
    LIBRARIES,
    Job,
    JobPage,
    QueueId,
    QueueReader,
    QueueState,
    Role,
)
from tests.harness import HoldfastServer, RedisServer
from tests.harness.processes import ServerProcess
from tests.web.readers.libraries.jobs import LATER_S
from tests.web.readers.libraries.scene import at_work

pytestmark = pytest.mark.timeout(300)  # of a busy machine
SOON_MS = 300_000  # how long a test may take


@pytest.fixture(params=["holdfast", "redis"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ServerProcess]:
    """A server of the test's own: a worker that is killed may leave its last words."""
    kind = HoldfastServer if request.param == "holdfast" else RedisServer
    with kind(tmp_path / "server") as server:
        yield server


class Seen:
    """What the reader found of a library's only queue."""

    state: QueueState
    states: dict[QueueId, QueueState]

    def __init__(self) -> None:
        self.pages: dict[str, JobPage] = {}
        self.by_id: dict[str, Job | None] = {}

    def jobs(self, state: str) -> tuple[Job, ...]:
        return self.pages[state].jobs

    def ids(self, state: str) -> list[str]:
        return [job.id for job in self.jobs(state)]

    def count(self, state: str) -> int | None:
        return next(each.jobs for each in self.state.counts if each.state == state)


def see(
    name: str,
    place: ServerProcess,
    folder: Path,
    queue: bytes,
    asked: dict[str, bytes] | None = None,
) -> Seen:
    """`asked`: jobs to be read by their ids."""
    seen = Seen()

    async def look(client: Client) -> None:
        reader = QueueReader(client)
        seen.states = {each.state.id: each.state for each in (await reader.look()).queues}
        (id,) = [id for id in seen.states if (id.library, id.name) == (name, queue)]
        seen.state = seen.states[id]
        for count in seen.state.counts:
            seen.pages[count.state] = await reader.jobs(id, count.state)
        for key, job_id in (asked or {}).items():
            seen.by_id[key] = await reader.job(id, job_id)

    async def main() -> None:
        async with holdfast.connect(f"redis://127.0.0.1:{place.port}") as client:
            await look(client)

    with at_work(name, place.port, folder):
        asyncio.run(main())
    return seen


def check_times(seen: Seen, waiting: str, delayed: str) -> None:
    assert seen.state.oldest_ms is not None
    assert 0 <= seen.state.oldest_ms < SOON_MS
    (job,) = [job for job in seen.jobs(delayed) if job.due_at_ms is not None]
    since_ms = seen.jobs(waiting)[0].enqueued_at_ms
    assert since_ms is not None
    assert job.due_at_ms is not None
    assert abs(job.due_at_ms - since_ms - LATER_S * 1000) < SOON_MS


def test_celery(place: ServerProcess, tmp_path: Path) -> None:
    seen = see("celery", place, tmp_path, b"celery", {"failed": b"failed"})
    assert {id.name for id in seen.states} == {b"celery", b"mail"}  # no list of events or replies
    assert (seen.count("waiting"), seen.count("unacked"), seen.count("eta")) == (5, 1, 0)
    assert seen.ids("waiting") == ["waiting-0", "waiting-1", "waiting-2", "later", "urgent"]
    first, _, _, later, _ = seen.jobs("waiting")
    assert first.call == "add(0, 1)"
    assert later.due_at_ms is not None
    assert first.body is not None
    assert first.body.kind == "json"
    (active,) = seen.jobs("unacked")
    assert (active.id, active.call) == ("active", "hold('here')")
    assert seen.ids("FAILURE") == ["failed"]
    assert seen.ids("SUCCESS") == ["done"]
    assert "ValueError: boom" in seen.jobs("FAILURE")[0].error
    assert seen.by_id["failed"] == seen.jobs("FAILURE")[0]
    (other,) = [state for id, state in seen.states.items() if id.name == b"mail"]
    assert (other.waiting, other.active) == (1, 0)


def test_rq(place: ServerProcess, tmp_path: Path) -> None:
    seen = see("rq", place, tmp_path, b"default", {"gone": b"no-such-job", "done": b"done"})
    assert [id.name for id in seen.states] == [b"default"]
    assert {each.state: each.jobs for each in seen.state.counts} == {
        "queued": 3,
        "started": 1,
        "scheduled": 1,
        "deferred": 1,
        "failed": 1,
        "finished": 1,
        "canceled": 0,
    }
    assert seen.state.consumers == 1
    assert seen.ids("queued") == ["waiting-0", "waiting-1", "waiting-2"]
    assert seen.jobs("queued")[1].call.endswith("jobs.add(1, 1)")
    assert seen.ids("started") == ["active"]
    assert seen.ids("failed") == ["failed"]
    body = seen.jobs("queued")[0].body
    assert body is not None
    assert body.kind == "zlib pickle"
    assert "jobs.add" in body.text
    assert seen.by_id["gone"] is None
    done = seen.by_id["done"]
    assert done is not None
    assert done.state == "finished"
    assert done.ended_at_ms is not None
    check_times(seen, "queued", "scheduled")


def test_arq(place: ServerProcess, tmp_path: Path) -> None:
    seen = see("arq", place, tmp_path, b"arq:queue", {"waiting": b"waiting-1"})
    assert (seen.count("queued"), seen.count("in progress"), seen.count("deferred")) == (3, 1, 1)
    assert seen.ids("queued") == ["waiting-0", "waiting-1", "waiting-2"]
    assert seen.ids("in progress") == ["active"]
    assert sorted(seen.ids("complete")) == ["done", "failed"]
    body = seen.jobs("queued")[0].body
    assert body is not None
    assert body.kind == "pickle"
    assert "add" in body.text
    assert seen.by_id["waiting"] is not None
    check_times(seen, "queued", "deferred")


def test_saq(place: ServerProcess, tmp_path: Path) -> None:
    seen = see("saq", place, tmp_path, b"default", {"active": b"active"})
    assert (seen.count("queued"), seen.count("active"), seen.count("scheduled")) == (3, 1, 1)
    assert seen.ids("queued") == ["waiting-0", "waiting-1", "waiting-2"]
    assert seen.jobs("queued")[2].call == "add(left=2, right=1)"
    assert (seen.ids("active"), seen.ids("failed")) == (["active"], ["failed"])
    # A worker sweeps when it starts. A job that it meets between two steps becomes aborted.
    assert [*seen.ids("complete"), *seen.ids("aborted")] == ["done"]
    assert "ValueError: boom" in seen.jobs("failed")[0].error
    active = seen.by_id["active"]
    assert active is not None
    assert (active.state, active.attempt) == ("active", 1)
    assert seen.state.consumers == 1
    check_times(seen, "queued", "scheduled")


def test_dramatiq(place: ServerProcess, tmp_path: Path) -> None:
    seen = see("dramatiq", place, tmp_path, b"default")
    assert [id.name for id in seen.states] == [b"default"]
    assert (seen.count("waiting"), seen.count("unacked")) == (12, 1)
    assert (seen.count("delayed"), seen.count("dead")) == (1, 1)
    assert len(seen.jobs("waiting")) == 12
    assert 'hold("here")' in [job.call.replace("here", '"here"') for job in seen.jobs("unacked")]
    assert [job.call for job in seen.jobs("dead")] == ["fail(boom)"]
    assert seen.jobs("delayed")[0].call == "add(7, 7)"
    check_times(seen, "waiting", "delayed")


def test_bullmq(place: ServerProcess, tmp_path: Path) -> None:
    seen = see("bullmq", place, tmp_path, b"mail", {"failed": b"job-failed"})
    assert [id.name for id in seen.states] == [b"mail"]  # and no stream of events
    counts = {each.state: each.jobs for each in seen.state.counts if each.jobs}
    assert counts == {
        "wait": 3,
        "prioritized": 1,
        "active": 1,
        "delayed": 1,
        "failed": 1,
        "completed": 1,
    }
    assert seen.state.waiting == 4
    assert seen.state.added == 8
    assert seen.ids("wait") == ["waiting-0", "waiting-1", "waiting-2"]
    assert seen.jobs("active")[0].call == "hold"
    body = seen.jobs("prioritized")[0].body
    assert body is not None
    assert body.kind == "json"
    assert '"left": 9' in body.text
    failed = seen.by_id["failed"]
    assert failed is not None
    assert failed.error.startswith("boom")
    check_times(seen, "wait", "delayed")


def test_the_roles_of_all_libraries_fit_into_one_table() -> None:
    for library in LIBRARIES.values():
        roles = [shelf.role for shelf in library.shelves]
        assert Role.WAITING in roles, library.name
        assert len({shelf.state for shelf in library.shelves}) == len(roles), library.name
