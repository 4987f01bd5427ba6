"""Draws the figures of docs/performance.md from the JSON that the benchmarks write.

    python -m bench.plot            writes docs/images/*.svg and the tables of the page
    python -m bench.plot --check    exits with 1 if they are not up to date

The SVG is written by hand, because the page needs one kind of plot only: bars with a range.
matplotlib has forty megabytes, and its output changes with each version, so no test could compare
it. SOURCES names the files that are drawn: after a new run, add its file there.
"""

import json
import re
import statistics
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "bench" / "results"
IMAGES = ROOT / "docs" / "images"
PAGE = ROOT / "docs" / "performance.md"

# The plots, and the files of their runs. If a plot has several files, each covers some commands.
SOURCES = {
    "everysec": [
        "2026-11-16-everysec-large-pages-three-rounds-unpipelined.json",
        "2026-11-16-everysec-large-pages-three-rounds-pipelined.json",
    ],
    "always": ["2026-11-16-always-compiled-two-rounds-strings-lists.json"],
    "memory": [
        "2026-11-18-memory-strings.json",
        "2026-11-18-memory-hashes.json",
        "2026-11-18-memory-list.json",
    ],
    "fairness": ["2026-11-18-fairness.json"],
    "start": ["2026-11-17-start.json", "2026-11-17-start-plain-python.json"],
    "dashboard": ["2026-11-18-dashboard-search.json"],
    "replication": ["2026-11-18-replication.json"],
}

OURS, REDIS = "#00796b", "#b0563f"
LABEL_PX, BAR_PX, VALUE_PX, LINE_PX, HEAD_PX = 190, 420, 130, 15, 52


@dataclass
class Bar:
    """One bar. `low` and `high` are the lowest and the highest round; without rounds both are
    None."""

    series: int
    value: float
    low: float | None = None
    high: float | None = None
    text: str = ""


@dataclass
class Plot:
    """Groups of bars, one below the other. `mark` is a vertical line, such as "as fast"."""

    title: str
    unit: str
    series: list[tuple[str, str]]
    groups: list[tuple[str, list[Bar]]]
    mark: float | None = None


# -- svg --------------------------------------------------------------------------------------


def svg(plot: Plot) -> str:
    return "\n".join(_svg(plot)) + "\n"


def _svg(plot: Plot) -> Iterator[str]:
    width = LABEL_PX + BAR_PX + VALUE_PX
    height = HEAD_PX + sum(len(bars) * LINE_PX + 9 for _, bars in plot.groups) + 8
    top = max(bar.high or bar.value for _, bars in plot.groups for bar in bars) * 1.02
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}"'
        f' height="{height}" font-family="sans-serif" font-size="12" role="img">'
    )
    yield f"<title>{escape(plot.title)}</title>"
    yield f'<rect width="{width}" height="{height}" rx="6" fill="#fff"/>'
    yield f'<text x="12" y="20" font-size="14" font-weight="bold">{escape(plot.title)}</text>'
    at = 12
    for name, colour in plot.series:
        yield f'<rect x="{at}" y="29" width="10" height="10" fill="{colour}"/>'
        yield f'<text x="{at + 15}" y="38">{escape(name)}</text>'
        at += 30 + 7 * len(name)
    yield f'<text x="{at}" y="38" fill="#666">{escape(plot.unit)}</text>'
    if plot.mark is not None:
        x = LABEL_PX + plot.mark / top * BAR_PX
        yield (
            f'<line x1="{x:.1f}" y1="{HEAD_PX - 6}" x2="{x:.1f}" y2="{height - 8}"'
            ' stroke="#666" stroke-dasharray="3 3"/>'
        )
    y = HEAD_PX
    for name, bars in plot.groups:
        middle = y + len(bars) * LINE_PX / 2 + 4
        yield f'<text x="{LABEL_PX - 8}" y="{middle:.1f}" text-anchor="end">{escape(name)}</text>'
        for bar in bars:
            yield from _bar(bar, y, plot.series[bar.series][1], BAR_PX / top)
            y += LINE_PX
        y += 9
    yield "</svg>"


