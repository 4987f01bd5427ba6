"""The ends of the logs of servers: the lines that belong to the test that runs now."""

import os
from pathlib import Path

MOST_BYTES = 100_000  # of each log


class LogTails:
    """The logs of all open servers. Each server is named by its folder."""

    def __init__(self) -> None:
        self._ports: dict[Path, int] = {}
        # by folder: the offset in the log at which the test began
        self._begins: dict[Path, int] = {}
        self._kept: list[tuple[int, str]] = []

    def opened(self, folder: Path, port: int) -> None:
        self._ports[folder] = port

    def closed(self, folder: Path) -> None:
        self._ports.pop(folder, None)
        self._begins.pop(folder, None)

    def keep(self, folder: Path) -> None:
        """Keep the log of a server that an exception has closed, because its files are removed
        before the report."""
        if folder in self._ports:
            self._kept.append((self._ports[folder], self._tail(folder)))

    def begin(self) -> None:
        """Note that all lines so far belong to earlier tests."""
        self._kept.clear()
        for folder in self._ports:
            try:
                self._begins[folder] = (folder / "log").stat().st_size
            except FileNotFoundError:  # the process that starts the servers was killed
                continue

    def tails(self) -> list[tuple[int, str]]:
        """Port and lines of each server that has logged something."""
        found = self._kept + [(port, self._tail(folder)) for folder, port in self._ports.items()]
        return [(port, lines) for port, lines in found if lines]

    def _tail(self, folder: Path) -> str:
        try:
            with (folder / "log").open("rb") as log:
                end = log.seek(0, os.SEEK_END)
                log.seek(max(self._begins.get(folder, 0), end - MOST_BYTES))
                return log.read().decode(errors="replace")
        except FileNotFoundError:
            return ""
