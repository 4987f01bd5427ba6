"""An example of examples/, run as its README says, beside a server of its own.

The files run where they are, unmodified. A test may only start commands that the README shows.
"""

import http.client
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from tests.harness import wait_until
from tests.harness.processes import SteadyServer, steady_port
from tests.harness.spawned import ROOT, Spawned, library

TIMEOUT_S = 120.0
Process = subprocess.Popen[bytes]


class Example:
    """Use as a context manager: all processes are stopped at its end."""

    def __init__(self, name: str, folder: Path) -> None:
        self.path = ROOT / "examples" / name
        lines = (self.path / "requirements.txt").read_text().splitlines()
        needs_more = any(not line.startswith("#") for line in lines)
        self._libraries = [library(f"example-{name}")] if needs_more else []
        self._commands = commands_in((self.path / "README.md").read_text())
        self._spawned = Spawned(folder)
        self.server = SteadyServer(folder / "server")

    def __enter__(self) -> Self:
        self.server.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._spawned.end_all()
        with self.server:  # stops it
            pass
        # pytest shows it if the test has failed
        print(f"{self._spawned.said()}\nthe server: {self.server.stderr}")  # noqa: T201

    def start(self, command: str, *more: str, **variables: str) -> Process:
        """A command of the README, with further arguments and environment variables."""
        assert any(command in shown for shown in self._commands), f"not in README.md: {command}"
        path = [str(folder / "bin") for folder in self._libraries]
        path += [str(Path(sys.executable).parent), os.environ["PATH"]]
        python_path = [*map(str, self._libraries), os.environ.get("PYTHONPATH", "")]
        environment = os.environ | {
            "HOLDFAST_URL": f"redis://127.0.0.1:{self.server.port}",
            "PATH": os.pathsep.join(path),
            "PYTHONPATH": os.pathsep.join(filter(None, python_path)),
            "PYTHONUNBUFFERED": "1",
        }
        argv = [*shlex.split(command), *more]
        return self._spawned.start(argv, environment | variables, self.path)

    def run(self, command: str, *more: str, **variables: str) -> str:
        """The output of a command that succeeds."""
        process = self.start(command, *more, **variables)
        assert process.wait(TIMEOUT_S) == 0, self.output(process)
        return self.output(process)

    def output(self, process: Process) -> str:
        return self._spawned.output(process)

    def wait_for(self, process: Process, text: str) -> None:
        """Until the process has printed this."""

        self._wait(process, lambda: text in self.output(process), f"it prints {text!r}")

    def serve(self, command: str, option: str = "--port") -> "Web":
        """A command that answers HTTP on a port of its own, which comes after `option`."""
        web = Web(steady_port())
        process = self.start(command, option, str(web.port))
        self._wait(process, web.is_up, "it answers")
        return web

    def _wait(self, process: Process, predicate: Callable[[], bool], what: str) -> None:
        def is_so_or_gone() -> bool:
            is_gone = process.poll() is not None  # first, so that its last words count
            return predicate() or is_gone

        wait_until(is_so_or_gone, f"{process.args!r}: {what}", TIMEOUT_S)
        assert predicate(), f"{process.args!r} has ended: {self.output(process)}"


def commands_in(readme: str) -> list[str]:
    (block,) = re.findall(r"^```sh\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    return [re.sub(r"\s+#.*", "", line) for line in block.splitlines()]


class Reply(NamedTuple):
    status: int
    headers: http.client.HTTPMessage
    text: str

    def json(self) -> Any:
        return json.loads(self.text)


class Web:
    """Requests to a port of this machine, each on a connection of its own."""

    def __init__(self, port: int) -> None:
        self.port = port

    def is_up(self) -> bool:
        try:
            self.get("/no-such-page")
        except OSError:
            return False
        return True

    def get(self, path: str, **headers: str) -> Reply:
        return self._request("GET", path, None, headers)

    def post(self, path: str, body: str = "", **headers: str) -> Reply:
        return self._request("POST", path, body, headers)

    def _request(self, method: str, path: str, body: str | None, headers: dict[str, str]) -> Reply:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT_S)
        try:
            names = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body, names)
            response = connection.getresponse()
            return Reply(response.status, response.headers, response.read().decode())
        finally:
            connection.close()
