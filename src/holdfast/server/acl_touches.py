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
            needs = _needs_now(command.name, args)
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


def _needs_now(name: str, argv: list[bytes]) -> int:
    if name == "set":
        return READ | WRITE if any(arg.upper() == b"GET" for arg in argv[3:]) else WRITE
    if name == "bitfield" and {arg.upper() for arg in argv[2:]}.isdisjoint((b"SET", b"INCRBY")):
        return READ
    return READ | WRITE
