"""The progress of long work as sentences, for a log: how much is done, how quickly, and how long
the rest will take. Work that is done within seconds is not mentioned.
"""

import time
from collections.abc import Callable

from holdfast.progress import BYTES

EVERY_S = 5.0
SIZES = ("B", "kB", "MB", "GB", "TB")


class ProgressLines:
    """A `Progress` that says one sentence every few seconds."""

    def __init__(
        self,
        say: Callable[[str], None],
        every_s: float = EVERY_S,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._say = say
        self._every_s = every_s
        self._now_s = now_s
        self._work = ""
        self._began_s = self._due_s = 0.0

    def __call__(self, work: str, done: int, total: int, unit: str) -> None:
        now_s = self._now_s()
        if work != self._work:
            self._work, self._began_s = work, now_s
            self._due_s = now_s + self._every_s
        if now_s >= self._due_s:
            self._due_s = now_s + self._every_s
            self._say(f"{work}: {pace(done, total, unit, now_s - self._began_s)}")


def pace(done: int, total: int, unit: str, took_s: float) -> str:
    """`45 %, 1.2 GB of 2.7 GB, 120 MB/s, 12 s left`, as far as that is known."""
    words = [f"{percent(done, total)} %"] if total else []
    words.append(f"{amount(done, unit)} of {amount(total, unit)}" if total else amount(done, unit))
    if unit != BYTES:
        words[-1] += f" {unit}"
    rate = done / took_s if took_s > 0 else 0.0
    if rate:
        words.append(f"{amount(int(rate), unit)}/s" if rate >= 1 else f"{rate:.1f}/s")
        if total:
            words.append(f"{duration((total - done) / rate)} left")
    return ", ".join(words)


def percent(done: int, total: int) -> int:
    return 100 * done // total


def amount(count: int, unit: str) -> str:
    """A number of bytes with three digits, any other number with all of them."""
    if unit != BYTES:
        return f"{count:,}"
    size, names = float(count), iter(SIZES)
    name = next(names)
    while size >= 999.5 and name != SIZES[-1]:
        size, name = size / 1000, next(names)
    return f"{size:.3g} {name}"


def duration(seconds: float) -> str:
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"
