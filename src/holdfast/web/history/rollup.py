"""Samples become buckets, and buckets become coarser with age. No I/O, no clock.

A bucket has for each metric the sum, the number and the largest of its samples. Two buckets of the
same time are merged by adding, so a restart within a bucket does no harm.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from holdfast.figures.view import View


class Resolution(NamedTuple):
    step_s: int
    keep: int  # how many buckets are kept


# The chart of an hour is drawn from the first one, that of a day from the second, that of a month
# from the third. Each keeps twice the time of its chart, so that the chart is full at its left
# edge.
RESOLUTIONS = (Resolution(10, 720), Resolution(120, 1440), Resolution(3600, 1488))


class Range(NamedTuple):
    name: str
    seconds: int
    step_s: int


RANGES = {
    "hour": Range("hour", 3600, 10),
    "day": Range("day", 86_400, 120),
    "month": Range("month", 31 * 86_400, 3600),
}

# The fields of a view that are kept, by name.
METRICS = (
    *("ops_per_s", "p50_us", "p99_us", "cpu_share", "errors_per_s"),
    *("received_bytes_per_s", "sent_bytes_per_s", "clients", "blocked_clients", "keys"),
    *("memory_bytes", "resident_bytes", "hit_share", "evicted_per_s", "expired_per_s"),
    *("fold_backlog_bytes", "fold_backlog_age_s", "wal_bytes", "file_bytes", "syncs_per_s"),
    *("replication_lag_s", "round_trip_s"),
)


class Stat(NamedTuple):
    total: float
    samples: int
    most: float

    def plus(self, other: "Stat") -> "Stat":
        return Stat(
            self.total + other.total, self.samples + other.samples, max(self.most, other.most)
        )

    @property
    def mean(self) -> float:
        return self.total / self.samples


@dataclass(slots=True)
class Bucket:
    step_s: int
    at_s: int  # Unix time of the begin: a multiple of the step
    stats: dict[str, Stat] = field(default_factory=dict)

    def merge(self, stats: Mapping[str, Stat]) -> None:
        for name, stat in stats.items():
            before = self.stats.get(name)
            self.stats[name] = stat if before is None else before.plus(stat)


class Rollup:
    """Collects samples until a bucket of the finest resolution ends, and returns them for all
    resolutions. It forgets samples that it has returned."""

    def __init__(self) -> None:
        self._open: Bucket | None = None

    def add(self, at_s: float, values: Mapping[str, float]) -> list[Bucket]:
        """Add a sample. Returns the buckets that belong into the file now; none until the finest
        one ends."""
        step_s = RESOLUTIONS[0].step_s
        begin_s = int(at_s // step_s * step_s)
        ended: list[Bucket] = []
        if self._open is not None and self._open.at_s != begin_s:  # also if the clock was set back
            ended = self.flush()
        if self._open is None:
            self._open = Bucket(step_s, begin_s)
        self._open.merge({name: Stat(value, 1, value) for name, value in values.items()})
        return ended

    def flush(self) -> list[Bucket]:
        """Return the rest in the same way, at the end."""
        bucket, self._open = self._open, None
        if bucket is None or not bucket.stats:
            return []
        return [
            Bucket(step_s, bucket.at_s // step_s * step_s, dict(bucket.stats))
            for step_s, _ in RESOLUTIONS
        ]


def values_of(view: View) -> dict[str, float]:
    known = ((name, getattr(view, name)) for name in METRICS)
    return {name: float(value) for name, value in known if value is not None}


class Point(NamedTuple):
    at_s: int
    mean: float
    most: float


def points(
    buckets: Mapping[int, Mapping[str, Stat]], metric: str, span: Range, now_s: float
) -> Iterator[Point | None]:
    """The points of a chart from left to right: one for each step of the range, None if nothing is
    known. The last one is the bucket of now, which has not ended."""
    last_s = int(now_s // span.step_s * span.step_s)
    for at_s in range(last_s - span.seconds + span.step_s, last_s + 1, span.step_s):
        stat = buckets.get(at_s, {}).get(metric)
        yield None if stat is None else Point(at_s, stat.mean, stat.most)
