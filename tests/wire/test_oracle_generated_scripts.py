"""Generated programs against redis-server: the same bytes, as scripts and as functions.

The programs are the same each time, unless HOLDFAST_SEED asks for others: two implementations of
Lua answer nonsense differently in one of some ten thousand programs.
"""

import os
import random

import pytest

from tests.harness import Pair
from tests.wire.lua_programs import Programs

COUNT = 300


@pytest.fixture
def programs(protocol: int) -> Programs:
    seed = int(os.environ.get("HOLDFAST_SEED") or protocol)
    print(f"HOLDFAST_SEED={seed}")  # noqa: T201 - as the rng fixture does
    return Programs(random.Random(seed))


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
