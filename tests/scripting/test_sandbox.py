"""The sandbox by itself, with a host that is not a server."""

import pytest

from holdfast.errors import CommandError
from holdfast.resp import Reply
from holdfast.scripting.calls import Callee
from holdfast.scripting.sandbox import Sandbox
from holdfast.scripting.script import Killed


class Host:
    """Ends a script at the first look after it has called anything."""

    reason: bytes | None = None

    def callee(self, name: bytes) -> Callee | None:
        return None

    def call(self, argv: list[bytes]) -> Reply:
        self.reason = argv[0]
        return 0

    def may_call(self, argv: list[bytes]) -> bool:
        return True

    def set_protocol(self, version: int) -> None: ...

    def returned(self, errors: list[CommandError]) -> None: ...

    def tick(self) -> bytes | None:
        return self.reason


def test_a_script_can_be_ended_while_its_result_is_taken_apart() -> None:
    host = Host()
    sandbox = Sandbox(host, b"7.0.0", 0x070000, 256 << 20)
    large = sandbox.compile(
        b"local t = {} for i = 1, 300000 do t[i] = {i} end redis.call('enough') return t", b"@s"
    )
    argv = [b"EVAL", b"", b"0"]
    with pytest.raises(Killed) as killed:
        sandbox.run(large, argv, 0, False)
    assert killed.value.failure.message == b"enough"
    host.reason = None
    assert sandbox.run(sandbox.compile(b"return 7", b"@s"), argv, 0, False) == 7


# Scripts that use texts which no script has used before; `n` is another number for each run.
NEW_TEXTS = {
    "formats": "for i = 1, 100 do string.format(n .. '/' .. i .. ('x'):rep(100000)) end",
    "patterns": "for i = 1, 50 do t:find(n .. '/' .. i .. 'x*y*z*' .. ('x'):rep(9000)) end",
    "patterns of gmatch": "for i = 1, 50 do t:gmatch(n .. '/' .. i .. 'x*' .. ('x'):rep(9000)) end",
    "classes": "for i = 1, 1100 do t:find('[^b' .. n .. '/' .. i .. ']*x*y*z*') end",
}


@pytest.mark.parametrize("loop", NEW_TEXTS.values(), ids=NEW_TEXTS)
def test_no_number_of_texts_fills_the_memory_of_scripts(loop: str) -> None:
    sandbox = Sandbox(Host(), b"7.0.0", 0x070000, 48 << 20)
    script = f"local n, t = ARGV[1], ('b'):rep(200) {loop} collectgarbage() return 7"
    function = sandbox.compile(script.encode(), b"@s")
    used_bytes = []
    for number in range(4):
        argv = [b"EVAL", b"", b"0", b"%d" % number]
        assert sandbox.run(function, argv, 0, False) == 7
        used_bytes.append(sandbox.used_bytes)
    assert used_bytes[-1] <= used_bytes[0] + (1 << 20), used_bytes
