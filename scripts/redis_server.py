"""Holdfast behind the command line of redis-server, for Redis's own tests: FILE [--NAME VALUE ...].

Those tests wait for two lines on standard output, read the log there, and put RDB files where the
server should find them. Such a file is imported when the folder has no database yet. Many of the
tests look for a sentence in the log before they look at anything else, so the sentence of Redis
follows a line of ours that says the same.
"""

import logging
import os
import re
import sys
from pathlib import Path
from typing import TextIO

from holdfast.cli.main import main


class Announced:
    """Standard output with the line that the tests wait for."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        if " ready on " in text:
            # The tests wait for this number for two minutes, and for an answer for a few seconds.
            text = f"server PID: {os.getpid()}\nReady to accept connections\n{text}"
        return self._stream.write(text)

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


SENTENCES = {
    r"^(\d+ of \d+) replicas have all writes": r"\1 replicas are in sync when shutting down.",
    r"^replica (.*) lacks \d+ bytes": r"Lagging replica \1",
    r"^stopped after": "Redis is now ready to exit, bye bye...",
    r"^the shutdown was aborted": "Shutdown manually aborted.",
    r"^follows .* from offset": "MASTER <-> REPLICA sync: Finished with success",
    r"is lost: it was silent": "Timeout connecting to the MASTER...",
    r"the time is over$": "Replica time out exceeded, failing over.",
    r"^failover is given up: the primary refuses PSYNC": "Failover target rejected psync request",
}


class Sentences(logging.Handler):
    """Redis's words for what the log says."""

    def emit(self, record: logging.LogRecord) -> None:
        for pattern, sentence in SENTENCES.items():
            if found := re.search(pattern, record.getMessage()):
                print(found.expand(sentence), flush=True)  # noqa: T201 - a part of the log


def settings(path: str) -> dict[str, str]:
    """The directives of a configuration file that tell where the RDB file is."""
    found = {"dir": ".", "dbfilename": "dump.rdb"}
    for line in Path(path).read_text().splitlines():
        name, _, value = line.partition(" ")
        if name in found:
            found[name] = value.strip().strip("'\"")
    return found


def serve(argv: list[str]) -> int:
    config, *others = argv
    found = settings(config)
    folder = Path(found["dir"])
    name = f"{found['dbfilename']}.db"  # tests start servers on several files in one folder
    dump, database = folder / found["dbfilename"], folder / name
    os.dup2(1, 2)  # the log goes where the tests read it
    if dump.is_file() and not database.exists():
        status = main(["import", str(dump), "--db", str(database)])
        if status:
            return status
    sys.stdout = Announced(sys.stdout)
    logging.getLogger("holdfast").addHandler(Sentences())
    return main(["serve", "--config", config, "--db", name, *others])


if __name__ == "__main__":
    sys.exit(serve(sys.argv[1:]))
