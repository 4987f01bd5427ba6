"""The graph of jobs as SVG: a column for each level, a line for each "waits for". No I/O."""

from collections import Counter
from html import escape

from markupsafe import Markup

from holdfast.web.readers.builds import JobGraph, JobNode

WIDTH, HEIGHT, GAP_X, GAP_Y, MARGIN = 170, 44, 70, 14, 10
LANE = 8  # between lines that go below boxes
_MOST_NAME = 18


def draw(graph: JobGraph) -> Markup:
    """Drawn with classes only, because the policy of our pages allows no inline style."""
    if not graph.nodes:
        return Markup("")
    rows: Counter[int] = Counter()
    places: dict[str, tuple[int, int]] = {}
    for node in graph.nodes:
        x = MARGIN + node.level * (WIDTH + GAP_X)
        y = MARGIN + rows[node.level] * (HEIGHT + GAP_Y)
        places[node.job] = x, y
        rows[node.level] += 1
    bottom = max(y for _, y in places.values()) + HEIGHT
    lines, lanes = [], 0
    for edge in graph.edges:
        (x1, y1), (x2, y2) = places[edge.blocked_by], places[edge.job]
        start, end = (x1 + WIDTH, y1 + HEIGHT // 2), (x2, y2 + HEIGHT // 2)
        if x2 - start[0] != GAP_X:  # boxes are in between, or it leads back
            lanes += 1
            path = _around(start, end, bottom + lanes * LANE)
        else:
            path = _curve(start, end)
        kind = "edge now" if edge.is_active else "edge"
        lines.append(f'<path class="{kind}" d="M{start[0]} {start[1]}{path}"/>')
    width = MARGIN + max(x for x, _ in places.values()) + WIDTH
    height = MARGIN + bottom + lanes * LANE
    boxes = [_box(node, *places[node.job]) for node in graph.nodes]
    label = f"{len(graph.nodes)} jobs and {len(graph.edges)} rules between them"
    return Markup(
        f'<svg class="jobs" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        f' role="img" aria-label="{label}">{"".join(lines)}{"".join(boxes)}</svg>'
    )


def _curve(start: tuple[int, int], end: tuple[int, int]) -> str:
    bend = (start[0] + end[0]) // 2
    return f" C{bend} {start[1]} {bend} {end[1]} {end[0]} {end[1]}"


def _around(start: tuple[int, int], end: tuple[int, int], lane: int) -> str:
    """Through the gaps beside both ends, and below all boxes."""
    down, up = (start[0] + GAP_X // 2, lane), (end[0] - GAP_X // 2, lane)
    return f"{_curve(start, down)} L{up[0]} {up[1]}{_curve(up, end)}"


def _box(node: JobNode, x: int, y: int) -> str:
    name = node.job if len(node.job) <= _MOST_NAME else f"{node.job[: _MOST_NAME - 1]}…"
    kind = "job runs" if node.running else "job waits" if node.waiting else "job"
    counts = f"{len(node.running)} running, {len(node.waiting)} waiting"
    return (
        f'<g class="{kind}"><rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="7"/>'
        f'<text x="{x + 10}" y="{y + 19}">{escape(name)}</text>'
        f'<text class="more" x="{x + 10}" y="{y + 35}">{counts}</text></g>'
    )
