"""Charts: scale, gaps, edges, and text that stays text."""

import re

import pytest

from holdfast.figures.units import count, size
from holdfast.web.charts import HEIGHT, LEFT, RIGHT, WIDTH, Line, chart, nice_ceiling
from holdfast.web.history.rollup import RANGES, Point

HOUR = RANGES["hour"]


def path_of(points: list[Point | None]) -> str:
    drawn = chart("t", [Line("a", points)], HOUR, count, 3599.0)
    found = re.search(r'<path class="line line-0" d="([^"]*)"', drawn)
    assert found is not None
    return found[1]


@pytest.mark.parametrize(
    ("value", "top"),
    [(0, 1), (0.3, 0.4), (1, 1), (1.01, 2), (5, 6), (7, 8), (8.1, 10), (999, 1000), (1e12, 1e12)],
)
def test_the_axis_ends_at_a_round_number_that_is_not_smaller(value: float, top: float) -> None:
    assert nice_ceiling(value) == pytest.approx(top)


def test_the_axis_of_bytes_is_round_in_bytes() -> None:
    drawn = chart("t", [Line("a", [Point(0, 3 << 20, 3 << 20)])], HOUR, size, 3599.0, 1024)
    assert ">4.0M<" in drawn


@pytest.mark.parametrize("most", [0.03, 0.1, 0.25, 0.3, 0.5, 0.7, 3, 5, 9, 2400])
def test_the_middle_of_the_axis_says_half_of_its_end(most: float) -> None:
    drawn = chart("t", [Line("a", [Point(0, most, most)])], HOUR, count, 3599.0)
    zero, half, end = re.findall(r'text-anchor="end">([0-9.]+)k?<', drawn)[:3]
    assert zero == "0"
    assert float(end) >= float(half) > 0
    assert float(half) == pytest.approx(float(end) / 2)


def test_the_first_and_last_points_lie_on_the_edges() -> None:
    points: list[Point | None] = [Point(at_s, 1.0, 1.0) for at_s in range(0, 3600, 10)]
    path = path_of(points)
    assert path.startswith(f"M{LEFT}.0 ")
    assert re.search(rf"L{WIDTH - RIGHT}\.0 [0-9.]+$", path)


def test_a_gap_breaks_the_line_and_a_lone_point_is_a_dot() -> None:
    points: list[Point | None] = [None] * 360
    points[1], points[2], points[9] = Point(10, 1, 1), Point(20, 1, 1), Point(90, 1, 1)
    path = path_of(points)
    assert path.count("M") == 1
    assert path.count("L") == 1
    drawn = chart("t", [Line("a", points)], HOUR, count, 3599.0)
    assert re.search(r'class="line line-0 dots" d="M[0-9.]+ [0-9.]+h.01"', drawn)


def test_no_point_at_all_is_an_empty_chart() -> None:
    assert path_of([None] * 360) == ""
    assert "not known" in chart("t", [Line("a", [None])], HOUR, count, 0.0)


def test_nothing_is_drawn_outside() -> None:
    points: list[Point | None] = [Point(0, float("inf"), float("inf")), Point(10, 5.0, 5.0)]
    for y in re.findall(r"[ML][0-9.]+ ([0-9.]+)", path_of(points)):
        assert 0 <= float(y) <= HEIGHT


def test_labels_are_text() -> None:
    drawn = chart('"<b>', [Line("<i>", [Point(0, 1, 1)])], HOUR, lambda _: "<s>", 0.0)
    assert not re.search(r"<[bis]>", drawn)
