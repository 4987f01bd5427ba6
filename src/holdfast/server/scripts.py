"""Running scripts: the cache of compiled ones, the commands they call, all or nothing.

The sandbox is in `scripting`; what clients say about scripts is in families/scripting.py.
"""

import hashlib
import logging
from collections.abc import Callable
from math import inf
from time import perf_counter_ns
from typing import TYPE_CHECKING, final

from holdfast.commands.table import Command
from holdfast.errors import OUT_OF_MEMORY, CommandError
from holdfast.resp import Reply
from holdfast.scripting.conversions import c_string
from holdfast.scripting.sandbox import Failure, Killed, Sandbox
from holdfast.scripting.script import Script
from holdfast.server.callees import ALL, NOTHING, READS, Found
from holdfast.server.functions import Functions
from holdfast.server.session import RESTRICTED, TRACKING, Session
from holdfast.server.unasked import Output
from holdfast.server.version import REDIS_VERSION
from holdfast.store.ops import SCRIPT
from holdfast.store.savepoint import Savepoint

if TYPE_CHECKING:
    from holdfast.server.engine import Engine

log = logging.getLogger(__name__)

NO_SCRIPT = CommandError("NOSCRIPT No matching script. Please use EVAL.")
UNKNOWN = CommandError("ERR Unknown Redis command called from script")
NOT_ALLOWED = CommandError("ERR This Redis command is not allowed from script")
READ_ONLY = CommandError("ERR Write commands are not allowed from read-only scripts.")
NOT_WITH_RO = CommandError("ERR Can not execute a script with write flag using *_ro command.")
NO_SUCH_COMMAND = CommandError("ERR Invalid command passed to redis.acl_check_cmd()")
BUSY = "BUSY Redis is busy running a script. You can only call {} KILL or SHUTDOWN NOSAVE."
BUSY_EVAL = CommandError(BUSY.format("SCRIPT"))
BUSY_FUNCTION = CommandError(BUSY.format("FUNCTION"))
NOT_BUSY = CommandError("NOTBUSY No scripts in execution right now.")

KILLED = b"ERR Script killed by user with SCRIPT KILL..."  # also functions
OUT_OF_TIME = b"ERR Script killed: it took longer than lua-hard-time-limit"
SHUT_DOWN = b"ERR Script killed: the server shuts down"
COMPILING = b"ERR Error compiling script (new function): "

FLAGS = frozenset(
    {b"no-writes", b"allow-oom", b"allow-stale", b"no-cluster", b"allow-cross-slot-keys"}
)

MOST_EVALUATED = 500  # scripts that were never loaded; those used last stay, as in Redis 7.4


MOST_CALLEES = 4096  # commands by their spellings, of which each has as many as letters allow


class NoSink:
    """Nobody reads what a script's session is sent."""

    output_bytes = 0

    def deliver(self, replies: list[Output]) -> None: ...

    def close(self) -> None: ...


class ScriptSession(Session):
    """In its name scripts call commands; whose name it really is, `Running` knows."""

    __slots__ = ()

    @property
    def is_script(self) -> bool:
        return True


@final
class Running:
    """What INFO, FUNCTION STATS, KILL and the busy desk want to know of the script that runs.

    (No dataclass: compiled or not, the interpreter would fill it in, in a µs.)
    """

    def __init__(
        self,
        script: Script,
        argv: list[bytes],
        key_count: int,
        caller: Session,
        may_write: bool,
        savepoint: Savepoint,
        started_ns: int,
    ) -> None:
        self.script = script
        self.argv = argv
        self.key_count = key_count
        self.caller = caller
        self.may_write = may_write
        self.savepoint = savepoint
        self.started_ns = started_ns
        self.is_slow = False
        self.kill_reason: bytes | None = None

    @property
    def keys(self) -> list[bytes]:
        """Those that were declared."""
        return self.argv[3 : 3 + self.key_count]

    @property
    def elapsed_ms(self) -> float:
        return (perf_counter_ns() - self.started_ns) / 1e6

    def lacks_memory_for(self, command: Command) -> bool:
        """When there is too little; but who has begun to write may go on."""
        may_not_say = self.script.flags is None  # else it was asked before it ran
        return may_not_say and "denyoom" in command.flags and not self.savepoint.has_written


