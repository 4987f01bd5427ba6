"""Servers in the view of a test session. Their processes belong to `spawner`."""

import json
import os
import select
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

from holdfast.errors import UnavailableError
from holdfast.testing.log_tails import LogTails

REPLY_TIMEOUT_S = 60.0
CLOSE_TIMEOUT_S = 10.0

Option = str | int


class DisposableServer:
    """A server process for one test. Use it with `with`, unless a fixture made it."""

    def __init__(self, servers: "Servers", options: dict[str, Option]) -> None:
        self._servers = servers
        self._options = options
        self.host = "127.0.0.1"
        self.port = 0
        self.pid = 0
        self.folder = Path()
        self._start()

    @property
    def url(self) -> str:
        """The address for `holdfast.connect`, redis-py, Celery and others."""
        password = str(self._options.get("requirepass", ""))
        login = f":{quote(password, safe='')}@" if password else ""
        return f"redis://{login}{self.host}:{self.port}/0"

    @property
    def log(self) -> str:
        """All lines that the server has logged so far."""
        return (self.folder / "log").read_text(errors="replace")

    def kill(self) -> None:
        """End the process with SIGKILL, as a crash does. Its file stays until the test ends."""
        self._servers.ask("kill", pid=self.pid)

    def restart(self) -> None:
        """Kill the server and start it again: the same file, the same port, the same options.

        With `db=":memory:"`, the default, it has lost all data.
        """
        if not self.folder.is_dir():
            raise UnavailableError("the server is closed: its files are gone")
        self.kill()
        self._start()

    def close(self) -> None:
        """Kill the server and remove its files."""
        self._servers.logs.closed(self.folder)
        self._servers.ask("end", pid=self.pid, folder=str(self.folder))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            self._servers.logs.keep(self.folder)
        self.close()

    def _start(self) -> None:
        options = self._options | ({"port": self.port} if self.port else {})
        folder = str(self.folder) if self.pid else None
        started = self._servers.ask("start", options=options, folder=folder)
        self.pid, self.port = started["pid"], started["port"]
        self.folder = Path(started["folder"])


class Servers:
    """Starts as many servers as a test needs. Safe to use from several threads.

    The first server takes as long as a start of Python; every other takes a few milliseconds.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._requests = 0
        self.logs = LogTails()

    def start(self, **options: Option) -> DisposableServer:
        """Start a server with an empty database, on a free port.

        `options` are configuration parameters with `_` for `-`, and True for yes, as in
        `holdfast.open`. A relative `db` is a file in the folder of the server. Raises
        UnavailableError.
        """
        server = DisposableServer(self, options)
        self.logs.opened(server.folder, server.port)
        return server

    def close(self) -> None:
        """Kill all servers and remove their files. Idempotent."""
        if self._process is None:
            return
        process, self._process = self._process, None
        with process:
            assert process.stdin is not None
            try:
                process.stdin.close()
                process.wait(CLOSE_TIMEOUT_S)
            except (BrokenPipeError, subprocess.TimeoutExpired):
                process.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        """Send a request to the spawner and wait for the reply. `DisposableServer` uses it."""
        with self._lock:
            process = self._spawner()
            self._requests += 1
            request = {"id": self._requests, "do": do, **arguments}
            reply = _exchange(process, request)
            if reply is None:
                process.kill()  # the next request starts another one
                raise UnavailableError("the process that starts the servers does not answer")
        if "error" in reply:
            raise UnavailableError(str(reply["error"]))
        return reply

    def _spawner(self) -> subprocess.Popen[bytes]:
        """The process, which is started when it is needed, and again if it has died."""
        if self._process is not None and self._process.poll() is not None:
            self.close()
        if self._process is None:
            # -P: a module in the working folder must not hide one of the standard library. The
            # process has a session of its own, because ^C in the terminal is for pytest, which ends
            # the servers last.
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "holdfast.testing.spawner"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,
            )
        return self._process


def _exchange(process: subprocess.Popen[bytes], request: dict[str, Any]) -> dict[str, Any] | None:
    """Send a request. None if the process is dead or silent."""
    assert process.stdin is not None
    assert process.stdout is not None
    stdout = process.stdout.fileno()
    received = b""
    try:
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()
        while select.select([stdout], [], [], REPLY_TIMEOUT_S)[0]:
            part = os.read(stdout, 65536)
            if not part:
                return None
            *lines, received = (received + part).split(b"\n")
            for reply in map(json.loads, lines):
                # other replies belong to requests that were interrupted
                if reply["id"] == request["id"]:
                    assert isinstance(reply, dict)
                    return reply
    except BrokenPipeError:
        pass
    return None
