"""Five fields of cron, in UTC, compiled to sets of numbers for the Lua scripts. No I/O.

Allowed are `*`, `?`, `5`, `1-5`, `1,2`, `*/15`, `1-30/2`, names of months and weekdays, and `H`.
`H` is a number that follows from a name, so that many jobs do not start in the same minute. `H/n`
is every n-th number from such a number on, `H(a-b)` is a number between a and b.
"""

import re
import zlib
from collections.abc import Iterable

from holdfast.errors import HoldfastError


class BadCronError(HoldfastError, ValueError):
    """The expression is not valid cron; the text says where."""


MOST_WINDOWS = 32
_MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
_DAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]
# Name, first, last, largest value of H (every month has 28 days), names of the numbers.
_FIELDS: tuple[tuple[str, int, int, int, dict[str, int]], ...] = (
    ("minute", 0, 59, 59, {}),
    ("hour", 0, 23, 23, {}),
    ("day", 1, 31, 28, {}),
    ("month", 1, 12, 12, {name: n for n, name in enumerate(_MONTHS, 1)}),
    ("weekday", 0, 7, 6, {name: n for n, name in enumerate(_DAYS)}),
)
_PART = re.compile(
    r"(?:(?P<any>[*?])|(?P<hash>H)(?:\((?P<low>\w+)-(?P<high>\w+)\))?"
    r"|(?P<first>\w+)(?:-(?P<last>\w+))?)(?:/(?P<step>\d+))?"
)


def compile_cron(text: str, name: str = "") -> str:
    """One expression in the form for the scripts. `name` determines the value of `H`."""
    if not isinstance(text, str):
        raise BadCronError(f"cron is written as text, not {text!r}")
    words = text.upper().split()
    if len(words) != len(_FIELDS):
        raise BadCronError(
            f"{text!r} has {len(words)} fields, not 5: minute hour day month weekday"
        )
    fields = []
    for number, (word, field) in enumerate(zip(words, _FIELDS, strict=True)):
        title, first, last, hash_last, names = field
        seed = zlib.crc32(f"{name}\0{number}".encode())
        numbers: set[int] = set()
        for part in word.split(","):
            found = _PART.fullmatch(part)
            values = found and _values(found, first, last, hash_last, names, seed)
            if not values:
                raise BadCronError(f"{part!r} in {text!r} is no {title}")
            numbers.update(values)
        if title == "weekday":
            numbers = {n % 7 for n in numbers}
        is_all = len(numbers) == last - first + (title != "weekday")
        fields.append("*" if is_all else f",{','.join(map(str, sorted(numbers)))},")
    return " ".join(fields)


def compile_windows(windows: Iterable[str], name: str = "") -> str:
    """Compile freeze windows, one a line."""
    lines = [compile_cron(window, name) for window in windows]
    if len(lines) > MOST_WINDOWS:  # the scripts look at all of them for each day
        raise BadCronError(f"more than {MOST_WINDOWS} freeze windows")
    return "\n".join(lines)


def _values(
    part: re.Match[str], first: int, last: int, hash_last: int, names: dict[str, int], seed: int
) -> range | None:
    """The numbers of one part of a field; None if the part is not valid."""

    def number(word: str | None, otherwise: int) -> int:
        if word is None:
            return otherwise
        return int(word) if word.isdecimal() else names.get(word, -1)

    step = number(part["step"], 0)
    if part["step"] is not None and not 0 < step <= last:
        return None
    if part["hash"]:
        low, high = number(part["low"], first), number(part["high"], hash_last)
        if not first <= low <= high <= last:
            return None
        start = low + seed % (min(step, high - low + 1) if step else high - low + 1)
        return range(start, high + 1, step) if step else range(start, start + 1)
    if part["any"]:
        return range(first, last + 1, step or 1)
    low = number(part["first"], first)
    high = number(part["last"], last if step else low)
    return range(low, high + 1, step or 1) if first <= low <= high <= last else None