def _bar(bar: Bar, y: float, colour: str, scale: float) -> Iterator[str]:
    length = max(bar.value * scale, 1)
    end = length
    yield (
        f'<rect x="{LABEL_PX}" y="{y + 2}" width="{length:.1f}" height="{LINE_PX - 4}"'
        f' fill="{colour}"/>'
    )
    if bar.low is not None and bar.high is not None:
        low, high, middle = bar.low * scale, bar.high * scale, y + LINE_PX / 2
        yield (
            f'<path d="M{LABEL_PX + low:.1f} {middle}H{LABEL_PX + high:.1f}'
            f'm0 -3v6M{LABEL_PX + low:.1f} {middle - 3}v6" stroke="#222" fill="none"/>'
        )
        end = max(length, high)
    text = escape(bar.text or f"{bar.value:.2f}")
    yield f'<text x="{LABEL_PX + end + 6:.1f}" y="{y + LINE_PX - 4}">{text}</text>'


# -- the results of the benchmarks --------------------------------------------------------------


def load(names: list[str]) -> list[Any]:
    return [json.loads((RESULTS / name).read_text()) for name in names]


def rows_of(runs: list[Any]) -> dict[str, dict[int, Any]]:
    """The rows of `make bench`, by command and pipeline."""
    rows: dict[str, dict[int, Any]] = {}
    for run in runs:
        for row in run["rows"]:
            rows.setdefault(row["command"], {})[row["pipeline"]] = row
    return rows


def speed_plot(policy: str, runs: list[Any]) -> Plot:
    series = [("one request at a time", OURS), ("16 at once", "#7fb8b0")]
    groups = [
        (
            command,
            [
                Bar(place, row["ratio"], row["ratio_min"], row["ratio_max"])
                for place, (_, row) in enumerate(sorted(by_pipeline.items()))
            ],
        )
        for command, by_pipeline in rows_of(runs).items()
    ]
    title = f"Requests per second, Holdfast : redis-server, appendfsync {policy}"
    return Plot(title, "1 = as fast; lines: lowest and highest round", series, groups, mark=1)


def speed_table(policy: str, runs: list[Any]) -> Iterator[str]:
    yield (
        "| command | ×1: requests/s, ours / redis | ratio (min–max) | CPU µs | ×16: requests/s"
        " | ratio (min–max) | CPU µs |"
    )
    yield "|---|---|---|---|---|---|---|"
    for command, by_pipeline in rows_of(runs).items():
        cells = [cell for row in by_pipeline.values() for cell in speed_cells(row)]
        yield f"| {command} | {' | '.join(cells)} |"


def speed_cells(row: Any) -> list[str]:
    ours, redis = row["ours"], row["redis"]
    return [
        f"{median(ours, 'rps'):,.0f} / {median(redis, 'rps'):,.0f}",
        f"{row['ratio']:.2f} ({row['ratio_min']:.2f}–{row['ratio_max']:.2f})",
        f"{median(ours, 'cpu_us_per_op'):.1f} / {median(redis, 'cpu_us_per_op'):.1f}",
    ]


def median(samples: list[Any], name: str) -> float:
    return float(statistics.median(sample[name] for sample in samples))


def memory_plot(_: str, runs: list[Any]) -> Plot:
    groups = []
    for what, sides in (each for run in runs for each in run["bytes_each"].items()):
        for stage, shown in STAGES.items():
            bars = [
                Bar(place, max(sides[side][stage], 0), text=f"{max(sides[side][stage], 0):.0f}")
                for place, side in enumerate(("ours", "redis"))
                if sides[side][stage] is not None
            ]
            groups.append((f"{what.split()[0]}, {shown}", bars))
    title = "Memory and file: bytes for each of a million"
    return Plot(title, "bytes", [("Holdfast", OURS), ("redis-server", REDIS)], groups)


STAGES = {"loaded": "loaded", "restarted": "restarted", "on_disk": "on disk"}


def memory_table(_: str, runs: list[Any]) -> Iterator[str]:
    yield f"| bytes each | {' | '.join(STAGES.values())} |"
    yield "|---|---|---|---|"
    for what, sides in (each for run in runs for each in run["bytes_each"].items()):
        for side, name in (("ours", "Holdfast"), ("redis", "redis-server")):
            cells = [f"{max(sides[side][stage], 0):.0f}" for stage in STAGES]
            yield f"| {what}, {name} | {' | '.join(cells)} |"


