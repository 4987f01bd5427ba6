"""Bars with a range, as SVG. bench/plot.py decides what is drawn.

The SVG is written by hand, because the pages need one kind of plot only. matplotlib has forty
megabytes, and its output changes with each version, so no test could compare it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

OURS, REDIS, OLD, EXTRA = "#00796b", "#b0563f", "#7fb8b0", ("#8a7f66", "#c9bfa5")
LABEL_PX, BAR_PX, VALUE_PX, LINE_PX, HEAD_PX = 190, 420, 130, 15, 52


@dataclass
class Bar:
    """One bar. `low` and `high` are the lowest and the highest round; without rounds both are
    None."""

    series: int
    value: float
    low: float | None = None
    high: float | None = None
    text: str = ""


@dataclass
class Plot:
    """Groups of bars, one below the other. `mark` is a vertical line, such as "as fast"."""

    title: str
    unit: str
    series: list[tuple[str, str]]
    groups: list[tuple[str, list[Bar]]]
    mark: float | None = None


def svg(plot: Plot) -> str:
    return "\n".join(_svg(plot)) + "\n"


def _svg(plot: Plot) -> Iterator[str]:
    width = LABEL_PX + BAR_PX + VALUE_PX
    height = HEAD_PX + sum(len(bars) * LINE_PX + 9 for _, bars in plot.groups) + 8
    top = max(bar.high or bar.value for _, bars in plot.groups for bar in bars) * 1.02
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}"'
        f' height="{height}" font-family="sans-serif" font-size="12" role="img">'
    )
    yield f"<title>{escape(plot.title)}</title>"
    yield f'<rect width="{width}" height="{height}" rx="6" fill="#fff"/>'
    yield f'<text x="12" y="20" font-size="14" font-weight="bold">{escape(plot.title)}</text>'
    at = 12
    for name, colour in plot.series:
        yield f'<rect x="{at}" y="29" width="10" height="10" fill="{colour}"/>'
        yield f'<text x="{at + 15}" y="38">{escape(name)}</text>'
        at += 30 + 7 * len(name)
    yield f'<text x="{at}" y="38" fill="#666">{escape(plot.unit)}</text>'
    if plot.mark is not None:
        x = LABEL_PX + plot.mark / top * BAR_PX
        yield (
            f'<line x1="{x:.1f}" y1="{HEAD_PX - 6}" x2="{x:.1f}" y2="{height - 8}"'
            ' stroke="#666" stroke-dasharray="3 3"/>'
        )
    y = HEAD_PX
    for name, bars in plot.groups:
        middle = y + len(bars) * LINE_PX / 2 + 4
        yield f'<text x="{LABEL_PX - 8}" y="{middle:.1f}" text-anchor="end">{escape(name)}</text>'
        for bar in bars:
            yield from _bar(bar, y, plot.series[bar.series][1], BAR_PX / top)
            y += LINE_PX
        y += 9
    yield "</svg>"


def _bar(bar: Bar, y: float, colour: str, scale: float) -> Iterator[str]:
    length = max(bar.value * scale, 1)
    end = length
    yield (
        f'<rect x="{LABEL_PX}" y="{y + 2}" width="{length:.1f}" height="{LINE_PX - 4}"'
        f' fill="{colour}"/>'
    )
    if bar.low is not None and bar.high is not None:
        low, high, middle = bar.low * scale, bar.high * scale, y + LINE_PX / 2
        yield (
            f'<path d="M{LABEL_PX + low:.1f} {middle}H{LABEL_PX + high:.1f}'
            f'm0 -3v6M{LABEL_PX + low:.1f} {middle - 3}v6" stroke="#222" fill="none"/>'
        )
        end = max(length, high)
    text = escape(bar.text or f"{bar.value:.2f}")
    yield f'<text x="{LABEL_PX + end + 6:.1f}" y="{y + LINE_PX - 4}">{text}</text>'
