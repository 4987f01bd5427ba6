"""The one place that calls a handler, times it and counts failures.

Commands of clients, commands in EXEC, commands that are tried again for a client that waits, and
commands that scripts call all come here. While there are replicas of Redis's kind, `EffectLog.run`
calls the handler between `invoke` and it. scripting/_gate.c has a copy in C, for scripts;
tests/scripting/test_gate_counts.py compares the two. While there are replicas, scripts do not use
that copy.
"""

import logging
from collections import Counter
from collections.abc import Callable
from typing import final

from holdfast.commands.context import Result
from holdfast.commands.table import Command
from holdfast.errors import INTERNAL, CommandError, HalfDoneError
from holdfast.server.features.latency import Stats
from holdfast.server.features.slowlog import SlowLog
from holdfast.server.primary.effect_log import EffectLog
from holdfast.server.sessions.session import Session
from holdfast.store.file.opening import FileError
from holdfast.store.memory.keyspace import Keyspace
from holdfast.store.memory.loads import NotLoadedError

log = logging.getLogger(__name__)

# Session, command, argv, the nanoseconds that it took, the bytes of the reply (0 in EXEC).
Observer = Callable[[Session, Command, list[bytes], int, int], None]


@final
class Invoker:
    def __init__(
        self, keyspace: Keyspace, is_durable: bool, slowlog: SlowLog, now_ns: Callable[[], int]
    ) -> None:
        self._keyspace = keyspace
        self._is_durable = is_durable
        self._now_ns = now_ns  # compiled code reads an attribute faster than a global
        self.slowlog = slowlog
        self.slow_ns = 0  # see live_settings.py
        # The duration from which on `look_at` is called: `slow_ns`, or 0 while there are observers.
        self.slowlog_ns = 0
        self.observers: list[Observer] = []
        self.error_stats: Counter[bytes] = Counter()
        self.elapsed_ns = 0  # of the last `timed`
        self.effects: EffectLog | None = None  # while there are replicas

    def invoke(self, session: Session, command: Command, argv: list[bytes], stats: Stats) -> Result:
        """Call the handler. A CommandError that it raises is its reply; other exceptions pass: see
        `reply_to_bug`."""
        try:
            if self.effects is not None:
                return self.effects.run(session, command, argv)
            return command.handler(session, argv)
        except CommandError as error:
            self.count_failure(stats, error)
            return error.with_traceback(None)  # see CommandError
        except NotLoadedError:
            raise  # the command will run again, and is counted then
        except Exception as error:
            self.count_failure(stats, error)
            raise

    def timed(
        self,
        session: Session,
        command: Command,
        argv: list[bytes],
        stats: Stats,
        *,
        again: bool = False,
    ) -> Result:
        """`invoke`, and count the time that it took. If a command is tried again, this is no second
        call, but its time counts. (The engine times commands of clients by itself, because it reads
        the clock once for each command, not twice.)"""
        started_ns = self._now_ns()
        try:
            return self.invoke(session, command, argv, stats)
        finally:
            self.elapsed_ns = elapsed_ns = self._now_ns() - started_ns
            if again:
                stats.ns += elapsed_ns
            else:
                stats.record(elapsed_ns)

    def answer(
        self,
        session: Session,
        command: Command,
        argv: list[bytes],
        stats: Stats,
        *,
        again: bool = False,
    ) -> Result:
        """`timed`, with a reply if the handler has a bug, and with the slow log. Raises FileError
        and HalfDoneError: they undo all of EXEC, not one command in it."""
        changes_before = self._keyspace.changes
        try:
            return self.timed(session, command, argv, stats, again=again)
        except Exception as error:  # noqa: BLE001 - a bug must not take the server down
            return self.reply_to_bug(command, error, changes_before)
        finally:
            if self.elapsed_ns >= self.slowlog_ns:
                self.look_at(session, command, argv, self.elapsed_ns)

    def count_failure(self, stats: Stats, error: BaseException) -> None:
        stats.failed += 1
        if isinstance(error, CommandError) and not error.is_counted:
            self.error_stats[error.counted_as] += 1

    def reply_to_bug(self, command: Command, error: Exception, changes_before: int) -> CommandError:
        """The reply to a command whose handler has a bug. Raises FileError or HalfDoneError if
        changes have to be undone. (A store that is only in memory cannot undo them.)"""
        if isinstance(error, (FileError, HalfDoneError)):
            raise error
        log.error("%s failed", command.name, exc_info=error)
        if self._keyspace.changes > changes_before and self._is_durable:
            raise HalfDoneError(f"{command.name} failed half way, see the log") from error
        return INTERNAL

    def look_at(
        self,
        session: Session,
        command: Command,
        argv: list[bytes],
        elapsed_ns: int,
        reply_bytes: int = 0,
    ) -> None:
        """Show a command that ran to the observers, and to the slow log if it took long."""
        for observer in self.observers:
            observer(session, command, argv, elapsed_ns, reply_bytes)
        if elapsed_ns >= self.slow_ns and "skip_slowlog" not in command.flags:
            now_s, took_us = self._keyspace.now_s, elapsed_ns // 1000
            self.slowlog.add(command.name, argv, now_s, took_us, session.address, session.name)
