"""Configuration from the environment: each parameter has a variable, HOLDFAST_ and its name.

The variables follow from the table of parameters. This file does not know the meaning of any
parameter.
"""

import os
import re
from collections.abc import Iterator, Mapping

from holdfast.errors import ConfigError
from holdfast.server.config.directives import Directive, split_args
from holdfast.server.config.parameters import BY_NAME
from holdfast.server.config.value_kinds import KeptLines, ValueKind

PREFIX = "HOLDFAST_"

# Names the configuration file. It is no parameter.
CONFIG = "HOLDFAST_CONFIG"


def variable_of(name: str) -> str:
    return PREFIX + name.replace("-", "_").upper()


VARIABLES = {variable_of(name): param for name, param in BY_NAME.items()}

# Variables that clients (URL), builds, tests and benchmarks read.
_OTHER_NAMES = (
    *("URL", "PURE", "SEED", "CRASH_CYCLES", "DIFFERENTIAL", "HISTORIES", "LIVES"),
    *("PARTITIONS_NODES", "PARTITIONS_S", "QUEUE", "BENCH_TIMES", "FOLLOWING_ROUNDS"),
    *("GUIDE_IMAGES", "FAILOVERS", "MIGRATION_KEYS"),
)
_OTHERS = {CONFIG, *(f"{PREFIX}{name}" for name in _OTHER_NAMES)}

# Kubernetes sets such variables for each service, in every container of its namespace. For a
# service with the name "holdfast" it sets HOLDFAST_PORT=tcp://10.0.0.1:6379.
_OF_A_SERVICE = re.compile(
    rf"{PREFIX}(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)\w*)"
)
_ADDRESS = re.compile(r"(tcp|udp|sctp)://")


def read_environment(environ: Mapping[str, str]) -> Iterator[Directive]:
    """The variables as directives. An empty variable counts as one that is not set."""
    for variable, text in sorted(environ.items()):
        param = VARIABLES.get(variable)
        if param is None or not text or _is_of_a_service(variable, text):
            continue
        word = f"environment variable {variable}"
        try:
            found = arguments_in(os.fsencode(text), param.kind)
        except ValueError as error:
            raise ConfigError(f"{word}: {error}") from None
        for args in found:
            yield Directive(param.name, args, "", word)


def arguments_in(text: bytes, kind: ValueKind) -> list[list[bytes]]:
    """The directives in a text that is no line of a configuration file, each as its arguments.

    A parameter that takes one argument takes the text as it is, with its quotes and blanks. For a
    parameter with several entries, each line is an entry; if an entry is one word, each word is an
    entry. Raises ValueError.
    """
    if not kind.many:
        return [[text]]
    if not isinstance(kind, KeptLines):
        return [_words(text)]
    entries = [words for line in text.splitlines() if (words := _words(line))]
    return entries if kind.most > 1 else [[word] for words in entries for word in words]


def _words(line: bytes) -> list[bytes]:
    words = split_args(line)
    if words is None:
        raise ValueError("unbalanced quotes")
    return words


def strange_variables(environ: Mapping[str, str]) -> Iterator[str]:
    """A sentence for each variable whose name begins like ours and that has no effect."""
    for variable, text in sorted(environ.items()):
        if not variable.startswith(PREFIX) or variable in _OTHERS:
            continue
        if variable in VARIABLES:
            if _is_of_a_service(variable, text):
                yield (
                    f"{variable} is ignored: it is the address of a service of Kubernetes (set"
                    " enableServiceLinks to false, or give the service another name)"
                )
        elif not _is_of_a_service(variable, text):
            import difflib  # takes a millisecond, and most names are right

            known = [name.removeprefix(PREFIX) for name in (*VARIABLES, CONFIG)]
            close = difflib.get_close_matches(variable.removeprefix(PREFIX), known, 1, 0.7)
            hint = "".join(f" (did you mean {PREFIX}{match}?)" for match in close)
            yield f"the environment variable {variable} has no effect{hint}"


def _is_of_a_service(variable: str, text: str) -> bool:
    if variable == f"{PREFIX}PORT":
        return _ADDRESS.match(text) is not None
    return _OF_A_SERVICE.fullmatch(variable) is not None
