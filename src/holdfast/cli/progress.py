"""Shows the progress of long work on standard error: a bar on a terminal, lines elsewhere.

The bar is drawn by rich, if that is installed, and is one line of text otherwise. Work of less than
a second shows nothing. The code that does the work knows nothing about it: see
holdfast/progress.py.
"""

import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TextIO

from holdfast.cli.tables import is_smart_terminal
from holdfast.operation.progress_lines import ProgressLines, pace
from holdfast.progress import Progress

SHOW_AFTER_S = 1.0
REDRAW_S = 0.1
LINES_EVERY_S = 10.0
# Columns of a terminal: with fewer than the first there is no rate and no time, with fewer than the
# second no bar.
WIDE = 80
NARROW = 40


@contextmanager
def showing_progress() -> Iterator[Progress]:
    """Shows progress, for commands that a user waits for. At the end it is removed from the
    terminal."""
    if not is_smart_terminal(sys.stderr):
        yield ProgressLines(_say, LINES_EVERY_S)
        return
    bar = Bar(sys.stderr)
    # A line of the log must begin in the first column, where the bar is. This handler comes before
    # those that write.
    handler = _MakingWay(bar)
    logger = logging.getLogger("holdfast")
    logger.handlers.insert(0, handler)
    try:
        yield bar
    finally:
        logger.removeHandler(handler)
        bar.clear()


def _say(sentence: str) -> None:
    print(f"holdfast: {sentence}", file=sys.stderr, flush=True)


class Drawing(Protocol):
    """A bar on the screen."""

    def draw(self, work: str, done: int, total: int, text: str) -> None: ...

    def erase(self) -> None: ...


class Bar:
    """A `Progress` that draws a bar. The bar appears after a second, and again after `clear`."""

    def __init__(
        self,
        stream: TextIO,
        drawing: Callable[[TextIO], Drawing] | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = stream
        self._make = drawing or _drawing
        self._drawing: Drawing | None = None
        self._now_s = now_s
        self._show_s = now_s() + SHOW_AFTER_S
        self._work = ""
        self._work_began_s = self._drawn_s = 0.0

    def __call__(self, work: str, done: int, total: int, unit: str) -> None:
        now_s = self._now_s()
        if work != self._work:
            self._work, self._work_began_s = work, now_s
        elif now_s - self._drawn_s < REDRAW_S:
            return
        if now_s < self._show_s:
            return
        self._drawn_s = now_s
        if self._drawing is None:
            self._drawing = self._make(self._stream)
        self._drawing.draw(work, done, total, pace(done, total, unit, now_s - self._work_began_s))

    def clear(self) -> None:
        drawing, self._drawing = self._drawing, None
        if drawing is not None:
            drawing.erase()


def _drawing(stream: TextIO) -> Drawing:
    try:
        return RichBar(stream)
    except ImportError:
        return TextBar(stream)


class TextBar:
    """One line, which is overwritten."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._width = 0

    def draw(self, work: str, done: int, total: int, text: str) -> None:
        room = _columns(self._stream) - 1
        line = f"{work}: {text}"[:room]
        self._stream.write(f"\r{line:{min(self._width, room)}}")
        self._stream.flush()
        self._width = len(line)

    def erase(self) -> None:
        self._stream.write(f"\r{'':{self._width}}\r")
        self._stream.flush()
        self._width = 0


def _columns(stream: TextIO) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except OSError:
        return 80


class RichBar:
    """The same with a bar and colours. A narrow terminal shows only the percentage."""

    def __init__(self, stream: TextIO) -> None:
        """Raises ImportError."""
        from rich.console import Console
        from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn
        from rich.table import Column

        console = Console(file=stream)

        def text(words: str) -> ProgressColumn:
            column = Column(no_wrap=True, overflow="ellipsis")
            return TextColumn(words, markup=False, table_column=column)

        percent = "{task.percentage:>3.0f} %"
        bar = BarColumn(bar_width=None, table_column=Column(ratio=1, min_width=8))
        if console.width >= WIDE:
            columns = [text("{task.description}"), bar, text("{task.fields[text]}")]
        elif console.width >= NARROW:
            columns = [text("{task.description}"), bar, text(percent)]
        else:
            columns = [text(f"{percent} {{task.description}}")]
        self._progress = Progress(*columns, console=console, transient=True, expand=True)
        self._task = self._progress.add_task("", text="")

    def draw(self, work: str, done: int, total: int, text: str) -> None:
        self._progress.update(
            self._task, description=work, completed=done, total=total or None, text=text
        )
        self._progress.start()  # does nothing the second time

    def erase(self) -> None:
        self._progress.stop()


class _MakingWay(logging.Handler):
    """Clears the bar before a line is logged. Then the bar appears below the line."""

    def __init__(self, bar: Bar) -> None:
        super().__init__()
        self._bar = bar

    def emit(self, record: logging.LogRecord) -> None:
        self._bar.clear()
