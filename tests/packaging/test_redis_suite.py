"""scripts/redis_suite.py without the tests of Redis: what it asks for, and what a score means."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.redis_suite_servers import read

ROOT = Path(__file__).parents[2]
SCORE = """
import sys
print(sys.argv[1:])
print("TOTAL  5 /  6     1     0     0        0     0    0.1  {percent}%")
"""


def run(folder: Path, *argv: str, path: str = "") -> subprocess.CompletedProcess[str]:
    environ = os.environ | {"REDIS_TESTS": str(folder), "PATH": path or str(folder)}
    command = [sys.executable, "-m", "scripts.redis_suite", *argv]
    return subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True)


def prepare(folder: Path, percent: float) -> None:
    (folder / "tcl_score.py").write_text(SCORE.format(percent=percent))
    (folder / "tclsh").touch(0o755)


@pytest.mark.parametrize(("percent", "status"), [(99.0, 0), (98.99, 1)])
def test_a_score_below_99_percent_is_a_failure(tmp_path: Path, percent: float, status: int) -> None:
    prepare(tmp_path, percent)
    done = run(tmp_path, "debug", "--units", "tracking")
    assert done.returncode == status
    assert "'--profile', 'debug'" in done.stdout
    assert "'--units', 'tracking'" in done.stdout
    assert done.stdout.count("TOTAL") == 1


def test_without_a_profile_all_run(tmp_path: Path) -> None:
    prepare(tmp_path, 100)
    assert run(tmp_path).stdout.count("TOTAL") == 4


def test_it_says_what_is_missing(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith("does not exist; let REDIS_TESTS name a folder that has it\n")
    prepare(tmp_path, 100)
    (tmp_path / "tclsh").unlink()
    done = run(tmp_path)
    assert done.returncode == 1
    assert "tclsh is missing" in done.stderr


def test_a_run_that_breaks_off_is_a_failure(tmp_path: Path) -> None:
    prepare(tmp_path, 100)
    (tmp_path / "tcl_score.py").write_text("raise SystemExit(3)")
    done = run(tmp_path, "core")
    assert done.returncode == 1
    assert "has not come to its end" in done.stderr


def test_a_test_that_fails_counts_once() -> None:
    """Redis prints the error of a command as a line that looks like a test, before that of the test
    in which it came."""
    lines = (
        "\x1b[0;32m[ok]\x1b[0m: A key (that is large) (12 ms)",
        "\x1b[0;31m[err]\x1b[0m: reading reply",
        "I/O error reading reply",
        "[err]: A stop (sigterm) in tests/integration/shutdown.tcl",
        "[exception]: Executing test client: no such file",
        "The End",
        "[err]: A stop (sigterm) in tests/integration/shutdown.tcl",
    )
    found = [(each.test, each.passed) for each in read("a unit", iter(lines))]
    assert found == [
        ("A key (that is large)", True),
        ("A stop (sigterm)", False),
        ("[exception]: Executing test client: no such file", False),
    ]
