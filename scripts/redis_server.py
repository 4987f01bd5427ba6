"""Holdfast behind the command line of redis-server, for Redis's own tests: FILE [--NAME VALUE ...].

Those tests wait for two lines on standard output, read the log there, and put RDB files where the
server should find them. Such a file is imported when the folder has no database yet.
"""

import os
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
    return main(["serve", "--config", config, "--db", name, *others])


if __name__ == "__main__":
    sys.exit(serve(sys.argv[1:]))
