"""Reading arguments: numbers, timeouts and options as Redis reads them, with its errors."""

import math
import re
from collections.abc import Container
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.commands.context import Context, Limits
from holdfast.errors import NOT_A_FLOAT, NOT_AN_INTEGER, SYNTAX, CommandError
from holdfast.glob import Matcher, compile_glob
from holdfast.resp.c_strings import c_string

if TYPE_CHECKING:
    from mypy_extensions import i64  # a machine word when compiled; only an annotation when not

MINUS: Final = 45
ZERO: Final = 48
INT64_MIN: Final = -(1 << 63)
INT64_MAX: Final = (1 << 63) - 1

# The most elements that a negative count may ask for. Such a reply has as many elements as the
# count says, even if only few are stored. More elements would keep all clients waiting, because a
# reply is built completely before its first byte is sent.
MOST_REPEATED: Final = 1 << 20

# The texts that Redis accepts as a 64-bit integer: no sign but minus, no leading zeros, no blanks.
_INTEGER = re.compile(rb"0|-?[1-9][0-9]{0,18}").fullmatch


def digits(text: bytes) -> int:
    """The number that one to eighteen digits denote; -1 for any other text. Most numbers are
    written so. Compiled, this takes 30 instructions for a digit and creates no object."""
    length: i64 = len(text)
    if not 0 < length <= 18:
        return -1
    number: i64 = 0
    for at in range(length):
        digit: i64 = text[at] - ZERO
        if not 0 <= digit <= 9:
            return -1
        number = 10 * number + digit
    return number


def parse_int(value: bytes, error: CommandError = NOT_AN_INTEGER) -> int:
    number = digits(value)
    if number >= 0 and (value[0] != ZERO or len(value) == 1):
        return number
    if len(value) > 1 and value[0] == MINUS and value[1] != ZERO:  # often -1, the end of a range
        number = digits(value[1:])
        if number > 0:
            return -number
    if _INTEGER(value) is None:
        raise error
    number = int(value)
    if INT64_MIN <= number <= INT64_MAX:
        return number
    raise error


def repeats(c: Context, count: int, per_element: int = 1) -> int:
    """The number of elements that a negative count asks for. Such a reply may have an element
    several times, so it must be a list: `WireSession` expects that a tuple repeats no element.

    A client whose output limit is lower than such a reply is closed, as for any reply."""
    if -count * per_element > MOST_REPEATED:
        c.overflows(MOST_REPEATED)
        raise CommandError(f"ERR a negative count is limited to {MOST_REPEATED // per_element}")
    return -count


def is_int(value: bytes) -> bool:
    """Whether `parse_int` accepts this text."""
    return _INTEGER(value) is not None and INT64_MIN <= int(value) <= INT64_MAX


def parse_int_between(value: bytes, low: int, high: int, error: CommandError) -> int:
    number = parse_int(value, error)
    if low <= number <= high:
        return number
    raise error


# The texts that strtold accepts, except those that Redis refuses (blanks, nan). `++` never gives
# digits back: to try all ways to divide a megabyte of digits between groups would never end.
_FLOAT = re.compile(
    rb"[+-]?(?:[0-9]++\.?[0-9]*+(?:e[+-]?[0-9]+)?|\.[0-9]++(?:e[+-]?[0-9]+)?|inf(?:inity)?)",
    re.IGNORECASE,
).fullmatch
_HEX_FLOAT = rb"(?i)[+-]?0x[0-9a-f]*+\.?[0-9a-f]*+(?:p[+-]?[0-9]+)?"  # compiled when first used


def parse_float(value: bytes, error: CommandError = NOT_A_FLOAT) -> float:
    if _FLOAT(value) is not None:
        number = float(value)
        # strtod fails with ERANGE where Python returns inf.
        if number in (float("inf"), float("-inf")) and b"i" not in value.lower():
            raise error
        return number
    if re.fullmatch(_HEX_FLOAT, value) is not None and len(value) > 2:
        try:
            return float.fromhex(value.decode())
        except (ValueError, OverflowError):
            raise error from None
    raise error


BAD_BIT_OFFSET = CommandError("ERR bit offset is not an integer or out of range")


def parse_bit_offset(value: bytes, limits: Limits, width: int = 0) -> int:
    """The offset of a bit, or of a field of this width. `#2` is the third field of its width."""
    if width and value.startswith(b"#"):
        offset = parse_int(value[1:], BAD_BIT_OFFSET) * width
    else:
        offset = parse_int(value, BAD_BIT_OFFSET)
    if 0 <= offset < limits.proto_max_bulk_len * 8:
        return offset
    raise BAD_BIT_OFFSET