class Scripts:
    """The host of the sandbox, one for each engine. There is no Lua until a script is run."""

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine
        self._keyspace = engine.keyspace
        self._sandbox: Sandbox | None = None
        self._evaluated: dict[bytes, Script] = {}  # by SHA1, those used last at the end
        self.session: ScriptSession | None = None
        self.running: Running | None = None
        self._is_ending = False
        self._compiles_until_ns: float = inf
        # Where others are answered while a script runs for too long.
        self.on_slow: Callable[[], None] = _nowhere
        self.on_slow_end: Callable[[], None] = _nowhere
        self._callees: dict[bytes, Found] = {}  # by name, as scripts spell it
        self.open_to = NOTHING  # what the script that runs may call without being asked
        self._now_ns = perf_counter_ns  # compiled code is at an attribute sooner than at a global

        self.functions = Functions(self, engine.keyspace)

    @property
    def is_busy(self) -> bool:
        return self.running is not None and self.running.is_slow

    @property
    def busy_error(self) -> CommandError:
        assert self.running is not None
        return BUSY_FUNCTION if self.running.script.is_function else BUSY_EVAL

    @property
    def sandbox(self) -> Sandbox:
        """Where scripts run; functions have their own."""
        if self._sandbox is None:
            self._sandbox = self.new_sandbox()
        return self._sandbox

    def new_sandbox(self, *, for_functions: bool = False) -> Sandbox:
        major, minor, patch = map(int, REDIS_VERSION.split("."))
        number = major << 16 | minor << 8 | patch
        max_bytes = self._engine.config.lua_max_memory
        return Sandbox(
            self,
            REDIS_VERSION.encode(),
            number,
            max_bytes,
            for_functions=for_functions,
            active_active=self._keyspace.is_replicated,
        )

    @property
    def used_bytes(self) -> int:
        """Of Lua, for scripts."""
        return 0 if self._sandbox is None else self._sandbox.used_bytes

    # -- the cache ----------------------------------------------------------------------------

    def load(self, text: bytes) -> bytes:
        """SCRIPT LOAD: compile, and keep also across restarts; returns the SHA1."""
        sha = _sha1hex(text)
        if sha not in self._evaluated:
            self._evaluated[sha] = self._compile(sha, text)
        if sha not in self._keyspace.scripts:
            self._keyspace.write_script(SCRIPT, sha, text)
        return sha

    def evaluated(self, text: bytes) -> Script:
        """The script of EVAL."""
        sha = _sha1hex(text)
        script = self._evaluated.pop(sha, None) or self._compile(sha, text)
        self._evaluated[sha] = script
        if len(self._evaluated) > MOST_EVALUATED + len(self._keyspace.scripts):
            self._forget_one()
        return script

    def known(self, sha: bytes) -> Script:
        """The script of EVALSHA. Raises NOSCRIPT."""
        script = self._evaluated.get(sha)
        if script is not None:
            return script
        sha = sha.lower()
        script = self._evaluated.get(sha)
        if script is None:
            text = self._keyspace.scripts.get(sha)
            if text is None:
                raise NO_SCRIPT
            script = self._evaluated[sha] = self._compile(sha, text)
        return script

    def __contains__(self, sha: bytes) -> bool:
        sha = sha.lower()
        return sha in self._evaluated or sha in self._keyspace.scripts

    def flush(self) -> None:
        self._evaluated.clear()
        for sha in list(self._keyspace.scripts):
            self._keyspace.write_script(SCRIPT, sha, None)

    @property
    def count(self) -> int:
        return len(self._evaluated.keys() | self._keyspace.scripts.keys())

    @property
    def text_bytes(self) -> int:
        """Of the scripts that are kept."""
        return sum(map(len, self._keyspace.scripts.values()))

    def _forget_one(self) -> None:
        for sha in self._evaluated:
            if sha not in self._keyspace.scripts:
                del self._evaluated[sha]
                return

    def _compile(self, sha: bytes, text: bytes) -> Script:
        """SCRIPT KILL has nothing to end before the script runs, so compiling has a limit: the time
        after which other clients would be told BUSY."""
        flags, body = _shebang(text)
        sandbox = self.sandbox
        limit_ms = self._engine.config.busy_reply_threshold
        if limit_ms > 0:
            self._compiles_until_ns = self._now_ns() + limit_ms * 1e6
        try:
            function = sandbox.compile(body, b"@user_script")
        except CommandError as error:
            raise CommandError(COMPILING + error.message) from None
        except Killed as killed:
            raise CommandError(killed.failure.message) from None
        finally:
            self._compiles_until_ns = inf
        return Script(sha, sandbox, function, body, flags)

    # -- running ------------------------------------------------------------------------------

    def run(
        self, caller: Session, script: Script, argv: list[bytes], key_count: int, read_only: bool
    ) -> Reply:
        """Run a script. Unless it succeeds nothing has happened."""
        engine = self._engine
        may_write = script.may_write
        if read_only or script.flags is not None:
            may_write = self._may_write(script, read_only)
        session = self.session
        if session is None:
            session = self.session = ScriptSession(engine, NoSink(), "lua", "lua")
        session.db, session.user, session.protocol = caller.db, caller.user, 2
        savepoint = Savepoint(self._keyspace)
        self.running = running = Running(
            script, argv, key_count, caller, may_write, savepoint, self._now_ns()
        )
        if caller.gate & (TRACKING | RESTRICTED) or engine.monitors.sessions:
            self.open_to = NOTHING
        elif may_write and engine.refusal is None and not engine.is_out_of_memory:
            self.open_to = ALL
        else:
            self.open_to = READS
        result: Reply | Failure
        try:
            result = script.sandbox.run(
                script.function, argv, key_count, script.is_function, session, self.open_to
            )
        except Killed as killed:
            result = killed.failure
        except BaseException:
            savepoint.roll_back()
            raise
        finally:
            self.running = None
            if running.is_slow:
                engine.update_gate()
                self.on_slow_end()
        if type(result) is Failure:
            savepoint.roll_back()
            raise _as_error(result, script)
        savepoint.keep()
        if type(result) is CommandError:
            raise result  # it has happened all the same, but counts as a call that failed
        return result

    def _may_write(self, script: Script, read_only: bool) -> bool:
        """Of a script that says so by its flags, or is not asked. Raises if it cannot run now."""
        if script.flags is None:
            return not read_only
        if script.may_write:
            if read_only:
                raise NOT_WITH_RO
            if self._engine.refusal is not None:
                raise self._engine.refusal
        if self._engine.is_out_of_memory and script.flags.isdisjoint((b"allow-oom", b"no-writes")):
            raise OUT_OF_MEMORY
        return script.may_write

    def declared_to_write(self, command: Command, argv: list[bytes]) -> bool | None:
        """Whether the script that a command runs may write by its flags; None: it has none."""
        find = {"eval": self.evaluated, "evalsha": self.known, "fcall": self.functions.find}.get(
            command.name.removesuffix("_ro")
        )
        if find is None:
            return None
        try:
            script = find(argv[1])
        except CommandError:
            return None
        return None if script.flags is None else script.may_write

    def kill(self, *, is_function: bool) -> None:
        """End the script that runs; what it wrote is taken back."""
        if self.running is None:
            raise NOT_BUSY
        if self.running.script.is_function is not is_function:
            raise self.busy_error
        self.running.kill_reason = KILLED

    def end_for_shutdown(self) -> None:
        """A script that runs for too long, or will, is ended. May be called at any moment."""
        self._is_ending = True

    # -- what scripts call (see scripting.sandbox.Host) ------------------------------------------

    def callee(self, name: bytes) -> Found | None:
        found = self._callees.get(name)
        if found is None:
            command, stats = self._engine.commands.find([name])
            if command.subcommands or "noscript" in command.flags:
                return None
            found = Found(self, name, command, stats)
            if len(self._callees) < MOST_CALLEES:
                self._callees[name] = found
        return found

    def call(self, argv: list[bytes]) -> Reply:
        found = self._callees.get(argv[0])
        if found is None:
            try:
                command, stats = self._engine.commands.find(argv)
            except CommandError:
                self.failed(UNKNOWN)
                raise UNKNOWN from None
            if "noscript" in command.flags and command.min_args <= len(argv) <= command.max_args:
                stats.rejected += 1
                self.failed(NOT_ALLOWED)
                raise NOT_ALLOWED
            found = Found(self, argv[0], command, stats)
        return found.run(argv)

    def admit(self, command: Command, argv: list[bytes]) -> None:
        """Raises what the script should hear instead, if it may not call this."""
        engine, running = self._engine, self.running
        assert running is not None
        caller = running.caller
        if not caller.user.is_unrestricted:
            engine.check_permission(caller, command, argv)
        if not running.may_write and (command.is_write or "may_replicate" in command.flags):
            raise READ_ONLY  # PUBLISH, too
        if command.is_write:
            if engine.refusal is not None:
                raise engine.refusal
            if engine.is_out_of_memory and running.lacks_memory_for(command):
                raise OUT_OF_MEMORY

    def failed(self, error: CommandError) -> None:
        self._engine.error_stats[error.counted_as] += 1

    def returned(self, errors: list[CommandError]) -> None:
        """Redis counts them so: what is new makes one call that failed, each of the others one."""
        assert self.running is not None
        _, stats = self._engine.commands.find(self.running.argv)
        new = [error for error in errors if not error.is_counted]
        for error in new:
            self.failed(error)
        stats.failed += len(errors) - len(new) + bool(new)

    def ran(self, command: Command, argv: list[bytes]) -> None:
        """For those who want to know."""
        engine, running, session = self._engine, self.running, self.session
        assert running is not None
        assert session is not None
        caller = running.caller
        if caller.gate & TRACKING and "readonly" in command.flags:
            engine.tracking.remember_keys(caller, running.keys)
        if engine.monitors.sessions:
            engine.monitors.feed(session, command, argv)

    def may_call(self, argv: list[bytes]) -> bool:
        try:
            command, _ = self._engine.commands.find(argv)
        except CommandError:
            raise NO_SUCH_COMMAND from None
        return self.running is None or self.running.caller.user.denies(command, argv) is None

    def set_protocol(self, version: int) -> None:
        if self.session is not None:
            self.session.protocol = version

    def tick(self) -> bytes | None:
        running = self.running
        if running is None:
            if self._is_ending:
                return SHUT_DOWN
            if self._now_ns() > self._compiles_until_ns:
                return COMPILING + b"it takes longer than lua-time-limit"
            return self.functions.tick()
        elapsed_ms = running.elapsed_ms
        config = self._engine.config
        threshold_ms = config.busy_reply_threshold
        if elapsed_ms > config.lua_hard_time_limit > 0:
            return OUT_OF_TIME
        if self._is_ending and elapsed_ms >= threshold_ms:
            return SHUT_DOWN
        if elapsed_ms >= threshold_ms > 0:
            if not running.is_slow:
                running.is_slow = True
                log.warning(
                    "slow script %s: %d ms so far", running.script.name.decode(), elapsed_ms
                )
                self._engine.update_gate()
            self.on_slow()
            self.open_to = NOTHING  # others were answered: the disk may have failed, …
            running.script.sandbox.close_doors()
            if self._is_ending:  # one of them asked for it
                return SHUT_DOWN
        return running.kill_reason


