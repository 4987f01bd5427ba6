"""Writes docs/decisions/README.md: the number, title, date and status of each decision. `make docs`
runs this script; a test checks that the page is up to date."""

import re
from collections.abc import Iterator
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "docs" / "decisions"
TARGET = FOLDER / "README.md"
# The first and the third line of a decision.
TITLE = re.compile(r"# (\d+)\. (.+)")
FACTS = re.compile(
    r"Date: (\d{4}-\d\d-\d\d)\. Status: (accepted|superseded by decision \d+|withdrawn)\."
)


def pages() -> list[Path]:
    return sorted(FOLDER.glob("[0-9]*.md"))


def generate() -> str:
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# Decisions\n"
    yield "Each page has one choice that a later reader may want to undo: its reasons, its cost,"
    yield "and the alternatives that were refused. A number is never used again."
    yield "`make docs` writes this table.\n"
    yield "| number | decision | date | status |\n|---|---|---|---|"
    for page in pages():
        title, _, facts, *_ = page.read_text().splitlines()
        name, state = TITLE.fullmatch(title), FACTS.fullmatch(facts)
        if name is None or state is None or int(name[1]) != int(page.name[:4]):
            raise ValueError(f"{page.name} must begin with number, title, date and status")
        yield f"| {name[1]} | [{name[2]}]({page.name}) | {state[1]} | {state[2]} |"


if __name__ == "__main__":
    TARGET.write_text(generate())
