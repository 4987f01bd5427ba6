"""long double, in cases whose digits can be checked by hand. tests/wire/test_oracle_strings.py
compares thousands of random cases with redis-server."""

import pytest

from holdfast.longdouble import add, human, parse


def shown(text: bytes) -> bytes:
    number = parse(text)
    assert number is not None
    return human(number)


@pytest.mark.parametrize(
    ("text", "digits"),
    [
        (b"0", b"0"),
        (b"-0", b"0"),
        (b"1.50", b"1.5"),
        (b"3.0e3", b"3000"),
        (b"0x.8p1", b"1"),
        (b"0.1", b"0.1"),
        (b"1e-17", b"0.00000000000000001"),
        (b"6e-18", b"0.00000000000000001"),
        (b"4e-18", b"0"),
        (b"-4e-18", b"0"),
        (b"18446744073709551615", b"18446744073709551615"),  # 64 bits: exact
        (b"18446744073709551617", b"18446744073709551616"),  # 65 bits: to even
        (b"18446744073709551619", b"18446744073709551620"),
        (b"0x" + b"f" * 16 + b"8", b"295147905179352825856"),  # all ones round up to 2^68
    ],
)
def test_digits(text: bytes, digits: bytes) -> None:
    assert shown(text) == digits


@pytest.mark.parametrize(
    "text",
    [
        *(b"", b".", b"-", b"e1", b"1e", b"0x", b"0x.p1", b"1x", b" 1", b"1 ", b"nan", b"1_0"),
        *(b"1e4933", b"1e-4952", b"1e" + b"9" * 4000, b"1" * 5120, b"1" * 5118 + b"x"),
    ],
)
def test_not_a_number(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"^$"):
        parse(text)


def test_sums() -> None:
    assert human(add(parse(b"10.5"), parse(b"0.1")) or (0, 0)) == b"10.6"
    assert human(add(parse(b"1"), parse(b"-1")) or (1, 0)) == b"0"
    largest = parse(b"0xffffffffffffffffp16320")
    assert add(largest, parse(b"0x1p16318")) == largest
    assert add(largest, parse(b"0x1p16319")) is None  # half of the last bit: up, out of range
    assert add(parse(b"inf"), parse(b"1")) is None
    assert parse(b"-Infinity") is None
    smallest = parse(b"0x1p-16445")
    assert smallest is not None
    assert add(smallest, smallest) == (2, -16445)
