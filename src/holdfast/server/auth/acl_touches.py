"""The keys, channels and databases that a command touches, and how. Access rules are checked
against them."""

from collections.abc import Iterator, Sequence
from functools import cache

from holdfast.commands.table import Command, Keys

READ, WRITE = 1, 2
READING_OPTIONS = {b"GET", b"IFEQ", b"IFNE", b"IFDEQ", b"IFDNE"}  # of SET

# The arguments that are channels: the first, the last, and whether they are patterns.
CHANNELS: dict[str, tuple[int, int | None, bool]] = {
    "publish": (1, 2, False),
    "spublish": (1, 2, False),
    "subscribe": (1, None, False),
    "ssubscribe": (1, None, False),
    "psubscribe": (1, None, True),
}


def named_databases(command: Command, argv: Sequence[bytes]) -> list[int]:
    """The databases that the arguments name, as far as they are numbers."""
    places = {"select": (1,), "move": (2,), "swapdb": (1, 2)}.get(command.name, ())
    words = [argv[at] for at in places if at < len(argv)]
    if command.name == "copy":
        words = [argv[at + 1] for at in range(3, len(argv) - 1) if argv[at].upper() == b"DB"]
    return [int(word) for word in words if word.isdigit()]


@cache
def touches_database(command: Command) -> bool:
    """Whether a command reads or writes the database that its client has selected. SWAPDB does not:
    it names its databases."""
    if command.name == "swapdb":
        return False
    has_keys = any(spec.access != "not_key" for spec in command.keys)
    return has_keys or not command.categories.isdisjoint(("read", "write", "keyspace"))


@cache
def _needs(access: str) -> int:
    words = set(access.split())
    reads = READ if "access" in words else 0
    return reads | (WRITE if words & {"insert", "update", "delete"} else 0)


def keys_in(command: Command, argv: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    """The positions of keys, and the permission that each of them needs."""
    args = list(argv)
    for spec in command.keys:
        if spec.access == "not_key":
            continue
        needs = _needs(spec.access)
        if "variable_flags" in spec.access:
            needs = _needs(access_now(command.name, args))
        positions = _positions(spec, args)
        if spec.count_at is not None and positions and positions[-1] >= len(args):
            continue  # the number of keys is too large, so the command will fail
        for at in positions:
            if at >= len(args):
                break
            yield at, needs


def _positions(spec: Keys, argv: list[bytes]) -> Sequence[int]:
    if spec.keyword and spec.last == 0:
        # If an option is given twice, the last one counts, but the keys of all must be allowed.
        word = spec.keyword.encode()
        return [at + 1 for at in range(spec.first, len(argv)) if argv[at].upper() == word]
    return spec.positions(len(argv), argv)


def access_now(name: str, argv: list[bytes]) -> str:
    """The access of SET, DELEX or BITFIELD to its key, which depends on their arguments. A command
    that compares tells its caller about the value, so it needs the permission to read."""
    if name == "set" and not any(arg.upper() in READING_OPTIONS for arg in argv[3:]):
        return "OW update"
    if name == "delex":
        return "RM delete" if len(argv) == 2 else "RW access delete"
    if name == "bitfield" and _only_gets(argv):
        return "RO access"
    return "RW access update"


def _only_gets(argv: list[bytes]) -> bool:
    """Whether an argv of BITFIELD only reads. One with wrong syntax counts as writing, as in
    Redis."""
    sizes = {b"GET": 3, b"OVERFLOW": 2}
    at = 2
    while at < len(argv):
        size = sizes.get(argv[at].upper())
        if size is None or at + size > len(argv):
            return False
        at += size
    return True
