"""Commands to bytes. No I/O."""

from collections.abc import Callable, Iterable
from typing import Any, Self, TypeAlias

import hiredis

Argument: TypeAlias = str | bytes | int | float
# One command on the wire. A TypeError says what an argument may be.
encode: Callable[[tuple[Argument, ...]], bytes] = hiredis.pack_command  # type: ignore[assignment]  # its stub allows one argument


def encode_all(commands: Iterable[tuple[Argument, ...]]) -> bytes:
    return b"".join(map(encode, commands))


def encode_around(before: tuple[Argument, ...], after: tuple[Argument, ...]) -> tuple[bytes, bytes]:
    """A command but for one argument: what stands before `$length`, and what after its end."""
    head, tail = (encode(part).partition(b"\r\n")[2] for part in (before, after))
    return b"*%d\r\n%b" % (len(before) + 1 + len(after), head), tail


class Request:
    """Commands that go out together: `Request().add("INCR", "a").add("GET", "b")`."""

    __slots__ = ("commands",)

    def __init__(self, commands: Iterable[tuple[Argument, ...]] = ()) -> None:
        self.commands: list[tuple[Argument, ...]] = []
        args: Any  # not everybody checks types
        for args in commands:
            if isinstance(args, str | bytes):
                raise TypeError(f"a command is a tuple of a name and arguments, not {args!r}")
            self.add(*args)

    def add(self, *args: Argument) -> Self:
        if not args:
            raise ValueError("a command has a name")
        self.commands.append(args)
        return self

    def __len__(self) -> int:
        return len(self.commands)
