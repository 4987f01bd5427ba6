"""The entry point: finds the subcommand, and reports mistakes of users in one sentence."""

import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper

from holdfast._version import __version__
from holdfast.cli import process
from holdfast.cli.subcommand import Subcommand
from holdfast.errors import ConfigError, HoldfastError

COMMANDS: tuple[Subcommand, ...] = (
    Subcommand("serve", "serve a database file to Redis clients"),
    Subcommand("ping", "ask a server whether it answers, for health checks"),
    Subcommand("top", "show what a server does now"),
    Subcommand("dashboard", "show a server in a browser"),
    Subcommand("check", "look for damage in a database file"),
    Subcommand("backup", "copy a database file, also while it is being served"),
    Subcommand("import", "take all data of a Redis or Valkey into a database file"),
    Subcommand("export", "write all data as an RDB file, or into a Redis or Valkey"),
    Subcommand("compare", "name every difference between two files or servers"),
    Subcommand("builds", "look at a build queue; see it work with 'builds demo'"),
)
BY_NAME = {command.name: command for command in COMMANDS}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line. Returns the exit code: 0; or 2, after one sentence on stderr, if the
    command line or the configuration is wrong; or 1, after one sentence, for other errors."""
    process.is_ours = argv is None
    words = list(sys.argv[1:] if argv is None else argv)
    if process.is_ours:
        process.open_standard_streams()
        if isinstance(sys.stdout, TextIOWrapper):
            # The name of a file may have bytes that are not characters.
            sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = _dispatch(words)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The program that read our output has ended. Python must not try to flush the output again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except ConfigError as error:
        return _complain(str(error), 2)
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
        _print_version(rest)
        return 0
    if name == "--print-completion":
        from holdfast.cli.completion import completion

        print(completion(rest))
        return 0
    if name not in BY_NAME:
        import difflib

        kind = "option" if name.startswith("-") else "command"
        known = ["--help", "--version", "--print-completion"] if kind == "option" else BY_NAME
        close = difflib.get_close_matches(name, known, 1)
        hint = f"did you mean '{close[0]}'?" if close else "see 'holdfast --help'"
        raise ConfigError(f"unknown {kind} '{name}' ({hint})")
    try:
        return BY_NAME[name].run(rest)
    except SystemExit as done:  # argparse has printed its help
        return int(done.code or 0)


def _print_version(words: list[str]) -> None:
    if not words:
        print(f"holdfast {__version__}")
        return
    if words != ["--json"]:
        raise ConfigError(f"--version takes --json or nothing, not '{words[0]}'")
    from holdfast.cli.json_lines import print_json
    from holdfast.server.version import IS_COMPILED

    python = sys.version.partition(" ")[0]
    print_json({"version": __version__, "compiled": IS_COMPILED, "python": python})


def _complain(sentence: str, code: int = 1) -> int:
    print(f"holdfast: {' '.join(sentence.split())}", file=sys.stderr)
    return code


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
  holdfast --version        the version; with --json, of Python too
  holdfast --print-completion bash|zsh   for completion in a shell

To begin: holdfast serve, and in another terminal: redis-cli set greeting hello"""
