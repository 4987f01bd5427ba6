"""Lua scripts of a package: loading, includes, and the contract in the header of a script.

A script is `lua/<name>.lua` in its package; code that scripts share is in `lua/lib/<name>.lua`.

    -- One sentence about the script.
    -- KEYS[1] waiting       the meaning of the key
    -- ARGV[1] limit         the meaning of the argument
    -- ARGV[2+] ids          the rest of the arguments, none or many
    -- Returns the result.
    -- @include expiry

The header is the contract. Callers name keys and arguments, and a call that does not fit raises
TypeError before anything is sent. An include is inserted once, where it is first named. It defines
functions and never uses KEYS or ARGV. No I/O except reading files.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, TypeAlias

from holdfast.client.protocol.into import Key, Value

Values: TypeAlias = Value | Sequence[Value]

_INCLUDE = re.compile(r"^-- @include (\S+)[ \t]*$", re.MULTILINE)
_DECLARED = re.compile(r"^-- (KEYS|ARGV)\[(\d+)(\+?)\][ \t]+(\w+)", re.MULTILINE)
_RETURNS = re.compile(r"^-- Returns ", re.MULTILINE)
_USED = re.compile(r"\b(KEYS|ARGV)\b(?:\[(\d+)\])?")
_COMMENT = re.compile(r"--[^\n]*")


class LuaError(Exception):
    """A script of this package is wrong. That is a bug, found when the script is loaded."""


class LuaScript:
    """A script with its includes. `keys` and `args` are the names that a call must give."""

    def __init__(self, name: str, source: str) -> None:
        self.name = name
        self.source = source
        self.sha = hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()
        self.keys, self._more_keys = _declared(name, source, "KEYS")
        self.args, self._more_args = _declared(name, source, "ARGV")
        if not _RETURNS.search(source):
            raise LuaError(f"{name}.lua: its header does not say what it returns")

    def command(self, keys: Mapping[str, Any], args: Mapping[str, Any]) -> tuple[Value, ...]:
        """The arguments of EVALSHA or EVAL behind the digest or the source."""
        names = self._in_order("key", self.keys, self._more_keys, keys)
        return (len(names), *names, *self._in_order("argument", self.args, self._more_args, args))

    def _in_order(
        self, what: str, names: tuple[str, ...], more: bool, given: Mapping[str, Any]
    ) -> list[Value]:
        try:
            values = [given[name] for name in names]
        except KeyError:
            values = []
        if len(values) != len(given) or len(values) != len(names):
            unknown = [name for name in given if name not in names]
            missing = [name for name in names if name not in given]
            raise TypeError(f"{self.name}.lua: {what}s missing: {missing}, unknown: {unknown}")
        if more:
            values[-1:] = values[-1]
        if not _SENT.issuperset(map(type, values)):
            for value in values:
                # A bool or None would be sent as a text, and in Lua every text is true.
                if isinstance(value, bool) or not isinstance(value, str | bytes | int | float):
                    raise TypeError(f"{self.name}.lua: {value!r} is no {what}")
        return values


_SENT = frozenset({str, bytes, int, float})


def _declared(name: str, source: str, array: str) -> tuple[tuple[str, ...], bool]:
    """The names that the header gives to KEYS or ARGV, and whether the last one is a list."""
    found = [match for match in _DECLARED.finditer(source) if match[1] == array]
    for n, match in enumerate(found, 1):
        if int(match[2]) != n or (match[3] and n < len(found)):
            raise LuaError(f"{name}.lua: {match[0]!r} is out of order")
    names = tuple(match[4] for match in found)
    if len(set(names)) < len(names):
        raise LuaError(f"{name}.lua: a name is used twice in {array}")
    more = bool(found) and found[-1][3] == "+"
    uses = [match[2] for match in _USED.finditer(_COMMENT.sub("", source)) if match[1] == array]
    numbers = {int(number) for number in uses if number}
    as_a_whole = "" in uses or None in uses
    if numbers and max(numbers) > len(names) and not more:
        raise LuaError(f"{name}.lua: {array}[{max(numbers)}] is not declared")
    unused = set(range(1, len(names) + 1 - more)) - numbers
    if unused and not as_a_whole:
        raise LuaError(f"{name}.lua: {array}[{min(unused)}] is never used")
    return names, more


@cache
def load(package: str, name: str) -> LuaScript:
    """The script `lua/<name>.lua` of a package, such as load("holdfast.semaphore", "queue")."""
    folder = files(package) / "lua"
    included: set[str] = set()

    def text(path: tuple[str, ...]) -> str:
        """A file, named by the includes that lead to it, with its own includes in place."""
        *outer, last = path
        if last in outer[1:]:
            raise LuaError(f"includes in a circle: {' → '.join(path)}")
        file = folder / "lib" / f"{last}.lua" if outer else folder / f"{last}.lua"
        if not file.is_file():
            raise LuaError(f"{'/'.join(path)}: there is no {last}.lua")
        source = file.read_text("utf-8")
        if outer and _USED.search(_COMMENT.sub("", source)):
            raise LuaError(f"lib/{last}.lua: an include takes parameters, not KEYS or ARGV")

        def include(match: re.Match[str]) -> str:
            if match[1] in included:
                return ""
            inner = text((*path, match[1]))  # raises for a circle: `included` does not have it yet
            included.add(match[1])
            return inner.rstrip("\n")

        return _INCLUDE.sub(include, source)

    return LuaScript(name, text((name,)))


def names(package: str, folder: str = "lua") -> list[str]:
    """All scripts of a package, or with "lua/lib" all includes."""
    root = files(package)
    for part in folder.split("/"):
        root /= part
    return sorted(
        entry.name.removesuffix(".lua") for entry in root.iterdir() if entry.name.endswith(".lua")
    )


__all__ = ["Key", "LuaError", "LuaScript", "Value", "Values", "load", "names"]
