"""Runs scripts: the commands that they call, their limits, and the undoing of scripts that fail.

The sandbox is in `scripting`, the commands EVAL and SCRIPT are in
server/commands/scripting_commands.py.
"""

import logging
from collections.abc import Callable
from time import perf_counter_ns
from typing import TYPE_CHECKING, final

from holdfast.commands.table import Command
from holdfast.errors import OUT_OF_MEMORY, CommandError
from holdfast.resp import Reply
from holdfast.resp.c_strings import c_string
from holdfast.scripting.script import CompiledScript, Failure, Killed
from holdfast.server.dispatch.invoke import Invoker
from holdfast.server.dispatch.lookup import Commands
from holdfast.server.features.condition import Condition
from holdfast.server.features.monitors import Monitors
from holdfast.server.features.tracking import Tracking
from holdfast.server.scripts.coordination_index import CoordinationIndex
from holdfast.server.scripts.libraries import Functions
from holdfast.server.scripts.script_cache import ScriptCache
from holdfast.server.scripts.script_command import ALL, NOTHING, READS, ScriptCommand
from holdfast.server.sessions.out_of_band import Output
from holdfast.server.sessions.session import RESTRICTED, TRACKING, Session
from holdfast.server.sessions.session_host import SessionHost
from holdfast.store.memory.savepoint import Savepoint

if TYPE_CHECKING:
    from holdfast.scripting.sandbox import Sandbox

log = logging.getLogger(__name__)

UNKNOWN = CommandError("ERR Unknown Redis command called from script")
NOT_ALLOWED = CommandError("ERR This Redis command is not allowed from script")
NOT_WITH_RO = CommandError("ERR Can not execute a script with write flag using *_ro command.")
NO_SUCH_COMMAND = CommandError("ERR Invalid command passed to redis.acl_check_cmd()")
BUSY = "BUSY Redis is busy running a script. You can only call {} KILL or SHUTDOWN NOSAVE."
BUSY_EVAL = CommandError(BUSY.format("SCRIPT"))
BUSY_FUNCTION = CommandError(BUSY.format("FUNCTION"))
NOT_BUSY = CommandError("NOTBUSY No scripts in execution right now.")

KILLED = b"ERR Script killed by user with SCRIPT KILL..."  # also functions
OUT_OF_TIME = b"ERR Script killed: it took longer than lua-hard-time-limit"
SHUT_DOWN = b"ERR Script killed: the server shuts down"

# Spellings in the cache of commands: a name has many, in upper and lower case.
MOST_CALLEES = 4096


class NoSink:
    """Drops the output of the session of scripts."""

    output_bytes = 0

    def deliver(self, replies: list[Output]) -> None: ...

    def close(self) -> None: ...


class ScriptSession(Session):
    """The session of commands that scripts call. The real caller is in `Running`."""

    __slots__ = ()

    @property
    def is_script(self) -> bool:
        return True


