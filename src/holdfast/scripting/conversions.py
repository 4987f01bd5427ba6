"""Converts replies to Lua values, and the results of scripts to replies.

To Lua: a plain value stays as it is. Other values become a tuple `(value, kind, …)`, of which
redis.lua makes a table: for small tables Lua is faster than Python. Or they become a table that is
made here.
"""

from collections.abc import Callable, Iterable, Iterator
from math import copysign
from typing import Any, Final

from holdfast.errors import CommandError
from holdfast.resp import (
    Attributed,
    BigNumber,
    HumanFloat,
    Map,
    NullArray,
    Pairs,
    Push,
    Reply,
    SetReply,
    Simple,
    Verbatim,
)
from holdfast.resp.c_strings import c_string

# The kinds of values, with the numbers that redis.lua has for them.
STATUS: Final = 1
ARRAY: Final = 2
ERROR: Final = 3
KILLED: Final = 4
NO_ROOM: Final = 5
MOST_VALUES: Final = 200
EXACT: Final = 10**16  # below it, no digit of an integer gets lost

INT64_MIN = -(1 << 63)

BAD_ARGUMENT = CommandError("ERR Lua redis lib command arguments must be strings or integers")

MakeTable = Callable[[Any], Any]  # from a list or a dict
Converter = Callable[[Any], Any]


def to_lua(make_table: MakeTable, resp3: bool) -> dict[type, Converter]:
    """For each type of reply, the function that makes a Lua value of it for this protocol."""
    inner: dict[type, Converter] = {}

    def array(items: Iterable[Reply]) -> Any:
        # In RESP3 a nil leaves a hole, so elements are counted, not appended.
        return make_table(
            {at: inner[type(item)](item) for at, item in enumerate(items, 1) if item is not None}
            if resp3
            else [inner[type(item)](item) for item in items]
        )

    def flat(pairs: dict[bytes, Reply]) -> Any:
        return array([item for pair in pairs.items() for item in pair])

    def mapping(pairs: Iterable[Any]) -> Any:  # tuples, or lists of two
        content = {inner[type(k)](k): inner[type(v)](v) for k, v in pairs}
        return make_table({b"map": make_table(content)})

    def members(items: Iterable[Reply]) -> Any:
        return make_table({b"set": make_table({inner[type(i)](i): True for i in items})})

    def field(name: bytes) -> Converter:
        return lambda value: make_table({name: value})

    def status(text: Simple) -> Any:
        return make_table({b"ok": bytes(text)})

    def failure(error: CommandError) -> Any:
        return make_table({b"err": error.message})

    def itself(value: Any) -> Any:
        return value

    nothing = None if resp3 else False
    inner |= {
        bytes: itself,
        int: itself,
        type(None): lambda _: nothing,
        NullArray: lambda _: nothing,
        Simple: status,
        CommandError: failure,
        list: array,
        tuple: array,
        Attributed: lambda items: inner[type(items[1])](items[1]),  # as in Redis, without the facts
    }
    if resp3:
        inner |= {
            bool: itself,
            float: field(b"double"),
            HumanFloat: lambda number: make_table({b"double": float(number)}),
            dict: lambda pairs: mapping(pairs.items()),
            Pairs: mapping,
            Map: lambda items: mapping(zip(items[::2], items[1::2], strict=True)),
            SetReply: members,
            Push: array,
            Verbatim: lambda text: make_table(
                {
                    b"verbatim_string": make_table(
                        {b"format": text.fmt, b"string": bytes(text)},
                    )
                }
            ),
            BigNumber: lambda number: make_table({b"big_number": bytes(number)}),
        }
    else:
        inner |= {
            bool: int,
            float: lambda number: b"%.17g" % number,
            HumanFloat: bytes,
            dict: flat,
            Pairs: array,
            Map: array,
            SetReply: array,
            Push: array,
            Verbatim: bytes,
            BigNumber: bytes,
        }

    def bulks(items: tuple[bytes, ...]) -> Any:
        if len(items) <= MOST_VALUES:
            return (None, ARRAY, *items)
        return make_table(items)

    return inner | {
        tuple: bulks,
        Simple: lambda text: (bytes(text), STATUS),
        CommandError: lambda error: (error.message, ERROR),
    }


def arguments(values: Iterable[object]) -> list[bytes]:
    """The arguments of `redis.call` as the command will get them. Raises BAD_ARGUMENT."""
    argv: list[bytes] = []
    for value in values:
        if type(value) is bytes:
            argv.append(value)
        elif type(value) is int:
            is_exact = -EXACT < value < EXACT
            argv.append(b"%d" % value if is_exact else b"%.17g" % value)
        elif type(value) is float:
            # C writes the sign of a NaN; 0/0 has a minus.
            is_minus_nan = value != value and copysign(1, value) < 0
            argv.append(b"-nan" if is_minus_nan else b"%.17g" % value)
        else:
            raise BAD_ARGUMENT
    return argv


def integer(number: int | float) -> int:
    """The integer that C makes of a double by a cast to long long. (An int from lupa is in the
    range of long long.)"""
    if type(number) is int:
        return number
    return int(number) if -(2.0**63) <= number < 2.0**63 else INT64_MIN


_NEWLINES = bytes.maketrans(b"\r\n", b"  ")

# The codes that results.lua uses when it flattens the result of a script.
_ARRAY_OF, _NIL, _BOOLEAN, _ERROR, _STATUS, _DOUBLE, _MAP, _SET, _BIG, _VERBATIM = range(1, 11)
_COUNTED_ERROR = 11


def from_lua(values: Iterator[Any], resp3: bool, errors: list[CommandError]) -> Reply:
    """The reply for the result of a script. `resp3`: the script has called `redis.setresp(3)`.
    Errors inside of the result are also appended to the list."""
    value = next(values)
    if type(value) is bytes:
        return value
    if value is not True:
        return integer(value)
    code = next(values)
    if code == _ARRAY_OF:
        return [from_lua(values, resp3, errors) for _ in range(next(values))]
    if code == _NIL:
        return None
    if code == _BOOLEAN:
        truth = next(values) == 1
        return truth if resp3 else 1 if truth else None
    if code in (_ERROR, _COUNTED_ERROR):
        error = CommandError(c_string(next(values)))
        error.is_counted = code == _COUNTED_ERROR
        errors.append(error)
        return error
    if code == _STATUS:
        return as_status(next(values))
    if code == _DOUBLE:
        return float(next(values))
    if code == _MAP:  # two keys may become the same: 1 and 1.5
        return Map([from_lua(values, resp3, errors) for _ in range(2 * next(values))])
    if code == _SET:
        return SetReply([from_lua(values, resp3, errors) for _ in range(next(values))])
    if code == _BIG:
        return BigNumber(next(values).translate(_NEWLINES))
    return _verbatim(values)


def as_status(text: bytes) -> Simple:
    return Simple(c_string(text).translate(_NEWLINES))


def _verbatim(values: Iterator[Any]) -> Verbatim:
    fmt = c_string(next(values))[:3].ljust(3)  # clients expect three bytes
    return Verbatim(next(values), fmt.translate(_NEWLINES))
