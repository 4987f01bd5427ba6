"""One Lua state with the sandbox in it: compile, run, kill. The protections are in sandbox.lua.

This works only with lupa's luajit21 and with the JIT off: lua51 of the same wheel crashes on
`unpack` with huge ranges and on deep patterns, and compiled traces run no hooks.
"""

import hashlib
import logging
import struct
import time
from collections.abc import Sequence
from math import copysign, inf
from pathlib import Path
from signal import SIG_BLOCK, pthread_sigmask
from typing import Any, Final

from lupa import luajit21
from lupa.luajit21 import LuaError, LuaMemoryError, LuaRuntime

from holdfast.errors import CommandError
from holdfast.log_lines import LEVELS, one_line
from holdfast.resp import OK, Reply
from holdfast.scripting.calls import Calls, ScriptHost
from holdfast.scripting.conversions import INT64_MIN, MOST_VALUES, as_status, from_lua, integer
from holdfast.scripting.script import Failure, Killed, Registered
from holdfast.scripting.tails import keep_frames

try:
    from holdfast.scripting import _gate
except ImportError:  # it is compiled where that is possible
    GATE: Any = None
else:
    GATE = _gate

log = logging.getLogger(__name__)

MARGIN_BYTES = 16 << 20  # between the limit of scripts and the point where allocation fails
LIBRARIES = (
    "errors",
    "redis",
    "base",
    "strings",
    "order",
    "cjson",
    "cmsgpack",
    "struct",
    "functions",
    "results",
)
LOG_LEVELS = tuple(LEVELS.values())  # of LOG_DEBUG to LOG_WARNING

# How a script ended, if its result is no plain value; with the numbers that sandbox.lua has.
_TABLE: Final = 1
_FLAT: Final = 2
_ARRAY: Final = 3
_STATUS: Final = 4
_KILLED: Final = 6


NO_MEMORY = Failure(b"ERR not enough memory", None, None)


