"""Draws the figures of docs/performance.md from the JSON that the benchmarks write.

    python -m bench.plot            writes docs/images/*.svg and the tables of the page
    python -m bench.plot --check    exits with 1 if they are not up to date

SOURCES names the files that are drawn: after a new run, add its file there.
"""

import json
import re
import statistics
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench import plot_lives
from bench.bars import OLD, OURS, REDIS, Bar, Plot, svg
from bench.plot_lives import spread

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
    "dashboard": [
        *("2026-11-19-dashboard-open.json", "2026-11-19-dashboard-tabs.json"),
        *("2026-11-19-dashboard-large.json", "2026-11-19-dashboard-search.json"),
    ],
    "replication": ["2026-11-20-replication.json"],
    # Beside redis-server. A second run, beside an older Holdfast, adds bars and a table.
    "new-keys": ["2026-11-19-everysec-new-keys.json"],
    "lives": ["2026-11-19-lives-sessions.json", "2026-11-19-lives-jobs.json"],
    "sessions": ["2026-11-19-lives-sessions.json"],
    "tail": ["2026-11-19-lives-tail.json"],
    "crash": ["2026-11-19-lives-crash.json"],
    "working-set": ["2026-11-19-lives-working-set.json"],
}

# -- the results of the benchmarks --------------------------------------------------------------


def load(names: list[str]) -> list[Any]:
    return [json.loads((RESULTS / name).read_text()) for name in names]


NEW = "NEW_"  # rows whose commands make a new key begin so


def rows_of(runs: list[Any], *, new: bool = False) -> dict[str, dict[int, Any]]:
    """The rows of `make bench`, by command and pipeline; those of new keys are shown alone."""
    rows: dict[str, dict[int, Any]] = {}
    for run in runs:
        for row in run["rows"]:
            if row["command"].startswith(NEW) == new:
                rows.setdefault(row["command"], {})[row["pipeline"]] = row
    return rows


def speed_plot(policy: str, runs: list[Any]) -> Plot:
    series = [("one request at a time", OURS), ("16 at once", OLD)]
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
    return ratio_table(rows_of(runs))


def ratio_table(rows: dict[str, dict[int, Any]]) -> Iterator[str]:
    yield (
        "| command | ×1: requests/s, ours / redis | ratio (min–max) | CPU µs | ×16: requests/s"
        " | ratio (min–max) | CPU µs |"
    )
    yield "|---|---|---|---|---|---|---|"
    for command, by_pipeline in rows.items():
        cells = []
        for pipeline in (1, 16):
            row = by_pipeline.get(pipeline)
            cells += ["–"] * 3 if row is None else speed_cells(row)
        yield f"| {command} | {' | '.join(cells)} |"


def speed_cells(row: Any) -> list[str]:
    ours, redis = row["ours"], row["redis"]
    return [
        f"{median(ours, 'rps'):,.0f} / {median(redis, 'rps'):,.0f}",
        f"{row['ratio']:.2f} ({row['ratio_min']:.2f}–{row['ratio_max']:.2f})",
        f"{median(ours, 'cpu_us_per_op'):.1f} / {median(redis, 'cpu_us_per_op'):.1f}",
    ]


def new_keys_plot(_: str, runs: list[Any]) -> Plot:
    """CPU time for a new key, 16 at once. An older Holdfast was measured beside the present one, in
    a run of its own."""
    beside_redis, beside_old = by_peer(runs)
    series = [("Holdfast", OURS), ("redis-server", REDIS)]
    if beside_old:
        series.append(("Holdfast before", OLD))
    groups = []
    for command, by_pipeline in beside_redis.items():
        row = by_pipeline[16]
        shown = [row["ours"], row["redis"]]
        if command in beside_old:
            shown.append(beside_old[command][16]["redis"])  # the other side, whichever it is
        bars = []
        for place, samples in enumerate(shown):
            costs = [sample["cpu_us_per_op"] for sample in samples]
            middle = statistics.median(costs)
            bars.append(Bar(place, middle, min(costs), max(costs), f"{middle:.1f}"))
        groups.append((command, bars))
    title = "CPU time for a new key, with all folding, 16 requests at once"
    return Plot(title, "µs; lines: lowest and highest round", series, groups)


def new_keys_table(_: str, runs: list[Any]) -> Iterator[str]:
    beside_redis, beside_old = by_peer(runs)
    yield from ratio_table(beside_redis)
    if beside_old:
        yield ""
        yield "| ×16 | rate, now : before (min–max) | CPU µs, before | now |"
        yield "|---|---|---|---|"
        for command, by_pipeline in beside_old.items():
            row = by_pipeline[16]
            ratio = f"{row['ratio']:.2f} ({row['ratio_min']:.2f}–{row['ratio_max']:.2f})"
            costs = [
                spread([sample["cpu_us_per_op"] for sample in row[side]], ".1f")
                for side in ("redis", "ours")
            ]
            yield f"| {command} | {ratio} | {' | '.join(costs)} |"


def by_peer(runs: list[Any]) -> tuple[dict[str, dict[int, Any]], dict[str, dict[int, Any]]]:
    """The rows of new keys beside redis-server, and beside an older Holdfast."""
    old = [run for run in runs if run.get("beside") == "Holdfast"]
    return rows_of([run for run in runs if run not in old], new=True), rows_of(old, new=True)


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
        yield "| beside | CPU time a request, without : with (min–max) | requests/s |"
        yield "|---|---|---|"
    for name, title in beside.items():
        for load, figures in parts.get(name, {}).items():
            rounds = figures["rounds"]
            cpu = [each["without"]["cpu_us"] / each["with"]["cpu_us"] for each in rounds]
            spread = f"{figures['cpu_ratio']:.2f} ({min(cpu):.2f}–{max(cpu):.2f})"
            yield f"| {load}, {title} | {spread} | {figures['rps_ratio']:.2f} |"
    if "search" in parts:
        yield ""
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


SNAPSHOT = {
    "seconds": ("s", ".1f"),
    "primary_cpu_s": ("CPU s, primary", ".1f"),
    "replica_cpu_s": ("CPU s, replica", ".1f"),
}
# The rows of `make bench-replication`: title, and the figures with their form.
REPLICATION: dict[str, tuple[str, dict[str, tuple[str, str]]]] = {
    "snapshot": ("full resynchronisation of 1,000,000 small strings", SNAPSHOT),
    "hashes": ("full resynchronisation of 1,000,000 hashes of three fields", SNAPSHOT),
    "primary": ("`SET` ×16, 50 clients", {"rps": ("/s", ",.0f"), "cpu_us": ("CPU µs", ".2f")}),
    "stream": (
        "commands that a replica applies after a pause",
        {"commands_s": ("/s", ",.0f"), "cpu_us": ("CPU µs", ".2f")},
    ),
    "lag": (
        "lag beside 5,000 writes a second",
        {"p50_ms": ("p50, ms", ".2f"), "p99_ms": ("p99, ms", ".2f")},
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
            cells = [
                spread([sample[key] for sample in samples], form)
                for key, (_, form) in figures.items()
            ]
            yield f"| {primary} | {replica} | {' | '.join(cells)} |"
        yield ""


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
    "new-keys": (new_keys_plot, new_keys_table),
    "lives": (plot_lives.lives_plot, plot_lives.lives_table),
    "sessions": (plot_lives.sessions_plot, plot_lives.sessions_table),
    "tail": (plot_lives.tail_plot, plot_lives.tail_table),
    "crash": (plot_lives.crash_plot, plot_lives.crash_table),
    "working-set": (plot_lives.working_set_plot, plot_lives.working_set_table),
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
