"""The time that commands and syncs take: a histogram for each, and the moments when the server was
slow.

The engine counts on its hot path, so counting is one line there: `stats.fast[ns >> SHIFT]`.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Final, Protocol

SHIFT: Final = 8  # slots of the quick half are 256 ns wide
FAST_NS: Final = 1 << 16  # calls that take less are counted in those slots; nearly all do
SIGNIFICANT_BITS = 7  # of longer calls: two digits, as in Redis

MOST_SAMPLES = 160  # of an event


class Tally(Protocol):
    """Counts the calls that scripts make through the gate, in the same slots. The engine does not
    see these calls."""

    def take(self) -> tuple[int, list[tuple[int, int]]]:
        """The nanoseconds, and the slots with their counts, since the last call of `take`."""
        ...


class Histogram:
    """How often something happened, and how long it took."""

    __slots__ = ("fast", "ns", "slow")

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.ns = 0
        self.fast = [0] * (FAST_NS >> SHIFT)
        self.slow: dict[int, int] = {}  # by the upper bound of the slot, in ns

    def record(self, ns: int) -> None:
        """Count a call and its time."""
        self.ns += ns
        if ns < FAST_NS:
            self.fast[ns >> SHIFT] += 1
        else:
            self.record_slow(ns)

    def record_slow(self, ns: int) -> None:
        shift = ns.bit_length() - SIGNIFICANT_BITS
        most_ns = (((ns >> shift) + 1) << shift) - 1
        self.slow[most_ns] = self.slow.get(most_ns, 0) + 1

    @property
    def total_ns(self) -> int:
        """The time of all calls, those of the gate included."""
        return self.ns

    @property
    def calls(self) -> int:
        if not self.total_ns:
            return 0  # without adding up, because this is often asked for all commands
        return sum(self.fast) + sum(self.slow.values())

    def percentiles_us(self, percents: Iterable[float]) -> Iterator[float]:
        total = self.calls
        for percent in percents:
            rank = max(1, int(percent / 100 * total + 0.5))
            for most_ns, count in self._counts():
                rank -= count
                if rank <= 0:
                    yield most_ns / 1000
                    break

    def _counts(self) -> Iterator[tuple[int, int]]:
        """The upper bound in ns and the number of calls of each slot, in order. Before it,
        `total_ns` must be called, which adds the calls of the gate."""
        for slot, count in enumerate(self.fast):
            if count:
                yield ((slot + 1) << SHIFT) - 1, count
        yield from sorted(self.slow.items())

    def histogram_us(self) -> Iterator[tuple[int, int]]:
        """How many calls took at most 2 ** power ns, for the powers at which this number grows."""
        total, power = 0, 10
        if not self.total_ns:
            return
        for most_ns, count in self._counts():
            if most_ns >= 1 << power and total:
                yield _shown_us(power), total
            total += count
            power = max(10, most_ns.bit_length())
        if total:
            yield _shown_us(power), total

    def counts_below(self, powers: Iterable[int]) -> list[int]:
        """How many calls took less than 2 ** power ns, for each of these powers, from 8 on."""
        if not self.total_ns:
            return [0 for _ in powers]
        sums = list(accumulate(self.fast))
        by_power: dict[int, int] = {}
        for most_ns, count in self.slow.items():  # all calls below 2 ** power, or none
            power = most_ns.bit_length()
            by_power[power] = by_power.get(power, 0) + count
        last = len(sums)
        return [
            sums[min(1 << power - SHIFT, last) - 1]
            + sum([count for each, count in by_power.items() if each <= power])
            for power in powers
        ]


class Stats(Histogram):
    """The statistics of one command, for INFO, LATENCY HISTOGRAM and /metrics."""

    __slots__ = ("failed", "rejected", "tally")

    def __init__(self) -> None:
        self.tally: Tally | None = None  # of the gate to scripts
        super().__init__()

    def reset(self) -> None:
        if self.tally is not None:
            self.tally.take()
        self.rejected = 0
        self.failed = 0
        super().reset()

    @property
    def total_ns(self) -> int:
        if self.tally is not None:
            ns, slots = self.tally.take()
            self.ns += ns
            for slot, count in slots:
                self.fast[slot] += count
        return self.ns


def _shown_us(power: int) -> int:
    """2 ** power ns, as Redis's histograms show it."""
    return ((1 << power) + (1 << power - SIGNIFICANT_BITS) - 1) // 1000


class SlowEvents:
    """The slow moments of one kind of event: for each, its time in seconds, and its length in
    milliseconds."""

    __slots__ = ("most_ms", "samples")

    def __init__(self) -> None:
        self.samples: deque[tuple[int, int]] = deque(maxlen=MOST_SAMPLES)
        self.most_ms = 0


class Spikes:
    """The slow moments above `latency-monitor-threshold`, for LATENCY LATEST, HISTORY and
    DOCTOR."""

    def __init__(self) -> None:
        self.threshold_ms = 0  # 0: nothing is remembered
        self.events: dict[bytes, SlowEvents] = {}

    def add(self, name: bytes, now_s: int, took_ms: int) -> None:
        """Note a slow moment. Of several moments in one second, only the slowest is kept."""
        if not 0 < self.threshold_ms <= took_ms:
            return
        event = self.events.setdefault(name, SlowEvents())
        event.most_ms = max(event.most_ms, took_ms)
        samples = event.samples
        if samples and samples[-1][0] == now_s:
            took_ms = max(took_ms, samples.pop()[1])
        samples.append((now_s, took_ms))

    def reset(self, names: Iterable[bytes]) -> int:
        """Forget these kinds of events, or all. Returns how many were forgotten."""
        known = [name for name in names or list(self.events) if name in self.events]
        for name in known:
            del self.events[name]
        return len(known)
