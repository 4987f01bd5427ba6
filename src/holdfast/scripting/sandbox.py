"""One Lua state with the sandbox in it: compile, run, kill. What it protects is in sandbox.lua.

Only lupa's luajit21 will do, with the JIT off: lua51 of the same wheel crashes on `unpack` with
huge ranges and on deep patterns, and compiled traces run no hooks.
"""

import hashlib
import logging
import struct
from importlib.resources import files
from math import copysign
from types import NoneType
from typing import Any, Final, NamedTuple, Protocol, final

from lupa.luajit21 import LuaError, LuaMemoryError, LuaRuntime

from holdfast.errors import CommandError
from holdfast.resp import OK, NullArray, Reply, Simple
from holdfast.scripting.conversions import (
    ARRAY,
    ERROR,
    INT64_MIN,
    KILLED,
    LACK,
    MOST_VALUES,
    STATUS,
    arguments,
    as_status,
    from_lua,
    integer,
    to_lua,
)
from holdfast.scripting.tails import keep_frames

log = logging.getLogger(__name__)

MARGIN_BYTES = 16 << 20  # between what scripts may take and where allocation fails
LIBRARIES = (
    "errors",
    "redis",
    "base",
    "strings",
    "cjson",
    "cmsgpack",
    "struct",
    "functions",
    "results",
)
LARGE_REPLY: Final = 1 << 20
FEW: Final = 64
SMALL = frozenset({Simple, NoneType, NullArray, bool, float})  # whatever they say

NO_ARGUMENT = CommandError("ERR Please specify at least one argument for this redis lib call")

OKAY = (bytes(OK), STATUS)

LOG_LEVELS = (logging.DEBUG, logging.INFO, logging.INFO, logging.WARNING)

# As sandbox.lua says how a script ended, where it is not told by a plain value.
_TABLE: Final = 1
_FLAT: Final = 2
_ARRAY: Final = 3
_STATUS: Final = 4
_KILLED: Final = 6


class Host(Protocol):
    """What scripts can do to the rest of the world."""

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


@final
class Failure(NamedTuple):
    """An error that escaped a script."""

    message: bytes
    source: bytes | None
    line: int | None


NO_MEMORY = Failure(b"ERR not enough memory", None, None)


class Registered(NamedTuple):
    """A function of a library."""

    name: bytes
    function: Any
    last_line: int  # of its code
    description: bytes | None
    flags: frozenset[bytes]