def _nowhere() -> None:
    """No sockets: nobody could ask."""


def _as_error(failure: Failure, script: Script) -> CommandError:
    message, source, line, is_counted = failure
    if source is None or line is None:
        source = b"@user_function" if script.is_function else b"@user_script"
        line = script.last_return
    text = (c_string(message), script.name, source, line)
    error = CommandError(b"%s script: %s, on %s:%d." % text)
    error.is_counted = is_counted
    return error


def _shebang(text: bytes) -> tuple[frozenset[bytes] | None, bytes]:
    """The flags that the first line declares, and the script, its lines where they were."""
    if not text.startswith(b"#!"):
        return None, text
    line, newline, _ = text.partition(b"\n")
    if not newline:
        raise CommandError("ERR Invalid script shebang")
    engine, *options = line.split()
    if engine != b"#!lua":
        raise CommandError(b"ERR Unexpected engine in script shebang: " + engine)
    flags: list[bytes] = []
    for option in options:
        if not option.startswith(b"flags="):
            raise CommandError(b"ERR Unknown lua shebang option: " + option)
        flags += [flag for flag in option[6:].split(b",") if flag]
    for flag in flags:
        if flag not in FLAGS:
            raise CommandError(b"ERR Unexpected flag in script shebang: " + flag)
    return frozenset(flags), text[len(line) :]


def _sha1hex(text: bytes) -> bytes:
    return hashlib.sha1(text).hexdigest().encode()
