"""SIGKILL at random moments: nothing acknowledged is missing, nothing is half done.

`make test` goes through a few crashes, `make faults` through a thousand
(HOLDFAST_CRASH_CYCLES). The server folds and checkpoints all the time (launcher.py), so most
crashes meet it in the middle of that.
"""

import asyncio
import os
import random
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.store.check import check_file
from tests.faults.clients import Link, Task, Writer
from tests.faults.queues import Queue, StreamQueue
from tests.harness import HoldfastServer, wait_until
from tests.store.consistency import check_rows

CYCLES = 20
MANY_CYCLES = int(os.environ.get("HOLDFAST_CRASH_CYCLES", "1000"))
PARTS = 8  # of the many, so that they run side by side
LAUNCHER = str(Path(__file__).with_name("launcher.py"))


class CrashingServer(HoldfastServer):
    @property
    def _argv(self) -> list[str]:
        return [sys.executable, LAUNCHER, "serve", "--port", "0", "--db", self.db, *self.args]

    def spawn_only(self) -> subprocess.Popen[bytes]:
        """Start a process and do not wait for it."""
        return subprocess.Popen(self._argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def start(self) -> None:
        ready = self._spawn(self._argv, self._env)
        assert ready is not None, f"holdfast did not start: {self._said()}"
        port = re.search(r":(\d+)", ready["where"])
        assert port is not None
        self.port = int(port[1])


class Crashes:
    """One file, one server after another, the same clients all the time."""

    def __init__(self, rng: random.Random, folder: Path) -> None:
        self._rng = rng
        self._server = CrashingServer(folder)
        self._writers = [Writer(rng, number) for number in range(4)]
        self._queue = Queue(rng)
        self._stream = StreamQueue(rng)
        self._is_clean_end = False

    def cycle(self) -> None:
        policy = self._rng.choice(["always", "always", "everysec"])
        maxmemory = self._rng.choice(["0", "20kb", "60kb"])  # so little that most keys are cold
        self._server.args = ("--appendfsync", policy, "--maxmemory", maxmemory)
        try:
            self._server.start()
            asyncio.run(self._verify())
            asyncio.run(self._work())
            code = self._server.process.wait(timeout=30)
            assert code == (0 if self._is_clean_end else -signal.SIGKILL), self._server.stderr
        finally:
            self._server.kill()
        self._check_copy()
        if self._rng.random() < 0.1:
            self._crash_while_starting()

    async def _verify(self) -> None:
        link = await Link.connect(self._server.port)
        for writer in self._writers:
            await writer.verify(link)
        await self._queue.verify(link)
        await self._stream.verify(link)
        link.close()

    async def _work(self) -> None:
        """All clients write until the server is gone."""
        queue, stream = self._queue, self._stream
        tasks: list[Task] = [writer.write for writer in self._writers]
        tasks += [queue.push, queue.pop, queue.pop, queue.pop, queue.move]
        tasks += [stream.add, stream.reader(b"one").read, stream.reader(b"two").read]
        links = [await Link.connect(self._server.port) for _ in tasks]
        replies_left = self._rng.choice([1, 10, 100, 300, 1000])
        replies_left += self._rng.randrange(replies_left)

        def on_reply() -> None:
            nonlocal replies_left
            replies_left -= 1
            if replies_left == 0:
                self._stop_somehow()

        ends = await asyncio.gather(
            *(task(link, on_reply) for task, link in zip(tasks, links, strict=True)),
            return_exceptions=True,
        )
        for link in links:
            link.close()
        for end in ends:
            if not isinstance(end, OSError):
                assert end is not None
                raise end

    def _stop_somehow(self) -> None:
        """Mostly a crash, sometimes one in the middle of a shutdown, sometimes a clean end."""
        process, kind = self._server.process, self._rng.random()
        self._is_clean_end = kind < 0.1
        if kind < 0.2:
            process.send_signal(signal.SIGTERM)
        if not self._is_clean_end:
            process.kill()

    def _crash_while_starting(self) -> None:
        """Recovery itself is interrupted, at about the moment when it opens the file."""
        lock = Path(f"{self._server.db}-lock")
        lock.unlink(missing_ok=True)
        process = self._server.spawn_only()
        wait_until(lambda: lock.exists() or process.poll() is not None, "the file is opened")
        process.kill()
        process.wait()

    def _check_copy(self) -> None:
        """Check a copy of the files that the crash left; the files stay untouched."""
        copy = self._server.folder / "copy.db"
        for suffix in ("", "-wal"):
            source = Path(f"{self._server.db}{suffix}")
            if source.exists():
                shutil.copyfile(source, f"{copy}{suffix}")
        check_rows(copy)
        assert check_file(copy) == []
        for path in copy.parent.glob("copy.db*"):
            path.unlink()


def crash(rng: random.Random, folder: Path, cycles: int) -> None:
    crashes = Crashes(rng, folder)
    for _ in range(cycles):
        crashes.cycle()


@pytest.mark.timeout(300)
def test_acknowledged_writes_survive_sigkill(rng: random.Random, tmp_path: Path) -> None:
    crash(rng, tmp_path / "server", CYCLES)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("part", range(PARTS))
def test_acknowledged_writes_survive_sigkill_again_and_again(
    part: int, rng: random.Random, tmp_path: Path
) -> None:
    crash(rng, tmp_path / "server", MANY_CYCLES // PARTS)
