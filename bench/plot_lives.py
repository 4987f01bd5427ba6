"""The plots and tables of `make bench-lives`: sessions, jobs, waits, a start after SIGKILL.

A row of a run has the rounds of each server, and a sentence in the place of a round that was not
possible. If a row is in several runs, the last run counts.
"""

import statistics
from collections.abc import Callable, Iterator
from typing import Any

from bench.bars import EXTRA, OLD, OURS, REDIS, Bar, Plot

# How servers are named and drawn, in this order.
SERVERS = {
    "ours": ("Holdfast", OURS),
    "before": ("Holdfast before", OLD),
    "redis": ("redis-server", REDIS),
    "RESPLite default": ("RESPLite", EXTRA[0]),
    "RESPLite performance": ("RESPLite, performance", EXTRA[1]),
}
# The bar of a tail has this wait; its line reaches from the first of these waits to the last.
WAIT, SHORT, LONG = "p99", "p50", "p99.9"

Rounds = list[Any]
Figure = Callable[[Any], float]


def rows_of(runs: list[Any], begin: tuple[str, ...]) -> dict[str, dict[str, Rounds]]:
    """By title and server: the rounds that were possible. Titles begin with one of these words."""
    rows: dict[str, dict[str, Rounds]] = {}
    for run in runs:
        for title, by_server in run["rows"].items():
            if title.startswith(begin):
                rows[title] = {
                    name: rounds
                    for name in SERVERS
                    if (rounds := [it for it in by_server.get(name, ()) if not isinstance(it, str)])
                }
    return rows


def series_of(rows: dict[str, dict[str, Rounds]]) -> dict[str, int]:
    """The servers that are in any row, with their numbers."""
    there = [name for name in SERVERS if any(name in row for row in rows.values())]
    return {name: number for number, name in enumerate(there)}


def bars(
    rows: dict[str, dict[str, Rounds]], figure: Figure, form: str
) -> list[tuple[str, list[Bar]]]:
    series = series_of(rows)
    groups = []
    for title, row in rows.items():
        found = []
        for name, rounds in row.items():
            values = [figure(each) for each in rounds]
            middle = statistics.median(values)
            text = format(middle, form)
            found.append(Bar(series[name], middle, min(values), max(values), text))
        groups.append((title, found))
    return groups


def plot_of(title: str, unit: str, runs: list[Any], begin: tuple[str, ...], figure: Figure) -> Plot:
    rows = rows_of(runs, begin)
    shown = [SERVERS[name] for name in series_of(rows)]
    return Plot(title, unit, shown, bars(rows, figure, ".1f"))


def lives_plot(_: str, runs: list[Any]) -> Plot:
    title = "CPU time for one session or job, until the server is idle again"
    unit = "µs; lines: lowest and highest round"
    return plot_of(title, unit, runs, ("sessions", "jobs"), lambda life: life["cpu_us"])


def tail_plot(_: str, runs: list[Any]) -> Plot:
    """Bars are p99, lines reach from p50 to p99.9: medians of the rounds."""
    rows = rows_of(runs, ("tail",))
    series = series_of(rows)
    groups = []
    for title, row in rows.items():
        found = []
        for name, rounds in row.items():
            waits = {
                place: statistics.median(each["wait_ms"][place] for each in rounds)
                for place in (SHORT, WAIT, LONG)
            }
            text = f"{waits[WAIT]:.2f}"
            found.append(Bar(series[name], waits[WAIT], waits[SHORT], waits[LONG], text))
        groups.append((title.removeprefix("tail: "), found))
    title = "Wait for the answer to a PING beside new keys, p99"
    shown = [SERVERS[name] for name in series]
    return Plot(title, f"ms; lines: {SHORT} to {LONG}", shown, groups)


def crash_plot(_: str, runs: list[Any]) -> Plot:
    changes = max((run["options"]["changes"] for run in runs), default=0)
    title = f"From a start after SIGKILL to the first PONG, {changes:,} changes in the journal"
    return plot_of(title, "seconds", runs, ("crash",), lambda life: life["notes"]["ready_s"])


def working_set_plot(_: str, runs: list[Any]) -> Plot:
    title = "CPU time for a command on a tenth of the keys, until the server is idle again"
    unit = "µs; lines: lowest and highest round"
    return plot_of(title, unit, runs, ("working set",), lambda life: life["cpu_us"])


