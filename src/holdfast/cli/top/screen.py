"""`holdfast top`: a view as lines of rich, for a terminal of any size. No I/O."""

from collections.abc import Iterator
from dataclasses import replace

from rich.console import Group
from rich.text import Text

from holdfast.cli.top.text import (
    FIGURES,
    Figure,
    TextTable,
    headline,
    lines_of,
    sentences,
    tables,
)
from holdfast.figures.view import View

FIGURE_WIDTH = 23  # of a label and a value
GAP = 3
MOST_COLUMNS = 5
ROOMY = 6  # with so many lines for each table, a blank line comes before each
HELP = "q quit  s sort"


def screen(view: View, width: int, height: int, order: str) -> Group:
    """All parts that fit, the most important first: at most `height` lines. Text is never used as
    markup, because it contains names of keys."""
    lines = [_line(headline(view), "bold"), *(_line(text, "red") for text in sentences(view))]
    lines += _figures(view, width, height // 2)
    lines += _tables(tables(view, order), width, height - len(lines) - 1)
    return Group(*lines[: height - 1], _line(HELP, "dim"))


def _line(text: str, style: str = "") -> Text:
    return Text(text, style, no_wrap=True, overflow="ellipsis")


def _figures(view: View, width: int, most_rows: int) -> Iterator[Text]:
    """Columns are filled from top to bottom, because neighbours in the list belong together."""
    columns = max(1, min((width + GAP) // (FIGURE_WIDTH + GAP), MOST_COLUMNS))
    rows = max(1, min(most_rows, -(-len(FIGURES) // columns)))
    shown = FIGURES[: rows * columns]
    for row in range(rows):
        cells = [_figure(figure, view, min(FIGURE_WIDTH, width)) for figure in shown[row::rows]]
        yield Text(" " * GAP, no_wrap=True, overflow="ellipsis").join(cells)


def _figure(figure: Figure, view: View, width: int) -> Text:
    """One figure. If it does not fit, its label is cut, not its value."""
    value = figure.text(view)
    room = max(0, width - len(value) - 1)
    return Text.assemble((f"{figure.label[:room]:{room}} ", "dim"), value)


def _tables(found: list[TextTable], width: int, room: int) -> Iterator[Text]:
    """The tables that fit, with the rows that fit. Each needs at least three lines: a title, a head
    and a row. A small terminal shows the first tables only."""
    found = found[: max(0, room // 3)]
    gap = int(room >= ROOMY * len(found))
    shares = _shares([gap + 2 + len(table.rows) for table in found], room)
    for table, share in zip(found, shares, strict=True):
        yield from [_line("")] * gap
        yield from _table(replace(table, rows=table.rows[: share - 2 - gap]), width)


def _shares(needs: list[int], room: int) -> list[int]:
    """The number of lines for each table: as many as it needs, or an equal share of the lines that
    other tables leave."""
    shares = [0] * len(needs)
    smallest_first = sorted(range(len(needs)), key=needs.__getitem__)
    for left, n in zip(range(len(needs), 0, -1), smallest_first, strict=True):
        shares[n] = min(needs[n], room // left)
        room -= shares[n]
    return shares


def _table(table: TextTable, width: int) -> Iterator[Text]:
    yield _line(table.title, "bold cyan")
    if table.rows:
        head, *rows = lines_of(table.narrowed(width))
        yield _line(head, "dim")
        yield from map(_line, rows)
    else:
        yield _line(table.empty, "dim")
