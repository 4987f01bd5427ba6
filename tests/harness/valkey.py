"""valkey-server, for commands that redis-server does not have and for the client.

It takes part if a `valkey-server` is in the PATH, or was fetched by scripts/install-valkey.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.harness.processes import RedisServer, free_port

NO_VALKEY = "valkey-server is not installed: there is nothing to compare with"


def find_valkey() -> str | None:
    """A valkey-server that runs on this system."""
    fetched = (Path(__file__).parents[2] / "build/valkey").glob("*/_binaries/*/valkey-server")
    for path in (shutil.which("valkey-server"), *map(str, fetched)):
        try:
            if path and not subprocess.run([path, "--version"], capture_output=True).returncode:
                return path
        except OSError:
            continue
    return None


VALKEY = find_valkey()


class ValkeyServer(RedisServer):
    """valkey-server. If it is not installed, the test is skipped."""

    def start(self) -> None:
        if VALKEY is None:
            pytest.skip(NO_VALKEY)
        options = ("--bind", "127.0.0.1", "--save", "", *self.args)
        for _ in range(5):  # another process may have taken the port
            self.port = free_port()
            if self._spawn([VALKEY, "--port", str(self.port), *options]):
                return
        raise AssertionError(self._said())
