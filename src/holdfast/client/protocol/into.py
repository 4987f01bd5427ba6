"""Argument types and converters of the typed methods. Each converter is made once."""

from abc import ABC
from collections.abc import Callable, Mapping
from functools import cache
from itertools import chain
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from holdfast.client.protocol.convert import Name, converter

T = TypeVar("T")
V = TypeVar("V", bound=str | bytes)

Key: TypeAlias = str | bytes
Value: TypeAlias = str | bytes | int | float
Bound: TypeAlias = int | float | str | bytes  # end of a range: 5, "(5", "-inf", "[a"
Side: TypeAlias = Literal["LEFT", "RIGHT"]
# Any: a mapping's key type is invariant, and names may be str or bytes.
Pairs: TypeAlias = Mapping[Any, Value]
Scores: TypeAlias = Mapping[Any, float]
Set: TypeAlias = set[V]  # for classes in which `set` is a method

Made: TypeAlias = Callable[[Any], T]  # a function that makes a T of a reply

STR: Made[str] = converter(str)
STR_OR_NONE: Made[str | None] = converter(str | None)
STRS: Made[list[str]] = converter(list[str])
STR_MAPPING: Made[dict[str, str]] = converter(dict[str, str])
BYTES_OR_NONE: Made[bytes | None] = converter(bytes | None)
INT: Made[int] = converter(int)
INT_OR_NONE: Made[int | None] = converter(int | None)
INT_PAIR: Made[tuple[int, int]] = converter(tuple[int, int])
FLOAT: Made[float] = converter(float)
FLOAT_OR_NONE: Made[float | None] = converter(float | None)
FLOATS_WITH_NONE: Made[list[float | None]] = converter(list[float | None])
BOOLS: Made[list[bool]] = converter(list[bool])


def truth(reply: Any) -> bool:
    """OK and 1 are true; null and 0 are not."""
    return bool(reply)


def nothing(_: Any) -> None:
    return None


def flat(pairs: Pairs) -> tuple[Value, ...]:
    _check_mapping(pairs)
    return tuple(chain.from_iterable(pairs.items()))


def flat_reversed(pairs: Scores) -> tuple[Value, ...]:
    _check_mapping(pairs)
    return tuple(chain.from_iterable((score, member) for member, score in pairs.items()))


def _check_mapping(pairs: object) -> None:
    if not isinstance(pairs, Mapping):
        raise TypeError(f"expected a mapping of names and values, not {pairs!r:.80}")


class Converters(ABC, Generic[V]):
    """The converters that depend on the type of values."""

    _value: Made[V]
    _value_or_none: Made[V | None]
    _values: Made[list[V]]
    _values_or_none: Made[list[V] | None]
    _values_with_none: Made[list[V | None]]
    _name_or_none: Made[V | None]
    _names: Made[list[V]]
    _mapping: Made[dict[V, V]]
    _set: Made[set[V]]
    _key_value: Made[tuple[V, V] | None]
    _key_value_score: Made[tuple[V, V, float] | None]
    _entries: Made[list[tuple[str, dict[V, V]]]]
    _scored: Made[list[tuple[V, float]]]

    def __init__(self, value: type[V]) -> None:
        of: Any = value  # a type that only exists at run time
        vars(self).update(_made_for(of))


@cache
def _made_for(of: Any) -> dict[str, Made[Any]]:
    pairs = converter(list[tuple[of, float]])
    # Names of keys and fields are never refused: a str can stand for any bytes.
    name: Any = Name if of is str else bytes
    return {
        "_value": converter(of),
        "_value_or_none": converter(of | None),
        "_values": converter(list[of]),
        "_values_or_none": converter(list[of] | None),
        "_values_with_none": converter(list[of | None]),
        "_name_or_none": converter(name | None),
        "_names": converter(list[name]),
        "_mapping": converter(dict[name, of]),
        "_set": converter(set[of]),
        "_key_value": converter(tuple[name, of] | None),
        "_key_value_score": converter(tuple[name, of, float] | None),
        "_entries": converter(list[tuple[str, dict[name, of]]]),
        "_scored": lambda reply: pairs(_in_pairs(reply)),
    }


def _in_pairs(reply: Any) -> Any:
    """RESP3 answers with pairs, RESP2 with a flat array."""
    if isinstance(reply, list) and reply and not isinstance(reply[0], list):
        return [reply[n : n + 2] for n in range(0, len(reply), 2)]
    return reply
