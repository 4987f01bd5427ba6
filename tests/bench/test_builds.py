"""How the figures of the build queue are put together. The load is run by `make bench-builds`."""

from bench.builds import Figures, table


def test_the_median_of_the_rounds_is_shown() -> None:
    figures = Figures()
    for value in (3.0, 1.0, 200.0):
        figures.add("decisions/s", value)
    assert figures.medians() == {"decisions/s": 3.0}


def test_both_servers_are_in_one_line() -> None:
    text = table({"holdfast": {"decisions/s": 1234.5}, "redis": {"decisions/s": 2.0}})
    assert text.splitlines()[1].split() == ["decisions/s", "1,234.50", "2.00"]
