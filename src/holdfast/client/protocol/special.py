"""Commands that cannot share a connection with others, and their treatment. No I/O."""

from collections.abc import Callable
from typing import Any

from holdfast.client.protocol.request import Argument

Command = tuple[Argument, ...]

# These change the connection for all callers that share it, or occupy it for ever.
REFUSED = {
    **dict.fromkeys(["SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE"], "use client.pubsub()"),
    **dict.fromkeys(["UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE"], "use client.pubsub()"),
    **dict.fromkeys(["MULTI", "EXEC", "DISCARD", "WATCH"], "use client.transaction()"),
    "UNWATCH": "use client.transaction()",
    "SELECT": "give the database in the URL",
    "AUTH": "give user and password in the URL",
    "HELLO": "give protocol= to connect()",
    "MONITOR": "it never ends; use a connection of its own",
    "QUIT": "use client.close()",
    "RESET": "it would undo the handshake",
    "SYNC": "it never ends",
    "PSYNC": "it never ends",
    "REPLCONF": "a server does not answer all forms of it, so later replies would be mixed up",
}
# The same, with their subcommands. After SCRIPT DEBUG, Redis debugs the next EVAL.
REFUSED_PAIRS = frozenset({"CLIENT REPLY", "CLIENT TRACKING", "SCRIPT DEBUG"})
# Allowed in a request that ends its own transaction: no other command can come in between.
_IN_REQUESTS = frozenset({"MULTI", "EXEC", "DISCARD", "UNWATCH"})

_BLOCKING = frozenset(
    {
        *("BLPOP", "BRPOP", "BLMOVE", "BLMOVEM", "BRPOPLPUSH", "BLMPOP"),
        *("BZPOPMIN", "BZPOPMAX", "BZMPOP"),
    }
)
_LONGEST_TIMER_S = 1e9
SPECIAL = frozenset(REFUSED) | _BLOCKING | {"XREAD", "XREADGROUP", "CLIENT", "SCRIPT"}


def name_of(command: Argument) -> str:
    if isinstance(command, str):
        return command.upper()
    return command.decode("latin-1").upper() if isinstance(command, bytes) else ""


def blocks(args: Command) -> bool:
    name = name_of(args[0])
    if name in ("XREAD", "XREADGROUP"):
        return any(isinstance(arg, str | bytes) and name_of(arg) == "BLOCK" for arg in args[1:-2])
    return name in _BLOCKING


def longest_wait_s(args: Command) -> float | None:
    """The longest time until the server answers. None: for ever, or the argument is no time."""
    name, unit = name_of(args[0]), 1.0
    place = {"BLMPOP": 1, "BZMPOP": 1, "BLMOVEM": 5}.get(name, len(args) - 1)
    if name in ("XREAD", "XREADGROUP"):
        words = [name_of(arg) for arg in args]
        place, unit = words.index("BLOCK") + 1, 0.001
    try:
        wait_s = float(args[place]) * unit
    except (ValueError, IndexError, OverflowError):
        return None
    return wait_s if 0 < wait_s < _LONGEST_TIMER_S else None


def check(args: Command, *, together: bool = False) -> None:
    """Raise ValueError for a command that must not be sent over a shared connection."""
    name = name_of(args[0])
    if name in REFUSED and not (together and name in _IN_REQUESTS):
        raise ValueError(f"{name} over a shared connection: {REFUSED[name]}")
    both = f"{name} {name_of(args[1])}" if len(args) > 1 else name
    if both in REFUSED_PAIRS:
        raise ValueError(f"{both} over a shared connection: it would affect all callers")
    if together and blocks(args):
        raise ValueError(f"{name} inside a request would block all other callers: send it alone")


def check_all(commands: list[Command]) -> None:
    """The same for a request, which must also end the transactions that it begins."""
    is_open = False
    for args in commands:
        name = name_of(args[0])
        if name not in SPECIAL:
            continue
        check(args, together=True)
        if name in ("MULTI", "EXEC", "DISCARD"):
            if is_open == (name == "MULTI"):
                raise ValueError(f"{name} at a wrong place: use client.transaction()")
            is_open = name == "MULTI"
    if is_open:
        raise ValueError("MULTI without EXEC: use client.transaction()")


# How to undo a pop, from the command and its reply: the element goes back to the end it came
# from. BLMOVE and BRPOPLPUSH lose nothing: their element is in the destination.
# NX: a member that was added again meanwhile keeps its new score.
GIVE_BACK: dict[str, Callable[[Command, Any], Command]] = {
    "BLPOP": lambda _, reply: ("LPUSH", reply[0], reply[1]),
    "BRPOP": lambda _, reply: ("RPUSH", reply[0], reply[1]),
    "BZPOPMIN": lambda _, reply: ("ZADD", reply[0], "NX", reply[2], reply[1]),
    "BZPOPMAX": lambda _, reply: ("ZADD", reply[0], "NX", reply[2], reply[1]),
    "BLMPOP": lambda args, reply: (
        "LPUSH" if name_of(args[3 + int(args[2])]) == "LEFT" else "RPUSH",
        reply[0],
        *reversed(reply[1]),
    ),
    "BZMPOP": lambda _, reply: (
        *("ZADD", reply[0], "NX"),
        *(part for member, score in reply[1] for part in (score, member)),
    ),
}
