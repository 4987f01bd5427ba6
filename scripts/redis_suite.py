"""Runs the tests of Redis itself, which are written in Tcl, against Holdfast, and scores it.

The tests are not part of this repository. REDIS_TESTS names a folder that has them: `tcl_score.py`,
which runs and scores them, and beside it `redis-7.0.15` with the `tests` of that version. Without
REDIS_TESTS, ../shared/compat is used if it is there.

Usage: python -m scripts.redis_suite [profile ...] [argument of tcl_score.py ...]
The profiles are core, all, debug, forced and replication; without one, the first four run. The
profile replication has the tests that start servers by themselves: its arguments are the names of
units, and `--server PROGRAM`, which is tested instead of Holdfast. docs/compatibility.md has the
tests that do not pass, and why.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Never

from scripts import redis_suite_servers

PROFILES = ("core", "all", "debug", "forced")
ENOUGH_PERCENT = 99.0
ENOUGH_REPLICATION_PERCENT = 90.0
DEFAULT_FOLDER = Path(__file__).parents[2] / "shared" / "compat"
# A new server with a new file for each file of tests. Its standard settings are not changed.
SERVE = (
    f"sh -c 'rm -f suite.db*; exec {sys.executable} -m holdfast serve --port {{port}}"
    " --db suite.db --pidfile suite.pid --enable-debug-command yes'"
)


def main(argv: list[str]) -> int:
    if "replication" in argv:
        return main_servers([word for word in argv if word != "replication"])
    profiles = [word for word in argv if word in PROFILES] or PROFILES
    options = [word for word in argv if word not in PROFILES]
    score = find("tcl_score.py")
    percents = [percent_of(profile, score, options) for profile in profiles]
    return int(min(percents) < ENOUGH_PERCENT)


def main_servers(argv: list[str]) -> int:
    server = None
    if "--server" in argv[:-1]:
        at = argv.index("--server")
        server = argv[at + 1]
        del argv[at : at + 2]
    tests = find("redis-7.0.15/tests/test_helper.tcl").parent
    return int(redis_suite_servers.run(tests, argv, server) < ENOUGH_REPLICATION_PERCENT)


def find(name: str) -> Path:
    path = Path(os.environ.get("REDIS_TESTS") or DEFAULT_FOLDER, name).absolute()
    if not path.is_file():
        fail(2, f"{path} does not exist; let REDIS_TESTS name a folder that has it")
    if shutil.which("tclsh") is None:
        fail(1, "tclsh is missing; on Debian and Ubuntu: apt-get install tcl")
    return path


def percent_of(profile: str, score: Path, options: list[str]) -> float:
    """Run a profile. Returns the percentage of its tests that pass."""
    print(f"\nprofile {profile}", flush=True)  # noqa: T201 - a program
    argv = [sys.executable, str(score), f"127.0.0.1:{free_port()}", "--profile", profile, "-v"]
    argv += ["--spawn", SERVE, *options]
    with tempfile.TemporaryDirectory(prefix="redis-suite-") as folder:
        last = ""
        try:
            with subprocess.Popen(argv, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
                assert process.stdout is not None
                try:
                    for last in process.stdout:
                        print(last, end="", flush=True)  # noqa: T201
                except BaseException:  # Ctrl-C, or a reader of this output that left
                    process.kill()
                    raise
        finally:
            end_server(folder)
    found = re.search(r"([\d.]+)%$", last.rstrip())
    if found is None:
        fail(1, f"{score} has not come to its end")
    return float(found[1])


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port: int = sock.getsockname()[1]
        return port


def end_server(folder: str) -> None:
    """End the server that an interrupted run has left behind. If another process has its number by
    now, that process does not run in the folder."""
    with suppress(OSError, ValueError):
        pid = int(Path(folder, "suite.pid").read_text())
        if os.path.samefile(f"/proc/{pid}/cwd", folder):
            os.kill(pid, signal.SIGKILL)


def fail(status: int, sentence: str) -> Never:
    print(f"redis-suite: {sentence}", file=sys.stderr)  # noqa: T201
    sys.exit(status)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # Python would complain about it at its end
        sys.exit(1)
