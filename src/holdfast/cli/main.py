"""The entry point: finds the subcommand, and turns what users got wrong into one sentence."""

import difflib
import os
import sys
from collections.abc import Sequence

from holdfast import __version__
from holdfast.cli.backup import BACKUP
from holdfast.cli.builds import BUILDS
from holdfast.cli.check import CHECK
from holdfast.cli.command import Command
from holdfast.cli.serve import SERVE
from holdfast.errors import ConfigError, HoldfastError

COMMANDS: tuple[Command, ...] = (SERVE, CHECK, BACKUP, BUILDS)
BY_NAME = {command.name: command for command in COMMANDS}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line and return the exit code: 0, or 1 after one sentence on stderr."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        code = _dispatch(words)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # Whoever read our output has left; the interpreter must not try to flush it again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except HoldfastError as error:
        return _complain(str(error))
    except OSError as error:
        reason = error.strerror or str(error)
        return _complain(f"{error.filename}: {reason}" if error.filename else reason)
    except KeyboardInterrupt:
        return 130


def _dispatch(words: list[str]) -> int:
    name, rest = (words[0], words[1:]) if words else ("--help", [])
    if name == "help" and rest:
        name, rest = rest[0], ["--help"]
    if name in ("-h", "--help", "help"):
        print(_help())
        return 0
    if name in ("-V", "--version"):
        print(f"holdfast {__version__}")
        return 0
    if name not in BY_NAME:
        kind = "option" if name.startswith("-") else "command"
        known = ["--help", "--version"] if kind == "option" else BY_NAME
        close = difflib.get_close_matches(name, known, 1)
        hint = f"did you mean '{close[0]}'?" if close else "see 'holdfast --help'"
        raise ConfigError(f"unknown {kind} '{name}' ({hint})")
    try:
        return BY_NAME[name].run(rest)
    except SystemExit as done:  # argparse has printed its help
        return int(done.code or 0)


def _complain(sentence: str) -> int:
    print(f"holdfast: {' '.join(sentence.split())}", file=sys.stderr)
    return 1


def _help() -> str:
    width = max(map(len, BY_NAME)) + 2
    commands = "\n".join(f"  {command.name:{width}}{command.summary}" for command in COMMANDS)
    return f"""\
usage: holdfast COMMAND [ARGUMENT ...]

A Redis-protocol server that keeps its data in one SQLite file and never
acknowledges a write it could lose.

commands:
{commands}

  holdfast COMMAND --help   what a command takes
  holdfast --version        the version

To begin: holdfast serve, and in another terminal: redis-cli set greeting hello"""
