"""Generated programs against redis-server: the same bytes, as scripts and as functions.

Two implementations of Lua answer nonsense differently in one of some ten thousand programs, so
a run with new seeds may fail.
"""

import random

import pytest

from tests.harness import Pair
from tests.harness.seeds import seed_of
from tests.wire.lua_programs import Programs

COUNT = 300


@pytest.fixture
def programs(protocol: int) -> Programs:
    return Programs(random.Random(seed_of(f"programs of RESP{protocol}")))


def test_generated_programs(pair: Pair, programs: Programs) -> None:
    for _ in range(COUNT):
        pair.same("FLUSHALL")
        pair.same("EVAL", programs.program(), 1, "k", "a", "b")


def test_generated_functions(pair: Pair, programs: Programs) -> None:
    for number in range(COUNT // 3):
        head = "redis.register_function('f', function(KEYS, ARGV)\n"
        pair.same("FLUSHALL")
        pair.same("FUNCTION", "FLUSH")
        code = f"#!lua name=lib{number}\n{head}{programs.program()}\nend)"
        pair.same("FUNCTION", "LOAD", code)
        pair.same("FCALL", "f", 1, "k", "a", "b")
    pair.same("FUNCTION", "FLUSH")
