"""Runs the tests of a project in a pytest of its own, as its developer would."""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.harness.spawned import library as folder_of

ROOT = Path(__file__).parents[2]
LIBRARIES = ROOT / "build" / "libraries"
TIMEOUT_S = 100.0


class Outcome(NamedTuple):
    code: int
    text: str

    @property
    def results(self) -> dict[str, str]:
        """By test: PASSED, FAILED or ERROR."""
        found = re.findall(
            r"^(PASSED|FAILED|ERROR) \S*?::(.*?)(?: - .*)?$", self.text, re.MULTILINE
        )
        return {test: result for result, test in found}


def argv(*args: str) -> list[str]:
    """pytest finds the plugin by the entry point of the installed package."""
    return [sys.executable, "-m", "pytest", "-rA", "--color=no", *args]


def environment(folder: Path, libraries: Sequence[str] = ()) -> dict[str, str]:
    """Skips the test if a library is not installed."""
    paths = [folder, *map(folder_of, libraries), ROOT]
    inherited = os.environ.get("PYTHONPATH")
    return os.environ | {
        "PYTHONPATH": os.pathsep.join([*map(str, paths), *([inherited] if inherited else [])]),
        "PYTEST_ADDOPTS": "",
    }


def run_project(folder: Path, *args: str, libraries: Sequence[str] = ()) -> Outcome:
    env = environment(folder, libraries)
    done = subprocess.run(
        argv(*args), cwd=folder, env=env, capture_output=True, text=True, timeout=TIMEOUT_S
    )
    return Outcome(done.returncode, done.stdout + done.stderr)
