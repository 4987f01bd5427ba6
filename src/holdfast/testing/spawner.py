"""The process that a test session asks for servers: `python -m holdfast.testing.spawner`.

It imports the server once and forks it for each test: a start of Python with all imports takes much
longer than a fork. A test gets a process of its own, so it leaves nothing behind for the next test.
SIGKILL ends that process in any state. Decision 26 has the reasons.

Requests and replies are lines of JSON on stdin and stdout. Each has an id, because a session that
is interrupted does not read the reply to its last request.

No server outlives its session. The session holds the other end of stdin: when it dies, stdin ends,
and the spawner kills its servers and removes its folder. When the spawner dies, the servers notice
the end of its lifeline, a pipe.
"""

import asyncio
import gc
import json
import os
import re
import select
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Never

from holdfast import daemon
from holdfast.embedded import open_local
from holdfast.errors import HoldfastError
from holdfast.server.config.config import Config
from holdfast.server.version import why_not_compiled

START_TIMEOUT_S = 30.0
LOOK_FOR_PARENT_S = 1.0

DEFAULTS: dict[str, str | int] = {"bind": "127.0.0.1", "port": "0", "db": ":memory:"}

_READY = re.compile(rb" ready on [^ ]*:(\d+)\D")


class Started(NamedTuple):
    """A server that was forked and may not be ready yet."""

    pid: int
    folder: Path
    stdout: int


class Spawner:
    """The servers of one session. Their folders are below `folder`.

    A session only waits for replies. `tidy` does the rest while a test runs: it starts the server
    of the next test, and removes the files of the last one.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._folders = 0
        self._running: set[int] = set()
        self._spare: Started | None = None  # for the next test without options
        self._leftovers: list[tuple[int, str]] = []
        self._lifeline, self._held = os.pipe()  # nothing is written to it

    def start(self, options: dict[str, str | int], folder: str | None) -> dict[str, Any]:
        """Start a server and wait until it is ready. `folder` is that of an earlier server whose
        file it shall use."""
        if self._spare is not None and not options and folder is None:
            started, self._spare = self._spare, None
        else:
            started = self._fork(options, folder)
        try:
            port = _port_when_ready(started.stdout)
        finally:
            os.close(started.stdout)
        if port is None:
            self.kill(started.pid)
            return {"error": _last_line(started.folder / "log") or "the server did not start"}
        return {"pid": started.pid, "port": port, "folder": str(started.folder)}

    def kill(self, pid: int) -> None:
        """Kill a server. It may have ended by itself, but its process id stays reserved until this
        waits for it."""
        if pid in self._running:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            self._running.remove(pid)

    def end(self, pid: int, folder: str) -> None:
        """Kill a server. `tidy` waits for its end; the next server does not need that, because it
        has another port and folder."""
        if pid in self._running:
            os.kill(pid, signal.SIGKILL)
        self._leftovers.append((pid, folder))

    def tidy(self) -> None:
        while self._leftovers:
            pid, folder = self._leftovers.pop()
            self.kill(pid)
            shutil.rmtree(folder, ignore_errors=True)
        if self._spare is None:
            self._spare = self._fork({}, None)

    def close(self) -> None:
        for pid in [*self._running]:
            self.kill(pid)

    def _fork(self, options: dict[str, str | int], folder: str | None) -> Started:
        if folder is None:
            self._folders += 1
            folder = str(self._folder / str(self._folders))
            Path(folder).mkdir()
        stdout, tells = os.pipe()
        with Path(folder, "log").open("ab") as log:
            pid = os.fork()
            if pid == 0:
                os.close(self._held)
                self._serve(options | {"dir": folder}, tells, log.fileno())
        os.close(tells)
        self._running.add(pid)
        return Started(pid, Path(folder), stdout)

    def _serve(self, options: dict[str, str | int], tells: int, log: int) -> Never:
        """Run a server, in the new process."""
        status = 1
        try:
            nothing = os.open(os.devnull, os.O_RDONLY)
            for source, target in ((nothing, 0), (tells, 1), (log, 2)):
                os.dup2(source, target)
            os.close(tells)
            os.chdir(str(options["dir"]))
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            threading.Thread(target=self._die_with_the_spawner, daemon=True).start()
            status = daemon.run(Config(DEFAULTS | options))
        except HoldfastError as error:
            print(error, file=sys.stderr)  # noqa: T201 - the reply to the session has this line
        finally:
            sys.stderr.flush()
            os._exit(status)

    def _die_with_the_spawner(self) -> None:
        os.read(self._lifeline, 1)
        os.kill(os.getpid(), signal.SIGKILL)


def _port_when_ready(stdout: int) -> int | None:
    """The port of a server, from the line that it prints when it is ready. None if it fails."""
    printed = b""
    while b"\n" not in printed:
        if not select.select([stdout], [], [], START_TIMEOUT_S)[0]:
            return None
        part = os.read(stdout, 4096)
        if not part:
            return None
        printed += part
    found = _READY.search(printed)
    return int(found[1]) if found else None


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()
    return lines[-1] if lines else ""


def _requests() -> Iterator[dict[str, Any]]:
    """Yield requests until the session ends. A process that the session forked may keep the other
    end of stdin open for longer, so this also checks whether the parent still exists."""
    session = os.getppid()
    received = b""
    while os.getppid() == session:
        if not select.select([0], [], [], LOOK_FOR_PARENT_S)[0]:
            continue
        part = os.read(0, 65536)
        if not part:
            return
        *lines, received = (received + part).split(b"\n")
        yield from map(json.loads, lines)


def _answer(spawner: Spawner, request: dict[str, Any]) -> dict[str, Any]:
    match request["do"]:
        case "start":
            return spawner.start(request["options"], request["folder"])
        case "kill":
            spawner.kill(request["pid"])
        case "end":
            spawner.end(request["pid"], request["folder"])
    return {}


async def _warm_up() -> None:
    """Import all that a server imports at its start and for its first commands, including Lua."""
    why_not_compiled()
    async with open_local(":memory:") as database:
        await database.execute("EVAL", "return redis.call('SET', KEYS[1], 'v')", 1, "k")


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ^C is for the session, which closes stdin
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    asyncio.run(_warm_up())
    gc.collect()
    gc.freeze()  # the collector writes to objects that it examines, which would copy memory pages
    with tempfile.TemporaryDirectory(prefix="holdfast-tests-") as folder:
        spawner = Spawner(Path(folder))
        try:
            for request in _requests():
                try:
                    reply = _answer(spawner, request)
                # a full disk, or too many processes: other servers continue
                except OSError as error:
                    reply = {"error": f"the server did not start: {error}"}
                os.write(1, json.dumps(reply | {"id": request["id"]}).encode() + b"\n")
                with suppress(OSError):  # the next request will report it
                    spawner.tidy()
        except BrokenPipeError:
            pass  # the session is gone
        finally:
            spawner.close()


if __name__ == "__main__":
    main()
