"""What a subcommand is, and what subcommands share. Knows none of them."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Never

from holdfast.errors import ConfigError, StorageError


class Command:
    """`run` gets the words after the command's name and returns the exit code. Whatever a
    user can get wrong is raised as HoldfastError or OSError, and becomes one sentence.

    Modules of commands import what does the work inside `run`: `holdfast --version` should
    not load a server.
    """

    def __init__(self, name: str, summary: str, run: Callable[[list[str]], int]) -> None:
        self.name = name
        self.summary = summary
        self.run = run


class Parser(argparse.ArgumentParser):
    """argparse that complains as the rest of Holdfast does, and takes no abbreviations."""

    def __init__(self, name: str, description: str) -> None:
        super().__init__(
            prog=f"holdfast {name}",
            description=description,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    def error(self, message: str) -> Never:
        raise ConfigError(f"{message} (see '{self.prog} --help')")


def readable_file(path: Path) -> Path:
    """The path of a file that can be read; SQLite would otherwise make an empty one."""
    try:
        with path.open("rb"):
            return path
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}") from None
