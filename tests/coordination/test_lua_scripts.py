"""Shipped scripts: includes come once and in place, and calls are held against the header."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.coordination.lua_scripts import LuaError, LuaScript, load, names

HEADER = """-- KEYS[1] source   where from
-- KEYS[2] target   where to
-- ARGV[1] count    how many
-- ARGV[2+] ids     which ones
-- Returns nothing.
local _ = KEYS[1] .. KEYS[2] .. ARGV[1]
for n = 2, #ARGV do redis.call('DEL', ARGV[n]) end
"""
Ship = Callable[..., str]


@pytest.fixture
def ship(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ship]:
    """A package with these Lua files; its name."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(**sources: str) -> str:
        for name, source in sources.items():
            path = tmp_path / "shipped" / "lua" / f"{name.replace('__', '/')}.lua"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(source)
        return "shipped"

    yield write
    load.cache_clear()
    sys.modules.pop("shipped", None)


def test_a_call_names_what_the_header_declares() -> None:
    script = LuaScript("move", HEADER)
    assert (script.keys, script.args) == (("source", "target"), ("count", "ids"))
    keys = {"target": "b", "source": "a"}
    assert script.command(keys, {"ids": ["x", "y"], "count": 2}) == (2, "a", "b", 2, "x", "y")
    assert script.command(keys, {"ids": [], "count": 0.5}) == (2, "a", "b", 0.5)


@pytest.mark.parametrize(
    ("keys", "args", "says"),
    [
        ({"source": "a"}, {"count": 1, "ids": []}, r"keys missing: \['target'\], unknown: \[\]"),
        ({"source": "a", "to": "b"}, {"count": 1, "ids": []}, r"unknown: \['to'\]"),
        ({"source": "a", "target": "b", "c": "c"}, {"count": 1, "ids": []}, r"unknown: \['c'\]"),
        ({"source": "a", "target": "b"}, {"count": 1}, r"arguments missing: \['ids'\]"),
        ({"source": "a", "target": "b"}, {"count": True, "ids": []}, "True is no argument"),
        ({"source": "a", "target": "b"}, {"count": 1, "ids": [None]}, "None is no argument"),
        ({"source": None, "target": "b"}, {"count": 1, "ids": []}, "None is no key"),
    ],
)
def test_a_call_that_does_not_fit_is_refused(
    keys: dict[str, str], args: dict[str, object], says: str
) -> None:
    with pytest.raises(TypeError, match=says):
        LuaScript("move", HEADER).command(keys, args)


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("-- KEYS[1] a\nreturn KEYS[1]", "does not say what it returns"),
        ("-- KEYS[2] a\n-- Returns it.\nreturn KEYS[2]", "out of order"),
        ("-- ARGV[1+] a\n-- ARGV[2] b\n-- Returns it.\nreturn #ARGV", "out of order"),
        ("-- KEYS[1] a\n-- KEYS[2] a\n-- Returns it.\nreturn KEYS[1] .. KEYS[2]", "used twice"),
        ("-- KEYS[1] a\n-- Returns it.\nreturn KEYS[1] .. KEYS[2]", r"KEYS\[2\] is not declared"),
        ("-- ARGV[1] a\n-- Returns it.\nreturn 1 -- ARGV[1]", r"ARGV\[1\] is never used"),
    ],
)
def test_a_header_that_does_not_fit_its_script_is_refused(source: str, says: str) -> None:
    with pytest.raises(LuaError, match=says):
        LuaScript("wrong", source)


def test_arguments_may_be_used_as_a_whole() -> None:
    script = LuaScript("all", "-- ARGV[1] a\n-- ARGV[2] b\n-- Returns both.\nreturn ARGV")
    assert script.command({}, {"a": 1, "b": 2}) == (0, 1, 2)


def test_an_include_comes_once_where_it_is_first_named(ship: Ship) -> None:
    package = ship(
        top="-- Returns 3.\n-- @include a\n-- @include b\n-- @include a\nreturn one() + two()\n",
        lib__a="local function one() return 1 end\n",
        lib__b="-- @include a\nlocal function two() return one() + one() end\n",
    )
    script = load(package, "top")
    assert script.source == (
        "-- Returns 3.\nlocal function one() return 1 end\n"
        "\nlocal function two() return one() + one() end\n\nreturn one() + two()\n"
    )
    assert load(package, "top") is script
    assert names(package) == ["top"]
    assert names(package, "lua/lib") == ["a", "b"]


def test_a_script_may_be_named_like_its_include(ship: Ship) -> None:
    package = ship(
        a="-- Returns 1.\n-- @include a\nreturn one()\n",
        lib__a="local function one() return 1 end\n",
    )
    assert "local function one" in load(package, "a").source


@pytest.mark.parametrize(
    ("sources", "says"),
    [
        ({"lib__a": "-- @include b\n", "lib__b": "-- @include a\n"}, "circle: top → a → b → a"),
        ({"lib__a": "-- @include a\n"}, "circle: top → a → a"),
        ({}, "there is no a.lua"),
        ({"lib__a": "local k = KEYS[1]\n"}, "not KEYS or ARGV"),
    ],
)
def test_wrong_includes_are_refused(ship: Ship, sources: dict[str, str], says: str) -> None:
    with pytest.raises(LuaError, match=says):
        load(ship(top="-- Returns 1.\n-- @include a\nreturn 1\n", **sources), "top")
