"""Progress on standard error: a bar on a terminal, with rich and without; lines elsewhere."""

import fcntl
import io
import logging
import os
import pty
import re
import struct
import subprocess
import sys
import termios

import pytest

from holdfast.cli import progress as module
from holdfast.cli.progress import Bar, RichBar, TextBar, showing_progress
from holdfast.cli.tables import is_smart_terminal
from holdfast.operation.progress_lines import ProgressLines

Draw = tuple[str, int, int, str]


class Drawn:
    """Takes notes instead of drawing."""

    def __init__(self) -> None:
        self.drawn: list[Draw] = []
        self.erased = 0

    def draw(self, work: str, done: int, total: int, text: str) -> None:
        self.drawn.append((work, done, total, text))

    def erase(self) -> None:
        self.erased += 1


class Clock:
    now_s = 50.0

    def __call__(self) -> float:
        return self.now_s


def test_a_bar_comes_after_a_second_and_is_drawn_ten_times_a_second() -> None:
    clock, drawing = Clock(), Drawn()
    bar = Bar(io.StringIO(), lambda stream: drawing, clock)
    for step in range(300):
        clock.now_s = 50 + step / 100
        bar("copying", step, 300, "changes")
    assert drawing.drawn[0] == ("copying", 100, 300, "33 %, 100 of 300 changes, 100/s, 2 s left")
    assert 18 <= len(drawing.drawn) <= 20
    count = len(drawing.drawn)
    bar("folding", 0, 5, "changes")
    assert drawing.drawn[count:] == [("folding", 0, 5, "0 %, 0 of 5 changes")]
    bar.clear()
    bar.clear()
    assert drawing.erased == 1


def test_work_of_less_than_a_second_shows_nothing() -> None:
    clock, drawing = Clock(), Drawn()
    bar = Bar(io.StringIO(), lambda stream: drawing, clock)
    for work in ("copying", "folding"):
        clock.now_s += 0.4
        bar(work, 1, 2, "changes")
    bar.clear()
    assert (drawing.drawn, drawing.erased) == ([], 0)


def test_the_text_bar_writes_over_itself_and_leaves_nothing() -> None:
    stream = io.StringIO()
    stream.fileno = lambda: os.open(os.devnull, os.O_RDONLY)  # type: ignore[method-assign]
    bar = TextBar(stream)
    bar.draw("copying", 1, 2, "50 % of it")
    bar.draw("folding", 1, 2, "7 %")
    bar.erase()
    assert stream.getvalue() == "\rcopying: 50 % of it\rfolding: 7 %       \r            \r"


def test_a_line_of_the_log_clears_the_bar_before_it_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    order: list[str] = []
    drawing = Drawn()
    monkeypatch.setattr(module, "is_smart_terminal", lambda stream: True)
    monkeypatch.setattr(module, "SHOW_AFTER_S", 0.0)
    monkeypatch.setattr(module, "_drawing", lambda stream: drawing)

    class Writer(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            order.append(f"{record.getMessage()} after {drawing.erased}")

    writer = Writer()
    logger = logging.getLogger("holdfast")
    logger.addHandler(writer)
    try:
        with showing_progress() as progress:
            progress("copying", 1, 2, "changes")
            logging.getLogger("holdfast.store").error("line")
    finally:
        logger.removeHandler(writer)
    assert order == ["line after 1"]
    assert not any("progress" in type(each).__module__ for each in logger.handlers)


def test_elsewhere_it_is_lines() -> None:
    with showing_progress() as progress:
        assert isinstance(progress, ProgressLines)


@pytest.mark.parametrize(("term", "is_smart"), [("xterm", True), ("dumb", False), ("", False)])
def test_a_terminal_that_cannot_write_over_text_has_lines(
    monkeypatch: pytest.MonkeyPatch, term: str, is_smart: bool
) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setenv("TERM", term)
    assert is_smart_terminal(stream) is is_smart


# -- rich -----------------------------------------------------------------------------------------

COLOR = re.compile(r"\x1b\[([0-9]+;)*[39][0-7]")

SHOW = """
import sys
from holdfast.cli import progress
progress.SHOW_AFTER_S = 0
if 'plain' in sys.argv: sys.modules['rich'] = None
with progress.showing_progress() as show:
    show('looking for damaged pages', 45, 100, 'bytes')
print('done')
"""


def on_a_terminal(columns: int, *words: str, **env: str) -> str:
    """The output of a process on a terminal of this width."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    argv = [sys.executable, "-c", SHOW, *words]
    kept = {
        name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS")
    }
    with subprocess.Popen(
        argv, stdin=theirs, stdout=theirs, stderr=theirs, env={**kept, "TERM": "xterm", **env}
    ) as process:
        os.close(theirs)
        written = b""
        try:
            while some := os.read(ours, 65536):
                written += some
        except OSError:  # the other end is closed
            pass
        finally:
            os.close(ours)
        assert process.wait() == 0, written
    return written.decode()


def text_of(written: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", written)


@pytest.mark.parametrize(
    ("columns", "has_pace", "has_bar"), [(100, True, True), (60, False, True), (20, False, False)]
)
def test_rich_draws_what_has_room(columns: int, has_pace: bool, has_bar: bool) -> None:
    written = on_a_terminal(columns)
    line = max(text_of(written).splitlines(), key=len)
    assert bool(COLOR.search(written)) is has_bar
    assert len(line) <= columns
    assert "looking for" in line
    assert "45 %" in line
    assert ("45 B of 100 B" in line) is has_pace
    assert ("━" in line) is has_bar
    assert written.endswith("\x1b[1A\x1b[2Kdone\r\n"), "nothing of it stays"


def test_no_color_is_heeded() -> None:
    written = on_a_terminal(100, NO_COLOR="1")
    assert "45 %" in written
    assert not COLOR.search(written)


def test_without_rich_it_is_a_line_of_text() -> None:
    written = on_a_terminal(40, "plain")
    line, blank, end = written.split("\r")[1:4]
    assert line == "looking for damaged pages: 45 %, 45 B o"
    assert not blank.strip()
    assert end == "done"


def test_rich_is_what_the_extra_brings() -> None:
    assert isinstance(module._drawing(io.StringIO()), RichBar)
