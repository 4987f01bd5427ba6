"""The whole command line as one parser of argparse, for shell completion and the man page.

No command uses it, because each start of `holdfast` would then import all commands.
"""

import argparse
from collections.abc import Iterable

from holdfast._version import __version__
from holdfast.cli.subcommand import Subcommand

SHELLS = ("bash", "zsh")


def whole_parser(commands: Iterable[Subcommand]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="holdfast",
        description="A Redis-protocol server that keeps its data in one SQLite file and never\n"
        "acknowledges a write it could lose.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "-V", "--version", action="version", version=f"holdfast {__version__}", help="the version"
    )
    parser.add_argument("--json", action="store_true", help="--version as JSON")
    parser.add_argument(
        "--print-completion",
        metavar="SHELL",
        choices=SHELLS,
        help=f"print a completion script for {' or '.join(SHELLS)}",
    )
    subparsers = parser.add_subparsers(metavar="COMMAND")
    for command in commands:
        own = command.parser()
        subparsers.add_parser(
            command.name,
            help=command.summary,
            description=own.description,
            epilog=own.epilog,
            parents=[own],
            add_help=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
    return parser


def actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """The options and arguments of a parser, without its subparsers and `--help`."""
    others = (argparse._HelpAction, argparse._SubParsersAction)  # noqa: SLF001 - see below
    return [each for each in parser._actions if not isinstance(each, others)]  # noqa: SLF001


def subparsers(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The subparsers by command."""
    kind = argparse._SubParsersAction  # noqa: SLF001 - argparse has no public way to ask
    (found,) = (each for each in parser._actions if isinstance(each, kind))  # noqa: SLF001
    return dict(found.choices)
