"""The table of docs/guide-testing.md: the cases of `comparison`, run on each server.

`python -m tests.testing.table` writes it. It needs fakeredis from scripts/install-libraries.
"""

import ast
import re
import sys
from pathlib import Path

from tests.testing.projects import LIBRARIES, ROOT, run_project

FOLDER = Path(__file__).parent / "comparison"
PAGE = ROOT / "docs" / "guide-testing.md"
BEGIN, END = "<!-- generated: comparison -->\n\n", "\n<!-- end -->"

# The plugin that makes the fixtures, and the libraries that it needs.
COLUMNS: dict[str, tuple[str, list[str]]] = {
    "fakeredis": ("on_fakeredis", ["fakeredis"]),
    "`TcpFakeServer`": ("on_fakeredis_tcp", ["fakeredis"]),
    "Holdfast": ("on_holdfast", []),
}


def titles() -> dict[str, str]:
    """By test, its docstring."""
    tree = ast.parse((FOLDER / "test_cases.py").read_text())
    return {
        node.name: ast.get_docstring(node) or ""
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def column(name: str) -> dict[str, bool]:
    """By title, whether the case passes."""
    plugin, libraries = COLUMNS[name]
    done = run_project(FOLDER, "-p", plugin, "--tb=short", libraries=libraries)
    results = done.results
    missing = titles().keys() - results.keys()
    assert not missing, f"{missing} did not run:\n{done.text}"
    return {title: results[test] == "PASSED" for test, title in titles().items()}


def written(page: str) -> dict[str, dict[str, bool]]:
    """The columns of the table on the page."""
    table = page.partition(BEGIN)[2].partition(END)[0]
    rows = [row.strip("| ").split(" | ") for row in table.strip().splitlines()]
    names, cells = rows[0][1:], rows[2:]
    return {
        name: {row[0]: row[place] == "yes" for row in cells}
        for place, name in enumerate(names, start=1)
    }


def generate() -> str:
    columns = {name: column(name) for name in COLUMNS}
    lines = [f"| case | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for title in titles().values():
        cells = ["yes" if passes[title] else "no" for passes in columns.values()]
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def fakeredis_version() -> str:
    """The version that scripts/install-libraries has installed."""
    (found,) = (LIBRARIES / "fakeredis").glob("fakeredis-*.dist-info")
    return found.name.removeprefix("fakeredis-").removesuffix(".dist-info")


def main() -> None:
    before, begin, rest = PAGE.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    assert begin, "the page has no place for the table"
    assert end, "the page has no place for the table"
    text = before + begin + generate() + end + after
    PAGE.write_text(re.sub(r"fakeredis \d[\d.]*\d", f"fakeredis {fakeredis_version()}", text))
    sys.stderr.write(f"{PAGE.relative_to(ROOT)} is written\n")


if __name__ == "__main__":
    main()
