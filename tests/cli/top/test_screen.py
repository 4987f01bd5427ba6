"""The screen fits each terminal, the text has the same figures, and the guide explains them."""

import json
import re
from collections.abc import Callable
from dataclasses import asdict, fields
from pathlib import Path

import pytest
from rich.console import Console

from holdfast.cli.top.screen import HELP, screen
from holdfast.cli.top.text import FIGURES, ORDERS, as_json, plain, sentences, tables
from holdfast.figures import view as view_module
from holdfast.figures.sample import Missing
from holdfast.figures.units import count, micros, percent, seconds, size
from holdfast.figures.view import CommandView, PeerView, QueueView, SlowView, View

GUIDE = Path(__file__).parents[3] / "docs/guide-operating.md"
FULL = View(
    address="127.0.0.1:6379",
    at=1_700_000_000.0,
    notices=("the last write to the disk failed",),
    server="holdfast 0.2.0",
    uptime_s=3600.0,
    interval_s=1.0,
    ops_per_s=12_345.0,
    p50_us=12.0,
    p99_us=3_400.0,
    clients=12,
    memory_bytes=3 << 20,
    max_memory_bytes=2 << 30,
    fold_backlog_changes=7,
    peers=(PeerView("127.0.0.1:7002 (node 2)", "following", 0.25, 3, ""),),
    commands=(
        CommandView("get", 900.0, 0.2, 10.0, 9.0, 20.0, 0.0),
        CommandView("set", 30.0, 0.1, 11.0, 10.0, 99.0, 1.5),
    ),
    slow=tuple(SlowView(n, 12_000, f"KEYS [bold]{n}*") for n in range(10)),
    queues=tuple(QueueView(f"[red]jobs{n}", "list", 10 * n, n) for n in range(40)),
    scanned_share=0.25,
    missing=(Missing("INFO", "not permitted"), Missing("SLOWLOG GET", "not permitted")),
)
EMPTY = View("h:1", 0.0)


def drawn(view: View, width: int, height: int, order: str = "time") -> list[str]:
    console = Console(width=width, height=height, force_terminal=True, color_system=None)
    with console.capture() as capture:
        console.print(screen(view, width, height, order))
    return capture.get().splitlines()


@pytest.mark.parametrize("view", [FULL, EMPTY], ids=["full", "empty"])
@pytest.mark.parametrize("width", [1, 5, 20, 40, 80, 200])
@pytest.mark.parametrize("height", [1, 2, 5, 12, 24, 100])
def test_it_fits(view: View, width: int, height: int) -> None:
    lines = drawn(view, width, height)
    assert len(lines) <= height
    assert max(map(len, lines)) <= width
    assert lines[-1][0] in (HELP[0], "…")


def test_a_terminal_of_20_columns_shows_whole_values() -> None:
    lines = drawn(FULL, 20, 30)
    assert "ops/s          12.3k" in lines
    assert "latency p99   3.4 ms" in lines
    assert "calls/s  command" in lines


def test_a_small_terminal_shows_the_queues_before_the_slow_log() -> None:
    text = "\n".join(drawn(FULL, 60, 20))
    assert "queues that grow" in text
    assert "slow log" not in text


def test_a_large_terminal_shows_everything() -> None:
    text = "\n".join(drawn(FULL, 120, 100))
    for figure in FIGURES:
        assert figure.label in text
    for table in tables(FULL):
        assert table.title in text
        assert all(cell in text for row in table.rows for cell in row)


def test_names_are_no_markup() -> None:
    assert "[red]jobs39" in "\n".join(drawn(FULL, 120, 100))
    assert "KEYS [bold]0*" in "\n".join(drawn(FULL, 120, 100))


def test_commands_can_be_sorted() -> None:
    by_p99 = drawn(FULL, 120, 100, "p99")
    assert "commands, by p99" in by_p99
    first = by_p99[by_p99.index("commands, by p99") + 2]
    assert first.endswith("  set")
    for order in ORDERS:
        assert f"commands, by {order}" in drawn(FULL, 120, 100, order)


def test_the_text_has_everything() -> None:
    text = plain(FULL)
    assert text.startswith("holdfast 0.2.0  127.0.0.1:6379  up 60 min\n")
    assert "! not permitted: INFO, SLOWLOG GET\n" in text
    assert "memory        3.0M/2.0G\n" in text
    assert "queues that grow (25 % of keys seen)\n" in text
    for figure in FIGURES:
        assert f"\n{figure.label} " in text


def test_figures_that_the_server_does_not_know_are_dashes() -> None:
    assert all(figure.text(EMPTY) == "–" for figure in FIGURES)
    assert "commands, by time\n  –\n" in plain(EMPTY)


def test_trouble_is_all_that_the_text_says() -> None:
    assert plain(View("h:1", 0.0, trouble="no answer")) == "server  h:1\n! no answer"


def test_a_command_is_named_once_in_a_sentence() -> None:
    missing = (Missing("INFO", "not permitted"), Missing("INFO", "not permitted"))
    assert sentences(View("h:1", 0.0, missing=missing)) == ["not permitted: INFO"]


def test_json_has_the_fields_of_the_view() -> None:
    line = as_json(FULL)
    assert line.isascii()
    assert "\n" not in line
    assert json.loads(line).keys() == asdict(FULL).keys()


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.label)
def test_the_guide_explains_the_figure(figure: tuple[str, object]) -> None:
    assert f"| `{figure[0]}` |" in GUIDE.read_text()


def test_the_guide_has_all_fields_of_json() -> None:
    _, _, text = GUIDE.read_text().partition("| figure | in `--json` |")
    lines = text.partition("A share is")[0].splitlines()
    rows = [line.split(" | ") for line in lines if line.startswith("|")]
    named = {
        name
        for row in rows
        for cell in (row[1:2] if len(row) == 3 else row)
        for name in re.findall(r"`([a-z][a-z0-9_]*)`", cell)
    }
    views = [each for name, each in vars(view_module).items() if name.endswith("View")]
    views.append(Missing)
    assert named == {field.name for view in views for field in fields(view)}


@pytest.mark.parametrize(
    ("show", "number", "text"),
    [
        (count, None, "–"),
        (count, 0, "0"),
        (count, 0.25, "0.2"),
        (count, 9.96, "10"),
        (count, 999.4, "999"),
        (count, 999.6, "1.0k"),
        (count, 99_960, "100k"),
        (count, 999_600, "1.0M"),
        (count, 5e15, "5000T"),
        (size, 1023, "1023B"),
        (size, 1024, "1.0K"),
        (size, 1 << 30, "1.0G"),
        (micros, 0.4, "0 µs"),
        (micros, 1_250, "1.2 ms"),
        (micros, 120_000, "120 ms"),
        (micros, 2_500_000, "2.5 s"),
        (seconds, 0, "0 s"),
        (seconds, 0.012, "12 ms"),
        (seconds, 90, "90 s"),
        (seconds, 600, "10 min"),
        (seconds, 90_000, "25 h"),
        (seconds, 864_000, "10 d"),
        (percent, 0.001, "<1 %"),
        (percent, 0.5, "50 %"),
    ],
)
def test_numbers(show: Callable[[float | None], str], number: float | None, text: str) -> None:
    assert show(number) == text
