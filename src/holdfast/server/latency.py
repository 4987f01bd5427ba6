"""How long commands take: a histogram for each, and the moments when the server was slow.

The engine counts on its hot path, so what it does there is one line: `stats.fast[ns >> SHIFT]`.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final, Protocol

SHIFT: Final = 8  # slots of the quick half are 256 ns wide
FAST_NS: Final = 1 << 16  # whatever takes less is counted there, which is nearly everything
SIGNIFICANT_BITS = 7  # of what takes longer: two digits, as in Redis

MOST_SAMPLES = 160  # of an event


class Tally(Protocol):
    """Who counts calls beside the engine, in the same slots."""

    def take(self) -> tuple[int, list[tuple[int, int]]]:
        """ns, and slots with their counts, since this was last asked."""
        ...


class Stats:
    """What INFO and LATENCY HISTOGRAM say about one command."""

    __slots__ = ("failed", "fast", "ns", "rejected", "slow", "tally")

    def __init__(self) -> None:
        self.tally: Tally | None = None  # of the gate to scripts
        self.reset()

    def reset(self) -> None:
        if self.tally is not None:
            self.tally.take()
        self.ns = 0
        self.rejected = 0
        self.failed = 0
        self.fast = [0] * (FAST_NS >> SHIFT)
        self.slow: dict[int, int] = {}  # by the most ns that it may have been

    def record(self, ns: int) -> None:
        """A call; `ns` counts."""
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
        """Of all calls, also of those that were counted beside."""
        if self.tally is not None:
            ns, slots = self.tally.take()
            self.ns += ns
            for slot, count in slots:
                self.fast[slot] += count
        return self.ns

    @property
    def calls(self) -> int:
        if not self.total_ns:
            return 0  # asked of all, and often
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
        """The most ns that calls took, and how many calls, in order; see `total_ns`."""
        for slot, count in enumerate(self.fast):
            if count:
                yield ((slot + 1) << SHIFT) - 1, count
        yield from sorted(self.slow.items())

    def histogram_us(self) -> Iterator[tuple[int, int]]:
        """How many calls took no longer, at powers of two: those at which there are more."""
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


def _shown_us(power: int) -> int:
    """2 ** power ns, as Redis's histograms show it."""
    return ((1 << power) + (1 << power - SIGNIFICANT_BITS) - 1) // 1000


class Event:
    """Something that was slow: when, in seconds, and for how many milliseconds."""

    __slots__ = ("most_ms", "samples")

    def __init__(self) -> None:
        self.samples: deque[tuple[int, int]] = deque(maxlen=MOST_SAMPLES)
        self.most_ms = 0


class Spikes:
    """What LATENCY LATEST and its kin tell, above `latency-monitor-threshold`."""

    def __init__(self) -> None:
        self.threshold_ms = 0  # 0: nothing is remembered
        self.events: dict[bytes, Event] = {}

    def add(self, name: bytes, now_s: int, took_ms: int) -> None:
        """Of a second, the slowest stays."""
        if not 0 < self.threshold_ms <= took_ms:
            return
        event = self.events.setdefault(name, Event())
        event.most_ms = max(event.most_ms, took_ms)
        samples = event.samples
        if samples and samples[-1][0] == now_s:
            took_ms = max(took_ms, samples.pop()[1])
        samples.append((now_s, took_ms))

    def reset(self, names: Iterable[bytes]) -> int:
        """Forget these events, or all; how many there were."""
        known = [name for name in names or list(self.events) if name in self.events]
        for name in known:
            del self.events[name]
        return len(known)
