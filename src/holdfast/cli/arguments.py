"""Arguments of subcommands: the parser and checks that they share."""

import argparse
import difflib
import stat
from pathlib import Path
from typing import Any, Never

from holdfast.errors import ConfigError, StorageError


def _is_name(word: str) -> bool:
    """Whether a word is the name of an option, and not a negative number or other text."""
    return word.lstrip("-")[:1].isalpha() and " " not in word


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
        """Add --json, for commands that print results."""
        self.add_argument("--json", action="store_true", help="print JSON: one object a line")

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse the words. Unknown options are reported first; argparse would report a missing
        argument first."""
        for word in args or ():
            if word == "--":
                break
            name = word.partition("=")[0]
            if name.startswith("-") and name not in self._option_string_actions and _is_name(name):
                close = difflib.get_close_matches(name, self._option_string_actions, 1)
                hint = f"did you mean '{close[0]}'?" if close else f"see '{self.prog} --help'"
                raise ConfigError(f"unknown option '{name}' ({hint})")
        return super().parse_args(args, namespace)

    def error(self, message: str) -> Never:
        raise ConfigError(f"{message} (see '{self.prog} --help')")


def destination(word: str) -> Path:
    """The path that a word names: a folder, or a new file in a folder. "backups/" is always a
    folder, so no file of that name is made if there is no such folder."""
    path = Path(word)
    folder = path if word.endswith("/") or path.is_dir() else path.parent
    if not folder.is_dir():
        raise StorageError(f"cannot write {word}: there is no folder {folder}")
    return path


def readable_file(path: Path) -> Path:
    """The path, if the file can be read. Otherwise SQLite would create an empty file."""
    try:
        mode = path.stat().st_mode
        # opening a pipe would wait for its writer
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise StorageError(f"cannot read {path}: it is not a regular file")
        with path.open("rb"):
            return path
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}") from None
