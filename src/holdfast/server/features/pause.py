"""CLIENT PAUSE: which commands are held, of which sessions, until it ends."""

from collections.abc import Callable

from holdfast.clock import Timer
from holdfast.commands.table import Command
from holdfast.server.features.condition import Condition
from holdfast.server.sessions.session import MONITORING, Session
from holdfast.server.sessions.session_host import SessionHost

# Whether the script that a command runs may write by its flags; None: there are no flags.
DeclaredToWrite = Callable[[Command, list[bytes]], bool | None]


class Pause:
    def __init__(
        self, host: SessionHost, condition: Condition, declared_to_write: DeclaredToWrite
    ) -> None:
        self._host = host
        self._condition = condition
        self._declared_to_write = declared_to_write
        self._until_ms = 0
        self._writes_only = False
        self._timer: Timer | None = None
        self._held: dict[Session, None] = {}  # in the order in which they go on

    @property
    def is_on(self) -> bool:
        return self._until_ms > 0

    @property
    def held_count(self) -> int:
        """How many sessions wait for the end. For Redis they are blocked clients."""
        return len(self._held)

    def begin(self, timeout_ms: int, *, writes_only: bool) -> None:
        """Begin a pause. If one is in force, the later end and the stricter mode of both count."""
        now_ms = self._host.keyspace.now_ms
        if self.is_on:
            writes_only = writes_only and self._writes_only
        elif not timeout_ms:
            return
        self._until_ms = max(self._until_ms, now_ms + timeout_ms)
        self._writes_only = writes_only
        self._update()
        if self._timer is not None:
            self._timer.cancel()
        delay_s = (self._until_ms - now_ms) / 1000
        self._timer = self._host.clock.call_later(delay_s, self.end)

    def end(self) -> None:
        """Sessions that were held go on, first come, first served, at the end of this turn."""
        self._until_ms = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._host.keyspace.keeps_expired = False
        self._update()
        self._host.refresh_clock()
        held, self._held = self._held, {}
        for session in held:
            session.parked = False
            self._host.make_runnable(session)

    def _update(self) -> None:
        self._condition.is_paused = self.is_on
        self._condition.update()

    def holds(self, session: Session, command: Command, argv: list[bytes]) -> bool:
        """Monitors are not held: in Redis they count as replicas.

        From the first command on that is asked about, no command writes, so expired keys may stay.
        (The transaction that began the pause may write on.)"""
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
