"""The table of metrics in Prometheus's text format. The only module that imports prometheus_client.

The text is made in pieces, so that clients are served between them.
"""

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.core import Metric as Family
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from holdfast.server.core.engine import Engine
from holdfast.server.features.latency import Histogram
from holdfast.server.http.coordination_metrics import Labels
from holdfast.server.http.metric_table import METRICS, Metric, Scrape, Type

CONTENT_TYPE = CONTENT_TYPE_LATEST
# Buckets end at powers of two, as in LATENCY HISTOGRAM: from a microsecond to a second.
POWERS = range(10, 31)
BOUNDS = [str(2**power / 1e9) for power in POWERS]

PIECE_LINES = 100  # about half a millisecond


class _Family(Collector):
    """The metric that prometheus_client writes next."""

    def __init__(self) -> None:
        self.families: list[Family] = []

    def collect(self) -> list[Family]:
        return self.families


class Exposition:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._next = _Family()
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self._next)

    def pieces(self) -> Iterator[bytes]:
        """The text, piece by piece. The numbers of a piece are those of the moment when it is
        made."""
        scrape = Scrape(self._engine)
        for metric in METRICS:
            lines, is_first = 0, True
            family = _family_of(metric)
            seen: set[Labels] = set()
            for labels, value in metric.source(scrape):
                if labels in seen:
                    continue  # Prometheus refuses a scrape that has the same labels twice
                seen.add(labels)
                lines += _add(family, labels, value)
                if lines >= PIECE_LINES:
                    yield self._text(family, is_first)
                    lines, is_first = 0, False
                    family = _family_of(metric)
            yield self._text(family, is_first)

    def _text(self, family: Family, is_first: bool) -> bytes:
        """The first piece of a metric begins with two lines about it."""
        self._next.families = [family]
        text = generate_latest(self._registry)
        return text if is_first else text.split(b"\n", 2)[2]


def _family_of(metric: Metric) -> Family:
    make: Callable[..., Family] = {
        Type.COUNTER: CounterMetricFamily,
        Type.GAUGE: GaugeMetricFamily,
        Type.HISTOGRAM: HistogramMetricFamily,
    }[metric.type]
    return make(metric.name, metric.meaning, labels=metric.labels)


def _add(family: Family, labels: Labels, value: float | Histogram) -> int:
    """Add a sample; return its number of lines."""
    if isinstance(value, Histogram):
        assert isinstance(family, HistogramMetricFamily)
        counts = value.counts_below(POWERS)
        buckets = [*zip(BOUNDS, counts, strict=True), ("+Inf", value.calls)]
        family.add_metric(labels, buckets, value.total_ns / 1e9)
        return len(buckets) + 2
    assert isinstance(family, CounterMetricFamily | GaugeMetricFamily)
    family.add_metric(labels, value)
    return 1
