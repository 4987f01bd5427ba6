"""Plots and tables of lives: medians of the rounds, one bar for each server that was measured."""

from typing import Any

from bench import plot, plot_lives
from bench.bars import Bar

NOT_POSSIBLE = "not possible: ERR unknown command"


def life(cpu_us: float, rates: list[float], **notes: float) -> dict[str, Any]:
    waits = {"p50": 0.1 * cpu_us, "p99": cpu_us, "p99.9": 2 * cpu_us, "longest": 3 * cpu_us}
    return {
        "units": 1,
        "rates": rates,
        "cpu_us": cpu_us,
        "wait_ms": waits,
        "rss_mb": 10.4,
        "files_mb": 20.6,
        "notes": notes,
    }


def run(**rows: dict[str, Any]) -> dict[str, Any]:
    options = {"sessions": 2000, "seconds": 60.0, "changes": 990_000}
    return {
        "options": options,
        "rows": {name.replace("_", ": "): row for name, row in rows.items()},
    }


def test_a_bar_is_the_median_of_the_rounds_and_reaches_from_the_lowest_to_the_highest() -> None:
    rounds = [life(cpu_us, [100.0]) for cpu_us in (3.0, 1.0, 9.0)]
    drawn = plot_lives.lives_plot("lives", [run(jobs_list={"ours": rounds, "redis": rounds[:1]})])
    assert drawn.groups == [
        ("jobs: list", [Bar(0, 3.0, 1.0, 9.0, "3.0"), Bar(1, 3.0, 3.0, 3.0, "3.0")])
    ]
    assert [name for name, _ in drawn.series] == ["Holdfast", "redis-server"]


def test_an_older_holdfast_has_a_bar_where_it_was_measured() -> None:
    old = {"ours": [life(1.0, [1.0])], "before": [life(2.0, [1.0])], "redis": [life(0.5, [1.0])]}
    new = {"ours": [life(1.5, [1.0])], "redis": [life(0.5, [1.0])]}
    drawn = plot_lives.lives_plot("lives", [run(jobs_list=old, jobs_set=new)])
    assert [name for name, _ in drawn.series] == ["Holdfast", "Holdfast before", "redis-server"]
    assert [[bar.series for bar in bars] for _, bars in drawn.groups] == [[0, 1, 2], [0, 2]]


def test_a_server_that_cannot_do_a_row_has_no_bar_and_no_line() -> None:
    runs = [run(jobs_list={"ours": [life(1.0, [1.0])], "RESPLite default": [NOT_POSSIBLE]})]
    assert [name for name, _ in plot_lives.lives_plot("lives", runs).series] == ["Holdfast"]
    assert "RESPLite" not in "\n".join(plot_lives.lives_table("lives", runs))


def test_the_last_run_of_a_row_counts() -> None:
    first, second = (run(jobs_list={"ours": [life(cpu_us, [1.0])]}) for cpu_us in (1.0, 2.0))
    (group,) = plot_lives.lives_plot("lives", [first, second]).groups
    assert group[1][0].value == 2.0


def test_a_tail_is_drawn_from_p50_to_the_longest_usual_wait() -> None:
    rounds = [life(cpu_us, [1.0]) for cpu_us in (1.0, 4.0, 2.0)]
    drawn = plot_lives.tail_plot("tail", [run(tail_strings={"redis": rounds})])
    assert drawn.groups == [("strings", [Bar(0, 2.0, 0.2, 4.0, "2.00")])]


def test_rates_of_sessions_are_shown_beside_the_first_one() -> None:
    rounds = [life(1.0, [200.0, 100.0], **{"last : first": 0.5})]
    runs = [run(sessions={"ours": rounds})]
    drawn = plot_lives.sessions_plot("sessions", runs)
    assert [(name, bars[0].value) for name, bars in drawn.groups] == [
        ("1/2 of the time", 1.0),
        ("2/2 of the time", 0.5),
    ]
    assert [*plot_lives.sessions_table("sessions", runs)][-1] == "| Holdfast | 200 | 100 | 0.50 |"


def test_a_table_has_the_median_and_the_spread() -> None:
    rounds = [life(cpu_us, [1000 * cpu_us]) for cpu_us in (1.0, 3.0, 2.0)]
    (line,) = [*plot_lives.lives_table("lives", [run(jobs_list={"ours": rounds})])][2:]
    assert line == (
        "| jobs: list | Holdfast | 2,000 (1,000–3,000) | 2.0 (1.0–3.0) | 0.20 | 2.00 | 4.00 | 6.00"
        " | 10 | 21 |"
    )


def test_a_crash_shows_how_long_the_start_took() -> None:
    rounds = [life(1.0, [1.0], unfolded=990_000.0, ready_s=2.5, ready_cpu_s=2.0)]
    other = [life(1.0, [1.0], unfolded=0.0, ready_s=0.5, ready_cpu_s=0.4)]
    runs = [run(crash={"ours": rounds, "redis": other})]
    assert [*plot_lives.crash_table("crash", runs)][2:] == [
        "| Holdfast | 990,000 | 2.50 | 2.00 |",
        "| redis-server | – | 0.50 | 0.40 |",
    ]
    drawn = plot_lives.crash_plot("crash", runs)
    assert "990,000 changes" in drawn.title
    assert [bar.value for bar in drawn.groups[0][1]] == [2.5, 0.5]


def new_key(command: str, ours: float, other: float) -> dict[str, Any]:
    sides = [[{"rps": 1000.0, "cpu_us_per_op": cost}] for cost in (ours, other)]
    row = {"ratio": 0.5, "ratio_min": 0.4, "ratio_max": 0.6, "ours": sides[0], "redis": sides[1]}
    return {"command": command, "pipeline": 16, **row}


def test_new_keys_are_shown_beside_redis_and_beside_an_older_holdfast() -> None:
    rows = [new_key("SET", 1.0, 1.0), new_key("NEW_SET", 6.0, 2.0)]
    beside_redis = {"beside": "redis-server", "rows": rows}
    beside_old = {"beside": "Holdfast", "rows": [new_key("NEW_SET", 6.5, 15.0)]}
    drawn = plot.new_keys_plot("new-keys", [beside_redis, beside_old])
    assert [(name, [bar.value for bar in bars]) for name, bars in drawn.groups] == [
        ("NEW_SET", [6.0, 2.0, 15.0])
    ]
    table = [*plot.new_keys_table("new-keys", [beside_redis, beside_old])]
    assert "| NEW_SET | – | – | – | 1,000 / 1,000 | 0.50 (0.40–0.60) | 6.0 / 2.0 |" in table
    assert table[-1] == "| NEW_SET | 0.50 (0.40–0.60) | 15.0 | 6.5 |"


def test_new_keys_are_in_no_other_table() -> None:
    rows = [new_key("SET", 1.0, 1.0), new_key("NEW_SET", 6.0, 2.0)]
    table = [*plot.speed_table("everysec", [{"rows": rows}])]
    assert len(table) == 3
    assert table[-1].startswith("| SET |")
