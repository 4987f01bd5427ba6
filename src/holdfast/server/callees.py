"""A command as scripts call it: looked up once by its name, then run and counted."""

from time import perf_counter_ns
from typing import TYPE_CHECKING, Final, final

from holdfast.commands.context import Block
from holdfast.commands.table import Command, Handler
from holdfast.errors import CommandError
from holdfast.resp import Reply
from holdfast.scripting.calls import Callee
from holdfast.scripting.sandbox import Failure, Killed
from holdfast.server.latency import FAST_NS, SHIFT, Stats

if TYPE_CHECKING:
    from holdfast.server.scripts import Scripts

WRONG_ARITY = CommandError("ERR Wrong number of args calling Redis command from script")

# What a script may call without being asked.
NOTHING: Final = 0  # somebody wants to know of each command, or may forbid it
READS: Final = 1
ALL: Final = 2


@final
class Found(Callee):
    """A command that scripts call: what runs it, and what its arity allows."""

    __slots__ = (
        "_command",
        "_handler",
        "_least",
        "_most",
        "_now_ns",
        "_opens",
        "_scripts",
        "_stats",
    )

    def __init__(self, scripts: "Scripts", name: bytes, command: Command, stats: Stats) -> None:
        super().__init__(name)
        self._scripts = scripts
        self._command = command
        self._handler: Handler = command.handler
        self._least = command.min_args
        self._most = command.max_args
        self._opens = ALL if command.is_write else READS
        self._stats = stats
        self._now_ns = perf_counter_ns  # compiled code is at an attribute sooner than at a global

    def run(self, argv: list[bytes]) -> Reply:
        scripts, stats = self._scripts, self._stats
        if not self._least <= len(argv) <= self._most:
            raise WRONG_ARITY
        if scripts.open_to < self._opens:
            scripts.admit(self._command, argv)
        started_ns = self._now_ns()
        try:
            result = self._handler(scripts.session, argv)
        except CommandError as error:
            stats.failed += 1
            scripts.failed(error)
            stats.record(self._now_ns() - started_ns)
            raise
        elapsed_ns = self._now_ns() - started_ns
        stats.ns += elapsed_ns
        if elapsed_ns < FAST_NS:
            stats.fast[elapsed_ns >> SHIFT] += 1
        else:
            stats.record_slow(elapsed_ns)
            # The hook in Lua counts instructions: a few of these calls could take for ever.
            if (reason := scripts.tick()) is not None:
                raise Killed(Failure(reason, None, None))
        if scripts.open_to == NOTHING:
            scripts.ran(self._command, argv)
        return result.when_denied if type(result) is Block else result
