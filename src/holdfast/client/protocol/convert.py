"""From a reply to the Python type that the caller wants. Runs in the caller's task.

| `into` | takes |
|---|---|
| `Any` | everything, unconverted |
| `None` | everything, and forgets it |
| `str` | UTF-8 text, numbers |
| `bytes` | any text, numbers |
| `int`, `Annotated[int, range(0, 256)]` | integers, text that is one; in that range |
| `float` | numbers, text that is one |
| `bool` | true, false, 1, 0, OK |
| `T | None`, `optional(T)` | null, and all that T takes |
| `list[T]`, `set[T]`, `tuple[T, ...]` | arrays |
| `tuple[A, B]` | arrays of that length |
| `dict[K, V]` | maps, arrays of pairs, flat arrays; the same key twice is an error |
| a function or method | everything; it gets the reply and returns the value |
| another class, as `Decimal` | everything that the class can be called with; text is given as str |
"""

import json
import re
from collections.abc import Callable
from functools import lru_cache
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    TypeAlias,
    TypeVar,
    Union,
    _SpecialForm,
    cast,
    get_args,
    get_origin,
    overload,
)

from holdfast.client.errors import ClientError, ConversionError, ServerError
from holdfast.client.protocol.request import text_of

T = TypeVar("T")
Converter: TypeAlias = Callable[[Any], Any]
Into: TypeAlias = type[T] | Callable[[Any], T]
Slot: TypeAlias = Into[T] | None  # the type of one reply of a request; None forgets the reply
# Forms such as `str | None` and `Annotated[int, range(9)]` are no types to type checkers. Any would
# not do here: functions match it as well, and their results would become Any.
Form: TypeAlias = UnionType | _SpecialForm
# A slot of a request: its value, or the error in place of it.
Failure: TypeAlias = ServerError | ConversionError | ClientError
Got: TypeAlias = T | Failure
Maybe: TypeAlias = T | Failure | None


@overload
def convert(reply: Any, into: None) -> None: ...
@overload
def convert(reply: Any, into: Into[T]) -> T: ...
@overload
def convert(reply: Any, into: Form) -> Any: ...
def convert(reply: Any, into: Any) -> Any:
    """The reply as `into`. Raises an error reply, and ConversionError for the wrong type."""
    if isinstance(reply, ServerError):
        raise reply
    return checked(converter(into), reply)


def slot_value(make: Converter, reply: Any) -> Any:
    """A slot of a request: the converted reply, or the error in place of it."""
    if isinstance(reply, ServerError | ClientError):
        return reply
    try:
        return checked(make, reply)
    except ConversionError as error:
        return error


def checked(make: Callable[[Any], T], reply: Any) -> T:
    """The converted reply. A ConversionError carries the reply: it may be a popped element."""
    try:
        return make(reply)
    except ConversionError as error:
        error.reply = reply
        raise


def optional(into: type[T]) -> type[T | None]:
    """`T | None` in a form that type checkers accept as a type."""
    return cast(type[T | None], into | None)


def converter(into: Any) -> Converter:
    found = _PLAIN.get(into) if into.__class__ is type else None
    if found is None and callable(into) and not isinstance(into, type) and not get_origin(into):
        return _called(into)  # not cached: its object may be unhashable, and would be kept alive
    return found or _compiled(into)


@lru_cache(maxsize=1024)
def _compiled(into: Any) -> Converter:
    if into is Any:
        return _as_it_is
    if into is None or into is NoneType:
        return _ignore
    if into in _PLAIN:
        return _PLAIN[into]
    if into is list:
        return _items
    if into is dict:
        return _mapping(_as_it_is, _as_it_is)
    if isinstance(into, type) and get_origin(into) is None:
        return _made_by(into)
    origin, args = get_origin(into), get_args(into)
    if origin in (Union, UnionType) and len(args) == 2 and NoneType in args:
        return _optional(_compiled(args[0] if args[1] is NoneType else args[1]))
    if origin is Annotated and args[0] is int and isinstance(args[1], range):
        return _ranged(args[1])
    if origin is list:
        return _sequence(_compiled(args[0]))
    if origin is set or origin is frozenset:
        return _gathered(_sequence(_compiled(args[0])), origin)
    if origin is tuple and len(args) == 2 and args[1] is Ellipsis:
        return _then(_sequence(_compiled(args[0])), tuple)
    if origin is tuple:
        return _fixed(tuple(map(_compiled, args)))
    if origin is dict:
        return _mapping(_compiled(args[0]), _compiled(args[1]))
    raise TypeError(f"replies cannot be converted into {into!r}")


def _wrong(expected: str, reply: Any) -> ConversionError:
    return ConversionError(f"expected {expected}, got {_shown(reply)}")


def _shown(reply: Any) -> str:
    if reply is None:
        return "null"
    if isinstance(reply, ServerError):
        return f"the error {reply}"
    text = repr(reply)
    return text if len(text) <= 60 else text[:57] + "..."


# -- single values ----------------------------------------------------------------------------


def _as_it_is(reply: Any) -> Any:
    return reply


def _ignore(_: Any) -> None:
    return None


def _str(reply: Any) -> str:
    if type(reply) is bytes:
        try:
            return reply.decode()
        except UnicodeDecodeError:
            raise _wrong("UTF-8 text (into=bytes takes any text)", reply) from None
    if type(reply) in (int, float):
        return str(reply)
    raise _wrong("str", reply)