def sessions_plot(_: str, runs: list[Any]) -> Plot:
    """The rate of each tenth of the time, as a share of the first tenth."""
    row = rows_of(runs, ("sessions",))["sessions"]
    series = series_of({"": row})
    count = len(next(iter(row.values()))[0]["rates"])
    groups = []
    for number in range(count):
        found = []
        for name, rounds in row.items():
            shares = [each["rates"][number] / each["rates"][0] for each in rounds]
            found.append(
                Bar(series[name], statistics.median(shares), min(shares), max(shares)),
            )
        groups.append((f"{number + 1}/{count} of the time", found))
    title = "Sessions a second: the rate of each part of the run, divided by that of the first"
    shown = [SERVERS[name] for name in series]
    return Plot(title, "1 = as at the beginning", shown, groups, mark=1)


HEAD = (
    "| row | server | a second | CPU µs | wait p50, ms | p99 | p99.9 | longest | RSS, MB"
    " | files, MB |"
)


def rows_table(runs: list[Any], begin: tuple[str, ...]) -> Iterator[str]:
    """Medians of the rounds; for rates and CPU time the lowest and the highest round, too."""
    yield HEAD
    yield "|---" * 10 + "|"
    for title, row in rows_of(runs, begin).items():
        for name, rounds in row.items():
            rates = [statistics.median(each["rates"]) for each in rounds]
            cells = [title, SERVERS[name][0], spread(rates, ",.0f")]
            cells.append(spread([each["cpu_us"] for each in rounds], ".1f"))
            for place in ("p50", "p99", "p99.9", "longest"):
                waits = [each["wait_ms"][place] for each in rounds if place in each["wait_ms"]]
                cells.append(f"{statistics.median(waits):.2f}" if waits else "–")
            sizes = [[each[size] for each in rounds] for size in ("rss_mb", "files_mb")]
            cells += [f"{statistics.median(each):,.0f}" for each in sizes]
            yield f"| {' | '.join(cells)} |"


def lives_table(_: str, runs: list[Any]) -> Iterator[str]:
    return rows_table(runs, ("sessions", "jobs"))


def tail_table(_: str, runs: list[Any]) -> Iterator[str]:
    return rows_table(runs, ("tail",))


def working_set_table(_: str, runs: list[Any]) -> Iterator[str]:
    return rows_table(runs, ("working set",))


def crash_table(_: str, runs: list[Any]) -> Iterator[str]:
    yield "| server | changes that were not folded | seconds to the first `PONG` | CPU s |"
    yield "|---|---|---|---|"
    for row in rows_of(runs, ("crash",)).values():
        for name, rounds in row.items():
            notes = [each["notes"] for each in rounds]
            unfolded = statistics.median(note["unfolded"] for note in notes)
            ready, used = ([note[what] for note in notes] for what in ("ready_s", "ready_cpu_s"))
            shown = f"{unfolded:,.0f}" if unfolded else "–"
            cells = (shown, spread(ready, ".2f"), spread(used, ".2f"))
            yield f"| {SERVERS[name][0]} | {' | '.join(cells)} |"


def sessions_table(_: str, runs: list[Any]) -> Iterator[str]:
    run = next(run for run in reversed(runs) if "sessions" in run["rows"])
    options = run["options"]
    yield (
        f"{options['sessions']:,} sessions live at a time, {options['seconds']:,.0f} seconds. The"
        " files are those of the database, of its WAL, and of the append-only file."
    )
    yield ""
    yield "| server | sessions a second, first tenth | last tenth | last : first |"
    yield "|---|---|---|---|"
    for name, rounds in rows_of(runs, ("sessions",))["sessions"].items():
        first, last = ([each["rates"][at] for each in rounds] for at in (0, -1))
        shares = [each["notes"]["last : first"] for each in rounds]
        cells = (spread(first, ",.0f"), spread(last, ",.0f"), spread(shares, ".2f"))
        yield f"| {SERVERS[name][0]} | {' | '.join(cells)} |"


def spread(values: list[float], form: str) -> str:
    """The median, and the lowest and the highest if there are several."""
    middle = format(statistics.median(values), form)
    if len(values) == 1:
        return middle
    return f"{middle} ({format(min(values), form)}–{format(max(values), form)})"
