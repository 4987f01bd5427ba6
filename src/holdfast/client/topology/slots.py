"""Slots of a cluster: the slot of a command, and the replies of nodes about slots. No I/O."""

import binascii
from collections.abc import Callable
from typing import Any, NamedTuple

from holdfast.client.errors import ConnectError, ServerError
from holdfast.client.protocol.request import Argument, as_bytes
from holdfast.client.protocol.special import name_of
from holdfast.client.transport.options import Address, address_of

SLOTS = 16_384
Command = tuple[Argument, ...]


def slot_of(key: Argument) -> int:
    """CRC16 of the key, or of the text between its first braces if there is any."""
    name = as_bytes(key)
    start = name.find(b"{")
    if start >= 0:
        end = name.find(b"}", start + 1)
        if end > start + 1:
            name = name[start + 1 : end]
    return binascii.crc_hqx(name, 0) % SLOTS


def _after(word: str) -> Callable[[Command], Argument | None]:
    def find(args: Command) -> Argument | None:
        for n, arg in enumerate(args[:-1]):
            if name_of(arg) == word:
                return args[n + 1]
        return None

    return find


def _at(index: int) -> Callable[[Command], Argument | None]:
    return lambda args: args[index] if len(args) > index else None


def _of_script(args: Command) -> Argument | None:
    return args[3] if len(args) > 3 and str(_text(args[2])) != "0" else None


def _text(arg: Argument) -> str:
    return arg.decode("latin-1") if isinstance(arg, bytes) else str(arg)


_NONE: Callable[[Command], Argument | None] = lambda _: None  # noqa: E731 - a table's entry
# The place of the first key, for commands where it is not right after the name.
_FIRST_KEY: dict[str, Callable[[Command], Argument | None]] = {
    **dict.fromkeys(["EVAL", "EVALSHA", "FCALL", "EVAL_RO", "EVALSHA_RO", "FCALL_RO"], _of_script),
    **dict.fromkeys(["XREAD", "XREADGROUP"], _after("STREAMS")),
    **dict.fromkeys(["BLMPOP", "BZMPOP"], _at(3)),
    **dict.fromkeys(["LMPOP", "ZMPOP", "SINTERCARD", "ZINTER", "ZUNION", "ZDIFF"], _at(2)),
    **dict.fromkeys(["SUNIONCARD", "SDIFFCARD", "MSETEX"], _at(2)),
    **dict.fromkeys(["ZINTERCARD", "XGROUP", "XINFO", "OBJECT", "MEMORY", "BITOP"], _at(2)),
    **dict.fromkeys(["PING", "ECHO", "TIME", "INFO", "COMMAND", "CONFIG", "CLIENT"], _NONE),
    **dict.fromkeys(["DBSIZE", "FLUSHALL", "FLUSHDB", "SCAN", "KEYS", "RANDOMKEY"], _NONE),
    **dict.fromkeys(["SCRIPT", "FUNCTION", "CLUSTER", "PUBLISH", "ROLE", "WAIT", "ACL"], _NONE),
    **dict.fromkeys(["LASTSAVE", "SAVE", "BGSAVE", "SLOWLOG", "LATENCY", "DEBUG"], _NONE),
    **dict.fromkeys(["COMMANDLOG", "HOTKEYS"], _NONE),
    "HIMPORT": lambda args: args[2] if len(args) > 2 and name_of(args[1]) == "SET" else None,
}


def first_key(args: Command) -> Argument | None:
    """The key that decides to which node a command goes; None: it may go to any node."""
    find = _FIRST_KEY.get(name_of(args[0]))
    if find is not None:
        return find(args)
    return args[1] if len(args) > 1 else None


class Redirection(NamedTuple):
    slot: int
    address: Address
    is_ask: bool


def redirection(reply: Any, home: str) -> Redirection | None:
    """The content of `MOVED slot host:port` or `ASK slot host:port`; None for other replies.

    A reply without a host means the host of the node that sent it: `home`.
    """
    if not isinstance(reply, ServerError) or reply.code not in (b"MOVED", b"ASK"):
        return None
    words = reply.message.split(b" ")
    if len(words) < 3 or not words[1].isdigit() or len(words[1]) > 5 or int(words[1]) >= SLOTS:
        return None
    host, _, port = words[2].rpartition(b":")
    address = address_of(host or home.encode(), port)
    return address and Redirection(int(words[1]), address, reply.code == b"ASK")


def owners(reply: Any, home: str) -> list[Address | None]:
    """The node of each slot, from a reply to CLUSTER SLOTS. ConnectError: it is no such reply.

    A node that does not know its own address leaves it out. For an unknown address of another node
    it writes "?".
    """
    slots: list[Address | None] = [None] * SLOTS
    try:
        for first, last, (host, port, *_), *_ in reply:
            if not 0 <= first <= last < SLOTS:
                raise ValueError
            address = address_of(home.encode() if host in (b"", None) else host, port)
            if host == b"?":
                address = None
            slots[first : last + 1] = [address] * (last + 1 - first)
    except (TypeError, ValueError):
        raise ConnectError(f"{home} did not answer as a node of a cluster: {reply!r:.80}") from None
    return slots
