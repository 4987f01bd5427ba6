"""Tail calls of library functions become other calls. Other tests compare the error texts with
redis-server."""

import random
import tracemalloc

import pytest
from lupa.luajit21 import LuaRuntime

from holdfast.scripting.tails import keep_frames

KEPT = {
    "return redis.call('get', 'k')": "return (redis.call('get', 'k'))",
    "return string.find('a', 'b') ": "return __keep(string.find('a', 'b')) ",
    "if x then return type(1) else return 2 end": "if x then return (type(1)) else return 2 end",
    "return assert'x'": "return __keep(assert'x')",
    "if x then return assert'x' end f(y)": "if x then return __keep(assert'x') end f(y)",
    "return unpack{1, 2};": "return __keep(unpack{1, 2});",
    "return assert[[)]]": "return __keep(assert[[)]])",
    "return ('x'):rep(3):upper()": "return __keep(('x'):rep(3):upper())",
    "return s:gsub('a', 'b'):lower'x'": "return __keep(s:gsub('a', 'b'):lower'x')",
    "local f = redis.call return f('x')": "local f = redis.call return __keep(f('x'))",
    "return type(1) -- (": "return (type(1)) -- (",
    "return type(1) --[[ ( ]] ": "return (type(1)) --[[ ( ]] ",
    'return type(\')\', [==[ ]] ) ]==], "\\")")': 'return (type(\')\', [==[ ]] ) ]==], "\\")"))',
    "return type(function() return type(1) end)": "return (type(function() return (type(1)) end))",
}
SAME = [
    "return 1",
    "return f(1)",
    "return type(1) + 1",
    "return type(1), 2",
    "return pairs(t)(1)",
    "return select(1, t)[1]",
    "return assert(t).x",
    "-- return type(1)",
    "--[[ return type(1) ]]",
    "x = 'return type(1)'",
    "x = [[ return type(1) ]]",
    "x = [==[ ]] return type(1) ]==]",
    "local returned = type(1)",
    "return returned(1)",
    "x = 'return type(1)",
    "x = [[ return type(1)",
    "return type(1",
]


@pytest.mark.parametrize("text", KEPT)
def test_a_tail_call_of_a_library_becomes_another_call(text: str) -> None:
    assert keep_frames(text.encode()).decode() == KEPT[text]


@pytest.mark.parametrize("text", SAME)
def test_nothing_else_changes(text: str) -> None:
    assert keep_frames(text.encode()) == text.encode()


PIECES = [
    *("return ", "type", "(", ")", "'x'", "f", " end ", " if x then ", " function() ", "{", "}"),
    *("--[[ c ]]", " -- c\n", ":upper", ".y", ";", ", ", "[[x]]", "[", "]", "redis.call", " do "),
]


def test_a_script_compiles_after_the_rewrite_if_and_only_if_it_did_before(
    rng: random.Random,
) -> None:
    load = LuaRuntime(encoding=None).eval(b"function(text) return (load(text)) end")
    compiled = 0
    for _ in range(30_000):
        text = "".join(rng.choices(PIECES, k=rng.randrange(2, 12))).encode()
        can_be = load(text) is not None
        compiled += can_be
        assert (load(keep_frames(text)) is not None) == can_be, text
    assert compiled > 50


LONG = {
    "a literal": b"local s = '" + b"x" * 20_000_000 + b"' return type(s)",
    "escapes": b'local s = "' + b"\\n" * 10_000_000 + b'" return type(s)',
    "a long literal": b"local s = [==[" + b"x" * 20_000_000 + b"]==] return type(s)",
    "a comment": b"--[[" + b"x" * 20_000_000 + b"]] return type(s)",
    "statements": b"do end " * 3_000_000 + b"return type(s)",
    "literals without an end": b"return type(s) '" * 30_000,
    "calls without an end": b"return type(" * 50_000,
    "calls in calls": b"return type(function() " * 5_000 + b"end)" * 5_000,
    "aliases": b"do local aa = redis.call end " * 100_000 + b"return type(s)",
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("text", LONG.values(), ids=LONG)
def test_a_long_text_takes_a_small_multiple_of_its_size(text: bytes) -> None:
    tracemalloc.start()
    try:
        keep_frames(text)
        assert tracemalloc.get_traced_memory()[1] < 4 * len(text) + 20_000_000
    finally:
        tracemalloc.stop()
