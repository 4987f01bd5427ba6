"""Sums that come out the same in whatever order they are formed.

A number is an int, a float (a score) or a str: a decimal as INCRBYFLOAT writes it, because 0.1
and 0.2 make 0.3 there.
"""

import math
import re
from collections.abc import Iterable
from decimal import Context, Decimal

Number = int | float | str

_INTEGER = re.compile(rb"0|-?[1-9][0-9]{0,18}").fullmatch
_DECIMAL = re.compile(
    rb"[+-]?(?:[0-9]{1,400}(?:\.[0-9]{0,400})?|\.[0-9]{1,400})(?:[eE][+-]?[0-9]{1,3})?"
).fullmatch
_exact = Context(prec=5_000)  # enough for any sum of such numbers
_INT64 = range(-(1 << 63), 1 << 63)


def parse(text: bytes) -> Number | None:
    """What a client wrote; None when it is no number, or not one that is worth summing."""
    if _INTEGER(text):
        return int(text)
    return text.decode() if _DECIMAL(text) else None


def total(numbers: Iterable[Number]) -> Number:
    """All scores, or none of them."""
    terms = list(numbers)
    if all(isinstance(term, int) for term in terms):
        whole = sum(terms)  # type: ignore[arg-type]
        return whole if whole in _INT64 else str(whole)  # msgpack has no larger integers
    if any(isinstance(term, float) for term in terms):
        try:
            return math.fsum(terms)  # type: ignore[arg-type]
        except OverflowError:
            return float(sum(sorted(terms)))  # type: ignore[arg-type]
    result = Decimal(0)
    for term in terms:
        result = _exact.add(result, Decimal(term))
    return f"{result:f}"


def negative(number: Number) -> Number:
    if isinstance(number, str):
        return number[1:] if number.startswith("-") else "-" + number.removeprefix("+")
    return -number


def text_of(number: Number) -> bytes:
    """As clients read it: no zeros at the end, no point without anything behind it."""
    if not isinstance(number, str):
        return b"%d" % number if isinstance(number, int) else repr(number).encode()
    if "." in number:
        number = number.rstrip("0").rstrip(".")
    return number.encode() if number not in ("-0", "") else b"0"
