"""Arguments of subcommands: the parser and checks that they share."""

import argparse
import stat
from pathlib import Path
from typing import Never

from holdfast.errors import ConfigError, StorageError


class Parser(argparse.ArgumentParser):
    """argparse with errors in the form of Holdfast, and without abbreviations."""

    def __init__(self, name: str, description: str) -> None:
        super().__init__(
            prog=f"holdfast {name}",
            description=description,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    def add_json(self) -> None:
        """For commands that print results."""
        self.add_argument("--json", action="store_true", help="print JSON: one object a line")

    def error(self, message: str) -> Never:
        raise ConfigError(f"{message} (see '{self.prog} --help')")


def readable_file(path: Path) -> Path:
    """The path, if the file can be read. Otherwise SQLite would create an empty file."""
    try:
        mode = path.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # a pipe would wait for its writer
            raise StorageError(f"cannot read {path}: it is not a regular file")
        with path.open("rb"):
            return path
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}") from None