def _bytes(reply: Any) -> bytes:
    if type(reply) is bytes:
        return reply
    if type(reply) in (int, float):
        return str(reply).encode()
    raise _wrong("bytes", reply)


class Name(str):
    """For `converter`: the name of a key or field as str, for any bytes; see `text_of`."""

    __slots__ = ()


def _name(reply: Any) -> str:
    return text_of(reply) if type(reply) is bytes else _str(reply)


_INTEGER = re.compile(rb"-?[0-9]{1,4000}").fullmatch  # Python refuses from 4,301 digits on


def _int(reply: Any) -> int:
    if type(reply) is int:
        return reply
    if type(reply) is bool:
        return int(reply)
    if type(reply) is bytes and _INTEGER(reply):
        return int(reply)
    raise _wrong("int", reply)


def _float(reply: Any) -> float:
    if type(reply) is float:
        return reply
    if type(reply) in (bytes, int):
        try:
            return float(reply)
        except (ValueError, OverflowError):
            pass
    raise _wrong("float", reply)


_BOOLS: dict[Any, bool] = {1: True, 0: False, b"OK": True, b"1": True, b"0": False}


def _bool(reply: Any) -> bool:
    if type(reply) in (bool, int, bytes) and reply in _BOOLS:
        return _BOOLS[reply]
    raise _wrong("bool", reply)


_PLAIN: dict[Any, Converter] = {
    str: _str,
    bytes: _bytes,
    int: _int,
    float: _float,
    bool: _bool,
    Name: _name,
}


def _optional(inner: Converter) -> Converter:
    return lambda reply: None if reply is None else inner(reply)


def _ranged(allowed: range) -> Converter:
    def convert_ranged(reply: Any) -> int:
        number = _int(reply)
        if number not in allowed:
            raise _wrong(f"an int from {allowed.start} to {allowed.stop - 1}", reply)
        return number

    return convert_ranged


def _made_by(kind: type[Any]) -> Converter:
    def convert_by_class(reply: Any) -> Any:
        if reply is None:
            raise _wrong(kind.__name__, reply)
        try:
            return kind(_str(reply) if type(reply) is bytes else reply)
        except ConversionError:
            raise
        except Exception as error:
            raise _raised(_wrong(kind.__name__, reply), error) from error

    return convert_by_class


def _called(function: Converter) -> Converter:
    def convert_by_function(reply: Any) -> Any:
        try:
            return function(reply)
        except ConversionError:
            raise
        except Exception as error:
            name = getattr(function, "__qualname__", type(function).__name__)
            raise _raised(_wrong(f"a value that {name} takes", reply), error) from error

    return convert_by_function


def _raised(wrong: ConversionError, error: Exception) -> ConversionError:
    return ConversionError(f"{wrong.problem}: {type(error).__name__}: {error}")


def _then(first: Converter, second: Converter) -> Converter:
    return lambda reply: second(first(reply))


def _gathered(items_of: Converter, kind: Converter) -> Converter:
    def convert_set(reply: Any) -> Any:
        items = items_of(reply)
        try:
            return kind(items)
        except TypeError:
            raise _wrong("elements that can be in a set", reply) from None

    return convert_set


# -- many values ------------------------------------------------------------------------------


def _items(reply: Any) -> list[Any]:
    if not isinstance(reply, list):
        raise _wrong("an array", reply)
    return reply


def _at(step: str, inner: Converter, reply: Any) -> Any:
    try:
        return inner(reply)
    except ConversionError as error:
        raise ConversionError(error.problem, f"$[{step}]{error.path[1:]}") from None


def _sequence(inner: Converter) -> Converter:
    def convert_sequence(reply: Any) -> list[Any]:
        items = _items(reply)
        try:
            return [inner(item) for item in items]
        except ConversionError:  # the path is built only after a failure
            return [_at(str(n), inner, item) for n, item in enumerate(items)]

    return convert_sequence


def _fixed(inners: tuple[Converter, ...]) -> Converter:
    def convert_fixed(reply: Any) -> tuple[Any, ...]:
        items = _items(reply)
        if len(items) != len(inners):
            raise ConversionError(f"expected {len(inners)} elements, got {len(items)}")
        pairs = enumerate(zip(inners, items, strict=True))
        return tuple(_at(str(n), inner, item) for n, (inner, item) in pairs)

    return convert_fixed


def _mapping(key_of: Converter, value_of: Converter) -> Converter:
    def convert_mapping(reply: Any) -> dict[Any, Any]:
        result: dict[Any, Any] = {}
        for n, (raw_key, raw_value) in enumerate(_pairs(reply)):
            key = _at(f"key {n}", key_of, raw_key)
            step = json.dumps(key) if isinstance(key, str | int | float) else repr(key)
            try:
                is_known = key in result
            except TypeError:
                problem = f"expected what can be a key, got {_shown(key)}"
                raise ConversionError(problem, f"$[key {n}]") from None
            if is_known:
                raise ConversionError("the same key twice", f"$[{step}]")
            result[key] = _at(step, value_of, raw_value)
        return result

    return convert_mapping


def _pairs(reply: Any) -> list[tuple[Any, Any]]:
    if isinstance(reply, dict):
        return list(reply.items())
    items = _items(reply)
    if items and all(isinstance(item, list) and len(item) == 2 for item in items):
        return [(key, value) for key, value in items]
    if len(items) % 2:
        raise ConversionError(f"expected pairs, got {len(items)} elements")
    return list(zip(items[::2], items[1::2], strict=True))
