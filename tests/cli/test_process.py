"""The end of the process: at once for the program, and never for a program that calls it."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

HOST = """
import atexit, sys
from holdfast.cli.main import main
atexit.register(print, "freed", flush=True)
sys.argv = ["holdfast", "serve", "--port", "0", "--db", sys.argv[1], "--logfile", sys.argv[2]]
code = main({argument})
print("went on", flush=True)
sys.exit(code)
"""


@pytest.mark.parametrize("is_host", [False, True])
def test_a_server_ends_its_own_process_at_once_and_no_other(tmp_path: Path, is_host: bool) -> None:
    db, log = tmp_path / "a.db", tmp_path / "log"
    host = HOST.format(argument="sys.argv[1:]" if is_host else "")
    with subprocess.Popen(
        [sys.executable, "-c", host, db, log], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert "ready" in process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        rest = process.stdout.read()
    assert process.returncode == 0
    assert rest == ("went on\nfreed\n" if is_host else "")
    assert "stopped" in log.read_text(), "the log is complete"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.db", "log"]
