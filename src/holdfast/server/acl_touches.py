"""Which keys and channels a command touches, and how: what rules about them look at."""

from collections.abc import Iterator, Sequence
from functools import cache

from holdfast.commands.table import Command, Keys

READ, WRITE = 1, 2

# Which arguments are channels: from where, to where, and whether they are patterns.
CHANNELS: dict[str, tuple[int, int | None, bool]] = {
    "publish": (1, 2, False),
    "spublish": (1, 2, False),
    "subscribe": (1, None, False),
    "ssubscribe": (1, None, False),
    "psubscribe": (1, None, True),
}


@cache
def _needs(access: str) -> int:
    words = set(access.split())
    reads = READ if "access" in words else 0
    return reads | (WRITE if words & {"insert", "update", "delete"} else 0)


def keys_in(command: Command, argv: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    """Where keys stand, and what is needed to touch each."""
    args = list(argv)
    for spec in command.keys:
        if spec.access == "not_key":
            continue
        needs = _needs(spec.access)
        if "variable_flags" in spec.access:
            needs = _needs(access_now(command.name, args))
        for at in _positions(spec, args):
            if at >= len(args):
                break
            yield at, needs


def _positions(spec: Keys, argv: list[bytes]) -> Sequence[int]:
    if spec.keyword and spec.last == 0:
        # Given twice, the last one counts: all of them must be allowed.
        word = spec.keyword.encode()
        return [at + 1 for at in range(spec.first, len(argv)) if argv[at].upper() == word]
    return spec.positions(len(argv), argv)


def access_now(name: str, argv: list[bytes]) -> str:
    """What SET or BITFIELD does to its key, which depends on how it is called."""
    if name == "set" and not any(arg.upper() == b"GET" for arg in argv[3:]):
        return "OW update"
    if name == "bitfield" and _only_gets(argv):
        return "RO access"
    return "RW access update"


def _only_gets(argv: list[bytes]) -> bool:
    """Of BITFIELD's argv. What is no syntax of it might do anything, says Redis."""
    sizes = {b"GET": 3, b"OVERFLOW": 2}
    at = 2
    while at < len(argv):
        size = sizes.get(argv[at].upper())
        if size is None or at + size > len(argv):
            return False
        at += size
    return True
