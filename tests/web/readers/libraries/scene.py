"""A library at work on a server: one job done, one failed, one that runs, and jobs that wait.

The processes import the library from build/libraries; the test itself never does.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.harness import wait_until
from tests.harness.spawned import ROOT, Spawned, library
from tests.web.readers.libraries.jobs import FIRST, SECOND

TIMEOUT_S = 120.0
_MODULE = "tests.web.readers.libraries.{}_scene"
WORKERS = {
    "celery": ("-m", "celery", "-A", _MODULE.format("celery"), "worker", "-c", "1"),
    "rq": ("-m", "rq.cli", "worker"),
    "arq": ("-m", "arq", f"{_MODULE.format('arq')}.WorkerSettings"),
    "saq": ("-m", "saq", f"{_MODULE.format('saq')}.settings"),
    "dramatiq": ("-m", "dramatiq", _MODULE.format("dramatiq"), "-p", "1", "-t", "1"),
    "bullmq": ("-m", _MODULE.format("bullmq"), "work"),
}


@contextmanager
def at_work(name: str, port: int, folder: Path) -> Iterator[None]:
    """The worker is held in one job while the block runs; jobs that came after it wait."""
    held = folder / "held"
    environment = os.environ | {
        "PYTHONPATH": f"{library(name)}:{ROOT}",
        "REDIS_URL": f"redis://127.0.0.1:{port}/0",
        "HELD": str(held),
    }
    if name == "rq":
        environment["RQ_REDIS_URL"] = environment["REDIS_URL"]
    if name == "dramatiq":  # else it takes jobs in advance, while the test reads
        environment["dramatiq_queue_prefetch"] = "1"
    spawned = Spawned(folder)

    def produce(part: str) -> None:
        argv = [sys.executable, "-W", "ignore", "-m", _MODULE.format(name), part]
        assert spawned.start(argv, environment, folder).wait(TIMEOUT_S) == 0

    try:
        produce(FIRST)
        spawned.start([sys.executable, "-W", "ignore", *WORKERS[name]], environment, folder)
        wait_until(held.exists, f"{name} runs the job that holds", TIMEOUT_S)
        produce(SECOND)
        yield
    except BaseException:
        print(spawned.said())  # noqa: T201 - pytest shows it if the test has failed
        raise
    finally:
        spawned.end_all()
