"""`redis.call` on the side of Python: what a script calls, and what it gets to see of the reply.

For a call from Lua, lupa makes a tuple, a dict and a frame, and takes every argument through all of
them. Of `x[key]` it makes one value there and one back, in half of the time. So a command is an
object that Lua indexes: with its one argument, or with a text that has all of them. What cannot go
this way is called: many arguments, or long ones. A reply of more than one plain value is fetched.
"""

from abc import ABCMeta, abstractmethod
from types import NoneType
from typing import Any, Final, Protocol, final

from holdfast.errors import CommandError
from holdfast.resp import OK, NullArray, Reply, Simple
from holdfast.scripting.conversions import (
    AGAIN,
    ARRAY,
    ERROR,
    KILLED,
    LACK,
    STATUS,
    arguments,
    to_lua,
)

LARGE_REPLY: Final = 1 << 20
FEW: Final = 64
SMALL = frozenset({Simple, NoneType, NullArray, bool, float})  # whatever they say

NO_ARGUMENT = CommandError("ERR Please specify at least one argument for this redis lib call")

OKAY = (bytes(OK), STATUS)

# As redis.lua knows them. A text of several arguments begins with their number.
SEPARATOR: Final = b"\xff"

NONE: Any = object()  # no argument
ANEW: Any = object()  # instead of a reply


class Callee(metaclass=ABCMeta):
    """A command, by one of its spellings. Hosts say what it means to run it."""

    __slots__ = ("name",)

    def __init__(self, name: bytes) -> None:
        self.name = name

    @abstractmethod
    def run(self, argv: list[bytes]) -> Reply: ...


class Host(Protocol):
    """What scripts can do to the rest of the world."""

    def callee(self, name: bytes) -> Callee | None:
        """The command of this name. None if scripts may not call it, or there are several of this
        name; CommandError when there is none."""
        ...

    def call(self, argv: list[bytes]) -> Reply:
        """Run a command. What it raises, other than CommandError, ends the script."""
        ...

    def may_call(self, argv: list[bytes]) -> bool:
        """Whether the user may run this command; CommandError when there is none."""
        ...

    def set_protocol(self, version: int) -> None: ...

    def tick(self) -> bytes | None:
        """Called now and then. Why the script has to end, or None."""
        ...


class Calls:
    """Those from one Lua. None of what Lua calls here may raise: it would get to see an object."""

    def __init__(self, host: Host, lua: Any, max_bytes: int) -> None:
        self._host = host
        self._host_call = host.call
        self._used_bytes = lua.get_memory_used
        self._max_bytes = max_bytes
        self._converters = {2: to_lua(lua.table_from, False), 3: to_lua(lua.table_from, True)}
        self._convert = self._converters[2]
        self._resp3 = False
        self._reply: Any = None  # for `rest`; or what was raised
        self.raised: BaseException | None = None  # what ends the script

    @property
    def resp3(self) -> bool:
        return self._resp3

    def setresp(self, version: int) -> None:
        self._host.set_protocol(version)
        self._convert = self._converters[version]
        self._resp3 = version == 3

    # -- by index -----------------------------------------------------------------------------

    def doors(self, name: bytes) -> Any:
        """To a command, for one argument and for several. False: there is no such way to it; None:
        there is no such command."""
        try:
            callee = self._host.callee(name)
            return False if callee is None else (Single(self, callee), Several(self, callee))
        except BaseException:  # noqa: BLE001 - whatever it is, it will be met again
            return None

    def ask(self, callee: Callee, argv: list[bytes]) -> Any:
        """A reply that is one plain value; None for OK; True if `rest` has it."""
        try:
            reply = callee.run(argv)
            if not self._resp3:
                if type(reply) is bytes:
                    if len(reply) < LARGE_REPLY:
                        return reply
                elif type(reply) is int:
                    return reply
                elif reply is OK:
                    return None
                elif reply is None:
                    return False
            self._reply = reply
        except BaseException as error:  # noqa: BLE001 - an exception must not become a Lua value
            self._reply = error
        return True

    def ask_many(self, callee: Callee, argv: list[bytes]) -> Any:
        """A reply that is some plain values; True if `rest` has it."""
        try:
            reply = callee.run(argv)
            if type(reply) is tuple:
                if len(reply) <= FEW and _length(reply) < LARGE_REPLY:
                    return reply
            elif type(reply) is list and (values := self._plain(reply)) is not None:
                return tuple(values)
            self._reply = reply
        except BaseException as error:  # noqa: BLE001 - as above
            self._reply = error
        return True

    def ask_again(self) -> bool:
        """These arguments cannot be passed this way."""
        self._reply = ANEW
        return True

    def rest(self) -> Any:
        """A reply that is more than one plain value."""
        reply, self._reply = self._reply, None
        if isinstance(reply, CommandError):
            return (reply.with_traceback(None).message, ERROR)
        if reply is ANEW:
            return (None, AGAIN)
        if isinstance(reply, BaseException):
            self.raised = reply
            return (None, KILLED)
        return self._value(reply)

    # -- by call ------------------------------------------------------------------------------

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
        except BaseException as error:  # noqa: BLE001 - as above
            self.raised = error
            return (None, KILLED)

    def call_many(self, args: Any) -> Any:
        """More arguments than can be passed by themselves."""
        return self.call(*args.values())

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
        """As redis.lua takes it; see conversions.py."""
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
            return (None, LACK)
        return self._convert[type(reply)](reply)

    def _plain(self, items: list[Reply]) -> list[Any] | None:
        """As _convert would, for lists as they mostly are."""
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


@final
class Single:
    """A command with one argument, or none."""

    __slots__ = ("_callee", "_calls")

    def __init__(self, calls: Calls, callee: Callee) -> None:
        self._calls = calls
        self._callee = callee

    def __getitem__(self, arg: Any) -> Any:
        callee = self._callee
        if type(arg) is not bytes:
            return self._calls.ask_again()
        return self._calls.ask(callee, [callee.name, arg])

    def __call__(self, arg: Any = NONE) -> Any:
        """If the reply will be more than one value."""
        callee = self._callee
        if type(arg) is bytes:
            argv = [callee.name, arg]
        elif arg is NONE:
            argv = [callee.name]
        else:
            return self._calls.ask_again()
        return self._calls.ask_many(callee, argv)


@final
class Several:
    """A command with several arguments."""

    __slots__ = ("_callee", "_calls")

    def __init__(self, calls: Calls, callee: Callee) -> None:
        self._calls = calls
        self._callee = callee

    def __getitem__(self, text: Any) -> Any:
        argv = _split(text, self._callee.name)
        return self._calls.ask(self._callee, argv) if argv else self._calls.ask_again()

    def __call__(self, text: Any) -> Any:
        """If the reply will be more than one value."""
        argv = _split(text, self._callee.name)
        return self._calls.ask_many(self._callee, argv) if argv else self._calls.ask_again()


def _split(text: bytes, name: bytes) -> list[bytes]:
    """The name and the arguments, where their number stood; nothing if one of them has a separator
    in it."""
    argv = text.split(SEPARATOR)
    if argv[0][0] != len(argv) - 1:
        return []
    argv[0] = name
    return argv


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
