"""The plots and tables of docs/performance.md are those of the JSON that is kept."""

import xml.etree.ElementTree as ET
from typing import Any

import pytest

from bench import bars as drawing
from bench import plot
from bench.bars import Bar, Plot

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("path", plot.files(), ids=lambda path: path.name)
def test_plots_and_tables_in_docs_are_up_to_date(path: Any) -> None:
    assert path.read_text() == plot.files()[path], "run `python -m bench.plot`"


def bars(drawn: str) -> list[tuple[float, float]]:
    """Left edge and width of each bar; the other rectangles are the background and the legend."""
    rects = ET.fromstring(drawn).iter(f"{SVG}rect")
    return [
        (float(rect.attrib["x"]), float(rect.attrib["width"]))
        for rect in rects
        if float(rect.get("x", 0)) == drawing.LABEL_PX
    ]


def test_the_length_of_a_bar_is_its_value() -> None:
    groups = [("a", [Bar(0, 1.0), Bar(1, 2.0)]), ("b", [Bar(0, 4.0)])]
    drawn = drawing.svg(Plot("title", "unit", [("x", "#000"), ("y", "#fff")], groups))
    first, second, third = (width for _, width in bars(drawn))
    assert second == pytest.approx(2 * first, abs=0.2)
    assert third == pytest.approx(4 * first, abs=0.2)
    assert third <= drawing.BAR_PX


def test_a_range_reaches_from_the_lowest_round_to_the_highest() -> None:
    drawn = drawing.svg(Plot("t", "u", [("x", "#000")], [("a", [Bar(0, 2.0, low=1.0, high=4.0)])]))
    path = next(ET.fromstring(drawn).iter(f"{SVG}path")).attrib["d"]
    low = float(path.removeprefix("M").split()[0]) - drawing.LABEL_PX
    high = float(path.partition("H")[2].partition("m")[0]) - drawing.LABEL_PX
    assert high == pytest.approx(4 * low, abs=0.3)


def test_names_are_escaped() -> None:
    drawn = drawing.svg(Plot("a < b", "u", [("x", "#000")], [("<script>", [Bar(0, 1.0)])]))
    texts = [element.text for element in ET.fromstring(drawn).iter(f"{SVG}text")]
    assert "a < b" in texts
    assert "<script>" in texts


def sample(rps: float, cpu_us: float) -> dict[str, float]:
    return {"requests": 1, "rps": rps, "p99_ms": 1.0, "cpu_us_per_op": cpu_us}


def test_a_table_has_medians_and_the_ratio_that_the_run_found() -> None:
    row = {
        "command": "SET",
        "pipeline": 1,
        "ratio": 0.5,
        "ratio_min": 0.4,
        "ratio_max": 0.6,
        "ours": [sample(1000, 3), sample(3000, 1), sample(2000, 2)],
        "redis": [sample(4000, 1)] * 3,
    }
    shown = list(plot.speed_table("always", [{"rows": [row]}]))[-1]
    assert shown == "| SET | 2,000 / 4,000 | 0.50 (0.40–0.60) | 2.0 / 1.0 | – | – | – |"


def test_figures_go_between_their_comments() -> None:
    page = "a\n<!-- bench: x -->\nold\n<!-- end -->\nb\n<!-- bench: y -->\n<!-- end -->\n"
    put = plot.put(page, "x", "new")
    assert "old" not in put
    assert put.startswith("a\n<!-- bench: x -->\n\nnew\n")
    assert put.endswith("b\n<!-- bench: y -->\n<!-- end -->\n")
    with pytest.raises(ValueError, match="no place"):
        plot.put(page, "z", "new")


def test_a_check_names_files_that_are_not_up_to_date(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert plot.main(["--check"]) == 0
    monkeypatch.setitem(plot.SOURCES, "memory", ["2026-11-15-memory.json"])
    assert plot.main(["--check"]) == 1
    assert "bench-memory.svg is not up to date" in capsys.readouterr().out
