"""A command that scripts call: it is looked up once by its name, then run and counted."""

from typing import TYPE_CHECKING, Any, Final, final

from holdfast.commands.context import Block
from holdfast.commands.table import Command
from holdfast.errors import CommandError
from holdfast.resp import Reply
from holdfast.scripting.script import Failure, Killed
from holdfast.server.features.latency import FAST_NS, Stats

if TYPE_CHECKING:
    from holdfast.server.scripts.scripts import Scripts

WRONG_ARITY = CommandError("ERR Wrong number of args calling Redis command from script")

# Levels: the commands that a script may call without admission.
NOTHING: Final = 0  # because a feature must see each command, or a rule may forbid it
READS: Final = 1
ALL: Final = 2

INT_MAX: Final = (1 << 31) - 1


@final
class ScriptCommand:
    """A command that scripts call: admitted, called and counted."""

    __slots__ = ("_command", "_invoker", "_opens", "_scripts", "_stats", "name")

    def __init__(self, scripts: "Scripts", name: bytes, command: Command, stats: Stats) -> None:
        self.name = name
        self._scripts = scripts
        self._command = command
        self._invoker = scripts.invoker
        self._opens = ALL if command.is_write or "may_replicate" in command.flags else READS
        self._stats = stats

    @property
    def quick(self) -> tuple[Any, ...] | None:
        """For the gate, which calls the handler by itself if the command needs no admission: the
        handler, `ended` for calls that fail or are slow, the tally that counts the other calls, the
        bounds of the number of arguments, and the level of the command. See Callee."""
        command = self._command
        if "blocking" in command.flags:
            return None  # a script may get another reply than a client
        from holdfast.scripting.sandbox import GATE

        if self._stats.tally is None:
            self._stats.tally = GATE.Tally()
        most = min(command.max_args, INT_MAX)
        return command.handler, self.ended, self._stats.tally, command.min_args, most, self._opens

    def call(self, argv: list[bytes]) -> Reply:
        scripts, command, stats = self._scripts, self._command, self._stats
        session, running = scripts.session, scripts.running
        assert session is not None
        assert running is not None
        try:
            if not command.min_args <= len(argv) <= command.max_args:
                raise WRONG_ARITY
            if scripts.open_to < self._opens:
                scripts.admit(running, command, argv)
        except CommandError as error:
            stats.rejected += 1
            scripts.failed(error)
            raise
        result = self._invoker.timed(session, command, argv, stats)
        if type(result) is not CommandError:
            self._check_time(self._invoker.elapsed_ns)
        if scripts.open_to == NOTHING:
            scripts.ran(command, argv)
        if type(result) is CommandError:
            raise result
        return result.when_denied if type(result) is Block else result

    def ended(self, error: BaseException | None, elapsed_ns: int) -> None:
        """Count a call that the gate has made but does not count. It does the same as
        `Invoker.timed`."""
        self._stats.record(elapsed_ns)
        if error is not None:
            self._invoker.count_failure(self._stats, error)
        else:
            self._check_time(elapsed_ns)

    def _check_time(self, elapsed_ns: int) -> None:
        """After a slow call, check whether the script has to end. The hook in Lua counts only
        instructions, so without this check a few slow calls could take any time."""
        if elapsed_ns >= FAST_NS and (reason := self._scripts.tick()) is not None:
            raise Killed(Failure(reason, None, None))
