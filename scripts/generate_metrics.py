"""Writes the tables of docs/guide-metrics.md from the table of metrics. `make docs` runs this
script; a test checks that the page is up to date."""

from pathlib import Path

from holdfast.server.http.metric_table import SECTIONS

TARGET = Path(__file__).parent.parent / "docs" / "guide-metrics.md"
BEGIN, END = "<!-- generated: metrics -->\n", "<!-- end -->"


def tables() -> str:
    parts = []
    for title, metrics in SECTIONS.items():
        lines = [f"### {title}\n", "| metric | type | labels | meaning |", "|---|---|---|---|"]
        for metric in metrics:
            labels = ", ".join(f"`{label}`" for label in metric.labels)
            lines.append(f"| `{metric.name}` | {metric.type.value} | {labels} | {metric.meaning} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def generate() -> str:
    before, begin, rest = TARGET.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    return f"{before}{begin}\n{tables()}\n\n{end}{after}"


if __name__ == "__main__":
    TARGET.write_text(generate())
