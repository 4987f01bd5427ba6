"""A command as scripts call it: looked up once by its name, then run and counted."""

from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, final

from holdfast.commands.context import Block
from holdfast.commands.table import Command, Handler
from holdfast.errors import CommandError
from holdfast.resp import Reply
from holdfast.scripting.sandbox import GATE, Failure, Killed
from holdfast.server.latency import FAST_NS, Stats

if TYPE_CHECKING:
    from holdfast.server.scripts import Scripts

WRONG_ARITY = CommandError("ERR Wrong number of args calling Redis command from script")

# What a script may call without being asked.
NOTHING: Final = 0  # somebody wants to know of each command, or may forbid it
READS: Final = 1
ALL: Final = 2

INT_MAX: Final = (1 << 31) - 1


@final
class Found:
    """A command that scripts call: what runs it, and what its arity allows."""

    __slots__ = (
        "_command",
        "_handler",
        "_least",
        "_most",
        "_now_s",
        "_opens",
        "_scripts",
        "_stats",
        "name",
    )

    def __init__(self, scripts: "Scripts", name: bytes, command: Command, stats: Stats) -> None:
        self.name = name
        self._scripts = scripts
        self._command = command
        self._handler: Handler = command.handler
        self._least = command.min_args
        self._most = command.max_args
        self._opens = ALL if command.is_write or "may_replicate" in command.flags else READS
        self._stats = stats
        # (Compiled code is at an attribute sooner than at a global, and a float takes no memory.)
        self._now_s: Callable[[], float] = perf_counter

    @property
    def quick(self) -> tuple[Any, ...] | None:
        """For the gate, which runs the handler by itself where nobody need be asked: who is told of
        calls that fail or are slow, and what counts the others. See Callee."""
        if "blocking" in self._command.flags:
            return None  # replies are not always what a script gets to see
        if self._stats.tally is None:
            self._stats.tally = GATE.Tally()
        most = min(self._most, INT_MAX)
        return self._handler, self.ended, self._stats.tally, self._least, most, self._opens

    def run(self, argv: list[bytes]) -> Reply:
        scripts = self._scripts
        try:
            if not self._least <= len(argv) <= self._most:
                raise WRONG_ARITY
            if scripts.open_to < self._opens:
                scripts.admit(self._command, argv)
        except CommandError as error:
            self._stats.rejected += 1
            scripts.failed(error)
            raise
        started_s = self._now_s()
        try:
            result = self._handler(scripts.session, argv)
        except CommandError as error:
            self.ended(error, int((self._now_s() - started_s) * 1e9))
            if scripts.open_to == NOTHING:
                scripts.ran(self._command, argv)
            raise
        self.ended(None, int((self._now_s() - started_s) * 1e9))
        if scripts.open_to == NOTHING:
            scripts.ran(self._command, argv)
        return result.when_denied if type(result) is Block else result

    def ended(self, error: BaseException | None, elapsed_ns: int) -> None:
        stats, scripts = self._stats, self._scripts
        stats.record(elapsed_ns)
        if isinstance(error, CommandError):
            stats.failed += 1
            scripts.failed(error)
        # The hook in Lua counts instructions: a few of these calls could take for ever.
        elif elapsed_ns >= FAST_NS and (reason := scripts.tick()) is not None:
            raise Killed(Failure(reason, None, None))
