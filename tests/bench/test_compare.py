"""How the comparison comes to its figures. The load itself is run by `make bench`."""

import sys
from argparse import ArgumentTypeError

import pytest

from bench.common import Sample, parse_csv
from bench.compare import interpreter, names, parse_args, summarise, table, whole_rounds
from bench.workloads import CLIENTS

HEADER = '"test","rps","avg_latency_ms","p99_latency_ms","max_latency_ms"\n'


def samples(*rps: float) -> list[Sample]:
    return [Sample(requests=1000, rps=each, p99_ms=1.5, cpu_us_per_op=20.0) for each in rps]


def test_the_ratio_is_the_median_of_the_rounds_and_not_the_ratio_of_medians() -> None:
    row = summarise("SET", 1, samples(10, 50, 90), samples(100, 100, 100))
    assert (row.ratio, row.ratio_min, row.ratio_max) == (0.5, 0.1, 0.9)
    row = summarise("SET", 1, samples(10, 100, 1000), samples(10, 50, 1000))
    assert (row.ratio, row.ratio_min, row.ratio_max) == (1, 1, 2)


@pytest.mark.parametrize(("pipeline", "ours", "marked"), [(1, 79, 1), (1, 80, 0), (16, 39, 1)])
def test_a_row_below_the_aim_is_marked(pipeline: int, ours: float, marked: int) -> None:
    text = table([summarise("SET", pipeline, samples(ours), samples(100))])
    assert text.count("< aim") == marked


def test_a_comparison_of_two_builds_has_no_aim() -> None:
    text = table([summarise("SET", 1, samples(10), samples(100))], "beside")
    assert "us : beside" in text
    assert "< aim" not in text


@pytest.mark.parametrize("path", ["/no/such/python", "/bin/false"])
def test_an_interpreter_without_holdfast_is_refused(path: str) -> None:
    with pytest.raises(ArgumentTypeError, match=f"{path} has no Holdfast"):
        interpreter(path)


def test_every_client_sends_equally_many_requests_for_about_two_seconds() -> None:
    assert whole_rounds(100_000, 1) == 200_000
    assert whole_rounds(123_456, 16) % (CLIENTS * 16) == 0
    assert whole_rounds(1, 16) == CLIENTS * 16


def test_the_figures_come_from_the_one_row_of_csv() -> None:
    assert parse_csv(0, HEADER + '"SET a b","380952.38","1.8","3.631","4"\n', "") == (
        380952.38,
        3.631,
    )


@pytest.mark.parametrize(
    ("code", "rows"), [(1, ""), (1, '"SET a b","1","1","1","1"\n'), (0, "")], ids=repr
)
def test_an_error_reply_ends_the_run_with_what_redis_benchmark_said(code: int, rows: str) -> None:
    with pytest.raises(SystemExit, match="Error from server: ERR no"):
        parse_csv(code, HEADER + rows, "Error from server: ERR no")


def test_workloads_are_named_in_any_case_and_run_in_their_own_order() -> None:
    assert names("lpop,SET,lpush") == ["SET", "LPUSH", "LPOP"]


def test_a_run_with_scrapes_compares_holdfast_with_itself() -> None:
    args = parse_args(["--scrape"])
    assert args.beside == sys.executable
    assert parse_args([]).beside is None
