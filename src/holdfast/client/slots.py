"""Which slot of a cluster a command belongs to. No I/O."""

import binascii
from collections.abc import Callable

from holdfast.client.request import Argument, as_bytes
from holdfast.client.special import name_of

SLOTS = 16_384
Command = tuple[Argument, ...]


def slot_of(key: Argument) -> int:
    """CRC16 of the key, or of what stands between its first braces unless that is nothing."""
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
# Where the first key is, if not right after the name.
_FIRST_KEY: dict[str, Callable[[Command], Argument | None]] = {
    **dict.fromkeys(["EVAL", "EVALSHA", "FCALL", "EVAL_RO", "EVALSHA_RO", "FCALL_RO"], _of_script),
    **dict.fromkeys(["XREAD", "XREADGROUP"], _after("STREAMS")),
    **dict.fromkeys(["BLMPOP", "BZMPOP"], _at(3)),
    **dict.fromkeys(["LMPOP", "ZMPOP", "SINTERCARD", "ZINTER", "ZUNION", "ZDIFF"], _at(2)),
    **dict.fromkeys(["ZINTERCARD", "XGROUP", "XINFO", "OBJECT", "MEMORY", "BITOP"], _at(2)),
    **dict.fromkeys(["PING", "ECHO", "TIME", "INFO", "COMMAND", "CONFIG", "CLIENT"], _NONE),
    **dict.fromkeys(["DBSIZE", "FLUSHALL", "FLUSHDB", "SCAN", "KEYS", "RANDOMKEY"], _NONE),
    **dict.fromkeys(["SCRIPT", "FUNCTION", "CLUSTER", "PUBLISH", "ROLE", "WAIT", "ACL"], _NONE),
    **dict.fromkeys(["LASTSAVE", "SAVE", "BGSAVE", "SLOWLOG", "LATENCY", "DEBUG"], _NONE),
}


def first_key(args: Command) -> Argument | None:
    """The key that decides where a command goes; None if it may go anywhere."""
    find = _FIRST_KEY.get(name_of(args[0]))
    if find is not None:
        return find(args)
    return args[1] if len(args) > 1 else None
