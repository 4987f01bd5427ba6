"""Scripts of a line each against redis-server: what Lua's own libraries say to wrong arguments
above all (LuaJIT has other words, and forgets where a tail call came from), and what commands
answer. They are in lua_scripts.txt, where `;;` begins a new line.
"""

from pathlib import Path

import pytest

from tests.harness import Pair

SCRIPTS = Path(__file__).with_name("lua_scripts.txt").read_text().splitlines()


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script(pair: Pair, script: str) -> None:
    pair.same("EVAL", script.replace(";;", "\n"), 0)
