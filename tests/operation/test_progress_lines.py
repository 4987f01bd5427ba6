"""Sentences about long work, by a clock of the test."""

import pytest

from holdfast.operation.progress_lines import ProgressLines, amount, duration, pace
from holdfast.progress import BYTES, CHANGES


@pytest.mark.parametrize(
    ("done", "total", "unit", "took_s", "sentence"),
    [
        (1_200_000_000, 2_700_000_000, BYTES, 10, "44 %, 1.2 GB of 2.7 GB, 120 MB/s, 12 s left"),
        (50_000, 200_000, CHANGES, 10, "25 %, 50,000 of 200,000 changes, 5,000/s, 30 s left"),
        (50_000, 0, CHANGES, 10, "50,000 changes, 5,000/s"),
        (0, 100, CHANGES, 10, "0 %, 0 of 100 changes"),
        (1, 100, "questions", 10, "1 %, 1 of 100 questions, 0.1/s, 16 min 30 s left"),
        (5, 10, CHANGES, 0, "50 %, 5 of 10 changes"),
        (10, 10, CHANGES, 5, "100 %, 10 of 10 changes, 2/s, 0 s left"),
    ],
)
def test_pace(done: int, total: int, unit: str, took_s: float, sentence: str) -> None:
    assert pace(done, total, unit, took_s) == sentence


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (999_999, "1 MB"), (12_345_678, "12.3 MB")],
)
def test_amounts_of_bytes_have_three_digits(count: int, text: str) -> None:
    assert amount(count, BYTES) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (59.4, "59 s"), (60, "1 min 0 s"), (7260, "2 h 1 min")]
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_a_line_every_few_seconds_and_none_for_short_work() -> None:
    now_s = 100.0
    said: list[str] = []
    lines = ProgressLines(said.append, 5.0, lambda: now_s)
    for seconds in range(12):
        now_s = 100.0 + seconds
        lines("copying", seconds, 100, CHANGES)
    assert said == [
        "copying: 5 %, 5 of 100 changes, 1/s, 1 min 35 s left",
        "copying: 10 %, 10 of 100 changes, 1/s, 1 min 30 s left",
    ]
    now_s = 120.0
    lines("folding", 0, 10, CHANGES)
    now_s = 124.0
    lines("folding", 9, 10, CHANGES)
    assert len(said) == 2
