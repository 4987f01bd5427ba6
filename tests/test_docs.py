"""The documentation does what it says: every example in it runs, every reference is up to date.

```python blocks run as they are, `await` included. ```console blocks are typed into a shell
(`$ command`) or into redis-cli (`127.0.0.1:6379> command`), and must print what stands below;
`...` is anything. The blocks of a page run in order, in one folder, beside a server on
./holdfast.db that `redis-cli` reaches without a port.
"""

import ast
import asyncio
import doctest
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
    for block in filter(is_runnable, blocks_of(page)):
        try:
            if block.language == "python":
                run_python(block.text)
            elif block.text.startswith("$ "):
                run_shell(block.text)
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


def test_no_command_of_redis_is_forgotten(oracle_client: RawClient) -> None:
    """What redis-server knows is in the table, or on the list of what is not here; not on both."""
    listed = oracle_client.command("COMMAND", "LIST").decode().split("\r\n")
    theirs = {name for name in listed if re.fullmatch(r"[a-z][a-z0-9_|-]*", name)}
    assert {"get", "client|kill", "restore-asking"} <= theirs
    theirs |= {"client|no-touch", "client|setinfo", "cluster|myshardid", "waitaof"}  # of 7.2
    ours = {entry.name for entry in all_commands()}
    missing = missing_names()
    assert theirs - ours - missing == set(), "neither here nor on the list"
    assert missing - theirs == set(), "not a command of Redis"
    assert missing & ours == set(), "on the list, and here"


def test_what_is_here_in_part_is_explained() -> None:
    entries = re.findall(
        r"^### (\S+)$", (TARGET.parent / "compatibility.md").read_text(), re.MULTILINE
    )
    assert PARTLY.keys() <= set(entries)
    names = {name for each in PARTLY.values() for name in each.split()}
    assert names <= {entry.name for entry in all_commands()}
