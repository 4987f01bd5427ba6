"""RQ: rq-dashboard shows the queue before and after the server is killed; no job is lost."""

import pytest

from tests.examples.example import TIMEOUT_S, Example, Web
from tests.harness import wait_until

pytestmark = pytest.mark.timeout(300)  # of a busy machine


def jobs(web: Web, registry: str) -> set[str]:
    reply = web.get(f"/0/data/jobs/reports/{registry}/10/asc/1.json")
    return {job["id"] for job in reply.json()["jobs"]} if reply.status == 200 else set()


def test_the_dashboard_shows_jobs_that_survive_a_crash(example: Example) -> None:
    web = example.serve("rq-dashboard -c settings --bind 127.0.0.1")
    printed = example.run("python enqueue.py Rome Oslo Lima")
    ids = {line.split()[0] for line in printed.splitlines()}
    assert len(ids) == 3

    for is_killed in (False, True):
        if is_killed:
            example.server.crash()
        page = web.get("/")
        assert page.status == 200
        assert "<title>" in page.text
        (queue,) = web.get("/0/data/queues.json").json()["queues"]
        assert (queue["name"], queue["count"]) == ("reports", 3)
        assert jobs(web, "queued") == ids

    example.start("rq worker -c settings")
    wait_until(lambda: jobs(web, "finished") == ids, "all are done", TIMEOUT_S)
    assert jobs(web, "queued") == jobs(web, "failed") == set()