TIMEOUT_NOT_A_NUMBER = CommandError("ERR timeout is not an integer or out of range")
TIMEOUT_NEGATIVE = CommandError("ERR timeout is negative")


def parse_timeout_s(value: bytes) -> float:
    """The seconds to block; 0 means for ever. The error for a text that is not a number differs
    from that of Redis: docs/compatibility.md lists it."""
    milliseconds = parse_float(value, TIMEOUT_NOT_A_NUMBER) * 1000
    if milliseconds <= -1:
        raise TIMEOUT_NEGATIVE
    if milliseconds > INT64_MAX:
        raise TIMEOUT_NOT_A_NUMBER
    return math.ceil(milliseconds) / 1000  # rounded up, because 0 means for ever


# For each option, its unit in milliseconds, and whether its value is a point in time.
EXPIRY_OPTIONS = {
    b"EX": (1000, False),
    b"PX": (1, False),
    b"EXAT": (1000, True),
    b"PXAT": (1, True),
}


class Options:
    """Iterates over the optional arguments at the end of an argv."""

    __slots__ = ("_argv", "_at")

    def __init__(self, argv: list[bytes], start: int) -> None:
        self._argv = argv
        self._at = start

    def __bool__(self) -> bool:
        return self._at < len(self._argv)

    def word(self) -> bytes:
        """The name of the next option, in upper case."""
        self._at += 1
        return self._argv[self._at - 1].upper()

    def value(self) -> bytes:
        """The argument of the option just read. Raises SYNTAX if there is none."""
        if self._at >= len(self._argv):
            raise SYNTAX
        self._at += 1
        return self._argv[self._at - 1]

    def integer(self, error: CommandError = NOT_AN_INTEGER) -> int:
        return parse_int(self.value(), error)


INVALID_CURSOR = CommandError("ERR invalid cursor")
_CURSOR = re.compile(rb"[+-]?[0-9]+|").fullmatch


def parse_cursor(text: bytes) -> int:
    """The cursor that strtoul reads: a sign is allowed, a NUL ends the text, no text is 0."""
    text = c_string(text)
    if _CURSOR(text) is None or len(text.lstrip(b"+-0")) > 20 or abs(int(text or b"0")) >= 1 << 64:
        raise INVALID_CURSOR
    return int(text or b"0") % (1 << 64)


def parse_pattern(pattern: bytes) -> Matcher | None:
    """A matcher for the pattern. None for `*`, which every name matches, also the empty one."""
    return None if pattern == b"*" else compile_glob(pattern)


class ScanOptions(NamedTuple):
    """The options of SCAN, HSCAN, SSCAN and ZSCAN, which follow the cursor."""

    limit: int
    matches: Matcher | None
    type_name: str | None = None
    no_values: bool = False

    @classmethod
    def parse(
        cls, argv: list[bytes], start: int, *, takes_type: bool = False, is_hscan: bool = False
    ) -> "ScanOptions":
        count, matches, type_name, no_values = 10, None, None, False
        options = Options(argv, start)
        while options:
            word = options.word()
            if word == b"COUNT":
                count = options.integer()
                if count < 1:
                    raise SYNTAX
            elif word == b"MATCH":
                matches = parse_pattern(options.value())
            elif word == b"TYPE" and takes_type:
                type_name = options.value().decode("latin-1").lower()
            elif word == b"NOVALUES" and is_hscan:
                no_values = True
            else:
                raise SYNTAX
        return cls(count, matches, type_name, no_values)


# -- the commands that pop from the first of several keys ----------------------------------------

NUMKEYS_NOT_POSITIVE = CommandError("ERR numkeys should be greater than 0")
COUNT_NOT_POSITIVE = CommandError("ERR count should be greater than 0")


def parse_mpop(
    argv: list[bytes], at: int, ends: Container[bytes]
) -> tuple[list[bytes], bytes, int]:
    """Parse `numkeys key [key ...] end [COUNT count]`, from `at` on. Returns the keys, the end in
    upper case, and the count."""
    numkeys = parse_int_between(argv[at], 1, INT64_MAX, NUMKEYS_NOT_POSITIVE)
    end_at = at + 1 + numkeys
    if end_at >= len(argv) or (end := argv[end_at].upper()) not in ends:
        raise SYNTAX
    count = 0
    options = Options(argv, end_at + 1)
    while options:
        if options.word() != b"COUNT" or count:
            raise SYNTAX
        count = parse_int_between(options.value(), 1, INT64_MAX, COUNT_NOT_POSITIVE)
    return argv[at + 1 : end_at], end, count or 1
