"""What _gate.c has for Python."""

from collections.abc import Callable
from typing import Any, final

@final
class Held:
    """A function of Lua's, as long as this is there."""

@final
class Gate:
    """Between Python and one Lua."""

    resp3: bool
    def __init__(self, lua_library: str, owner: object, ok: object, limit_kb: int) -> None: ...
    def door(self, name: bytes, run: Callable[[list[bytes]], Any], /) -> int: ...
    def take(self) -> Any: ...
    def held(self, number: int, /) -> Held: ...
    def run(self, enter: Held, script: Held, key_count: int, argv: list[bytes], /) -> Any: ...
