"""Pauses: the commands that they hold, and the sessions that wait for their ends.

CLIENT PAUSE, FAILOVER and SHUTDOWN each have a pause of their own. The end of one leaves the others
in force, as in Redis.
"""

import enum
from collections.abc import Callable
from typing import NamedTuple

from holdfast.clock import Timer
from holdfast.commands.table import Command
from holdfast.server.features.condition import Condition
from holdfast.server.sessions.session import MONITORING, Session
from holdfast.server.sessions.session_host import SessionHost

# Whether the script that a command runs may write, by its flags. None if it has no flags.
DeclaredToWrite = Callable[[Command, list[bytes]], bool | None]


class Purpose(enum.Enum):
    CLIENT_PAUSE = enum.auto()
    FAILOVER = enum.auto()
    SHUTDOWN = enum.auto()


class OnePause(NamedTuple):
    until_ms: int
    writes_only: bool
    timer: Timer | None  # None: it lasts until `Pause.end`


class Pause:
    def __init__(
        self, host: SessionHost, condition: Condition, declared_to_write: DeclaredToWrite
    ) -> None:
        self._host = host
        self._condition = condition
        self._declared_to_write = declared_to_write
        self._pauses: dict[Purpose, OnePause] = {}
        self._writes_only = False  # whether all pauses hold only commands that write
        self._held: dict[Session, None] = {}  # in the order in which they go on

    @property
    def is_on(self) -> bool:
        return bool(self._pauses)

    @property
    def held_count(self) -> int:
        """How many sessions wait for the end. Redis counts them as blocked clients."""
        return len(self._held)

    def begin(self, timeout_ms: int, *, writes_only: bool) -> None:
        """Begin the pause of CLIENT PAUSE. If there is one already, the later end and the stricter
        mode of both count."""
        until_ms = self._host.keyspace.now_ms + timeout_ms
        old = self._pauses.get(Purpose.CLIENT_PAUSE)
        if old is not None:
            until_ms = max(until_ms, old.until_ms)
            writes_only = writes_only and old.writes_only
            if old.timer is not None:
                old.timer.cancel()
        elif not timeout_ms:
            return
        delay_s = (until_ms - self._host.keyspace.now_ms) / 1000
        timer = self._host.clock.call_later(delay_s, self.end)
        self._pauses[Purpose.CLIENT_PAUSE] = OnePause(until_ms, writes_only, timer)
        self._update()

    def hold_writes(self, purpose: Purpose) -> None:
        """Begin a pause for this purpose, which holds commands that write until `end`."""
        self._pauses[purpose] = OnePause(0, True, None)
        self._update()

    def end(self, purpose: Purpose = Purpose.CLIENT_PAUSE) -> None:
        """End a pause. The sessions that were held continue at the end of this turn, in the order
        in which they were held. Those that another pause holds are then held again, in this
        order."""
        pause = self._pauses.pop(purpose, None)
        if pause is not None and pause.timer is not None:
            pause.timer.cancel()
        self._host.keyspace.keeps_expired = False
        self._update()
        self._host.refresh_clock()
        held, self._held = self._held, {}
        for session in held:
            session.parked = False
            self._host.make_runnable(session)

    def _update(self) -> None:
        self._writes_only = all(pause.writes_only for pause in self._pauses.values())
        self._condition.is_paused = self.is_on
        self._condition.update()

    def holds(self, session: Session, command: Command, argv: list[bytes]) -> bool:
        """Whether a command is held. Commands of monitors are not: in Redis they count as replicas.

        From the first call during a pause on, no command writes, so expired keys may stay. (The
        transaction that began the pause may still write.)"""
        if not self.is_on:
            return False
        self._host.keyspace.keeps_expired = True
        return not (
            session.modes & MONITORING
            or (self._writes_only and not self._may_write(session, command, argv))
        )

    def _may_write(self, session: Session, command: Command, argv: list[bytes]) -> bool:
        if command.name == "exec":
            return any(self._may_write(session, *queued) for queued in session.multi or ())
        declared = self._declared_to_write(command, argv)
        if declared is None:
            return session.has_flag(command, "write", "may_replicate")
        return declared

    def hold(self, session: Session, argv: list[bytes]) -> None:
        session.parked = True
        session.backlog.appendleft(argv)
        self._held[session] = None

    def forget(self, session: Session) -> None:
        self._held.pop(session, None)
