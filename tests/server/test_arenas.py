"""Python's objects lie in large pages, and what they took is given back."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.server.huge_pages import SETTINGS

_arenas = pytest.importorskip("holdfast.server._arenas")

# In a process of its own: there is no way back.
PROGRAM = """
from holdfast.server.huge_pages import use_large_arenas

def megabytes(what):
    with open("/proc/self/smaps") as lines:
        return sum(int(line.split()[1]) for line in lines if line.startswith(what)) // 1024

before = [bytes(400) for _ in range(20_000)]
assert use_large_arenas()
objects = [b"%0400d" % number for number in range(200_000)]
print(megabytes("AnonHugePages:"), megabytes("Rss:"))
assert all(text == b"%0400d" % number for number, text in enumerate(objects))
del before
objects.clear()
print(megabytes("AnonHugePages:"), megabytes("Rss:"))
more = [b"%0400d" % number for number in range(200_000)]
assert all(text == b"%0400d" % number for number, text in enumerate(more))
"""


def run() -> list[int]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return list(map(int, re.findall(r"\d+", done.stdout)))


def test_objects_are_in_large_pages_and_memory_comes_back() -> None:
    if not Path("/proc/self/smaps").exists() or not SETTINGS.exists():
        pytest.skip("this system does not tell")
    huge, resident, huge_left, resident_left = run()
    assert resident > 80
    assert resident_left < resident / 2, "also that of arenas from before"
    if "[never]" not in (SETTINGS / "enabled").read_text():
        assert huge > 60
        assert huge_left < huge / 2
