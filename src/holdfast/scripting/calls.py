"""`redis.call` on the side of Python: the call of a script, and the reply that the script gets.

If the gate is compiled (_gate.c), the gate runs commands. This file then gets only replies that are
more than plain values, errors, and calls that the gate does not let through. If the gate is not
compiled, this file gets every call.
"""

from types import NoneType
from typing import Any, Final, Protocol

from holdfast.errors import CommandError
from holdfast.resp import OK, NullArray, Reply, Simple
from holdfast.scripting.conversions import (
    ARRAY,
    BAD_ARGUMENT,
    ERROR,
    KILLED,
    NO_ROOM,
    STATUS,
    arguments,
    to_lua,
)

LARGE_REPLY: Final = 1 << 20
FEW: Final = 64
# Replies of these types are small, whatever their content is.
SMALL = frozenset({Simple, NoneType, NullArray, bool, float})

NO_ARGUMENT = CommandError("ERR Please specify at least one argument for this redis lib call")

OKAY = (bytes(OK), STATUS)


class Callee(Protocol):
    """A command, by one of its spellings."""

    @property
    def name(self) -> bytes: ...

    @property
    def quick(self) -> tuple[Any, ...] | None:
        """The door for the gate, if the gate may run the command by itself: see `door` in
        _gate.c."""
        ...

    def call(self, argv: list[bytes]) -> Reply: ...


class ScriptHost(Protocol):
    """The server as scripts see it."""

    def callee(self, name: bytes) -> Callee | None:
        """The command of this name. None if scripts may not call it, or if it has subcommands.
        Raises CommandError if there is no such command."""
        ...

    def call(self, argv: list[bytes]) -> Reply:
        """Run a command. An error other than CommandError ends the script."""
        ...

    def may_call(self, argv: list[bytes]) -> bool:
        """Whether the user may run this command. Raises CommandError if there is no such
        command."""
        ...

    def set_protocol(self, version: int) -> None: ...

    def returned(self, errors: list[CommandError]) -> None:
        """A script returned a table that contains these errors and is no error itself."""
        ...

    def tick(self) -> bytes | None:
        """Called from time to time. Returns the reason why the script has to end, or None."""
        ...


class Calls:
    """The calls from one Lua state. A function that Lua calls here must not raise, because the
    script would get a Python object."""

    def __init__(self, host: ScriptHost, lua: Any, gate: Any, max_bytes: int) -> None:
        self._host = host
        self._host_call = host.call
        self._gate = gate
        self._used_bytes = lua.get_memory_used
        self._max_bytes = max_bytes
        self._converters = {2: to_lua(lua.table_from, False), 3: to_lua(lua.table_from, True)}
        self._convert = self._converters[2]
        self._resp3 = False
        self.raised: BaseException | None = None  # the error that ends the script

    @property
    def resp3(self) -> bool:
        return self._resp3

    def setresp(self, version: int) -> None:
        self._host.set_protocol(version)
        self._convert = self._converters[version]
        self._resp3 = version == 3
        if self._gate is not None:
            self._gate.resp3 = self._resp3

    # -- through the gate ---------------------------------------------------------------------

    def door(self, name: bytes) -> int | bool | None:
        """Open a door to a command and return its number. False if scripts may not call the command
        by a door, None if there is no such command."""
        try:
            callee = self._host.callee(name)
            if callee is None:
                return False
            return int(self._gate.door(callee.name, callee.call, callee.quick))
        except BaseException:  # noqa: BLE001 - the call itself will meet the same error
            return None

    def fetch(self) -> Any:
        """The reply that the gate could not convert."""
        reply = self._gate.take()
        if isinstance(reply, CommandError):
            return (reply.with_traceback(None).message, ERROR)
        if isinstance(reply, BaseException):
            self.raised = reply
            return (None, KILLED)
        return self._value(reply)

    # -- through lupa -------------------------------------------------------------------------

    def call(self, *args: Any) -> Any:
        try:
            argv = list(args)
            for arg in args:
                if type(arg) is not bytes:
                    argv = arguments(args)
                    break
            if not argv:
                return (NO_ARGUMENT.message, ERROR)
            return self._value(self._host_call(argv))
        except CommandError as error:
            return (error.with_traceback(None).message, ERROR)
        except BaseException as error:  # noqa: BLE001 - an exception must not become a Lua value
            self.raised = error
            return (None, KILLED)

    def call_many(self, args: Any, count: float) -> Any:
        """`call` with more arguments than Lua can pass one by one. (Drops a nil among them.)"""
        values = list(args.values())
        return self.call(*values) if len(values) == count else (BAD_ARGUMENT.message, ERROR)

    def acl_check(self, *args: Any) -> Any:
        try:
            argv = arguments(args)
            if not argv:
                return (NO_ARGUMENT.message, ERROR)
            return self._host.may_call(argv)
        except CommandError as error:
            return (error.message, ERROR)
        except BaseException as error:  # noqa: BLE001 - as above
            self.raised = error
            return (None, KILLED)

    # -- replies ------------------------------------------------------------------------------

    def _value(self, reply: Reply) -> Any:
        """The reply in the form that redis.lua takes; see conversions.py."""
        if type(reply) is int:
            return reply
        if type(reply) is bytes:
            if len(reply) < LARGE_REPLY:
                return reply
        elif reply is OK:
            return OKAY
        elif type(reply) is tuple:
            if len(reply) <= FEW and _length(reply) < LARGE_REPLY:
                return (None, ARRAY, *reply)
        elif type(reply) is list and (values := self._plain(reply)) is not None:
            return (None, ARRAY, *values)
        elif type(reply) in SMALL:
            return self._convert[type(reply)](reply)
        if self._is_too_much(reply):
            return (None, NO_ROOM)
        return self._convert[type(reply)](reply)

    def _plain(self, items: list[Reply]) -> list[Any] | None:
        """Converts the most common lists as `_convert` would, but faster."""
        if self._resp3 or len(items) > FEW:
            return None
        values: list[Any] = []
        nbytes = 0
        for item in items:
            if type(item) is bytes:
                nbytes += len(item)
                values.append(item)
            elif type(item) is int:
                values.append(item)
            elif item is None:
                values.append(False)
            else:
                return None
        return values if nbytes < LARGE_REPLY else None

    def _is_too_much(self, reply: Reply) -> bool:
        size = _size(reply)
        return size > LARGE_REPLY and self._used_bytes() + 2 * size > self._max_bytes


def _size(reply: Reply) -> int:
    """About how much memory a reply takes in Lua."""
    if isinstance(reply, bytes):
        return len(reply)
    if isinstance(reply, tuple):
        return 16 * len(reply) + sum(map(len, reply))
    if isinstance(reply, list):
        return sum([_size(item) + 16 for item in reply])
    if isinstance(reply, dict):
        return sum([_size(name) + _size(item) + 40 for name, item in reply.items()])
    return 16


def _length(items: tuple[bytes, ...]) -> int:
    nbytes = 0
    for item in items:
        nbytes += len(item)
    return nbytes