def fairness_plot(_: str, runs: list[Any]) -> Plot:
    groups = []
    for what, sides in runs[0]["beside"].items():
        bars = []
        for place, side in enumerate(("ours", "redis")):
            waits = [sample["longest_ms"] for sample in sides[side]]
            middle = statistics.median(waits)
            bars.append(Bar(place, middle, min(waits), max(waits), f"{middle:.0f}"))
        groups.append((what, bars))
    title = "Longest wait for the answer to a PING beside a flood"
    series = [("Holdfast", OURS), ("redis-server", REDIS)]
    return Plot(title, "ms; lines: shortest and longest of three rounds", series, groups)


def fairness_table(_: str, runs: list[Any]) -> Iterator[str]:
    yield "| longest wait of a `PING` in ms, beside | Holdfast: median (worst) | redis-server |"
    yield "|---|---|---|"
    for what, sides in runs[0]["beside"].items():
        cells = []
        for side in ("ours", "redis"):
            waits = [sample["longest_ms"] for sample in sides[side]]
            cells.append(f"{statistics.median(waits):.0f} ({max(waits):.0f})")
        yield f"| {what} | {' | '.join(cells)} |"


def start_plot(_: str, runs: list[Any]) -> Plot:
    groups = []
    for run in runs:
        for what in ("new", "100,000 keys"):
            bars = []
            for place, server in enumerate(("holdfast", "redis-server")):
                waits = [start["wall_ms"] for start in run["starts"][f"{server}, {what}"]]
                middle = statistics.median(waits)
                bars.append(Bar(place, middle, min(waits), max(waits), f"{middle:.0f}"))
            groups.append((f"{what}, {run['machine']['python']}", bars))
    series = [("Holdfast", OURS), ("redis-server", REDIS)]
    return Plot("From the start of a server to its first PONG", "ms", series, groups)


def start_table(_: str, runs: list[Any]) -> Iterator[str]:
    """Medians; one column for each run."""
    versions = [f"Python {run['machine']['python']}: ms (CPU)" for run in runs]
    yield f"| until the first `PONG` | {' | '.join(versions)} |"
    yield "|---" * (1 + len(runs)) + "|"
    for what in runs[0]["starts"]:
        starts = [run["starts"][what] for run in runs]
        cells = [f"{median(it, 'wall_ms'):.0f} ({median(it, 'cpu_ms'):.0f})" for it in starts]
        yield f"| {what} | {' | '.join(cells)} |"
    for server in ("holdfast", "redis-server"):
        starts = [run["starts"][f"{server}, new"] for run in runs]
        for command in starts[0][0]["first_ms"]:
            firsts = [median([start["first_ms"] for start in it], command) for it in starts]
            cells = [f"{first_ms:.1f}" for first_ms in firsts]
            yield f"| {server}: the first `{command}` after that | {' | '.join(cells)} |"


def dashboard_table(_: str, runs: list[Any]) -> Iterator[str]:
    """The parts of `make bench-dashboard`, each with its own measure."""
    parts = {name: part for run in runs for name, part in run.items()}
    beside = {"open": "20 dashboards", "tabs": "1,000 open pages"}
    if not beside.keys().isdisjoint(parts):
        yield "| beside | CPU time a request, without : with | requests/s, with : without |"
        yield "|---|---|---|"
    for name, title in beside.items():
        for load, figures in parts.get(name, {}).items():
            ratios = f"{figures['cpu_ratio']:.2f} | {figures['rps_ratio']:.2f}"
            yield f"| {load}, {title} | {ratios} |"
    if "search" in parts:
        words, slowest = max(parts["search"].items(), key=lambda item: float(item[1]["cpu_ms"]))
        middle = statistics.median(each["cpu_ms"] for each in parts["search"].values())
        yield (
            f"A search over a million finished builds takes {middle:.1f} ms of CPU time (median of"
            f" {len(parts['search'])}); the slowest one, for {words}, {slowest['cpu_ms']:.1f} ms."
        )
    if "large" in parts:
        yield ""
        yield "| page; a million keys and 10,000 queues | ms | longest wait of a `PING` in ms |"
        yield "|---|---|---|"
        for path, figures in parts["large"].items():
            yield f"| `{path}` | {figures['page_ms']:.0f} | {figures['longest_ping_ms']:.0f} |"


