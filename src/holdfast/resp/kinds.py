"""The types that a handler may return. They say what a reply means; replies.py writes it.

Most are subclasses of built-in types, so this file is never compiled.
"""

from typing import TypeAlias, final

from holdfast.errors import CommandError


@final
class NullArray:
    """The reply that RESP2 writes as a null array. Use the constant `NULL_ARRAY`."""

    def __repr__(self) -> str:
        return "NULL_ARRAY"


class Simple(bytes):
    """A status such as OK. It contains no CR and no LF."""


class Verbatim(bytes):
    """A text that a client shows to people unchanged."""

    fmt: bytes

    def __new__(cls, text: bytes, fmt: bytes = b"txt") -> "Verbatim":
        self = super().__new__(cls, text)
        self.fmt = fmt
        return self


class BigNumber(bytes):
    """The digits of an integer that may exceed 64 bits. It contains no CR and no LF. (A script may
    call any text a big number.)"""


class HumanFloat(float):
    """A number written without an exponent, and with more digits than a float."""

    digits = b""

    @classmethod
    def of(cls, digits: bytes) -> "HumanFloat":
        """A number that has more digits than a float can hold: those of a long double."""
        self = cls(digits)
        self.digits = digits
        return self

    def __bytes__(self) -> bytes:
        return self.digits or (b"%.17f" % self).rstrip(b"0").rstrip(b".")


class SetReply(list["Reply"]):
    """A set: an array whose order has no meaning."""


class Pairs(list["Reply"]):
    """Lists of one key and one value each. RESP3: a map, in which a key may come twice. RESP2: an
    array."""


class Map(list["Reply"]):
    """Keys and values in turn. RESP3: a map, whose keys may be of any type. RESP2: an array."""


class Push(list["Reply"]):
    """A message that is not the reply to a command."""


class Attributed(list["Reply"]):
    """Two items: a dict with facts about a reply, and the reply. RESP2 has only the reply."""


class Several(list["Reply"]):
    """Any number of replies in the place of one, one after the other and without a header. Only
    the commands of subscriptions reply so. Their replies are sent even to a client that switched
    replies off (CLIENT REPLY)."""


# A tuple holds bytes only; it is the quick way to return many of them. The exact type of a reply
# decides its encoding, so a subclass that is not named here cannot be encoded.
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
