"""Commands to bytes. No I/O."""

from collections.abc import Callable, Iterable
from typing import Any, Self, TypeAlias

import hiredis

Argument: TypeAlias = str | bytes | int | float
_pack: Callable[[tuple[Argument, ...]], bytes] = hiredis.pack_command  # type: ignore[assignment]  # its stub allows one argument


def encode(args: tuple[Argument, ...]) -> bytes:
    """One command on the wire. Raises TypeError, which names the argument that cannot be sent."""
    try:
        return _pack(args)
    except UnicodeEncodeError:
        return _pack(tuple(as_bytes(arg) for arg in args))
    except TypeError:
        for n, arg in enumerate(args):
            if type(arg) is bool or not isinstance(arg, str | bytes | int | float):
                where = f"argument {n} of {args[0]!r:.40}" if n else "the name of a command"
                text = f"{where} must be str, bytes, int or float, not {arg!r:.80}"
                raise TypeError(text) from None
        raise


def as_bytes(arg: Argument) -> bytes:
    """The bytes that are sent. A str may stand for a name that is not UTF-8: see `text_of`."""
    return arg if isinstance(arg, bytes) else str(arg).encode("utf-8", "surrogateescape")


def text_of(name: bytes) -> str:
    """A name as str, by the rule of Python for file names: `as_bytes` restores the bytes."""
    return name.decode("utf-8", "surrogateescape")


def encode_all(commands: Iterable[tuple[Argument, ...]]) -> bytes:
    return b"".join(map(encode, commands))


def encode_around(before: tuple[Argument, ...], after: tuple[Argument, ...]) -> tuple[bytes, bytes]:
    """An encoded command without one argument: the bytes before and after that argument."""
    head, tail = (encode(part).partition(b"\r\n")[2] for part in (before, after))
    return b"*%d\r\n%b" % (len(before) + 1 + len(after), head), tail


class Request:
    """Commands that go out together: `Request().add("INCR", "a").add("GET", "b")`."""

    __slots__ = ("commands",)

    def __init__(self, commands: Iterable[tuple[Argument, ...]] = ()) -> None:
        self.commands: list[tuple[Argument, ...]] = []
        args: Any  # callers may not use a type checker
        for args in commands:
            if isinstance(args, str | bytes):
                raise TypeError(f"a command is a tuple of a name and arguments, not {args!r}")
            self.add(*args)

    def add(self, *args: Argument) -> Self:
        """Add a command; returns the request itself, so that calls can be chained."""
        if not args:
            raise ValueError("a command needs a name")
        self.commands.append(args)
        return self

    def __len__(self) -> int:
        return len(self.commands)
