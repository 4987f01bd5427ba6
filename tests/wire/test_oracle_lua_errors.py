"""What Lua's own libraries say, to wrong arguments above all, against redis-server: LuaJIT has
other words, and forgets where a tail call came from. One script in each line of lua_misuse.txt;
`;;` begins a new line in it.
"""

from pathlib import Path

import pytest

from tests.harness import Pair

SCRIPTS = Path(__file__).with_name("lua_misuse.txt").read_text().splitlines()


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script(pair: Pair, script: str) -> None:
    pair.same("EVAL", script.replace(";;", "\n"), 0)
