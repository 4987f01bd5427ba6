"""Scripts of one line each against redis-server: above all the errors of Lua's own libraries for
wrong arguments (LuaJIT has other texts, and forgets the origin of a tail call), and the replies of
commands. They are in lua_scripts.txt, where `;;` begins a new line."""

from pathlib import Path

import pytest

from tests.harness import Pair

SCRIPTS = Path(__file__).with_name("lua_scripts.txt").read_text().splitlines()


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script(pair: Pair, script: str) -> None:
    pair.same("EVAL", script.replace(";;", "\n"), 0)
