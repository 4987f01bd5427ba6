"""The arguments of commands that are secret: SLOWLOG and MONITOR must not show them.

One table serves both. Redis redacts a command after it has parsed it, and shows the password of a
command that it could not parse. Here the table is applied in any case. In a command with a mistake,
an argument in an unexpected place may be the password, and so may all arguments behind it. These
are redacted, too.
"""

from collections.abc import Callable, Iterator

from holdfast.server.config.parameters import BY_NAME, TABLE, Use

REDACTED = b"(redacted)"
SECRET_PARAMS = frozenset(
    name.encode() for param in TABLE if param.use & Use.SECRET for name in param.names
)

AUTH = {b"AUTH": 1, b"AUTH2": 2}  # options of MIGRATE, and how many arguments they have

Positions = Callable[[list[bytes]], Iterator[int]]


def _all_from(first: int) -> Positions:
    def positions(argv: list[bytes]) -> Iterator[int]:
        yield from range(first, len(argv))

    return positions


def _from_options(argv: list[bytes], first: int, lengths: dict[bytes, int]) -> Iterator[int]:
    """The secrets among options that begin at `first`. `lengths` has the number of arguments of
    each option; the arguments of AUTH are secret."""
    at = first
    while at < len(argv):
        option = argv[at].upper()
        length = lengths.get(option)
        if length is None:
            yield from range(at, len(argv))
            return
        if option in AUTH:
            yield from range(at + 1, at + 1 + length)
        at += 1 + length


def _hello(argv: list[bytes]) -> Iterator[int]:
    lengths = {b"SETNAME": 1, b"AUTH": 2}
    has_protocol = len(argv) > 1 and argv[1].upper() not in lengths
    return _from_options(argv, 2 if has_protocol else 1, lengths)


def _migrate(argv: list[bytes]) -> Iterator[int]:
    """The secrets of MIGRATE. Behind KEYS there are only keys, but a password may stand there by
    mistake. Before the options, one or two arguments may be missing."""
    words = [arg.upper() for arg in argv]
    keys = words.index(b"KEYS", 6) if b"KEYS" in words[6:] else len(argv)
    first = next((at for at in (4, 5) if words[at : at + 1] and words[at] in AUTH), 6)
    yield from _from_options(argv[:keys], first, {b"COPY": 0, b"REPLACE": 0} | AUTH)
    for at in range(keys, len(argv)):
        yield from range(at + 1, at + 1 + AUTH.get(words[at], 0))


def _config_values(argv: list[bytes]) -> Iterator[int]:
    for at in range(2, len(argv), 2):
        name = argv[at].lower()
        if name.decode("latin-1") not in BY_NAME:
            yield from range(at, len(argv))
            return
        if name in SECRET_PARAMS:
            yield at + 1


RULES: dict[str, Positions] = {
    "auth": _all_from(1),
    "hello": _hello,
    "migrate": _migrate,
    "acl|setuser": _all_from(2),
    "config|set": _config_values,
}
# Commands with a URL, in which the user and the password are secret.
WITH_URL = {"active|join", "active|forget"}
# Commands that contain another command, and the index at which it begins.
NESTED = {"command|getkeys": 2, "command|getkeysandflags": 2, "acl|dryrun": 3}


def without_secrets(command_name: str, argv: list[bytes]) -> list[bytes]:
    """The argv without secrets."""
    rule = RULES.get(command_name)
    if rule is not None:
        shown = list(argv)
        for at in rule(argv):
            if at < len(shown):
                shown[at] = REDACTED
        return shown
    if command_name in WITH_URL:
        return [*argv[:2], *map(_without_login, argv[2:])]
    if command_name in NESTED:
        at = NESTED[command_name]
        return argv[:at] + without_secrets(_spelled(argv[at:]), argv[at:])
    return argv


def _without_login(url: bytes) -> bytes:
    """Redact a URL, also a malformed one. Its query may have a login, too."""
    scheme, slashes, rest = url.partition(b"//") if b"//" in url else (b"", b"", url)
    _, at_sign, place = rest.rpartition(b"@")
    place, question_mark, _ = place.partition(b"?")
    login = REDACTED + at_sign if at_sign else b""
    query = question_mark + REDACTED if question_mark else b""
    return scheme + slashes + login + place + query


def _spelled(argv: list[bytes]) -> str:
    """The name in the table of a command that was given as arguments."""
    name, with_subcommand = (b"|".join(argv[:count]).decode("latin-1").lower() for count in (1, 2))
    return with_subcommand if with_subcommand in {*RULES, *WITH_URL, *NESTED} else name
