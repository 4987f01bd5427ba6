"""The types a handler may return: what a reply says, not how it looks on the wire.

Most are built-in types with another name, for which reason this file is never compiled.
"""

from typing import TypeAlias, final

from holdfast.errors import CommandError


@final
class NullArray:
    """The reply that RESP2 writes as an array that is not there. Use `NULL_ARRAY`."""

    def __repr__(self) -> str:
        return "NULL_ARRAY"


class Simple(bytes):
    """A status such as OK, without CR and LF in it."""


class Verbatim(bytes):
    """Text to be shown to people as it is."""

    fmt: bytes

    def __new__(cls, text: bytes, fmt: bytes = b"txt") -> "Verbatim":
        self = super().__new__(cls, text)
        self.fmt = fmt
        return self


class BigNumber(bytes):
    """The digits of an integer that may exceed 64 bits, without CR and LF in it. (A script may say
    that anything is one.)"""


class HumanFloat(float):
    """A number written without an exponent, and with more digits than other ones have."""

    def __bytes__(self) -> bytes:
        return (b"%.17f" % self).rstrip(b"0").rstrip(b".")


class SetReply(list["Reply"]):
    """An array whose order means nothing."""


class Pairs(list["Reply"]):
    """Lists of a key and a value each: a map, which may have a key twice, or the array that RESP2
    has them in."""


class Map(list["Reply"]):
    """Keys and values in turn: a map whose keys may be anything, or the array that RESP2 has."""


class Push(list["Reply"]):
    """A message that answers no command."""


class Several(list["Reply"]):
    """What stands where one reply is expected and is more, or fewer: they follow each other bare.
    Only subscribing answers so, and it does even to who asked for no answers."""


# A tuple holds bytes only and is the quick way to return many of them. What a reply
# becomes is decided by its exact type: a subclass not named here cannot be encoded.
Reply: TypeAlias = (
    bytes
    | int
    | float
    | NullArray
    | CommandError
    | list["Reply"]
    | tuple[bytes, ...]
    | dict[bytes, "Reply"]
    | None
)
