"""C's long double of x86-64 (64 bits of mantissa), exactly. INCRBYFLOAT and HINCRBYFLOAT compute
with it, and their replies show all its digits.

The arithmetic uses integers, so the result is the same on every machine. Imports nothing of ours.
"""

import re
from decimal import Decimal

# A finite number m·2^e is (m, e) with |m| < 2^64. None is infinity.
Finite = tuple[int, int]
LongDouble = Finite | None

MANTISSA_BITS = 64
LOWEST_EXPONENT = -16445  # of the last bit of a mantissa: the smallest number
HIGHEST_BIT = 16383
LONGEST_TEXT = 5 * 1024 - 1  # the buffer into which Redis copies the text
DECIMALS = 17
HIGHEST: Finite = ((1 << MANTISSA_BITS) - 1, HIGHEST_BIT - MANTISSA_BITS + 1)
# Beyond this power of 2 or 10 a number is infinite or zero. The limit only saves computing it.
FAR = 17_000

# `++` never gives digits back: trying all ways to divide them between groups would take long.
# They are compiled when first used, because most servers never use them.
_DECIMAL = rb"([+-]?)(?:([0-9]++)\.?([0-9]*+)|\.([0-9]++))(?:[eE]([+-]?[0-9]++))?"
_HEX = (
    rb"([+-]?)0[xX](?:([0-9a-fA-F]++)\.?([0-9a-fA-F]*+)|\.([0-9a-fA-F]++))(?:[pP]([+-]?[0-9]++))?"
)
_INFINITE = rb"(?i)[+-]?inf(?:inity)?"


def parse(text: bytes) -> LongDouble:
    """The number that strtold reads from the whole text. Raises ValueError for a text that Redis
    does not accept: one with blanks, nan, or a number out of range (but "inf" is a number)."""
    if len(text) > LONGEST_TEXT:
        raise ValueError
    if match := re.fullmatch(_DECIMAL, text):
        base, step, per_digit = 10, 10, 1
    elif match := re.fullmatch(_HEX, text):
        base, step, per_digit = 16, 2, 4
    elif re.fullmatch(_INFINITE, text):
        return None
    else:
        raise ValueError
    sign, whole, fraction, bare_fraction, power = match.groups(b"")
    fraction = fraction or bare_fraction
    digits = (whole + fraction).decode()
    # int() refuses texts of more than 4300 decimal digits, Decimal accepts any length.
    mantissa = int(digits, 16) if base == 16 else int(Decimal(digits))
    if not mantissa:
        return 0, 0
    exponent = _clamped(power) - len(fraction) * per_digit
    if abs(len(digits.lstrip("0")) * per_digit + exponent) > FAR:
        raise ValueError
    scale = step ** abs(exponent)
    number = _rounded(mantissa * scale, 1, 0) if exponent >= 0 else _rounded(mantissa, scale, 0)
    if number is None or not number[0]:
        raise ValueError
    return (-number[0], number[1]) if sign == b"-" else number


def add(a: LongDouble, b: LongDouble) -> LongDouble:
    """The number nearest to the sum. None if the sum is infinite, or is no number: inf - inf."""
    if a is None or b is None:
        return None
    exponent = min(a[1], b[1])
    total = (a[0] << a[1] - exponent) + (b[0] << b[1] - exponent)
    number = _rounded(abs(total), 1, exponent)
    return (-number[0], number[1]) if number is not None and total < 0 else number


def negative(number: Finite) -> Finite:
    return -number[0], number[1]


def is_less(a: Finite, b: Finite) -> bool:
    exponent = min(a[1], b[1])
    return a[0] << a[1] - exponent < b[0] << b[1] - exponent


def human(number: Finite) -> bytes:
    """The digits that %.17Lf prints, without zeros at the end."""
    mantissa, exponent = number
    if exponent >= 0:
        text, decimals = str(Decimal(abs(mantissa) << exponent)), ""
    else:
        scaled = _nearest(abs(mantissa) * 10**DECIMALS, 1 << -exponent)
        text = str(Decimal(scaled)).rjust(DECIMALS + 1, "0")
        text, decimals = text[:-DECIMALS], text[-DECIMALS:].rstrip("0")
    if decimals:
        text += "." + decimals
    is_negative = mantissa < 0 and text != "0"
    return b"-" * is_negative + text.encode()


def _clamped(power: bytes) -> int:
    """A written exponent, which may have thousands of digits."""
    digits = power.lstrip(b"+-").lstrip(b"0")
    size = 10**6 if len(digits) > 6 else int(digits or b"0")
    return -size if power.startswith(b"-") else size


def _rounded(n: int, d: int, exponent: int) -> LongDouble:
    """The long double nearest to n/d·2^exponent. None if that is above the highest."""
    if not n:
        return 0, 0
    shift = n.bit_length() - d.bit_length() - MANTISSA_BITS
    shift = max(shift, LOWEST_EXPONENT - exponent)
    mantissa = _nearest(n << max(-shift, 0), d << max(shift, 0))
    if mantissa.bit_length() > MANTISSA_BITS:
        shift += 1
        mantissa = _nearest(n << max(-shift, 0), d << max(shift, 0))
    if mantissa.bit_length() > MANTISSA_BITS:  # 2^64: rounded up from all ones
        mantissa >>= 1
        shift += 1
    exponent += shift
    is_finite = exponent + mantissa.bit_length() - 1 <= HIGHEST_BIT
    return (mantissa, exponent) if is_finite else None


def _nearest(n: int, d: int) -> int:
    """n/d rounded to the nearest integer, and to the even one if two are equally near."""
    quotient, rest = divmod(n, d)
    return quotient + (2 * rest > d or (2 * rest == d and quotient & 1))
