"""A compiled script with the Lua state that it belongs to, and the ways in which a script fails.

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


class Killed(Exception):  # noqa: N818 - the script was killed, which may be no error
    """The host ended the script. `failure` has the reason."""

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
    """The kind of object that a script works on (a semaphore or a build queue), and the number of
    the key that names this object."""

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
        # The line that an error gets for which Lua has no frame. LuaJIT drops the frames of tail
        # calls, which stand in a `return`, so this is the line of the last `return`.
        self.last_return = text.count(b"\n", 0, max(text.rfind(b"return"), 0)) + 1
        self.flags = flags  # None: without a shebang, as scripts were before Redis 7
        self.is_function = is_function
        self.may_write = flags is None or b"no-writes" not in flags
        self.role: Role | None = None  # in a semaphore or a build queue
