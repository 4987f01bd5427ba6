"""Writes the client's typed methods, asynchronous and blocking, from client_commands.txt, and the
diagram of its states in the guide, from the tables in client/state.py.

python scripts/generate_client.py          writes the files
python scripts/generate_client.py --check  exits with 1 if they are not up to date
"""

import re
import subprocess
import sys
from pathlib import Path

from holdfast.client.state import diagram

HERE = Path(__file__).parent
CLIENT = HERE.parent / "src/holdfast/client"
GUIDE = HERE.parent / "docs/guide-client.md"

PARAMETERS = {
    **dict.fromkeys(["key", "newkey", "source", "destination", "keys"], "Key"),
    **dict.fromkeys(["value", "element", "elements", "member", "members"], "Value"),
    **dict.fromkeys(["field", "fields"], "Value"),
    **dict.fromkeys(["ttl_s", "ttl_ms", "count", "start", "end"], "int"),
    **dict.fromkeys(["low", "high"], "Bound"),
    **dict.fromkeys(["patterns", "pattern"], "Key"),
    "ids": "str",
}
# Result in the table: annotation, converter.
RESULTS = {
    "V": ("V", "self._value"),
    "V?": ("V | None", "self._value_or_none"),
    "V[]": ("list[V]", "self._values"),
    "V[]?": ("list[V] | None", "self._values_or_none"),
    "V?[]": ("list[V | None]", "self._values_with_none"),
    "V{}": ("dict[V, V]", "self._mapping"),
    "N?": ("V | None", "self._name_or_none"),
    "N[]": ("list[V]", "self._names"),
    "V{*}": ("set[V]", "self._set"),
    "KV?": ("tuple[V, V] | None", "self._key_value"),
    "KVScore?": ("tuple[V, V, float] | None", "self._key_value_score"),
    "Scored": ("list[tuple[V, float]]", "self._scored"),
    "Entries": ("list[tuple[str, dict[V, V]]]", "self._entries"),
    "bool": ("bool", "into.truth"),
    "int": ("int", "into.INT"),
    "int?": ("int | None", "into.INT_OR_NONE"),
    "float": ("float", "into.FLOAT"),
    "float?": ("float | None", "into.FLOAT_OR_NONE"),
    "float?[]": ("list[float | None]", "into.FLOATS_WITH_NONE"),
    "str": ("str", "into.STR"),
    "str?": ("str | None", "into.STR_OR_NONE"),
    "str[]": ("list[str]", "into.STRS"),
    "str{}": ("dict[str, str]", "into.STR_MAPPING"),
    "bool[]": ("list[bool]", "into.BOOLS"),
    "bytes?": ("bytes | None", "into.BYTES_OR_NONE"),
    "Time": ("tuple[int, int]", "into.INT_PAIR"),
    "None": ("None", "into.nothing"),
}
LINE = re.compile(r"(\w+)\((.*?)\) -> (\S+) = (.+?)  # (.+)")
SPLIT = re.compile(r", (?![^\[]*\])")  # not inside Literal[...]

HEADER = '''"""Typed methods for common commands{kind}. Generated: edit scripts/client_commands.txt.

As long as it has to be: one method per command, so that editors complete them.
"""

from abc import abstractmethod
from collections.abc import {abc}
from typing import Any, Literal, TypeVar

from holdfast.client import into
from holdfast.client.into import Bound, Converters, Key, Pairs, Scores, Side, Value
from holdfast.client.request import Argument

T = TypeVar("T")
V = TypeVar("V", bound=str | bytes)


class {name}(Converters[V]):
    """V is the type of names and values: str, or bytes."""

    @abstractmethod
    def _run(self, args: tuple[Argument, ...], convert: Callable[[Any], T]) -> {run}: ...
'''


def parameter(text: str) -> str:
    name, colon, kind = text.partition(":")
    if name.endswith("!"):
        return f"{name[:-1]}: bool = False"
    if name.endswith("?"):
        return f"{name[:-1]}: {kind} | None = None"
    bare = name.removeprefix("*")
    kind, equals, default = (kind if colon else PARAMETERS[bare]).partition("=")
    return f"{name}: {kind}" + (f" = {default}" if equals else "")


