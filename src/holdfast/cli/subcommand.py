"""The type of a subcommand. It knows none of them, and imports almost nothing, because each start
of `holdfast` waits for it.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.cli.arguments import Parser


class Subcommand:
    """A subcommand. Its module in this package is `<name>_command`.

    `run` of that module gets the words after the name of the subcommand and returns the exit code.
    A mistake of the user is raised as HoldfastError or OSError, and becomes one sentence. `parser`
    describes the words that `run` takes, for shell completion and the man page.

    The module is imported when the subcommand runs, and it imports the working code inside of its
    `run`: `holdfast --version` should not load a server.
    """

    def __init__(self, name: str, summary: str) -> None:
        self.name = name
        self.summary = summary

    def run(self, words: list[str]) -> int:
        code: int = import_module(f"holdfast.cli.{self.name}_command").run(words)
        return code

    def parser(self) -> "Parser":
        made: Parser = import_module(f"holdfast.cli.{self.name}_command").parser()
        return made
