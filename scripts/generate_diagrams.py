"""Writes those diagrams and tables of docs/tour.md that show a table of the code.

The rooms come from the import contracts in pyproject.toml and from the docstrings of the packages.
The states of a link come from its table of states. `make docs` runs this script; a test checks that
the tour is up to date.
"""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from holdfast.replication.link_states import TABLE, LinkEvent, LinkState

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "holdfast"
TARGET = ROOT / "docs" / "tour.md"


def contracts() -> list[dict[str, Any]]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return [
        contract
        for contract in project["tool"]["importlinter"]["contracts"]
        if contract["type"] == "layers"
    ]


def layers_of(contract: dict[str, Any]) -> list[list[str]]:
    """The layers, from the top down. A name in parentheses is shown only if the module exists."""
    (container,) = contract["containers"]
    folder = ROOT / "src" / container.replace(".", "/")
    layers = [
        [name.strip(" ()") for name in re.split(r"[:|]", layer)] for layer in contract["layers"]
    ]
    existing = [[name for name in layer if exists(folder / name)] for layer in layers]
    return [layer for layer in existing if layer]


def exists(path: Path) -> bool:
    return path.is_dir() or path.with_name(f"{path.name}.py").exists()


def rooms() -> str:
    """One diagram for each contract. Imports go from top to bottom."""
    parts = []
    for contract in contracts():
        (container,) = contract["containers"]
        lines = [f"Inside of `{container}`:\n", "```mermaid", "flowchart TB"]
        layers = layers_of(contract)
        for number, layer in enumerate(layers):
            lines.append(f'    subgraph L{number}[" "]')
            lines += [f'        {container.replace(".", "_")}_{name}["{name}"]' for name in layer]
            lines.append("    end")
        lines += [f"    L{number} --> L{number + 1}" for number in range(len(layers) - 1)]
        parts.append("\n".join([*lines, "```"]))
    return "\n\n".join(parts)


def room_table() -> str:
    """Each package with the first line of its docstring."""
    lines = ["| room | |", "|---|---|"]
    for path in sorted(SOURCE.rglob("__init__.py")):
        if path.parent != SOURCE:
            doc = ast.get_docstring(ast.parse(path.read_text())) or ""
            first = " ".join(doc.partition("\n\n")[0].split())
            lines.append(f"| `{path.parent.relative_to(SOURCE)}` | {first} |")
    return "\n".join(lines)


def link_states() -> str:
    """The states of a link. Events that end a link or change nothing are left out, because every
    state has them."""
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {LinkState.WAITING.name}"]
    lines += [f"    {start.name} --> {end.name}: {event.value}" for start, event, end in moves()]
    lines.append("```")
    return "\n".join(lines)


def moves() -> Iterator[tuple[LinkState, LinkEvent, LinkState]]:
    for start, by_event in TABLE.items():
        for event, end in by_event.items():
            if start is not end and event not in (LinkEvent.LOST, LinkEvent.PAUSE):
                yield start, event, end


PARTS = {"rooms": rooms, "room-table": room_table, "link-states": link_states}


def generate() -> str:
    page = TARGET.read_text()
    for name, part in PARTS.items():
        before, begin, rest = page.partition(f"<!-- generated: {name} -->\n")
        if not begin:
            raise ValueError(f"the page has no place for {name!r}")
        _, end, after = rest.partition("<!-- end -->")
        page = f"{before}{begin}\n{part()}\n\n{end}{after}"
    return page


if __name__ == "__main__":
    TARGET.write_text(generate())
