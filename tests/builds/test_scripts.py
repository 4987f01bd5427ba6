"""Everything shipped is used: every module by a script, every decision by a module."""

import asyncio
import re
from collections.abc import Iterator
from importlib.resources import files

import pytest
from lupa.luajit21 import lua_type

import holdfast
from holdfast.builds import Build, BuildQueue
from holdfast.client import ServerError
from holdfast.coordination.lua_scripts import LuaScript, load, names
from tests.builds.lua_alone import LIB, PURE, Alone

PACKAGE = "holdfast.builds"
SCRIPTS = names(PACKAGE)
MODULES = names(PACKAGE, "lua/lib")
SEED = {"startBuild", "stopBuild", "checkTimeout"}
_COMMENT = re.compile(r"--[^\n]*")


def source(script: str) -> str:
    return _COMMENT.sub("", (files(PACKAGE) / "lua" / f"{script}.lua").read_text())


def module(name: str) -> str:
    return _COMMENT.sub("", (LIB / f"{name}.lua").read_text())


def test_the_seeds_scripts_and_modules_are_there() -> None:
    assert set(SCRIPTS) >= SEED
    assert set(MODULES) > set(PURE)


@pytest.mark.parametrize("name", MODULES)
def test_every_module_is_included_by_a_script(name: str) -> None:
    users = [script for script in SCRIPTS if f"local {name} = {{" in load(PACKAGE, script).source]
    assert users


@pytest.mark.parametrize("name", PURE)
def test_a_pure_module_makes_no_call(name: str) -> None:
    assert "redis" not in module(name)
    assert "cjson" not in module(name)


def words(text: str) -> set[str]:
    """The reasons that a module gives: capitals with an underscore, in quotes."""
    return set(re.findall(r'"([A-Z]+(?:_[A-Z]+)+)"', text))


@pytest.mark.parametrize("name", PURE)
def test_only_the_pure_module_gives_its_reasons(name: str) -> None:
    """The module that decides also names the reason. A script with the same text would decide by
    itself."""
    own = words(module(name)) - {"NOT_RUNNING"}  # stop answers this, too
    for other in MODULES:
        if other != name:
            assert own & words(module(other)) == set(), other
    for script in SCRIPTS:
        assert own & words(source(script)) == set(), script


def test_only_the_record_writes_records_and_only_by_the_validator() -> None:
    for name in MODULES:
        if name != "Record":
            assert ":build:" not in module(name), name
    for script in SCRIPTS:
        assert ":build:" not in source(script), script
    writes = [line for line in module("Record").splitlines() if "HSET" in line]
    assert len(writes) == 2  # `write`, which gets its event from StateValidator; and the base
    assert len(re.findall(r"\bwrite\(q", module("Record"))) == 3  # it, and its two callers
    assert module("Record").count("StateValidator.event(") == 2


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_touches_one_declared_key_and_those_beginning_with_it(script: str) -> None:
    loaded = load(PACKAGE, script)
    assert loaded.keys == ("queue",)
    code = _COMMENT.sub("", loaded.source)
    assert re.search(r"redis\.call\(\s*\"[A-Z]+\",\s*\"", code) is None  # no key is a constant


# -- every function of a pure module is called ------------------------------------------------


def functions() -> Iterator[tuple[str, str]]:
    for name in PURE:
        m = Alone(name).m
        yield from ((name, key) for key in sorted(m.keys()) if lua_type(m[key]) == "function")


async def everything(queue: BuildQueue, moments: list[int]) -> None:
    """A life that needs every decision there is."""
    await queue.enqueue(Build(1, "a", collapse=True, timeout_min=1))
    await queue.enqueue(Build(2, "a", collapse=True, blocked_by_self=False))
    await queue.enqueue(Build(3, "a", blocked_by=["b"], freeze=["0 0 1 1 *"]))
    await queue.enqueue(Build(4, "b", blocked_by=["a"]))
    await queue.claim("w", 10)
    await queue.enqueue(Build(5, "a"))
    await queue.retry(1, token=2, reason="x")
    moments[0] += 60_000
    await queue.check_timeouts()
    await queue.stop(2)


@pytest.mark.parametrize(("name", "function"), list(functions()))
def test_scripts_call_every_function_of_the_pure_modules(
    name: str, function: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a function fails in its place, the queue fails: no other code does its work."""

    def broken(package: str, script: str) -> LuaScript:
        text = load(package, script).source
        pattern = rf"^function {name}\.{function}\(.*\)\n"
        return LuaScript(
            script, re.sub(pattern, rf"\g<0>error('{function}')\n", text, flags=re.MULTILINE)
        )

    monkeypatch.setattr("holdfast.builds.queue.load", broken)

    async def scenario() -> None:
        moments = [1_700_000_000_000]
        async with holdfast.connect("memory://") as client:
            await everything(BuildQueue(client, now_ms=lambda: moments[0]), moments)

    with pytest.raises(ServerError, match=function):
        asyncio.run(scenario())


def test_with_all_in_place_that_life_is_lived() -> None:
    async def scenario() -> None:
        moments = [1_700_000_000_000]
        async with holdfast.connect("memory://") as client:
            await everything(BuildQueue(client, now_ms=lambda: moments[0]), moments)

    asyncio.run(scenario())
