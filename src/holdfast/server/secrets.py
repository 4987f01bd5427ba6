"""Which arguments of which commands are secret: what SLOWLOG and MONITOR must not show.

One table for both. Redis redacts when it has understood a command, and shows the password of one
that it has not; here the table is applied in any case.
"""

import re
from collections.abc import Callable, Iterator

from holdfast.server.config_table import TABLE, Use

REDACTED = b"(redacted)"
SECRET_PARAMS = frozenset(
    name.encode() for param in TABLE if param.use & Use.SECRET for name in param.names
)
_CREDENTIALS = re.compile(rb"(?<=//).*(?=@)", re.DOTALL)  # of a URL

Positions = Callable[[list[bytes]], Iterator[int]]


def _all_from(first: int) -> Positions:
    def positions(argv: list[bytes]) -> Iterator[int]:
        yield from range(first, len(argv))

    return positions


def _options(first: int, lengths: dict[bytes, int], secret: dict[bytes, int]) -> Positions:
    """Options begin at an argument; of some so many arguments follow, of some these are secret."""

    def positions(argv: list[bytes]) -> Iterator[int]:
        at = first
        while at < len(argv):
            option = argv[at].upper()
            yield from range(at + 1, at + 1 + secret.get(option, 0))
            at += 1 + secret.get(option, lengths.get(option, 0))

    return positions


def _config_values(argv: list[bytes]) -> Iterator[int]:
    for at in range(2, len(argv), 2):
        if argv[at].lower() in SECRET_PARAMS:
            yield at + 1


# HELLO's first option is found also where the protocol was forgotten.
RULES: dict[str, Positions] = {
    "auth": _all_from(1),
    "hello": _options(1, {b"SETNAME": 1}, {b"AUTH": 2}),
    "migrate": _options(6, {b"KEYS": 1 << 32}, {b"AUTH": 1, b"AUTH2": 2}),
    "acl|setuser": _all_from(2),
    "config|set": _config_values,
}
# These have a URL, whose user and password are secret.
WITH_URL = {"active|join", "active|forget"}
# These have another command as arguments, from here on.
NESTED = {"command|getkeys": 2, "command|getkeysandflags": 2, "acl|dryrun": 3}


def without_secrets(command_name: str, argv: list[bytes]) -> list[bytes]:
    """The argv as people may see it."""
    rule = RULES.get(command_name)
    if rule is not None:
        shown = list(argv)
        for at in rule(argv):
            if at < len(shown):
                shown[at] = REDACTED
        return shown
    if command_name in WITH_URL:
        return [*argv[:2], *[_CREDENTIALS.sub(REDACTED, arg) for arg in argv[2:]]]
    if command_name in NESTED:
        at = NESTED[command_name]
        return argv[:at] + without_secrets(_spelled(argv[at:]), argv[at:])
    return argv


def _spelled(argv: list[bytes]) -> str:
    """The name in the table of a command that was not looked up."""
    name, with_subcommand = (b"|".join(argv[:count]).decode("latin-1").lower() for count in (1, 2))
    return with_subcommand if with_subcommand in {*RULES, *WITH_URL} else name
