"""The hybrid logical clock: stamps that follow the wall clock, and never contradict causality.

A stamp has 48 bits of Unix milliseconds, and 16 bits that count within a millisecond. It is later
than each stamp that this replica made or has seen, with one exception: a stamp that is more than
`max_drift_ms` ahead of the wall clock is not followed. If a peer made it, the drift is reported. If
it is our own, our clock was ahead and was corrected: following it would win each conflict until the
right time has reached it. So stamps can go back, and values do not rely on them alone: a write
replaces all writes that it has seen, with any stamps.
"""

from collections.abc import Callable

COUNTER_BITS = 16
MAX_DRIFT_MS = 5_000


def ms_of(stamp: int) -> int:
    """The Unix time of a stamp."""
    return stamp >> COUNTER_BITS


class HybridClock:
    """The clock. `last` is the latest stamp that was made or followed; it has to survive
    restarts."""

    __slots__ = ("_now_ms", "last", "max_drift_ms")

    def __init__(
        self, now_ms: Callable[[], int], last: int = 0, *, max_drift_ms: int = MAX_DRIFT_MS
    ) -> None:
        self._now_ms = now_ms
        self.last = last
        self.max_drift_ms = max_drift_ms

    def tick(self) -> int:
        """Make a stamp. If the counter overflows, the stamp is in the next millisecond."""
        now = self._now_ms() << COUNTER_BITS
        after = self.last + 1
        is_followed = now < after <= now + (self.max_drift_ms << COUNTER_BITS)
        self.last = after if is_followed else now
        return self.last

    def observe(self, stamp: int) -> int:
        """Follow a peer's stamp. Returns 0, or the milliseconds by which it is too far ahead to be
        followed."""
        if stamp <= self.last:
            return 0
        ahead_ms = (stamp >> COUNTER_BITS) - self._now_ms()
        if ahead_ms > self.max_drift_ms:
            return ahead_ms
        self.last = stamp
        return 0
