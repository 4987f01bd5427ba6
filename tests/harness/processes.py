"""Real server processes for tests: ours, and redis-server as the oracle.

Each listens on a free loopback port, keeps its files in a given folder, and is stopped by its own
pid. The output of a server goes to files, because a pipe could fill up and block it.
"""

import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from tests.harness.rawclient import RawClient

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 30.0
NO_ORACLE = "redis-server is not installed: there is nothing to compare with"


def free_port() -> int:
    """A port that is free now. Another process may take it a moment later, so the caller must be
    ready to try again."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def steady_port() -> int:
    """A free port that a server can use again after a restart.

    It is below the ports that the kernel gives to outgoing connections. While the server is
    stopped, another process could get one of those, even a client that connects to itself.
    """
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with socket.socket() as sock:
            try:
                sock.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def wait_until(predicate: Callable[[], bool], what: str, timeout_s: float = 20.0) -> None:
    """Wait for a change in another process. For a change in this process, await it instead."""
    deadline = time.monotonic() + timeout_s
    while not predicate():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s} s: {what}")
        time.sleep(0.005)


def threads_of(pid: int) -> dict[str, str]:
    """By thread: the place in the kernel at which it waits, such as a sync of the disk; "0" if it
    runs. Empty if the system does not tell it."""
    with suppress(OSError):
        tasks = [*Path(f"/proc/{pid}/task").iterdir()]
        return {
            f"{task.name} {(task / 'comm').read_text().strip()}": (task / "wchan").read_text()
            for task in tasks
        }
    return {}


class ServerProcess:
    """The common part of both kinds of servers. Use as a context manager."""

    _ready: re.Pattern[str]  # matches the output of the server when it accepts connections

    def __init__(self, folder: Path, *args: str) -> None:
        self.folder = folder
        self.args = args
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._clients: list[RawClient] = []

    def __enter__(self) -> Self:
        if self._process is None:
            self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        for client in self._clients:
            client.close()
        self.kill()

    def start(self) -> None:
        raise NotImplementedError

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "the server was never started"
        return self._process

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def stdout(self) -> str:
        """The output of the current process so far."""
        return (self.folder / "stdout").read_text(errors="replace")

    @property
    def stderr(self) -> str:
        """The error output of this server so far, including earlier runs."""
        return (self.folder / "stderr").read_text(errors="replace")

    def client(self, timeout_s: float = 20.0) -> RawClient:
        """A new connection, closed with the server unless the test closes it first."""
        client = RawClient.connect(self.port, timeout_s)
        self._clients.append(client)
        return client

    def kill(self) -> None:
        """Send SIGKILL, as in a crash. Connections stay open, so the test can read earlier
        replies."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def suspend(self) -> None:
        """Send SIGSTOP: connections stay open, and the kernel accepts data for the server."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def terminate(self) -> int:
        """Send SIGTERM. Returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            doing = threads_of(self.pid)
            self.kill()
            raise AssertionError(f"still running after SIGTERM: {doing} {self._said()}") from None

    def restart(self) -> None:
        """Start again on the same files and another port, after SIGTERM if it still runs."""
        if self.running:
            self.terminate()
        self.start()

    def _spawn(self, argv: list[str], env: dict[str, str] | None = None) -> re.Match[str] | None:
        """Start a process and wait until it is ready. None if it exits before that."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "stdout").open("wb") as out, (self.folder / "stderr").open("ab") as err:
            self._process = process = subprocess.Popen(
                argv, cwd=self.folder, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err
            )
        found: re.Match[str] | None = None

        def ready_or_gone() -> bool:
            nonlocal found
            gone = process.poll() is not None
            found = self._ready.search(self.stdout)
            return gone or found is not None

        try:
            wait_until(ready_or_gone, "the server is ready", START_TIMEOUT_S)
        except BaseException as error:  # also if pytest's timeout or ^C ends the wait
            self.kill()
            error.add_note(self._said())
            raise
        return found

    def _said(self) -> str:
        code = self.process.returncode
        return f"exit code {code}\nstdout: {self.stdout}\nstderr: {self.stderr}"


class HoldfastServer(ServerProcess):
    """`python -m holdfast serve`. Its file is in `folder` unless `db` names another place."""

    _ready = re.compile(r"holdfast \S+ ready on (?P<where>.*) \(db: .*\)\n")

    def __init__(
        self,
        folder: Path,
        *args: str,
        db: Path | str | None = None,
        env: dict[str, str] | None = None,
        python: str = sys.executable,
    ) -> None:
        super().__init__(folder, *args)
        self.db = str(db or folder / "holdfast.db")
        self._env = os.environ | (env or {})
        self._python = python

    def start(self) -> None:
        serve = [self._python, "-m", "holdfast", "serve", "--port", "0", "--db", self.db]
        ready = self._spawn([*serve, *self.args], self._env)
        assert ready is not None, f"holdfast did not start: {self._said()}"
        port = re.search(r":(\d+)(,|$)", ready["where"])
        self.port = int(port[1]) if port else 0  # it may listen only on a unix socket


class SteadyServer(HoldfastServer):
    """A server that has the same port after a restart, like most real servers."""

    def __init__(self, folder: Path, *args: str) -> None:
        super().__init__(folder, "--port", str(steady_port()), *args)

    def crash(self) -> None:
        """Send SIGKILL, and start again."""
        self.kill()
        self.start()


class RedisServer(ServerProcess):
    """redis-server, without persistence unless `args` ask for it. If it is not installed, the test
    is skipped."""

    _ready = re.compile("Ready to accept connections")

    def start(self) -> None:
        if shutil.which("redis-server") is None:
            pytest.skip(NO_ORACLE)
        options = ["--bind", "127.0.0.1", "--save", "", "--enable-debug-command", "yes"]
        # redis cannot choose a port itself, and another process may take the port of free_port()
        # first
        for _ in range(5):
            self.port = free_port()
            argv = ["redis-server", "--port", str(self.port), *options, *self.args]
            if self._spawn(argv):
                return
        raise AssertionError(f"redis-server did not start: {self._said()}")