def split_parameters(text: str) -> list[str]:
    parts = SPLIT.split(text) if text else []
    star = any(part.startswith("*") for part in parts)
    return ["*" if part == "/" else part for part in parts if not (part == "/" and star)]


def arguments(text: str, flags: set[str]) -> tuple[list[str], list[str]]:
    """What is always sent, as tuple elements; what is sent if given, as statements."""
    fixed: list[str] = []
    statements: list[str] = []

    def put(code: str) -> None:
        if statements:
            statements.append(f"args += ({code},)")
        else:
            fixed.append(code)

    for token in re.findall(r"\[[^\]]+\]|\S+", text):
        if token.startswith("["):
            *word, name = token[1:-1].split()
            if name in flags:
                statements += [f"if {name}:", f'    args += ("{name.upper()}",)']
            else:
                statements += [f"if {name} is not None:", f'    args += ("{word[0]}", {name})']
        elif token.startswith("**~"):
            put(f"*into.flat_reversed({token[3:]})")
        elif token.startswith("**"):
            put(f"*into.flat({token[2:]})")
        elif token.startswith("#"):
            put(f"len({token[1:]})")
            put(f"*{token[1:]}")
        elif token.isupper():
            put(f'"{token}"')
        else:
            put(token)
    return fixed, statements


def method(line: str, asynchronous: bool) -> str:
    found = LINE.fullmatch(line)
    assert found, f"not a line of the table: {line}"
    name, parameters, result, command, doc = found.groups()
    parts = split_parameters(parameters)
    flags = {part[:-1] for part in parts if part.endswith("!")}
    annotation, convert = RESULTS[result]
    shown = f"Coroutine[object, None, {annotation}]" if asynchronous else annotation
    signature = ", ".join(["self", *("*" if part == "*" else parameter(part) for part in parts)])
    fixed, statements = arguments(command, flags)
    args = f"({fixed[0]},)" if len(fixed) == 1 else f"({', '.join(fixed)})"
    lines = [f"    def {name}({signature}) -> {shown}:", f'        """{doc}"""']
    if statements:
        lines.append(f"        args: tuple[Argument, ...] = {args}")
        lines += [f"        {statement}" for statement in statements]
        args = "args"
    lines.append(f"        return self._run({args}, {convert})")
    return "\n".join(lines) + "\n"


def generate(asynchronous: bool) -> str:
    table = (HERE / "client_commands.txt").read_text().splitlines()
    # Inside the class, methods hide the built-in names that annotations need.
    header = HEADER.format(
        kind="" if asynchronous else ", blocking",
        abc="Callable, Coroutine" if asynchronous else "Callable",
        name="Commands" if asynchronous else "SyncCommands",
        run="Coroutine[object, None, T]" if asynchronous else "T",
    )
    lines = [line for line in table if line and not line.startswith("#")]
    hidden = sorted({"set", "type"} & {line.partition("(")[0] for line in lines})
    code = header + "\n" + "\n".join(method(line, asynchronous) for line in lines)
    for name in hidden:
        code = re.sub(rf"(?<=[\[ ]){name}\[V\]", f"into.{name.capitalize()}[V]", code)
    return formatted(code)


def formatted(code: str) -> str:
    argv = [sys.executable, "-m", "ruff", "format", "-", "--stdin-filename", "commands.py"]
    done = subprocess.run(argv, input=code, capture_output=True, text=True, check=True)
    return done.stdout


def guide() -> str:
    drawn = f"```mermaid\n{diagram()}```"
    return re.sub(r"```mermaid\n.*?```", lambda _: drawn, GUIDE.read_text(), flags=re.DOTALL)


def main() -> int:
    files = {
        CLIENT / "commands.py": generate(asynchronous=True),
        CLIENT / "sync_commands.py": generate(asynchronous=False),
        GUIDE: guide(),
    }
    stale = [path for path, text in files.items() if path.read_text() != text]
    if "--check" in sys.argv:
        return 1 if stale else 0
    for path in stale:
        path.write_text(files[path])
    return 0


if __name__ == "__main__":
    sys.exit(main())
