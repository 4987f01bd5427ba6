"""Tables and colours, as text.

On a terminal rich lays tables out, if it is installed: cells wrap to the available width. Elsewhere
a row is a line, so that other programs can split it. Nothing is printed here.
"""

import os
import shutil
import sys
from collections.abc import Sequence
from typing import NamedTuple, TextIO

from holdfast.log_lines import one_line

CHOICES = ("auto", "always", "never")
GAP = "  "


class Look(NamedTuple):
    """How text looks."""

    has_color: bool = False
    width: int = 0  # of the terminal; 0: no terminal


class Cell(NamedTuple):
    text: str
    color: int = 0  # the number in an ANSI escape sequence; 0: none


def is_smart_terminal(stream: TextIO) -> bool:
    """Whether the terminal can overwrite text and show colours."""
    return stream.isatty() and os.environ.get("TERM", "") not in ("", "dumb")


def look_of_stdout(color: str = "auto") -> Look:
    """How text on standard output looks. `color` is one of `CHOICES`. NO_COLOR counts unless
    colours are requested."""
    is_terminal = is_smart_terminal(sys.stdout)
    has_color = is_terminal and not os.environ.get("NO_COLOR")
    return Look(
        has_color if color == "auto" else color == "always",
        shutil.get_terminal_size().columns if is_terminal else 0,
    )


def paint(text: str, color: int, look: Look) -> str:
    return f"\x1b[{color}m{text}\x1b[0m" if look.has_color and color else text


def table(head: Sequence[str], rows: Sequence[Sequence[Cell]], look: Look) -> str:
    """The table as text. Control characters in cells are escaped."""
    lines = [[Cell(one_line(cell.text), cell.color) for cell in row] for row in rows]
    if look.width:
        try:
            return _laid_out(head, lines, look)
        except ImportError:
            pass
    return _aligned([[Cell(word) for word in head], *lines], look)


def _aligned(lines: Sequence[Sequence[Cell]], look: Look) -> str:
    widths = [max(len(cell.text) for cell in column) for column in zip(*lines, strict=True)]
    return "\n".join(
        GAP.join(
            paint(f"{cell.text:{width}}", cell.color, look)
            for cell, width in zip(line, widths, strict=True)
        ).rstrip()
        for line in lines
    )


def _laid_out(head: Sequence[str], lines: Sequence[Sequence[Cell]], look: Look) -> str:
    """The table in the layout of rich. Raises ImportError."""
    from io import StringIO

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    columns = Table(box=None, pad_edge=False, padding=(0, len(GAP), 0, 0), header_style="bold")
    for word in head:
        columns.add_column(word, overflow="fold")
    for line in lines:
        columns.add_row(*(Text.from_ansi(paint(cell.text, cell.color, look)) for cell in line))
    drawn = Console(
        file=StringIO(),
        width=look.width,
        color_system="standard" if look.has_color else None,
        force_terminal=look.has_color,
    )
    with drawn.capture() as captured:
        drawn.print(columns)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())