# The rows of `make bench-replication`: title, and the figures with their form.
REPLICATION: dict[str, tuple[str, dict[str, tuple[str, str]]]] = {
    "snapshot": (
        "full resynchronisation of 1,000,000 small keys",
        {
            "seconds": ("s", ".1f"),
            "primary_cpu_s": ("CPU s, primary", ".1f"),
            "replica_cpu_s": ("CPU s, replica", ".1f"),
        },
    ),
    "primary": ("`SET` ×16, 50 clients", {"rps": ("/s", ",.0f"), "cpu_us": ("CPU µs", ".2f")}),
    "stream": (
        "commands that a replica applies after a pause",
        {"commands_s": ("/s", ",.0f"), "cpu_us": ("CPU µs", ".2f")},
    ),
    "lag": (
        "lag beside 5,000 writes a second",
        {"p50_ms": ("p50, ms", ".1f"), "p99_ms": ("p99, ms", ".1f")},
    ),
    "failover": (
        "failover by redis-sentinel, `down-after-milliseconds 1000`",
        {"seconds": ("s", ".2f")},
    ),
}


def replication_table(_: str, runs: list[Any]) -> Iterator[str]:
    """One table for each kind of row: median (lowest–highest)."""
    rows = [row for run in runs for row in run["rows"]]
    for what, (title, figures) in REPLICATION.items():
        found: dict[tuple[str, str], list[Any]] = {}
        for row in rows:
            if row["what"] == what:
                found.setdefault((row["primary"], row["replica"]), []).append(row["figures"])
        if not found:
            continue
        yield f"| {title}: primary | replica | {' | '.join(name for name, _ in figures.values())} |"
        yield "|---" * (2 + len(figures)) + "|"
        for (primary, replica), samples in found.items():
            cells = [spread(samples, key, form) for key, (_, form) in figures.items()]
            yield f"| {primary} | {replica} | {' | '.join(cells)} |"
        yield ""


def spread(samples: list[Any], key: str, form: str) -> str:
    """The median, and the lowest and the highest if there are several."""
    values = [sample[key] for sample in samples]
    middle = format(statistics.median(values), form)
    if len(values) == 1:
        return middle
    return f"{middle} ({format(min(values), form)}–{format(max(values), form)})"


def source(runs: list[Any], names: list[str]) -> str:
    """The origin of the figures: the machine, the commit, the files."""
    facts = {key: sorted({str(run["machine"][key]) for run in runs}) for key in runs[0]["machine"]}
    shown = {key: " and ".join(values) for key, values in facts.items()}
    files = ", ".join(f"`{name}`" for name in names)
    return (
        f"Commit {shown['commit']}, {shown['cores']} cores ({shown['cpu']}), Python"
        f" {shown['python']}, redis-server {shown['redis']}; from {files} in `bench/results`."
    )


KINDS: dict[
    str, tuple[Callable[[str, list[Any]], Plot], Callable[[str, list[Any]], Iterator[str]]]
] = {
    "everysec": (speed_plot, speed_table),
    "always": (speed_plot, speed_table),
    "memory": (memory_plot, memory_table),
    "fairness": (fairness_plot, fairness_table),
    "start": (start_plot, start_table),
}
TABLES = {"dashboard": dashboard_table, "replication": replication_table}  # without a plot


def files() -> dict[Path, str]:
    """All files to write: each plot, and the page with its tables."""
    result: dict[Path, str] = {}
    page = PAGE.read_text()
    for name, (plot, table) in KINDS.items():
        runs = load(SOURCES[name])
        result[IMAGES / f"bench-{name}.svg"] = svg(plot(name, runs))
        lines = [*table(name, runs), "", source(runs, SOURCES[name])]
        page = put(page, name, "\n".join(lines))
    for name, table in TABLES.items():
        runs = load(SOURCES[name])
        page = put(page, name, "\n".join([*table(name, runs), "", source(runs, SOURCES[name])]))
    result[PAGE] = page
    return result


def put(page: str, name: str, text: str) -> str:
    """The page with the text between the comments `bench: name` and `end`."""
    block = re.compile(rf"(<!-- bench: {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    if not block.search(page):
        raise ValueError(f"the page has no place for {name!r}")
    return block.sub(lambda found: f"{found[1]}\n{text}\n\n{found[2]}", page)


def main(argv: list[str]) -> int:
    changed = [
        path for path, text in files().items() if not path.exists() or path.read_text() != text
    ]
    if "--check" in argv:
        for path in changed:
            print(f"{path.relative_to(ROOT)} is not up to date: python -m bench.plot")
        return 1 if changed else 0
    IMAGES.mkdir(exist_ok=True)
    for path, text in files().items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
