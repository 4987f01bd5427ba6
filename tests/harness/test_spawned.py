"""Processes of a test end with it, and so does all that they have started."""

import os
import sys
from pathlib import Path

from tests.harness import wait_until
from tests.harness.spawned import Spawned

PARENT = """
import os, time
if not (child := os.fork()):
    os.setpgid(0, 0)  # as the process that runs a job of RQ
else:
    print(child, flush=True)
time.sleep(600)
"""


def test_a_child_in_a_group_of_its_own_ends_too(tmp_path: Path) -> None:
    spawned = Spawned(tmp_path)
    process = spawned.start([sys.executable, "-c", PARENT], os.environ, tmp_path)
    wait_until(lambda: spawned.output(process).endswith("\n"), "the child has a number")
    child = Path("/proc", spawned.output(process).strip())
    wait_until(lambda: os.getpgid(int(child.name)) == int(child.name), "the child has a group")
    spawned.end_all()
    wait_until(lambda: not child.exists() or ") Z " in (child / "stat").read_text(), "it has ended")
