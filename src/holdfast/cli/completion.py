"""`holdfast --print-completion SHELL`: a script that completes commands, options, their values and
file names.

shtab makes it; only this module imports shtab.
"""

from pathlib import Path

from holdfast.cli.arguments import destination
from holdfast.cli.whole_parser import SHELLS, actions, subparsers, whole_parser
from holdfast.errors import ConfigError


def completion(words: list[str]) -> str:
    if len(words) != 1 or words[0] not in SHELLS:
        raise ConfigError(f"--print-completion takes the name of a shell: {' or '.join(SHELLS)}")
    try:
        import shtab
    except ImportError:
        raise ConfigError("--print-completion needs the package shtab, pip install shtab") from None
    from holdfast.cli.main import BY_NAME, COMMANDS

    parser = whole_parser(COMMANDS)
    for name, subparser in subparsers(parser).items():
        subparser.description = BY_NAME[name].summary  # one line, which zsh shows
        for action in actions(subparser):
            if action.type in (Path, destination):
                vars(action)["complete"] = shtab.FILE
    return shtab.complete(parser, words[0])
