"""A command as scripts call it: looked up once by its name, then run and counted."""

from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Final, final

from holdfast.commands.context import Block
from holdfast.commands.table import Command, Handler
from holdfast.errors import CommandError
from holdfast.resp import Reply
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
        self._opens = ALL if command.is_write else READS
        self._stats = stats
        # (Compiled code is at an attribute sooner than at a global, and a float takes no memory.)
        self._now_s: Callable[[], float] = perf_counter

    def run(self, argv: list[bytes]) -> Reply:
        scripts, stats = self._scripts, self._stats
        if not self._least <= len(argv) <= self._most:
            raise WRONG_ARITY
        if scripts.open_to < self._opens:
            scripts.admit(self._command, argv)
        started_s = self._now_s()
        try:
            result = self._handler(scripts.session, argv)
        except CommandError as error:
            stats.failed += 1
            scripts.failed(error)
            stats.record(int((self._now_s() - started_s) * 1e9))
            raise
        elapsed_ns = int((self._now_s() - started_s) * 1e9)
        stats.ns += elapsed_ns
        if elapsed_ns < FAST_NS:
            fast, slot = stats.fast, elapsed_ns >> SHIFT
            fast[slot] = fast[slot] + 1
        else:
            stats.record_slow(elapsed_ns)
            # The hook in Lua counts instructions: a few of these calls could take for ever.
            if (reason := scripts.tick()) is not None:
                raise Killed(Failure(reason, None, None))
        if scripts.open_to == NOTHING:
            scripts.ran(self._command, argv)
        return result.when_denied if type(result) is Block else result
