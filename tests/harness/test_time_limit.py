"""A test that hangs ends, wherever it hangs."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.source_only

HANGS = """
import asyncio


def test_that_hangs_in_a_callback():
    async def main():
        asyncio.get_running_loop().call_soon(hang)
        await asyncio.sleep(3600)

    def hang():
        while True:
            pass

    asyncio.run(main())


def test_after_it():
    pass
"""


def test_a_callback_that_hangs_ends_with_its_process(tmp_path: Path) -> None:
    """The loop swallows the exception of pytest-timeout; the next test runs all the same."""
    (tmp_path / "test_hangs.py").write_text(HANGS)
    options = ("-p", "tests.harness.time_limit", "-o", "timeout=1", "-o", "timeout_grace=1")
    argv = [sys.executable, "-m", "pytest", "-q", "-n", "1", "--rootdir", str(tmp_path), *options]
    run = subprocess.run([*argv, str(tmp_path)], cwd=ROOT, capture_output=True, text=True)
    assert "1 failed, 1 passed" in run.stdout, run.stdout + run.stderr
    assert "test_that_hangs_in_a_callback" in run.stdout
