"""Something that can be run, compiled and in the Lua where it belongs."""

from typing import Any, final

from holdfast.scripting.sandbox import Sandbox


@final
class Script:
    """A script, or a function of a library."""

    __slots__ = (
        "flags",
        "function",
        "is_function",
        "last_return",
        "may_write",
        "name",
        "sandbox",
    )

    def __init__(
        self,
        name: bytes,
        sandbox: Sandbox,
        function: Any,
        text: bytes,
        flags: frozenset[bytes] | None,
        is_function: bool = False,
    ) -> None:
        self.name = name  # its SHA1, or the name of the function
        self.sandbox = sandbox
        self.function = function
        # Where an error was when no frame tells: LuaJIT drops those of tail calls: in a `return`.
        self.last_return = text.count(b"\n", 0, max(text.rfind(b"return"), 0)) + 1
        self.flags = flags  # None: without a shebang, as scripts were before Redis 7
        self.is_function = is_function
        self.may_write = flags is None or b"no-writes" not in flags
