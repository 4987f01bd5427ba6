"""The interface of _gate.c for Python."""

from collections.abc import Callable
from typing import Any, Final, final

SHIFT: Final[int]
SLOTS: Final[int]

@final
class Held:
    """Keeps a function of Lua alive."""

@final
class Tally:
    """How often a command was called through gates, and how long it took."""

    def take(self) -> tuple[int, list[tuple[int, int]]]: ...

@final
class Gate:
    """The gate between Python and one Lua state."""

    resp3: bool
    open_to: int
    def __init__(self, lua_library: str, owner: object, ok: object, limit_kb: int) -> None: ...
    def door(
        self,
        name: bytes,
        run: Callable[[list[bytes]], Any],
        quick: tuple[Callable[..., Any], Callable[..., None], Tally, int, int, int] | None,
        /,
    ) -> int: ...
    def take(self) -> Any: ...
    def held(self, number: int, /) -> Held: ...
    def run(
        self,
        enter: Held,
        script: Held,
        key_count: int,
        argv: list[bytes],
        session: object,
        open_to: int,
        /,
    ) -> Any: ...
