"""Files and symbols that prose names exist: in docs/tour.md, and in docstrings and comments of src.

These count as names: a word in backticks, and the name of a file or a decision with or without
them. A word in backticks that contains a blank is an example, and is ignored.
"""

import ast
import builtins
import importlib.util
import io
import re
import tokenize
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "holdfast"
TOUR = ROOT / "docs" / "tour.md"

# Names that are right and are not ours, with the reason.
ALLOWED = {
    "holdfast.db": "the default name of a database file",
}
# Libraries that scripts see, of Redis and of Lua.
LUA = {"bit", "cjson", "cmsgpack", "debug", "math", "os", "redis", "server", "string", "struct"}
LUA |= {"table"}
# Files that programs write or read beside the source.
WRITTEN = re.compile(r"(NAME|app|holdfast)\.db(-\w+)?")

FILE = re.compile(r"[\w./*-]*\w\.(py|lua|c|sql|md|toml|txt|svg|yml)")
FOLDER = re.compile(r"[a-z][\w-]*(/[\w-]+)+/?|[a-z][\w-]*/")
DOTTED = re.compile(r"_?[A-Za-z]\w*(\.\w+)+")
# A word that can be nothing else: CamelCase or snake_case.
SYMBOL = re.compile(r"_?[A-Z]\w*[a-z]\w*|_?[a-z0-9]+(_[a-z0-9]+)+|[A-Z]+(_[A-Z]+)+")
DECISION = re.compile(r"\bdecisions? (\d+)")
IN_BACKTICKS = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")


class Prose(NamedTuple):
    path: Path
    line: int
    text: str


# -- existing names ------------------------------------------------------------------------------


@cache
def files() -> frozenset[str]:
    """Each file and folder of the repository, by its path and by all ends of its path."""
    found: set[str] = set()
    for top in ("src", "tests", "bench", "docs", "examples", "scripts"):
        for path in [ROOT / top, *(ROOT / top).rglob("*")]:
            parts = path.relative_to(ROOT).parts
            for start in range(len(parts)):
                found.add("/".join(parts[start:]))
                if path.suffix == ".py":  # `store/fold` may be a room or a module
                    found.add("/".join(parts[start:]).removesuffix(".py"))
    return frozenset(found | {path.name for path in ROOT.iterdir()})


SOURCES = sorted(SOURCE.rglob("*.py"))


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def nodes_of(path: Path) -> list[ast.AST]:
    return list(ast.walk(tree_of(path)))


@cache
def tokens_of(path: Path) -> list[tokenize.TokenInfo]:
    """Names and comments."""
    tokens = tokenize.generate_tokens(io.StringIO(path.read_text()).readline)
    return [token for token in tokens if token.type in (tokenize.NAME, tokenize.COMMENT)]


@cache
def identifiers() -> frozenset[str]:
    found = {*dir(builtins)}
    for path in [*SOURCES, ROOT / "setup.py"]:
        found.update(token.string for token in tokens_of(path) if token.type == tokenize.NAME)
    for path in SOURCE.rglob("*"):
        if path.suffix in (".lua", ".c", ".sql"):
            text = re.sub(
                r"--.*|/\*.*?\*/", "", path.read_text(), flags=re.DOTALL * (path.suffix == ".c")
            )
            found.update(re.findall(r"\w+", text))
    return frozenset(found)


@cache
def words() -> frozenset[str]:
    """Identifiers, and the words in texts of the code: names of commands, tables, options."""
    found = {*identifiers(), *files()}
    for path in SOURCES:
        prose = {id(node) for node in docstrings(path)}
        for node in nodes_of(path):
            if isinstance(node, ast.Constant) and id(node) not in prose:
                text = node.value.decode("latin-1") if isinstance(node.value, bytes) else node.value
                if isinstance(text, str):
                    found.update(re.findall(r"[\w-]+", text))
    return frozenset(found | {word.upper() for word in found if word.islower()})


class Members(NamedTuple):
    own: frozenset[str]
    bases: tuple[str, ...]


@cache
def classes() -> dict[str, list[Members]]:
    """For each class, by its name: the names it defines, assigns to self or declares, and its
    bases."""
    result: dict[str, list[Members]] = {}
    for path in SOURCES:
        for node in nodes_of(path):
            if isinstance(node, ast.ClassDef):
                result.setdefault(node.name, []).append(
                    Members(frozenset(members(node)), tuple(base_names(node)))
                )
    return result


def members(node: ast.ClassDef) -> Iterator[str]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield inner.name
        elif isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store):
            yield inner.attr
        elif isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
            yield inner.id


def base_names(node: ast.ClassDef) -> Iterator[str]:
    for base in node.bases:
        inner = base.value if isinstance(base, ast.Subscript) else base
        if isinstance(inner, ast.Name | ast.Attribute):
            yield inner.id if isinstance(inner, ast.Name) else inner.attr


def class_has(name: str, member: str) -> bool:
    return any(
        member in each.own
        or any(class_has(base, member) for base in each.bases if base != name)
        or any(base not in classes() for base in each.bases)  # of a library: not looked at
        for each in classes().get(name, [])
    )


