"""The documentation is true: every example in it runs, every reference is up to date.

```python blocks run as they are, `await` included. ```console blocks are typed into a shell (`$
command`) or into redis-cli (`127.0.0.1:6379> command`), and must print the text below; `...`
matches anything. The blocks of a page run in order, in one folder, beside a server on ./holdfast.db
that `redis-cli` and `holdfast ping` reach without a port, and shells at 127.0.0.1:6379.
"""

import ast
import asyncio
import doctest
import importlib
import inspect
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from holdfast.commands.table import TABLE, Command
from scripts import generate_api, generate_decisions, generate_diagrams
from scripts.generate_docs import GROUPS, PARTLY, TARGET, generate, missing_names, syntax
from tests.harness import HoldfastServer, RawClient
from tests.harness.processes import NO_ORACLE

ROOT = Path(__file__).parent.parent
PAGES = sorted(
    page for page in [ROOT / "README.md", *ROOT.glob("docs/**/*.md")] if page.name != TARGET.name
)


class Block(NamedTuple):
    line: int
    language: str
    text: str


def blocks_of(page: Path) -> Iterator[Block]:
    text = page.read_text()
    for found in re.finditer(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        yield Block(text.count("\n", 0, found.start()) + 1, found[1], found[2])


def is_runnable(block: Block) -> bool:
    return block.language in ("python", "console")


@pytest.mark.timeout(240)  # a page may start twenty processes
@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if any(map(is_runnable, blocks_of(page)))],
    ids=lambda page: page.name,
)
def test_examples_run(
    page: Path, start_server: Callable[..., HoldfastServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = page.read_text()
    if any(tool in text and shutil.which(tool) is None for tool in ("redis-cli", "sqlite3")):
        pytest.skip(NO_ORACLE)
    server = start_server()
    monkeypatch.chdir(server.folder)
    tools = server.folder / "bin"
    tools.mkdir()
    for name, command in {
        "redis-cli": f"/usr/bin/env -i PATH={os.defpath} redis-cli -p {server.port}",
        "holdfast": f"{shlex.quote(sys.executable)} -m holdfast",
    }.items():
        (tools / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        (tools / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("HOLDFAST_PORT", str(server.port))  # for `holdfast ping`
    for block in filter(is_runnable, blocks_of(page)):
        try:
            if block.language == "python":
                run_python(block.text)
            elif block.text.startswith("$ "):
                run_shell(block.text.replace("127.0.0.1:6379", f"127.0.0.1:{server.port}"))
            else:
                run_redis_cli(block.text)
        except Exception as error:
            error.add_note(f"in the example at {page}:{block.line}")
            raise


def run_python(text: str) -> None:
    code = compile(text, "<example>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    result = eval(code, {"__name__": "__main__"})
    if inspect.iscoroutine(result):
        asyncio.run(result)


def run_shell(text: str) -> None:
    for command, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE):
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
        assert_prints(done.stdout + done.stderr, expected, command)


def run_redis_cli(text: str) -> None:
    """All lines in one session, as a person types them."""
    prompt = re.compile(r"^127\.0\.0\.1:6379(?:\[\d+\])?(?:\(TX\))?> ")
    lines = text.splitlines()
    commands = [prompt.sub("", line) for line in lines if prompt.match(line)]
    expected = "".join(f"{line}\n" for line in lines if not prompt.match(line))
    done = subprocess.run(
        ["redis-cli", "--no-raw"], input="\n".join(commands), capture_output=True, text=True
    )
    assert_prints(done.stdout + done.stderr, expected, "redis-cli")


def assert_prints(printed: str, expected: str, command: str) -> None:
    same = doctest.OutputChecker().check_output(expected, printed, doctest.ELLIPSIS)
    assert same, f"{command} printed\n{printed}instead of\n{expected}"


# -- docs/commands.md ------------------------------------------------------------------------------


def all_commands() -> Iterator[Command]:
    for entry in TABLE.values():
        yield entry
        yield from entry.subcommands.values()


def test_commands_page_is_up_to_date() -> None:
    assert TARGET.read_text() == generate(), "run `make docs`"


@pytest.mark.parametrize("entry", list(all_commands()), ids=lambda entry: entry.name)
def test_every_command_is_documented(entry: Command) -> None:
    """A summary, and below it the syntax, which begins with the name."""
    assert entry.group in GROUPS
    assert entry.summary.endswith("."), entry.summary
    if not entry.subcommands or entry.name == "command":
        assert syntax(entry)


def test_diagrams_of_the_tour_are_up_to_date() -> None:
    tour = generate_diagrams.TARGET
    assert tour.read_text() == generate_diagrams.generate(), "run `make docs`"


def test_no_command_of_redis_is_forgotten(oracle_client: RawClient) -> None:
    """Every command of redis-server is either in the table or on the list of missing commands."""
    listed = oracle_client.command("COMMAND", "LIST").decode().split("\r\n")
    theirs = {name for name in listed if re.fullmatch(r"[a-z][a-z0-9_|-]*", name)}
    assert {"get", "client|kill", "restore-asking"} <= theirs
    ours = {entry.name for entry in all_commands()}
    missing = missing_names()
    assert theirs - ours - missing == set(), "neither here nor on the list"
    assert missing & ours == set(), "on the list, and here"


def test_commands_that_differ_are_explained() -> None:
    entries = re.findall(
        r"^### (\S+)$", (TARGET.parent / "compatibility.md").read_text(), re.MULTILINE
    )
    assert PARTLY.keys() <= set(entries)
    names = {name for each in PARTLY.values() for name in each.split()}
    assert names <= {entry.name for entry in all_commands()}


# -- docs/api --------------------------------------------------------------------------------------


def test_api_pages_are_up_to_date() -> None:
    pages = generate_api.pages()
    assert {path: path.read_text() for path in generate_api.TARGET.glob("*.md")} == pages, (
        "run `make docs`"
    )


def public_objects() -> Iterator[tuple[str, object]]:
    for module in generate_api.MODULES:
        for name in generate_api.names_of(module):
            yield f"{module}.{name}", getattr(importlib.import_module(module), name)
        for path in generate_api.FURTHER.get(module, []):
            home, _, name = path.rpartition(".")
            yield path, getattr(importlib.import_module(home), name)


def members_of(value: type) -> Iterator[tuple[str, object]]:
    """The public methods and properties, including inherited ones of our own classes."""
    for owner in value.__mro__:
        if owner.__module__.partition(".")[0] == "holdfast":
            for name, member in vars(owner).items():
                if not name.startswith("_") and is_called(member):
                    yield f"{owner.__qualname__}.{name}", getattr(value, name)


def is_called(member: object) -> bool:
    return isinstance(member, property | classmethod | staticmethod) or inspect.isroutine(member)


@pytest.mark.parametrize(
    ("path", "value"), [pytest.param(*each, id=each[0]) for each in public_objects()]
)
def test_every_public_name_is_documented(path: str, value: object) -> None:
    if inspect.isclass(value):
        doc = vars(value).get("__doc__") or ""
        # The generated docstring of a dataclass or a NamedTuple does not count.
        is_own = doc != "" and not doc.startswith(f"{value.__name__}(")
        assert is_own, f"{path} has no docstring"
        missing = [name for name, member in members_of(value) if not inspect.getdoc(member)]
        assert not missing, "no docstring"
    else:
        assert inspect.getdoc(value), f"{path} has no docstring"


# -- links -----------------------------------------------------------------------------------------

EXAMPLES = sorted(ROOT.glob("examples/**/README.md"))
TEXTS = [*PAGES, *EXAMPLES, TARGET, ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"]


def anchors_of(page: Path) -> set[str]:
    """As GitHub and mkdocs make them of headings."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title).strip().lower().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if link.startswith(("http:", "https:")):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors_of(target), link


def test_the_figures_in_the_readme_are_those_of_the_performance_page() -> None:
    readme = (ROOT / "README.md").read_text()
    head, _, alone, pipelined = re.findall(r"^\|.*\|$", readme, re.MULTILINE)
    page = (ROOT / "docs/performance.md").read_text().partition("## appendfsync always")[0]
    for place, command in enumerate(head.split("|")[2:-1], start=2):
        row = re.search(rf"^\| {command.strip()} \|.*$", page, re.MULTILINE)
        assert row, command
        ratios = re.findall(r"(\d\.\d\d) \(", row[0])
        assert [line.split("|")[place].strip() for line in (alone, pipelined)] == ratios


# -- diagrams --------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_labels_of_state_diagrams_have_no_colon(page: Path) -> None:
    """Mermaid draws nothing then, and says so only to the reader."""
    for block in blocks_of(page):
        if block.language == "mermaid" and block.text.startswith("stateDiagram"):
            bad = [line for line in block.text.splitlines() if line.count(":") > 1]
            assert not bad


# -- decisions -------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", generate_decisions.pages(), ids=lambda page: page.name)
def test_a_decision_has_a_number_a_date_and_a_status(page: Path) -> None:
    title, blank, facts, *_ = page.read_text().splitlines()
    assert title.startswith(f"# {int(page.name[:4])}. ")
    assert blank == ""
    assert generate_decisions.FACTS.fullmatch(facts), facts


def test_the_index_of_decisions_is_up_to_date() -> None:
    index = generate_decisions.TARGET
    assert index.read_text() == generate_decisions.generate(), "run `make docs`"
