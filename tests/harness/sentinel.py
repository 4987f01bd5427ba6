"""A real sentinel."""

import re
from pathlib import Path

from tests.harness.processes import RedisServer, free_port


class Sentinel(RedisServer):
    _ready = re.compile(r"\+monitor master")

    def __init__(self, folder: Path, config: Path) -> None:
        super().__init__(folder)
        self._config = config

    def start(self) -> None:
        argv = ["redis-server", str(self._config), "--sentinel", "--bind", "127.0.0.1"]
        is_tls = "tls-cert-file" in self._config.read_text()
        for _ in range(5):  # another process may have taken the port
            self.port = free_port()
            port = ["--port", "0", "--tls-port"] if is_tls else ["--port"]
            if self._spawn([*argv, *port, str(self.port)]):
                return
        raise AssertionError(self._said())
