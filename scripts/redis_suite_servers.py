"""Runs those tests of Redis that start servers by themselves: replication, RDB files, Sentinel.

They start `src/redis-server` with a configuration file. Here that program starts Holdfast.
A unit that stops making progress is ended, and the test in which it stopped counts as failed.
"""

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

CONVERSIONS = ("zipmap-hash", "ziplist-hash", "ziplist-zset")
UNITS = (
    *(f"integration/replication{end}" for end in ("", "-2", "-3", "-4", "-psync", "-buffer")),
    *(f"integration/psync2{end}" for end in ("", "-reg", "-pingoff", "-master-restart")),
    *("integration/block-repl", "integration/failover", "integration/shutdown", "integration/rdb"),
    *(f"integration/convert-{kind}-on-load" for kind in CONVERSIONS),
    *("integration/redis-cli", "unit/wait", "sentinel"),
)
SILENT_S = 240  # without a line
COLOURS = re.compile(r"\x1b\[[\d;]*m")
RESULT = re.compile(r"\[(ok|err|exception|TIMEOUT|ignore|skip)\]: (.*)")
SENTINEL_TEST = re.compile(r"\d\d:\d\d:\d\d> (.*?): (.*)")


class Result(NamedTuple):
    unit: str
    test: str
    passed: bool


def run(tests: Path, units: list[str], server: str | None) -> float:
    """Run the units. Returns the percentage of tests that pass. `server` is a program to test
    instead of Holdfast."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    results: list[Result] = []
    with tempfile.TemporaryDirectory(prefix="redis-suite-") as folder:
        prepare(Path(folder), tests, server)
        for unit in units or UNITS:
            results += run_unit(Path(folder), unit)
    for unit in units or UNITS:
        of_unit = [each.passed for each in results if each.unit == unit]
        print(f"{unit}: {sum(of_unit)} of {len(of_unit)}")  # noqa: T201
    for each in results:
        if not each.passed:
            print(f"failed: {each.unit}: {each.test}")  # noqa: T201
    passed = sum(each.passed for each in results)
    percent = 100 * passed / max(1, len(results))
    print(f"replication: {passed} of {len(results)}: {percent:.1f}%", flush=True)  # noqa: T201
    return percent


def prepare(folder: Path, tests: Path, server: str | None) -> None:
    """A folder that looks like the source of Redis after it was built."""
    shutil.copytree(tests, folder / "tests")
    (folder / "tests" / "tmp").mkdir(exist_ok=True)
    (folder / "tests" / "sentinel" / "tmp").mkdir(exist_ok=True)
    programs = folder / "src"
    programs.mkdir()
    redis = shutil.which("redis-server")
    for name, found in (
        ("redis-cli", shutil.which("redis-cli")),
        ("redis-benchmark", shutil.which("redis-benchmark")),
        ("redis-sentinel", redis),  # it does what its name says
    ):
        if found is not None:
            (programs / name).symlink_to(found)
    start = server or f"{sys.executable} {Path(__file__).parent / 'redis_server.py'}"
    wrapper = programs / "redis-server"
    wrapper.write_text(f'#!/bin/sh\nexec {start} "$@"\n')
    wrapper.chmod(0o755)


def run_unit(folder: Path, unit: str) -> list[Result]:
    if unit == "sentinel":
        argv = ["tclsh", "tests/sentinel/run.tcl"]
    else:
        argv = ["tclsh", "tests/test_helper.tcl", "--single", unit, "--clients", "1", "--durable"]
        argv += ["--timeout", str(SILENT_S), "--dump-logs"]
        # Two runs at the same time must not meet; above these ports are those of clients.
        argv += ["--baseport", str(random.randrange(12_000, 28_000)), "--portcount", "4000"]
    print(f"\n{unit}", flush=True)  # noqa: T201
    # A session of its own, so that servers that a test left behind can be ended.
    with subprocess.Popen(
        argv,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        try:
            return list(read(unit, process.stdout))
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def read(unit: str, lines: Iterator[str]) -> Iterator[Result]:
    ended = False
    begun = ""  # a test of Sentinel: servers may print lines before its result comes
    for raw in lines:
        line = COLOURS.sub("", raw.rstrip())
        print(line, flush=True)  # noqa: T201
        if "The End" in line or "Cleaning up" in line:
            ended = True
        if ended:
            continue
        if found := RESULT.match(line):
            word, test = found.groups()
            if word == "ok":
                yield Result(unit, test.rpartition(" (")[0] or test, passed=True)
            elif word == "err" and " in tests/" in test:  # other such lines tell more of it
                yield Result(unit, test.rpartition(" in tests/")[0], passed=False)
            elif word in ("exception", "TIMEOUT"):
                yield Result(unit, line, passed=False)
            continue
        if found := SENTINEL_TEST.match(line):
            if begun:
                yield Result(unit, begun, passed=False)
            begun, line = found.groups()
        if begun and (line.endswith("OK") or line.startswith("FAILED")):
            yield Result(unit, begun, passed=line.endswith("OK"))
            begun = ""
