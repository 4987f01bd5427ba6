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
def filled(count):
    objects = [b"%0400d" % number for number in range(count)]
    assert all(text == b"%0400d" % number for number, text in enumerate(objects))
    return objects

def show():
    with open("/proc/self/maps") as lines:
        print(megabytes("AnonHugePages:"), megabytes("Rss:"), len(list(lines)))

objects = filled(200_000)
show()
objects = [text for text in objects if id(text) >> 20 & 1]  # every second arena
more = filled(200_000 - len(objects))
show()
del before
objects.clear()
more.clear()
show()
filled(200_000)
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
    huge, resident, mappings, huge_again, resident_again, _, huge_left, resident_left, _ = run()
    assert resident > 80
    assert resident_again < resident + 10, "what was free is used first"
    assert resident_left < resident / 2, "also that of arenas from before"
    assert mappings < 200
    if "[never]" not in (SETTINGS / "enabled").read_text():
        assert huge > 60
        assert huge_again > 60
        assert huge_left < huge / 2
