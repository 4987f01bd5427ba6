"""Writes the client's files that exist twice, asynchronous and blocking, and one diagram.

The typed methods come from client_commands.txt, the typed forms of `exec` from client_exec.txt. The
diagram of the client's states in the guide comes from the tables in
client/protocol/connection_state.py.

python scripts/generate_client.py          writes the files
python scripts/generate_client.py --check  exits with 1 if they are not up to date
"""

import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

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
# By the result in the table: annotation and converter.
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
SLOTS = "ABCD"  # a request with more commands gets tuple[Any, ...]
FOR_EACH_SIZE = re.compile(r" +# for each number of slots\n(.*?) +# end\n", re.DOTALL)
LINE = re.compile(r"(\w+)\((.*?)\) -> (\S+) = (.+?)  # (.+)")
SPLIT = re.compile(r", (?![^\[]*\])")  # not inside Literal[...]

HEADER = '''"""Typed methods for common commands{kind}. Generated: edit scripts/client_commands.txt.

As long as it has to be: one method per command, so that editors complete them.
"""

from abc import abstractmethod
from collections.abc import {abc}
from typing import Any, Literal, TypeVar

from holdfast.client.protocol import into
from holdfast.client.protocol.into import Bound, Converters, Key, Pairs, Scores, Side, Value
from holdfast.client.protocol.request import Argument

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
    """The arguments that are always sent, as tuple elements; the optional ones, as statements."""
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
        elif token.startswith("#**"):
            put(f"len({token[3:]})")
            put(f"*into.flat({token[3:]})")
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
    # Inside the class, methods such as `set` hide the builtins that annotations need.
    header = HEADER.format(
        kind="" if asynchronous else ", blocking",
        abc="Callable, Coroutine" if asynchronous else "Callable",
        name="TypedCommands" if asynchronous else "TypedSyncCommands",
        run="Coroutine[object, None, T]" if asynchronous else "T",
    )
    lines = [line for line in table if line and not line.startswith("#")]
    hidden = sorted({"set", "type"} & {line.partition("(")[0] for line in lines})
    code = header + "\n" + "\n".join(method(line, asynchronous) for line in lines)
    for name in hidden:
        code = re.sub(rf"(?<=[\[ ]){name}\[V\]", f"into.{name.capitalize()}[V]", code)
    return formatted(code)


def generate_exec(asynchronous: bool) -> str:
    """The forms of `exec`: the template, with the overloads for requests of each size."""
    code = FOR_EACH_SIZE.sub(for_each_size, (HERE / "client_exec.txt").read_text())
    if not asynchronous:
        code = code.replace("async def ", "def ").replace("await ", "")
        code = re.sub(r"^class ", "class Sync", code, flags=re.MULTILINE)
        code = code.replace("call.", "call, blocking.", 1)
    return formatted(code)


def for_each_size(block: re.Match[str]) -> str:
    """The overloads of the block once per size: `{Into}` becomes `Into[A], Into[B]` for two."""
    made = ""
    for size in range(1, len(SLOTS) + 1):
        made += re.sub(
            r"\{(\w+)\}",
            lambda found, size=size: ", ".join(f"{found[1]}[{slot}]" for slot in SLOTS[:size]),
            block[1],
        )
    return made


def formatted(code: str) -> str:
    argv = [sys.executable, "-m", "ruff", "format", "-", "--stdin-filename", "typed_commands.py"]
    done = subprocess.run(argv, input=code, capture_output=True, text=True, check=True)
    return done.stdout


def guide() -> str:
    # Imported last: the client cannot be imported while a file of it is missing.
    from holdfast.client.protocol.connection_state import diagram

    drawn = f"```mermaid\n{diagram()}```"
    return re.sub(r"```mermaid\n.*?```", lambda _: drawn, GUIDE.read_text(), flags=re.DOTALL)


FILES: dict[Path, Callable[[], str]] = {
    CLIENT / "api/typed_commands.py": partial(generate, asynchronous=True),
    CLIENT / "api/typed_sync_commands.py": partial(generate, asynchronous=False),
    CLIENT / "api/typed_exec.py": partial(generate_exec, asynchronous=True),
    CLIENT / "api/typed_sync_exec.py": partial(generate_exec, asynchronous=False),
    GUIDE: guide,
}


def main() -> int:
    is_check = "--check" in sys.argv
    for path, make in FILES.items():
        text = make()
        if not path.exists() or path.read_text() != text:
            if is_check:
                sys.stderr.write(f"stale: {path}\n")
                return 1
            path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