class Sandbox:
    def __init__(
        self,
        host: ScriptHost,
        version: bytes,
        version_number: int,
        max_bytes: int,
        *,
        for_functions: bool = False,
        active_active: bool = False,
    ) -> None:
        self._host = host
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
        self._much_bytes = max_bytes // 2  # if more is needed, garbage is collected before
        self._lua.execute(b"jit.off() jit.flush()")
        table = self._lua.table_from
        self._gate, new_call, self._hold_function = self._open_gate()
        self._calls = calls = Calls(host, self._lua, self._gate, max_bytes)
        functions = {
            b"new_call": new_call,
            b"door": calls.door,
            b"fetch": calls.fetch,
            b"call": calls.call,
            b"call_many": calls.call_many,
            b"tick": self._tick,
            b"acl_check": calls.acl_check,
            b"setresp": calls.setresp,
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
        self._run, self._run_with = self._hold(world[b"run"]), self._hold(world[b"run_with"])
        self._call, self._call_with = self._hold(world[b"call"]), self._hold(world[b"call_with"])
        self._compile = world[b"compile"]
        self._world = world

    def _open_gate(self) -> tuple[Any, Any, Any]:
        """The compiled gate, the function that makes `redis.call` of it, and the function that
        registers Lua functions with it. Without a gate, lupa does the same work more slowly."""
        if GATE is None:
            return None, None, None
        try:
            gate = GATE.Gate(luajit21.__file__, self._lua, OK, self._max_bytes // 1024)
        except ImportError as error:  # this lupa was linked in another way
            log.info("scripts run more slowly, without the compiled gate: %s", error)
            return None, None, None
        link = self._lua.eval(b"package.loadlib")
        return gate, *link(GATE.__file__.encode(), b"holdfast_gate")(id(gate))

    def _hold(self, function: Any) -> Any:
        """Register a Lua function for `_enter`."""
        if self._gate is None:
            return function
        return self._gate.held(self._hold_function(function))

    def _enter(
        self,
        way: Any,
        way_with: Any,
        function: Any,
        argv: list[bytes],
        key_count: int,
        session: object,
        open_to: int,
    ) -> Any:
        gate = self._gate
        if gate is not None:
            if len(argv) > MOST_VALUES:
                way = way_with
            return gate.run(way, function, key_count, argv, session, open_to)
        if len(argv) <= MOST_VALUES:
            return way(function, key_count, *argv[3:])
        table, last = self._lua.table_from, 3 + key_count
        return way_with(function, table(argv[3:last]), table(argv[last:]))

    def close_doors(self) -> None:
        """From now on every call of the running script goes to the host."""
        if self._gate is not None:
            self._gate.open_to = 0

    def _load(self, name: str) -> Any:
        text = Path(__file__).with_name(f"{name}.lua").read_bytes()
        load = self._lua.eval(b"function(text, name) return assert(load(text, name, 't')) end")
        return load(text, b"=holdfast")

    # -- running ------------------------------------------------------------------------------

    def compile(self, text: bytes, name: bytes) -> Any:
        """Compile a script to a function for `run`. Raises CommandError with the text of Lua's
        error. Raises also the errors of `run`, because compiling may take too long, too."""
        return self._hold(self._compiled(text, name))

    def _compiled(self, text: bytes, name: bytes) -> Any:
        if not self._has_room(len(text)):
            raise CommandError("not enough memory")
        kept = keep_frames(text)
        if kept is not text:
            try:
                return self._loaded(kept, name)
            except CommandError:
                pass  # compiled again below: the error must refer to the text that the client sent
        return self._loaded(text, name)

    def _loaded(self, text: bytes, name: bytes) -> Any:
        try:
            result = self._compile(text, name)
        except (LuaError, MemoryError) as error:
            raise CommandError(self._broke(error).message) from None
        if not isinstance(result, tuple):
            return result
        if result[0] == _KILLED:
            self._failure(*result)
        raise CommandError(result[1])

    def run(
        self,
        function: Any,
        argv: list[bytes],
        key_count: int,
        as_arguments: bool,
        session: object = None,
        open_to: int = 0,
    ) -> Reply | Failure:
        """Run a script. `argv` is the argv of EVAL: keys and arguments begin at its fourth element.
        With `as_arguments` they are the arguments of the function, else KEYS and ARGV. The gate
        runs commands up to the level `open_to` for the session without asking the host. Raises
        Killed, or the error by which the host ended the script."""
        calls = self._calls
        if calls.resp3:
            calls.setresp(2)
        nbytes = 16 * len(argv)
        for arg in argv:
            nbytes += len(arg)
        used_bytes: int = self._used_bytes()
        if used_bytes + 2 * nbytes > self._much_bytes and not self._has_room(nbytes):
            return NO_MEMORY
        try:
            way, way_with = self._run, self._run_with
            if as_arguments:
                way, way_with = self._call, self._call_with
            result = self._enter(way, way_with, function, argv, key_count, session, open_to)
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
                return self._reply(result[1:])
            if ending == _TABLE:
                values = result[1]
                flat = values if type(values) is list else list(values.values())
                return self._reply(flat)
        except (LuaError, RuntimeError, MemoryError) as error:
            return self._broke(error)
        return self._failure(*result)

    def _reply(self, flat: Sequence[Any]) -> Reply:
        errors: list[CommandError] = []
        reply = from_lua(iter(flat), self._calls.resp3, errors)
        if errors and reply is not errors[0]:
            self._host.returned(errors)
        return reply

    def load(self, text: bytes) -> list[Registered] | Failure:
        """Run the code of a library; return the functions that it registers. Raises CommandError
        with the text of Lua's error if the code is not valid, and the errors of `run`."""
        code = self._compiled(text, b"@user_function")
        try:
            result = self._world[b"load_library"](code)
            if type(result) is not tuple:
                return [self._registered(entry) for entry in result.values()]
        except (LuaError, MemoryError) as error:
            return self._broke(error)
        return self._failure(*result)

    def _registered(self, entry: Any) -> Registered:
        flags = entry[b"flags"]
        return Registered(
            entry[b"name"],
            self._hold(entry[b"callback"]),
            entry[b"last_line"],
            entry[b"description"],
            frozenset(() if flags is None else flags.values()),
        )

    @property
    def used_bytes(self) -> int:
        return int(self._lua.get_memory_used())

    def _broke(self, error: Exception) -> Failure:
        lacks_memory = isinstance(error, (LuaMemoryError, MemoryError))
        if lacks_memory:
            self._collect_garbage()
        if self._world[b"was_killed"]():
            return self._failure(_KILLED, b"", None, None)
        return NO_MEMORY if lacks_memory else Failure(b"ERR " + str(error).encode(), None, None)

    def _failure(
        self,
        ending: int,
        message: bytes,
        source: bytes | None,
        line: int | None,
        is_counted: bool = False,
    ) -> Failure:
        if ending == _KILLED:
            raised, self._calls.raised = self._calls.raised, None
            if raised is not None:
                raise raised
            assert self._verdict is not None
            raise Killed(Failure(self._verdict, source, line))
        return Failure(message, source, line, is_counted)

    def _has_room(self, nbytes: int) -> bool:
        """Whether Lua has room for this number of bytes. If an allocation failed outside of a
        protected call, the process would end. LuaJIT does not collect garbage when an allocation
        fails, so garbage is collected here, before."""
        if self._lua.get_memory_used() + 2 * nbytes > self._much_bytes:
            self._collect_garbage()
        return bool(self._lua.get_memory_used() + 2 * nbytes <= self._max_bytes)

    def _collect_garbage(self) -> None:
        """Collect garbage. This takes memory itself, so the limit is raised meanwhile."""
        lua = self._lua
        lua.set_max_memory(self._max_bytes + 4 * MARGIN_BYTES)
        self._world[b"collect"]()
        lua.set_max_memory(max(self._max_bytes + MARGIN_BYTES, lua.get_memory_used() + 1))

    def _tick(self) -> bool:
        """Called from Lua: whether the script has to end. It returns no text, because there may be
        too little memory to make one in Lua."""
        if self._gate is not None:
            time.sleep(0)  # through the gate a script keeps the GIL, so other threads run here
        try:
            # Compiled code never runs the handlers of signals that have arrived; this call does.
            pthread_sigmask(SIG_BLOCK, ())
            self._verdict = self._host.tick()
        except BaseException as error:  # noqa: BLE001 - it must not become a Lua value
            self._calls.raised = error
            return True
        return self._verdict is not None


def _nothing(obj: object, name: object, is_setting: bool) -> str:
    raise AttributeError("scripts see no Python object")


def _sha1hex(text: bytes) -> bytes:
    return hashlib.sha1(text).hexdigest().encode()


def _log(level: float, text: bytes, size: int) -> None:
    """Log a message of a script as one line, so that no script can write a text that looks like
    another entry of the log."""
    shown = one_line(text.decode("utf-8", "backslashreplace"))
    if size > len(text):
        shown += f" [the first {len(text)} of {size} bytes]"
    log.log(LOG_LEVELS[int(level)], "script: %s", shown)


def _find(text: bytes, part: bytes, start: float) -> int | None:
    """Search in linear time. (The time of the search in Lua's C library is not linear.)"""
    at = text.find(part, int(start) - 1)
    return at + 1 if at >= 0 else None


def _pack(code: bytes, number: float) -> bytes:
    """The bytes in which C stores a number. No argument is an error."""
    form = code.decode()
    if form[1] == "q":
        return struct.pack(form, integer(number) if number == number else INT64_MIN)
    try:
        return struct.pack(form, number)
    except OverflowError:  # too large for 32 bits
        return struct.pack(form, copysign(inf, number))


def _unpack(code: bytes, text: bytes) -> float:
    return float(struct.unpack(code.decode(), text)[0])


def _strtod(text: bytes) -> float:
    """The number that a well-formed text denotes, decimal or hexadecimal."""
    if b"x" not in text.lower():
        return float(text)
    try:
        return float.fromhex(text.decode())
    except OverflowError:
        return -inf if text.startswith(b"-") else inf
