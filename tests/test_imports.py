"""Modules do not import each other in circles. The directions between rooms are contracts of
import-linter, in pyproject.toml; it does not see circles inside of a room."""

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src"
LARGEST_CIRCLE = 7  # of modules of one room, when type-only and late imports count, too

Graph = dict[str, set[str]]


@cache
def modules() -> dict[str, Path]:
    found = {}
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def import_graph(*, when_loaded: bool) -> Graph:
    """`when_loaded`: only imports that run when the module is loaded."""
    graph: Graph = {}
    for name, path in modules().items():
        tree = ast.parse(path.read_text())
        graph[name] = {*imported(tree, when_loaded=when_loaded)} - {name}
    return graph


def imported(node: ast.AST, *, when_loaded: bool) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if when_loaded and isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if when_loaded and isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            continue
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names if alias.name in modules())
        elif isinstance(child, ast.ImportFrom):
            for alias in child.names:
                inner = f"{child.module}.{alias.name}"
                name = inner if inner in modules() else f"{child.module}"
                if name in modules():
                    yield name
        else:
            yield from imported(child, when_loaded=when_loaded)


def circles(graph: Graph) -> Iterator[frozenset[str]]:
    """The largest groups in which each module reaches each other one."""
    reached = {name: reachable(graph, name) for name in graph}
    groups = {
        frozenset(other for other in reached[name] if name in reached[other])
        for name in graph
        if name in reached[name]
    }
    yield from groups


def reachable(graph: Graph, start: str) -> set[str]:
    found: set[str] = set()
    rest = [*graph[start]]
    while rest:
        name = rest.pop()
        if name not in found:
            found.add(name)
            rest += graph[name]
    return found


def test_no_circle_when_modules_are_loaded() -> None:
    try:
        TopologicalSorter(import_graph(when_loaded=True)).prepare()
    except CycleError as error:
        raise AssertionError(" -> ".join(error.args[1])) from None


def test_other_circles_are_small_and_inside_of_a_room() -> None:
    for circle in circles(import_graph(when_loaded=False)):
        assert len(circle) <= LARGEST_CIRCLE, sorted(circle)
        assert len({name.rpartition(".")[0] for name in circle}) == 1, sorted(circle)


def test_a_circle_is_found() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set[str]()}
    assert [*circles(graph)] == [frozenset({"b", "c"})]
