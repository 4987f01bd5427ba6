"""The hybrid logical clock: stamps that follow the wall clock, and never contradict causality.

A stamp is 48 bits of Unix milliseconds and 16 bits that count within one. It is later than every
stamp that this replica gave out or has seen, with one exception: a clock that runs further ahead
than `max_drift_ms` is not followed. A peer's is reported. Our own was ahead and has been set right:
to go on where it was would win every conflict until the right time gets there. Values therefore do
not trust stamps where they know better: a write replaces the writes that it has seen, whatever
their stamps.
"""

from collections.abc import Callable

COUNTER_BITS = 16
MAX_DRIFT_MS = 5_000


def ms_of(stamp: int) -> int:
    """The Unix time of a stamp."""
    return stamp >> COUNTER_BITS


class HybridClock:
    """`last` is the latest stamp given out or followed; it has to survive restarts."""

    __slots__ = ("_now_ms", "last", "max_drift_ms")

    def __init__(
        self, now_ms: Callable[[], int], last: int = 0, *, max_drift_ms: int = MAX_DRIFT_MS
    ) -> None:
        self._now_ms = now_ms
        self.last = last
        self.max_drift_ms = max_drift_ms

    def tick(self) -> int:
        """A new stamp. Should the counter overflow, it borrows from the next millisecond."""
        now = self._now_ms() << COUNTER_BITS
        after = self.last + 1
        is_followed = now < after <= now + (self.max_drift_ms << COUNTER_BITS)
        self.last = after if is_followed else now
        return self.last

    def observe(self, stamp: int) -> int:
        """A peer's stamp was seen. Returns by how many milliseconds it is ahead of the wall
        clock if that is too far to be followed: the alarm; otherwise 0."""
        if stamp <= self.last:
            return 0
        ahead_ms = ms_of(stamp) - self._now_ms()
        if ahead_ms > self.max_drift_ms:
            return ahead_ms
        self.last = stamp
        return 0