class Killed(Exception):  # noqa: N818 - it is what happened to the script
    """The host ended the script: its reason, or what it raised."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message.decode())
        self.failure = failure


class Sandbox:
    def __init__(
        self,
        host: Host,
        version: bytes,
        version_number: int,
        max_bytes: int,
        *,
        for_functions: bool = False,
        active_active: bool = False,
    ) -> None:
        self._host = host
        self._host_call = host.call
        self._raised: BaseException | None = None
        self._verdict: bytes | None = None
        self._lua = LuaRuntime(
            encoding=None,
            unpack_returned_tuples=True,
            register_eval=False,
            register_builtins=False,
            attribute_filter=_nothing,
            max_memory=max_bytes + MARGIN_BYTES,
        )
        self._used_bytes = self._lua.get_memory_used
        self._max_bytes = max_bytes
        self._much_bytes = max_bytes // 2  # then it is time to collect garbage
        self._lua.execute(b"jit.off() jit.flush()")
        table = self._lua.table_from
        self._converters = {2: to_lua(table, False), 3: to_lua(table, True)}
        self._convert = self._converters[2]
        self._resp3 = False
        functions = {
            b"call": self._call,
            b"call_many": self._call_many,
            b"tick": self._tick,
            b"acl_check": self._acl_check,
            b"setresp": self._setresp,
            b"sha1hex": _sha1hex,
            b"log": _log,
            b"version": version,
            b"version_number": version_number,
            b"find": _find,
            b"pack": _pack,
            b"unpack": _unpack,
            b"strtod": _strtod,
            b"for_functions": for_functions,
            b"limit_kb": max_bytes // 1024,
        }
        if active_active:
            functions[b"active_active"] = 1
        libraries = {name.encode(): self._load(name) for name in LIBRARIES}
        world = self._load("sandbox")(table(functions), table(libraries))
        self._run, self._run_with = world[b"run"], world[b"run_with"]
        self._call_function, self._call_with = world[b"call"], world[b"call_with"]
        self._compile = world[b"compile"]
        self._world = world

    def _load(self, name: str) -> Any:
        text = files("holdfast.scripting").joinpath(f"{name}.lua").read_bytes()
        load = self._lua.eval(b"function(text, name) return assert(load(text, name, 't')) end")
        return load(text, b"=holdfast")

    # -- running ------------------------------------------------------------------------------

    def compile(self, text: bytes, name: bytes) -> Any:
        """The function of a script. Raises CommandError with what Lua says."""
        if not self._has_room(len(text)):
            raise CommandError("not enough memory")
        result = self._compile(text, name)
        if isinstance(result, tuple):
            raise CommandError(result[1].replace(b"\r", b" ").replace(b"\n", b" "))
        kept = keep_frames(text)
        return result if kept is text else self._compile(kept, name)

    def run(
        self, function: Any, argv: list[bytes], key_count: int, as_arguments: bool
    ) -> Reply | Failure:
        """Run a script. `argv` is EVAL's: keys and arguments begin at its fourth; functions get
        them as theirs. Raises Killed, or whatever the host raised to end it."""
        if self._resp3:
            self._setresp(2)
        nbytes = 16 * len(argv)
        for arg in argv:
            nbytes += len(arg)
        used_bytes: int = self._used_bytes()
        if used_bytes + 2 * nbytes > self._much_bytes and not self._has_room(nbytes):
            return NO_MEMORY
        try:
            if len(argv) <= MOST_VALUES:
                enter = self._call_function if as_arguments else self._run
                result = enter(function, key_count, *argv[3:])
            else:
                enter = self._call_with if as_arguments else self._run_with
                table, last = self._lua.table_from, 3 + key_count
                result = enter(function, table(argv[3:last]), table(argv[last:]))
            if type(result) is int or type(result) is bytes or result is None:
                return result
            if type(result) is float:
                return integer(result)
            ending: int = result[0]
            if ending == _ARRAY:
                return [integer(item) if type(item) is float else item for item in result[1:]]
            if ending == _STATUS:
                return OK if result[1] == b"OK" else as_status(result[1])
            if ending == _FLAT:
                return from_lua(iter(result[1:]), self._resp3)
            if ending == _TABLE:
                return from_lua(iter(list(result[1].values())), self._resp3)
        except (LuaError, MemoryError) as error:
            return self._broke(error)
        return self._failure(*result)

    def load(self, text: bytes) -> list[Registered] | Failure:
        """Run the code of a library; the functions that it registers. Raises CommandError with
        what Lua says if it is none, and as `run` does."""
        code = self.compile(text, b"@user_function")
        try:
            result = self._world[b"load_library"](code)
            if type(result) is not tuple:
                return [_registered(entry) for entry in result.values()]
        except (LuaError, MemoryError) as error:
            return self._broke(error)
        return self._failure(*result)

    @property
    def used_bytes(self) -> int:
        return int(self._lua.get_memory_used())

    def _broke(self, error: Exception) -> Failure:
        if isinstance(error, (LuaMemoryError, MemoryError)):
            self._collect_garbage()
            return NO_MEMORY
        return Failure(b"ERR " + str(error).encode(), None, None)

    def _failure(
        self, ending: int, message: bytes, source: bytes | None, line: int | None
    ) -> Failure:
        if ending == _KILLED:
            raised, self._raised = self._raised, None
            if raised is not None:
                raise raised
            assert self._verdict is not None
            raise Killed(Failure(self._verdict, source, line))
        return Failure(message, source, line)

    # -- called from Lua: none of these may raise ------------------------------------------------

    def _call(self, *args: Any) -> Any:
        try:
            argv = list(args)
            for arg in args:
                if type(arg) is not bytes:
                    argv = arguments(args)
                    break
            if not argv:
                return (NO_ARGUMENT.message, ERROR)
            reply = self._host_call(argv)
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
            elif type(reply) is list:
                if len(reply) <= FEW and (values := self._plain(reply)) is not None:
                    return values
            elif type(reply) in SMALL:
                return self._convert[type(reply)](reply)
            if self._is_too_much(reply):
                return (None, LACK)
            return self._convert[type(reply)](reply)
        except CommandError as error:
            return (error.with_traceback(None).message, ERROR)
        except BaseException as error:  # noqa: BLE001 - an exception must not become a Lua value
            self._raised = error
            return (None, KILLED)

    def _plain(self, items: list[Reply]) -> tuple[Any, ...] | None:
        """As _convert would, for lists as they mostly are."""
        if self._resp3:
            return None
        values: list[Any] = [None, ARRAY]
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
        return tuple(values) if nbytes < LARGE_REPLY else None

    def _call_many(self, args: Any) -> Any:
        """More arguments than can be passed by themselves."""
        return self._call(*args.values())

    def _has_room(self, nbytes: int) -> bool:
        """Whether so much can be handed to Lua. From outside of it, a failure would be the end.

        LuaJIT does not collect garbage when an allocation fails: it is done in good time.
        """
        if self._lua.get_memory_used() + 2 * nbytes > self._much_bytes:
            self._collect_garbage()
        return bool(self._lua.get_memory_used() + 2 * nbytes <= self._max_bytes)

    def _collect_garbage(self) -> None:
        """Also that takes memory: more is there meanwhile."""
        lua = self._lua
        lua.set_max_memory(self._max_bytes + 4 * MARGIN_BYTES)
        self._world[b"collect"]()
        lua.set_max_memory(max(self._max_bytes + MARGIN_BYTES, lua.get_memory_used() + 1))

    def _is_too_much(self, reply: Reply) -> bool:
        size = _size(reply)
        return size > LARGE_REPLY and self._lua.get_memory_used() + 2 * size > self._max_bytes

    def _tick(self) -> bool:
        """Whether the script has to end. Returns no text: where memory is short that could fail."""
        try:
            self._verdict = self._host.tick()
        except BaseException as error:  # noqa: BLE001 - as above
            self._raised = error
            return True
        return self._verdict is not None

    def _acl_check(self, *args: Any) -> Any:
        try:
            argv = arguments(args)
            if not argv:
                return (NO_ARGUMENT.message, ERROR)
            return self._host.may_call(argv)
        except CommandError as error:
            return (error.message, ERROR)
        except BaseException as error:  # noqa: BLE001 - as above
            self._raised = error
            return (None, KILLED)

    def _setresp(self, version: int) -> None:
        self._host.set_protocol(version)
        self._convert = self._converters[version]
        self._resp3 = version == 3


def _nothing(obj: object, name: object, is_setting: bool) -> str:
    raise AttributeError("scripts see no Python object")


def _registered(entry: Any) -> Registered:
    flags = entry[b"flags"]
    return Registered(
        entry[b"name"],
        entry[b"callback"],
        entry[b"last_line"],
        entry[b"description"],
        frozenset(() if flags is None else flags.values()),
    )


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


def _sha1hex(text: bytes) -> bytes:
    return hashlib.sha1(text).hexdigest().encode()


def _log(level: float, text: bytes) -> None:
    log.log(LOG_LEVELS[int(level)], "script: %s", text.decode("utf-8", "backslashreplace"))


def _find(text: bytes, part: bytes, start: float) -> int | None:
    """Linear, which C's own search in Lua is not."""
    at = text.find(part, int(start) - 1)
    return at + 1 if at >= 0 else None


def _pack(code: bytes, number: float) -> bytes:
    """A number as C would store it, whatever it is."""
    form = code.decode()
    if form[1] == "q":
        return struct.pack(form, integer(number) if number == number else INT64_MIN)
    try:
        return struct.pack(form, number)
    except OverflowError:  # too large for 32 bits
        return struct.pack(form, copysign(float("inf"), number))


def _unpack(code: bytes, text: bytes) -> float:
    return float(struct.unpack(code.decode(), text)[0])


def _strtod(text: bytes) -> float:
    """Of a number that is well-formed."""
    return float.fromhex(text.decode()) if b"x" in text.lower() else float(text)
