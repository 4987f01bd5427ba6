"""Line charts as SVG, made here so that they need no JavaScript. No I/O.

The colours are in the style sheet; a drawing has classes only, because the policy of our pages
allows no inline style.
"""

import json
from collections.abc import Callable, Sequence
from html import escape
from typing import NamedTuple

from markupsafe import Markup

from holdfast.web.history.rollup import Point, Range

WIDTH, HEIGHT = 560, 150
LEFT, RIGHT, TOP, BOTTOM = 64, 8, 12, 20
Text = Callable[[float | None], str]


class Line(NamedTuple):
    label: str
    points: Sequence[Point | None]
    uses_most: bool = False  # draw the largest value of each step instead of the mean


def chart(
    title: str, lines: Sequence[Line], span: Range, text: Text, now_s: float, base: int = 10
) -> Markup:
    """A chart with an axis from 0 to a round number. The line has a gap where values are
    missing."""
    values = [_value(line, p) for line in lines for p in line.points if p is not None]
    top = nice_ceiling(max(values, default=0.0), base)
    body = [_grid(top, text), _times(span)]
    last_s = int(now_s // span.step_s * span.step_s)
    first_s = last_s - span.seconds + span.step_s
    for n, line in enumerate(lines):
        drawn = [
            (_x(p.at_s, first_s, last_s), _y(_value(line, p), top)) if p else None
            for p in line.points
        ]
        body.append(_path(drawn, f"line line-{n}"))
    data = {
        "first_s": first_s,
        "step_s": span.step_s,
        "lines": [
            {
                "label": line.label,
                "texts": [None if p is None else text(_value(line, p)) for p in line.points],
            }
            for line in lines
        ],
    }
    label = f"{title}, last {span.name}: {summary(lines, text)}"
    return Markup(
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"'
        f' aria-label="{escape(label)}" data-chart="{escape(json.dumps(data))}"'
        f' data-left="{LEFT}" data-right="{RIGHT}">'
        f"{''.join(body)}"
        f'<line class="cursor" x1="-9" x2="-9" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/></svg>'
    )


def summary(lines: Sequence[Line], text: Text) -> str:
    parts = []
    for line in lines:
        known = [_value(line, p) for p in line.points if p is not None]
        if known:
            parts.append(f"{line.label} now {text(known[-1])}, most {text(max(known))}")
        else:
            parts.append(f"{line.label} not known")
    return "; ".join(parts)


def nice_ceiling(value: float, base: int = 10) -> float:
    """The next of 1, 2, 4, 6, 8, 10, 20, …, because the halves of these are short, too; 1 for 0.
    With base 1024: so many bytes of the largest unit that is not larger than the value."""
    if not 0 < value < float("inf"):
        return 1.0
    power = 1.0
    if base == 1024:
        while power * 1024 <= value:
            power *= 1024
        return power * nice_ceiling(value / power)
    while power * 10 <= value:
        power *= 10
    while power > value:
        power /= 10
    return next(power * step for step in (1, 2, 4, 6, 8, 10, 20) if power * step >= value)


def _value(line: Line, point: Point) -> float:
    return point.most if line.uses_most else point.mean


def _x(at_s: float, first_s: float, last_s: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * (at_s - first_s) / max(last_s - first_s, 1)


def _y(value: float, top: float) -> float:
    return TOP + (HEIGHT - TOP - BOTTOM) * (1 - min(value / top, 1.0))


def _grid(top: float, text: Text) -> str:
    marks = []
    for share in (0, 0.5, 1):
        y = _y(top * share, top)
        marks.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:g}" y2="{y:g}"/>')
        label = escape(text(top * share))
        marks.append(
            f'<text class="axis" x="{LEFT - 6}" y="{y + 4:g}" text-anchor="end">{label}</text>'
        )
    return "".join(marks)


_TICKS = {
    "hour": ("60 min ago", "45", "30", "15", "now"),
    "day": ("24 h ago", "18", "12", "6", "now"),
    "month": ("31 d ago", "23", "15", "8", "now"),
}


def _times(span: Range) -> str:
    marks = []
    for n, label in enumerate(_TICKS[span.name]):
        x = LEFT + (WIDTH - LEFT - RIGHT) * n / 4
        anchor = ("start", "middle", "middle", "middle", "end")[n]
        marks.append(
            f'<text class="axis" x="{x:g}" y="{HEIGHT - 5}" text-anchor="{anchor}">{label}</text>'
        )
    return "".join(marks)


def _path(drawn: Sequence[tuple[float, float] | None], name: str) -> str:
    """A path with a gap for each missing point, and a path of dots for the points without
    neighbours."""
    lines: list[str] = []
    dots: list[str] = []
    for n, point in enumerate(drawn):
        if point is None:
            continue
        x, y = point
        is_first = n == 0 or drawn[n - 1] is None
        if is_first and (n + 1 == len(drawn) or drawn[n + 1] is None):
            dots.append(f"M{x:.1f} {y:.1f}h.01")
        else:
            lines.append(f"{'M' if is_first else 'L'}{x:.1f} {y:.1f}")
    line = f'<path class="{name}" d="{"".join(lines)}"/>'
    return line + (f'<path class="{name} dots" d="{"".join(dots)}"/>' if dots else "")
