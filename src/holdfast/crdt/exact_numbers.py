"""Sums that do not depend on the order of their terms.

A number is an int, a float (a score) or a str. A str is a decimal as in INCRBYFLOAT, where 0.1 and
0.2 make 0.3.
"""

import math
import re
from collections.abc import Iterable
from decimal import Context, Decimal
from typing import Final

Number = int | float | str

_INTEGER: Final = re.compile(rb"0|-?[1-9][0-9]{0,18}").fullmatch
_DECIMAL: Final = re.compile(
    rb"[+-]?(?:[0-9]{1,400}(?:\.[0-9]{0,400})?|\.[0-9]{1,400})(?:[eE][+-]?[0-9]{1,3})?"
).fullmatch
_exact: Final = Context(prec=5_000)  # enough for any sum of such numbers


def parse(text: bytes) -> Number | None:
    """The number in a text; None if the text is no number, or has too many digits."""
    if _INTEGER(text):
        return int(text)
    return text.decode() if _DECIMAL(text) else None


def integer(number: int) -> Number:
    """The integer in a form that msgpack can encode, because it encodes integers only up to 64
    bits."""
    return number if -(1 << 63) <= number < 1 << 63 else str(number)


def total(numbers: Iterable[Number]) -> Number:
    """The sum. Either all numbers are scores, or none is a score."""
    terms = list(numbers)
    if len(terms) == 1 and isinstance(terms[0], int):
        return terms[0]
    integers = [term for term in terms if isinstance(term, int)]
    if len(integers) == len(terms):
        return integer(sum(integers))
    if any(isinstance(term, float) for term in terms):
        scores = [float(term) for term in terms]
        try:
            return math.fsum(scores)
        except OverflowError:
            return sum(sorted(scores))
    result = Decimal(0)
    for term in terms:
        result = _exact.add(result, Decimal(term))
    return f"{result:f}"


def negative(number: Number) -> Number:
    if isinstance(number, str):
        return number[1:] if number.startswith("-") else "-" + number.removeprefix("+")
    return -number


def text_of(number: Number) -> bytes:
    """The number as clients read it: no zeros at the end, and no point at the end."""
    if not isinstance(number, str):
        return b"%d" % number if isinstance(number, int) else repr(number).encode()
    if "." in number:
        number = number.rstrip("0").rstrip(".")
    return number.encode() if number not in ("-0", "") else b"0"
