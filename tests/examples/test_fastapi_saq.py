"""FastAPI and SAQ: two web processes share limit and cache, and no accepted job is lost."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.examples.example import TIMEOUT_S, Example, Web
from tests.harness import wait_until

pytestmark = pytest.mark.timeout(300)  # of a busy machine


def forecast(web: Web) -> str:
    reply = web.get("/forecasts/Rome")
    return str(reply.json()["forecast"]) if reply.status == 200 else ""


def test_jobs_limit_and_cache_are_shared_and_survive_a_crash(example: Example) -> None:
    webs = [example.serve("uvicorn app:app") for _ in range(2)]

    orders = [webs[n % 2].post("/reports/Rome") for n in range(7)]
    assert [order.status for order in orders] == [202] * 5 + [429] * 2
    assert 0 < int(orders[-1].headers["Retry-After"]) <= 3600

    with ThreadPoolExecutor() as threads:
        forecasts = set(threads.map(forecast, webs * 3))
    assert len(forecasts) == 1, "computed once"

    example.server.kill()
    assert webs[0].get("/forecasts/Rome").status == 503
    assert webs[1].get("/jobs/unknown").status == 503
    example.server.start()
    for web in webs:
        wait_until(lambda web=web: forecast(web) != "", "it is connected again", TIMEOUT_S)  # type: ignore[misc]
        assert {forecast(web)} == forecasts, "still from the cache"
        assert web.post("/reports/Rome").status == 429

    example.start("saq jobs.settings")
    paths = [f"/jobs/{order.json()['job']}" for order in orders[:5]]
    done = {"status": "complete", "report": "All about Rome"}
    wait_until(
        lambda: all(webs[0].get(path).json() == done for path in paths), "all are done", TIMEOUT_S
    )
