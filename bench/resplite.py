"""RESPLite, another server of Redis's protocol on SQLite (npm: resplite), for the benchmarks.

`installed` puts it below `build/` with npm. If that fails, the benchmarks run without it and report
the reason in one sentence.
"""

import os
import shutil
import subprocess
from pathlib import Path

from bench.common import ROOT, run
from tests.harness import RawClient
from tests.harness.processes import START_TIMEOUT_S, ServerProcess, free_port, wait_until

HOME = ROOT / "build" / "resplite"
PACKAGE = HOME / "node_modules" / "resplite"
MODES = ("default", "performance")  # of its PRAGMAs: synchronous is NORMAL, or OFF


def installed() -> str | None:
    """Install it if necessary. Returns the reason of a failure, or None."""
    if PACKAGE.exists():
        return None
    for program in ("npm", "node"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    HOME.mkdir(parents=True, exist_ok=True)
    quiet = ("--no-audit", "--no-fund", "--loglevel=error")
    done = run("npm", "install", *quiet, "--prefix", str(HOME), "resplite")
    if done.returncode == 0 and PACKAGE.exists():
        return None
    said = [line for line in done.stderr.splitlines() if line.startswith("npm error")]
    return f"npm cannot install it: {said[1] if len(said) > 1 else done.stderr.strip()[:200]}"


class Resplite(ServerProcess):
    def __init__(self, folder: Path, mode: str) -> None:
        super().__init__(folder)
        self._mode = mode

    def start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        env = os.environ | {
            "RESPLITE_PORT": str(self.port),
            "RESPLITE_DB": str(self.folder / "data.db"),
            "RESPLITE_PRAGMA_TEMPLATE": self._mode,
        }
        with (self.folder / "stdout").open("wb") as out, (self.folder / "stderr").open("ab") as err:
            self._process = subprocess.Popen(
                ["node", str(PACKAGE / "src" / "index.js")],
                cwd=self.folder,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
            )
        wait_until(self._answers, "RESPLite answers", START_TIMEOUT_S)

    def _answers(self) -> bool:
        assert self.running, f"RESPLite has ended: {self.stderr[-1000:]}"
        try:
            with RawClient.connect(self.port) as client:
                return client.command("PING") == b"+PONG\r\n"
        except OSError:
            return False
