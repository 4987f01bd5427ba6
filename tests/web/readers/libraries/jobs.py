"""The jobs of every library in these tests. This module runs in the processes of the libraries."""

import os
import time
from pathlib import Path

URL = os.environ.get("REDIS_URL", "")
FIRST, SECOND = "first", "second"
LATER_S = 3600


def add(left: int, right: int) -> int:
    return left + right


def fail(why: str) -> None:
    raise ValueError(why)


def hold(name: str) -> str:
    """Say that the job runs, and run until the test ends the process."""
    Path(os.environ["HELD"]).write_text(name)
    while True:
        time.sleep(0.05)
