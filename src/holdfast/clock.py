"""The injected clock: code whose result depends on the time asks a `Clock`.

`SystemClock` reads the clock of the machine. `ManualClock` moves only when a test moves it, so
tests never sleep.

Three kinds of code read the clock of the machine directly:

- code that limits its own working time or measures a duration: cron, turn, fold, scripts, HTTP,
  huge pages, the shutdown;
- code that limits how long it waits for another process: opening a file, moving data between
  servers;
- the outermost part of a program, which shows the time or passes a clock on: the command line, the
  dashboard, the process that writes a snapshot.
"""

import asyncio
import heapq
import itertools
import time
from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    def cancel(self) -> None: ...


class Clock(Protocol):
    def now_ms(self) -> int:
        """Unix time in milliseconds, for expiry, LASTSAVE and TIME."""
        ...

    def now_us(self) -> int: ...

    def monotonic_s(self) -> float:
        """Seconds on a clock that never goes back, for deadlines and durations."""
        ...

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer: ...


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def now_us(self) -> int:
        return time.time_ns() // 1_000

    def monotonic_s(self) -> float:
        return time.monotonic()

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        return asyncio.get_running_loop().call_later(delay_s, callback)


class ManualTimer:
    __slots__ = ("callback", "due_s")

    def __init__(self, due_s: float, callback: Callable[[], None]) -> None:
        self.due_s = due_s
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class ManualClock:
    """Stands still until `advance` moves it. Due timers then fire in order of deadline."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_us = now_ms * 1000
        self._elapsed_us = 0
        self._timers: list[tuple[float, int, ManualTimer]] = []
        self._order = itertools.count()

    def now_ms(self) -> int:
        return self._now_us // 1000

    def now_us(self) -> int:
        return self._now_us

    def monotonic_s(self) -> float:
        return self._elapsed_us / 1e6

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        timer = ManualTimer(self.monotonic_s() + delay_s, callback)
        heapq.heappush(self._timers, (timer.due_s, next(self._order), timer))
        return timer

    @property
    def pending_timers(self) -> int:
        return sum(timer.callback is not None for _, _, timer in self._timers)

    def advance(self, seconds: float) -> None:
        target_us = self._elapsed_us + round(seconds * 1e6)
        while self._timers and round(self._timers[0][0] * 1e6) <= target_us:
            due_s, _, timer = heapq.heappop(self._timers)
            self._move_to(max(self._elapsed_us, round(due_s * 1e6)))
            if timer.callback is not None:
                callback, timer.callback = timer.callback, None
                callback()
        self._move_to(target_us)

    def _move_to(self, elapsed_us: int) -> None:
        self._now_us += elapsed_us - self._elapsed_us
        self._elapsed_us = elapsed_us
