"""A server, and the workers and producers of one library, each a process of its own.

These processes import the library from build/libraries; the test itself never does. A worker that
ends is started again, as a supervisor would do.
"""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

import hiredis

from tests.harness import wait_until
from tests.harness.processes import SteadyServer
from tests.harness.spawned import ROOT, Spawned, library
from tests.wire.libraries import book

TIMEOUT_S = 120.0
COUNT = 24  # of jobs, when the server is killed


class Crew:
    """Use as a context manager: all of them are stopped at its end."""

    rounding_s = 0.01  # of the times that a library writes down
    patience_s = 60  # with silent workers; short only where a job may be done twice

    def __init__(self, name: str, folder: Path, *worker: str) -> None:
        """`name` is that of the library. `worker` is the command of a worker, `-m` and its module
        first."""
        self._packages = library(name)
        self._module = f"tests.wire.libraries.{name}_jobs"
        self._folder = folder
        self._worker_argv = worker
        self._workers: list[subprocess.Popen[bytes]] = []
        self._spawned = Spawned(folder)
        self._book = folder / "book"
        self.server = SteadyServer(folder / "server")

    def __enter__(self) -> Self:
        self.server.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._spawned.end_all()
        self.server.kill()
        print(f"{self._spawned.said()}\nthe server: {self.server.stderr}")  # noqa: T201 - pytest shows it if the test has failed

    # -- processes ----------------------------------------------------------------------------

    def start_worker(self) -> None:
        self._workers.append(self._spawn(*self._worker_argv))

    def stop_workers(self) -> None:
        """SIGTERM, and they end by themselves."""
        for process in self._workers:
            process.terminate()
        for process in self._workers:
            process.wait(TIMEOUT_S)
        self._workers.clear()

    def renew_workers(self) -> None:
        count = len(self._workers)
        self.stop_workers()
        for _ in range(count):
            self.start_worker()

    def produce(self, count: int) -> subprocess.Popen[bytes]:
        return self._spawn("-m", self._module, str(count))

    def run(self, *args: str) -> str:
        """The output of the library's module when it is called with these arguments."""
        process = self._spawn("-m", self._module, *args)
        assert process.wait(TIMEOUT_S) == 0
        return self._spawned.output(process)

    def _spawn(self, *argv: str) -> subprocess.Popen[bytes]:
        environment = os.environ | {
            "PYTHONPATH": f"{self._packages}:{ROOT}",
            "REDIS_URL": f"redis://127.0.0.1:{self.server.port}/0",
            "BOOK": str(self._book),
            "PATIENCE_S": str(self.patience_s),
        }
        command = [sys.executable, "-W", "ignore", *argv]
        return self._spawned.start(command, environment, self._folder)

    # -- events -------------------------------------------------------------------------------

    def entries(self, what: str) -> list[book.Entry]:
        return [entry for entry in book.read(self._book) if entry.what == what]

    def numbers(self, what: str) -> list[int]:
        return [entry.number for entry in self.entries(what)]

    def wait_until(self, predicate: Callable[[], bool], what: str) -> None:
        """Wait, and meanwhile restart processes that have ended."""

        def tend() -> bool:
            for process in [process for process in self._workers if process.poll() is not None]:
                self._workers.remove(process)
                self.start_worker()
            return predicate()

        wait_until(tend, what, TIMEOUT_S)

    def wait_for(self, what: str, count: int) -> None:
        """Until so many different jobs are begun, or done, or …"""
        self.wait_until(lambda: len(set(self.numbers(what))) >= count, f"{count} jobs are {what}")

    def wait_for_begun(self, number: int) -> None:
        self.wait_until(lambda: number in self.numbers("begun"), f"job {number} is begun")

    def hold(self, number: int) -> None:
        """This job does not go on once it has begun, until it is released."""
        book.hold_of(self._book, number).touch()

    def release(self, number: int) -> None:
        book.hold_of(self._book, number).unlink()

    def script_calls(self) -> int:
        """How many scripts this server has run since it was started."""
        calls = re.findall(r"cmdstat_eval(?:sha)?:calls=(\d+)", self.info("commandstats"))
        return sum(map(int, calls))

    def info(self, section: str) -> str:
        return self.ask("INFO", section)[0]

    def ask(self, *args: str) -> list[str]:
        """The strings in the server's reply to a command."""
        with self.server.client() as client:
            reply = hiredis.Reader(encoding="utf-8")
            reply.feed(client.command(*args))
            answer = reply.gets()
        return answer if isinstance(answer, list) else [str(answer)]

    # -- the rules ----------------------------------------------------------------------------

    def check_delays(self) -> None:
        """No job was done before its time."""
        asked = {entry.number: entry.at_s for entry in self.entries("asked")}
        for entry in self.entries("begun"):
            waited_s = entry.at_s - asked[entry.number]
            assert waited_s >= book.delay_s(entry.number) - self.rounding_s, entry

    def check_once(self, count: int) -> None:
        """Every job was done exactly once, after as many tries as it needs."""
        assert sorted(self.numbers("done")) == list(range(count))
        tries = [number for number in range(count) for _ in range(1 + book.fails_first(number))]
        assert sorted(self.numbers("begun")) == tries


def work_calmly(crew: Crew, is_ready: Callable[[], bool] = lambda: True, count: int = 12) -> None:
    """Jobs are enqueued and worked, and nothing happens."""
    crew.start_worker()
    crew.wait_until(is_ready, "the worker is ready")
    producer = crew.produce(count)
    crew.wait_for("done", count)
    assert producer.wait(TIMEOUT_S) == 0
    crew.check_once(count)
    crew.check_delays()


def work_through_crashes(
    crew: Crew,
    is_between_steps: Callable[[], bool] | None = None,
    afterwards: Callable[[], object] = bool,
    kept: Callable[[], set[int]] = set,
) -> None:
    """The server is killed while jobs are enqueued and worked: each job is done at least once.

    Some libraries have steps between which a crash of any server loses a job. Those are killed only
    at a safe moment: while a certain job runs and `is_between_steps`. After the last crash,
    `afterwards` makes the library look for jobs of lost workers. Jobs that it keeps aside for long
    are in `kept`.
    """
    milestones = [6, 15]  # these jobs need neither delay nor retry
    for number in milestones if is_between_steps else []:
        crew.hold(number)
    crew.start_worker()
    producer = crew.produce(COUNT)
    for number in milestones:
        if is_between_steps:
            crew.wait_for_begun(number)
            crew.wait_until(is_between_steps, "nothing is on its way")
            crew.server.crash()
            crew.release(number)
        else:
            crew.wait_for("done", number)
            crew.server.crash()
    crew.wait_until(lambda: producer.poll() is not None, "the producer is done")
    assert producer.returncode == 0
    afterwards()

    def is_complete() -> bool:
        missing = set(range(COUNT)) - set(crew.numbers("done"))
        return missing <= kept() and len(missing) <= len(milestones)  # one for each crash

    crew.wait_until(is_complete, "all jobs are done")
    crew.check_delays()
