"""Tables as text: aligned lines, or laid out by rich in the width of a terminal."""

import sys

import pytest

from holdfast.cli.tables import Cell, Look, look_of_stdout, table

HEAD = ("id", "why")
ROWS = ((Cell("1"), Cell("short", 31)), (Cell("22"), Cell("a reason of many words")))
PLAIN = "id  why\n1   short\n22  a reason of many words"


def test_without_a_terminal_a_row_is_a_line() -> None:
    assert table(HEAD, ROWS, Look()) == PLAIN


def test_colours_without_a_terminal() -> None:
    text = table(HEAD, ROWS, Look(has_color=True))
    assert text.splitlines()[1] == "1   \x1b[31mshort                 \x1b[0m"


def test_on_a_terminal_cells_wrap_in_its_width() -> None:
    text = table(HEAD, ROWS, Look(width=16))
    assert text.splitlines() == ["id  why", "1   short", "22  a reason of", "    many words"]
    assert table(HEAD, ROWS, Look(width=80)) == PLAIN


def test_colours_on_a_terminal() -> None:
    assert "\x1b[31mshort\x1b[0m" in table(HEAD, ROWS, Look(has_color=True, width=80))


def test_a_terminal_without_rich(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich.console", None)
    assert table(HEAD, ROWS, Look(width=16)) == PLAIN


@pytest.mark.parametrize("width", [0, 80])
def test_no_cell_controls_the_terminal(width: int) -> None:
    text = table(("name",), [[Cell("\x1b[2Jgone\n")]], Look(width=width))
    assert text == "name\n\\x1b[2Jgone\\n"


@pytest.mark.parametrize("text", ["[bold]x[/bold]", "[/]", ":smile:"])
def test_no_cell_is_taken_for_markup(text: str) -> None:
    assert table(("name",), [[Cell(text)]], Look(width=80)) == f"name\n{text}"


@pytest.mark.parametrize(
    ("is_terminal", "color", "no_color", "expected"),
    [
        (True, "auto", "", True),
        (True, "auto", "1", False),
        (True, "never", "", False),
        (False, "auto", "", False),
        (False, "always", "1", True),
    ],
)
def test_when_there_are_colours(
    monkeypatch: pytest.MonkeyPatch, is_terminal: bool, color: str, no_color: str, expected: bool
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "123")
    assert look_of_stdout(color) == Look(expected, 123 if is_terminal else 0)
