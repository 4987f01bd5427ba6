"""A compiled script with the Lua state it belongs to, and the ways in which a script fails.

This file imports no Lua: a server has none until the first script runs.
"""

from typing import TYPE_CHECKING, Any, NamedTuple, final

if TYPE_CHECKING:
    from holdfast.scripting.sandbox import Sandbox


@final
class Failure(NamedTuple):
    """An error that escaped a script."""

    message: bytes
    source: bytes | None
    line: int | None
    is_counted: bool = False  # see CommandError


class Killed(Exception):  # noqa: N818 - it is what happened to the script
    """The host ended the script: its reason, or what it raised."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message.decode())
        self.failure = failure


class Registered(NamedTuple):
    """A function of a library."""

    name: bytes
    function: Any
    last_line: int  # of its code
    description: bytes | None
    flags: frozenset[bytes]


@final
class Role(NamedTuple):
    """What a script belongs to, and which of its keys names that."""

    kind: str
    key_number: int  # from 1, as in KEYS


@final
class CompiledScript:
    """A script, or a function of a library."""

    __slots__ = (
        "flags",
        "function",
        "is_function",
        "last_return",
        "may_write",
        "name",
        "role",
        "sandbox",
        "text",
    )

    def __init__(
        self,
        name: bytes,
        sandbox: "Sandbox",
        function: Any,
        text: bytes,
        flags: frozenset[bytes] | None,
        is_function: bool = False,
    ) -> None:
        self.name = name  # its SHA1, or the name of the function
        self.sandbox = sandbox
        self.function = function
        self.text = text  # for SCRIPT SHOW
        # The line of an error for which Lua has no frame. LuaJIT drops the frames of tail calls,
        # which stand in a `return`, so this is the line of the last one.
        self.last_return = text.count(b"\n", 0, max(text.rfind(b"return"), 0)) + 1
        self.flags = flags  # None: without a shebang, as scripts were before Redis 7
        self.is_function = is_function
        self.may_write = flags is None or b"no-writes" not in flags
        self.role: Role | None = None  # in a semaphore or a build queue
