"""The overview: the current figures, which change while the page is open, and charts of earlier
ones.
"""

from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple

from markupsafe import Markup
from starlette.responses import Response, StreamingResponse

from holdfast.errors import StorageError
from holdfast.figures.units import count, micros, percent, seconds, size
from holdfast.web.charts import Line, Text, chart
from holdfast.web.dashboard import Dashboard
from holdfast.web.history.rollup import RANGES, Range, points
from holdfast.web.visit import Visit

Drawn = tuple[str, Markup, Sequence[str]]  # title, chart, labels of its lines
CHARTS_FRESH_S = 2.0


class ChartSpec(NamedTuple):
    title: str
    text: Text
    metrics: tuple[tuple[str, str, bool], ...]  # label, metric, whether to draw its largest value


CHARTS = (
    ChartSpec("Operations a second", count, (("ops/s", "ops_per_s", False),)),
    ChartSpec("Latency", micros, (("p50", "p50_us", False), ("p99", "p99_us", True))),
    ChartSpec("Memory", size, (("data", "memory_bytes", False),)),
    ChartSpec("Memory of the process", size, (("resident", "resident_bytes", False),)),
    ChartSpec("Keys", count, (("keys", "keys", False),)),
    ChartSpec("Clients", count, (("all", "clients", True), ("blocked", "blocked_clients", True))),
    ChartSpec("Hit rate", percent, (("hits", "hit_share", False),)),
    ChartSpec("Errors a second", count, (("errors", "errors_per_s", True),)),
    ChartSpec("Fold backlog", size, (("bytes", "fold_backlog_bytes", True),)),
    ChartSpec("Write-ahead log", size, (("bytes", "wal_bytes", True),)),
    ChartSpec("Syncs a second", count, (("syncs", "syncs_per_s", False),)),
    ChartSpec("Replication lag", seconds, (("longest", "replication_lag_s", True),)),
)


async def overview(visit: Visit) -> Response:
    name = visit.query.get("range", "hour")
    span = RANGES.get(name, RANGES["hour"])
    dashboard = visit.dashboard

    async def draw() -> list[Drawn]:
        return drawn_charts(dashboard, span)

    charts: list[Drawn] = []
    trouble = ""
    try:
        # The charts are the same for all users, and a thousand open pages ask for them every ten
        # seconds.
        charts = await dashboard.recent.get(("charts", span.name), CHARTS_FRESH_S, draw)
    except StorageError as error:  # the current figures are shown nevertheless
        trouble = str(error)
    return visit.render(
        "overview.html",
        view=dashboard.poller.view,
        poller=dashboard.poller,
        charts=charts,
        span=span,
        ranges=list(RANGES),
        trouble=trouble,
    )


def drawn_charts(dashboard: Dashboard, span: Range) -> list[Drawn]:
    """The charts for which there are values."""
    now_s = dashboard.now_s()
    buckets = dashboard.history.buckets(span, now_s)
    if not buckets:
        return []
    drawn: list[Drawn] = []
    for spec in CHARTS:
        lines = [
            Line(label, list(points(buckets, metric, span, now_s)), uses_most)
            for label, metric, uses_most in spec.metrics
        ]
        if any(any(line.points) for line in lines) or spec.title == CHARTS[0].title:
            labels = [line.label for line in lines]
            base = 1024 if spec.text is size else 10
            drawing = chart(spec.title, lines, span, spec.text, now_s, base)
            drawn.append((spec.title, drawing, labels))
    return drawn


async def events(visit: Visit) -> Response:
    """The stream of an open page. It ends when its user signs out, or may no longer see figures.
    Then the page is loaded again."""
    kind = "figures" if visit.query.get("kind") == "figures" and visit.may("INFO") else "status"
    hub = visit.dashboard.hub
    if hub.is_full:
        return Response("too many pages are open\n", 503, media_type="text/plain")
    session = visit.session

    async def stream() -> AsyncIterator[bytes]:
        async for news in hub.follow(kind):
            login = session.login
            if login is None or (kind == "figures" and not login.permissions.may("INFO")):
                yield b"event: signed-out\ndata:\n\n"
                return
            yield news

    return StreamingResponse(stream(), media_type="text/event-stream")
