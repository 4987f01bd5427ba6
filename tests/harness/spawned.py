"""Processes that use libraries of other projects, started as a user would start them.

They import the libraries from build/libraries (scripts/install-libraries); the tests themselves
never import these.
"""

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NO_LIBRARY = "a library is not installed: see scripts/install-libraries"


def library(name: str) -> Path:
    """The folder of an installed library. If it is not installed, the test is skipped."""
    folder = ROOT / "build" / "libraries" / name
    if not (folder / ".installed").exists():
        pytest.skip(f"{NO_LIBRARY} ({name})")
    return folder


class Spawned:
    """The processes of one test. Their output goes to files in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(
        self, argv: Sequence[str], environment: Mapping[str, str], cwd: Path
    ) -> subprocess.Popen[bytes]:
        with (self._folder / f"output-{len(self._processes)}").open("wb") as file:
            process = subprocess.Popen(
                argv,
                cwd=cwd,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # so that all that it starts can be ended with it
            )
        self._processes.append(process)
        return process

    def output(self, process: subprocess.Popen[bytes]) -> str:
        """All that the process has printed so far."""
        path = self._folder / f"output-{self._processes.index(process)}"
        return path.read_text(errors="replace")

    def end_all(self) -> None:
        for process in self._processes:
            _end(process)

    def said(self) -> str:
        """The last output of each process, for a test that has failed."""
        return "\n".join(
            f"{process.args!r}:\n{self.output(process)[-4000:]}" for process in self._processes
        )


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process and all that it has started. A child may have a group of its own, but it is in
    the session of the process."""
    while members := list(_session(process.pid)):
        for pid in members:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    process.wait()  # not earlier: the number may belong to another process then


def _session(session: int) -> Iterator[int]:
    """The processes of a session that still run."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, _, of = path.read_text().rpartition(")")[2].split()[:4]
            if int(of) == session and state not in ("Z", "X"):
                yield int(path.parent.name)