@final
class Running:
    """The script that runs, for INFO, FUNCTION STATS, KILL and the busy server.

    (It is no dataclass: even in compiled code, the interpreter would run the constructor of one,
    and that takes a microsecond.)
    """

    def __init__(
        self,
        script: CompiledScript,
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
        """The keys that the caller has declared."""
        return self.argv[3 : 3 + self.key_count]

    @property
    def elapsed_ms(self) -> float:
        return (perf_counter_ns() - self.started_ns) / 1e6

    def lacks_memory_for(self, command: Command) -> bool:
        """Whether memory is too short for this command. A script that has begun to write may go
        on."""
        if self.script.flags is not None:
            return False  # `_may_write` has checked memory before the script ran
        return "denyoom" in command.flags and not self.savepoint.has_written


class Scripts:
    """The host of the sandbox, one for each engine. There is no Lua state until a script runs."""

    def __init__(
        self,
        host: SessionHost,
        condition: Condition,
        commands: Commands,
        invoker: Invoker,
        tracking: Tracking,
        monitors: Monitors,
    ) -> None:
        self._host = host
        self._condition = condition
        self._commands = commands
        self.invoker = invoker
        self._tracking = tracking
        self._monitors = monitors
        self._monitoring = monitors.sessions
        self._keyspace = host.keyspace
        self._sandbox: Sandbox | None = None
        self.cache = ScriptCache(host, lambda: self.sandbox)
        self.session: ScriptSession | None = None
        self.running: Running | None = None
        self.denies = True  # commands with the flag noscript: DEBUG SET-DISABLE-DENY-SCRIPTS
        self._is_ending = False
        # `Admission`, which is built later, sets this. It raises CommandError if a call is refused.
        self.admit: Callable[[Running, Command, list[bytes]], None] = _admit_all
        self.on_tick: Callable[[], None] = _do_nothing  # called from time to time during a script
        # `on_slow` answers other clients while a script runs for too long.
        self.on_slow: Callable[[], None] = _do_nothing
        self.on_slow_end: Callable[[], None] = _do_nothing
        self._callees: dict[bytes, ScriptCommand] = {}  # by name, as scripts spell it
        self.open_to = NOTHING  # the commands that the running script may call without admission
        self._now_ns = perf_counter_ns  # compiled code reads an attribute faster than a global
        self.functions = Functions(self, host.keyspace)
        self.index: CoordinationIndex | None = None  # kept while /metrics is served

    @property
    def busy_error(self) -> CommandError:
        assert self.running is not None
        return BUSY_FUNCTION if self.running.script.is_function else BUSY_EVAL

    @property
    def sandbox(self) -> "Sandbox":
        """The Lua state of scripts; functions have another one."""
        if self._sandbox is None:
            self._sandbox = self.new_sandbox()
        return self._sandbox

    def new_sandbox(self, *, for_functions: bool = False) -> "Sandbox":
        from holdfast.scripting.sandbox import Sandbox

        config = self._host.config
        major, minor, patch = map(int, config.redis_version.split("."))
        number = major << 16 | minor << 8 | patch
        return Sandbox(
            self,
            config.redis_version.encode(),
            number,
            config.lua_max_memory,
            for_functions=for_functions,
            active_active=self._keyspace.is_active_active,
        )

    @property
    def used_bytes(self) -> int:
        """Memory of the Lua state for scripts."""
        return 0 if self._sandbox is None else self._sandbox.used_bytes

    # -- running ------------------------------------------------------------------------------

    def run(
        self,
        caller: Session,
        script: CompiledScript,
        argv: list[bytes],
        key_count: int,
        read_only: bool,
    ) -> Reply:
        """Run a script. If it fails, all its changes are undone."""
        condition = self._condition
        may_write = script.may_write
        if read_only or script.flags is not None:
            may_write = self._may_write(script, read_only)
        session = self.session
        if session is None:
            session = self.session = ScriptSession(self._host, NoSink(), "lua", "lua")
        session.db, session.user, session.protocol = caller.db, caller.user, 2
        if self.index is not None and script.role is not None:
            self.index.note(script.role, caller.db.index, argv, key_count)
        savepoint = Savepoint(self._keyspace)
        self.running = running = Running(
            script, argv, key_count, caller, may_write, savepoint, self._now_ns()
        )
        is_seen = self._monitoring or self.invoker.effects is not None
        if caller.modes & (TRACKING | RESTRICTED) or is_seen:
            self.open_to = NOTHING
        elif may_write and condition.refusal is None and not condition.is_out_of_memory:
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
                self._set_busy(False)
                self.on_slow_end()
        if type(result) is Failure:
            savepoint.roll_back()
            raise _as_error(result, script)
        savepoint.keep()
        if type(result) is CommandError:
            raise result  # its changes stay, but it counts as a failed call
        return result

    def _may_write(self, script: CompiledScript, read_only: bool) -> bool:
        """Whether a script may write, by its flags or by the command that runs it. Raises
        CommandError if it cannot run now."""
        if script.flags is None:
            return not read_only
        if script.may_write:
            if read_only:
                raise NOT_WITH_RO
            if self._condition.refusal is not None:
                raise self._condition.refusal
        condition = self._condition
        lacks_memory = condition.is_out_of_memory or condition.lacks_room
        if lacks_memory and script.flags.isdisjoint((b"allow-oom", b"no-writes")):
            raise OUT_OF_MEMORY
        return script.may_write

    def declared_to_write(self, command: Command, argv: list[bytes]) -> bool | None:
        """Whether the script that a command runs may write, by its flags; None if it has no
        flags."""
        cache = self.cache
        find = {"eval": cache.evaluated, "evalsha": cache.known, "fcall": self.functions.find}.get(
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
        """End the running script; its changes are undone."""
        if self.running is None:
            raise NOT_BUSY
        if self.running.script.is_function is not is_function:
            raise self.busy_error
        self.running.kill_reason = KILLED

    def end_for_shutdown(self) -> None:
        """End scripts that run longer than `busy-reply-threshold`, now and from now on. May be
        called at any moment."""
        self._is_ending = True

    def go_on(self) -> None:
        """The shutdown was aborted: scripts may take their time again."""
        self._is_ending = False

    # -- what scripts call (see scripting.calls.ScriptHost) --------------------------------------

    def callee(self, name: bytes) -> ScriptCommand | None:
        found = self._callees.get(name)
        if found is None:
            command, stats = self._commands.find([name])
            if command.subcommands or "noscript" in command.flags:
                return None
            found = ScriptCommand(self, name, command, stats)
            if len(self._callees) < MOST_CALLEES:
                self._callees[name] = found
        return found

    def call(self, argv: list[bytes]) -> Reply:
        found = self._callees.get(argv[0])
        if found is None:
            try:
                command, stats = self._commands.find(argv)
            except CommandError:
                self.failed(UNKNOWN)
                raise UNKNOWN from None
            is_denied = "noscript" in command.flags and self.denies
            if is_denied and command.min_args <= len(argv) <= command.max_args:
                stats.rejected += 1
                self.failed(NOT_ALLOWED)
                raise NOT_ALLOWED
            found = ScriptCommand(self, argv[0], command, stats)
        return found.call(argv)

    def failed(self, error: CommandError) -> None:
        self.invoker.error_stats[error.counted_as] += 1

    def returned(self, errors: list[CommandError]) -> None:
        """Count errors in the result of a script, as Redis does: all new errors together are one
        failed call, and each of the others is one."""
        assert self.running is not None
        _, stats = self._commands.find(self.running.argv)
        new = [error for error in errors if not error.is_counted]
        for error in new:
            self.failed(error)
        stats.failed += len(errors) - len(new) + bool(new)

    def ran(self, command: Command, argv: list[bytes]) -> None:
        """Show a command that the script has called to caches and monitors."""
        running, session = self.running, self.session
        assert running is not None
        assert session is not None
        caller = running.caller
        if caller.modes & TRACKING and "readonly" in command.flags:
            self._tracking.remember_keys(caller, running.keys)
        if self._monitoring:
            self._monitors.feed(session, command, argv)

    def may_call(self, argv: list[bytes]) -> bool:
        try:
            command, _ = self._commands.find(argv)
        except CommandError:
            raise NO_SUCH_COMMAND from None
        if self.running is None or self.session is None:
            return True
        database = self.session.db.index
        return self.running.caller.user.denies(command, argv, database) is None

    def set_protocol(self, version: int) -> None:
        if self.session is not None:
            self.session.protocol = version

    def tick(self) -> bytes | None:
        running = self.running
        if running is None:
            if self._is_ending:
                return SHUT_DOWN
            return self.cache.tick() or self.functions.tick()
        self.on_tick()
        elapsed_ms = running.elapsed_ms
        config = self._host.config
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
                self._set_busy(True)
            self.on_slow()
            self.open_to = NOTHING  # other clients ran commands, and the disk may have failed
            running.script.sandbox.close_doors()
            if self._is_ending:  # one of their commands was SHUTDOWN
                return SHUT_DOWN
        return running.kill_reason

    def _set_busy(self, is_busy: bool) -> None:
        self._condition.is_busy = is_busy
        self._condition.update()


def _admit_all(running: Running, command: Command, argv: list[bytes]) -> None:
    """Admit each call, until there is an `Admission`."""


def _do_nothing() -> None:
    """For databases without sockets: while a script runs, no client can be answered."""


def _as_error(failure: Failure, script: CompiledScript) -> CommandError:
    message, source, line, is_counted = failure
    if source is None or line is None:
        source = b"@user_function" if script.is_function else b"@user_script"
        line = script.last_return
    text = (c_string(message), script.name, source, line)
    error = CommandError(b"%s script: %s, on %s:%d." % text)
    error.is_counted = is_counted
    return error