@cache
def modules() -> dict[str, list[frozenset[str]]]:
    """The top-level names of each module, by the last part of its name; a package has its
    modules."""
    result: dict[str, list[frozenset[str]]] = {}
    for path in SOURCES:
        name = path.parent.name if path.name == "__init__.py" else path.stem
        names = set(top_names(path))
        if path.name == "__init__.py":
            names |= {each.stem for each in path.parent.iterdir()}
        result.setdefault(name, []).append(frozenset(names))
    return result


def top_names(path: Path) -> Iterator[str]:
    for node in nodes_of(path):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.ImportFrom | ast.Import):
            yield from (alias.asname or alias.name for alias in node.names)


# -- names in prose ------------------------------------------------------------------------------


def docstrings(path: Path) -> Iterator[ast.Constant]:
    owners = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    for node in nodes_of(path):
        if isinstance(node, owners) and node.body and isinstance(node.body[0], ast.Expr):
            value = node.body[0].value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield value


def prose_of(path: Path) -> Iterator[Prose]:
    text = path.read_text()
    if path.suffix == ".md":
        without_examples = re.sub(r"^```.*?^```$", blank, text, flags=FENCE)
        for number, line in enumerate(without_examples.split("\n")):
            yield Prose(path, number + 1, line)
        return
    for node in docstrings(path):
        for number, line in enumerate(str(node.value).split("\n")):
            yield Prose(path, node.lineno + number, line)
    for token in tokens_of(path):
        if token.type == tokenize.COMMENT:
            yield Prose(path, token.start[0], token.string)


ROOMS = {path.name for top in (ROOT, SOURCE) for path in top.iterdir() if path.is_dir()}
FENCE = re.MULTILINE | re.DOTALL


def blank(found: re.Match[str]) -> str:
    return "\n" * found[0].count("\n")


def mistakes(prose: Prose) -> Iterator[str]:
    for found in DECISION.finditer(prose.text):
        if not [*ROOT.glob(f"docs/decisions/{int(found[1]):04}-*.md")]:
            yield found[0]
    for name in IN_BACKTICKS.findall(prose.text):
        if not exists(name):
            yield name
    for found in re.finditer(rf"(?<![\w`/*.-]){FILE.pattern}(?![\w/`-])", prose.text):
        if not exists(found[0]):
            yield found[0]


def exists(name: str) -> bool:
    name = name.removesuffix("()")
    if name in ALLOWED or WRITTEN.fullmatch(name):
        return True
    if FILE.fullmatch(name):
        if "*" in name:
            return any(fnmatch(path, name) for path in files())
        return name in files()
    if FOLDER.fullmatch(name):
        first, *_ = parts = name.rstrip("/").split("/")
        is_path = first in ROOMS
        return "/".join(parts) in files() or (
            not is_path and all(part in words() for part in parts)
        )
    if DOTTED.fullmatch(name):
        return dotted_exists(name.split("."))
    if SYMBOL.fullmatch(name):
        return name in identifiers() or name in files()
    if re.fullmatch(r"[A-Za-z_]\w*", name):
        return name in words()
    return True  # an example, a sign, a number


def dotted_exists(parts: list[str]) -> bool:
    *before, owner, member = parts
    if owner in classes():
        return class_has(owner, member)
    if class_has(owner.title().replace("_", ""), member):  # an object that is named after its class
        return True
    if owner in modules():
        return any(member in names for names in modules()[owner])
    if parts[0] in LUA or importlib.util.find_spec(parts[0]) is not None:
        return True
    # An object by the name that it has in the code, such as `c.db`.
    return owner in words() and member in words() and all(each in words() for each in before)


@pytest.mark.timeout(180)  # a second or two, more on a machine that does much else
def test_names_in_prose_exist() -> None:
    """All files in one test: to know what exists takes longer than to look at one file."""
    found = [
        f"{prose.path.relative_to(ROOT)}:{prose.line}: {name}"
        for path in [TOUR, *SOURCES]
        for prose in prose_of(path)
        for name in mistakes(prose)
    ]
    assert not found, "no such file or symbol"


def test_a_wrong_name_is_found() -> None:
    wrong = [
        "`Database.no_such`",
        "`keyspace.no_such`",
        "`NoSuchClass`",
        "`no_such_name()`",
        "`store/no_such`",
        "`no_such.py`",
        "no_such.py says so",
        "decision 999",
    ]
    assert [text for text in wrong if not [*mistakes(Prose(TOUR, 1, text))]] == []


# -- the walks of the tour -------------------------------------------------------------------------

STEP = re.compile(r"^ *\d+\. `([\w/]+\.\w+)`: (`[^`]+`(?:(?: →|,) `[^`]+`)*)", re.MULTILINE)


def test_steps_of_the_walks_are_defined_where_the_tour_says() -> None:
    steps = STEP.findall(TOUR.read_text())
    assert len(steps) > 30
    wrong = [
        f"{path}: {name}"
        for path, names in steps
        for name in re.findall(r"`([^`]+)`", names)
        if not is_defined(SOURCE / path, name)
    ]
    assert not wrong


def is_defined(path: Path, name: str) -> bool:
    if not path.exists():
        return False
    if path.suffix != ".py":
        return re.search(rf"\b{re.escape(name)}\b", path.read_text()) is not None
    body: list[ast.stmt] = tree_of(path).body
    for part in name.split("."):
        inner = [
            node
            for node in body
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            and node.name == part
        ]
        if not inner:
            return False
        body = inner[-1].body
    return True
