"""CLIENT PAUSE: which commands are held, and whose, until it ends."""

from typing import TYPE_CHECKING

from holdfast.clock import Timer
from holdfast.commands.table import Command
from holdfast.server.session import MONITORING, Session

if TYPE_CHECKING:
    from holdfast.server.engine import Engine


class Pause:
    def __init__(self, engine: "Engine") -> None:
        self._engine = engine
        self._until_ms = 0
        self._writes_only = False
        self._timer: Timer | None = None
        self._held: dict[Session, None] = {}  # in the order in which they go on

    @property
    def is_on(self) -> bool:
        return self._until_ms > 0

    def begin(self, timeout_ms: int, *, writes_only: bool) -> None:
        """What is longer or stricter wins over what is in force."""
        now_ms = self._engine.keyspace.now_ms
        if self.is_on:
            writes_only = writes_only and self._writes_only
        elif not timeout_ms:
            return
        self._until_ms = max(self._until_ms, now_ms + timeout_ms)
        self._writes_only = writes_only
        self._engine.update_gate()
        if self._timer is not None:
            self._timer.cancel()
        delay_s = (self._until_ms - now_ms) / 1000
        self._timer = self._engine.clock.call_later(delay_s, self.end)

    def end(self) -> None:
        """Those who were held go on, first come, first served, at the end of this turn."""
        engine = self._engine
        self._until_ms = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        engine.update_gate()
        engine.refresh_clock()
        held, self._held = self._held, {}
        for session in held:
            session.parked = False
            engine.make_runnable(session)

    def holds(self, session: Session, command: Command, argv: list[bytes]) -> bool:
        """Whoever monitors is not held, as with Redis, where they count as replicas."""
        return self.is_on and not (
            session.gate & MONITORING
            or (self._writes_only and not self._may_write(session, command, argv))
        )

    def _may_write(self, session: Session, command: Command, argv: list[bytes]) -> bool:
        declared = self._engine.scripts.declared_to_write(command, argv)
        if declared is None:
            return session.has_flag(command, "write", "may_replicate")
        return declared

    def hold(self, session: Session, argv: list[bytes]) -> None:
        session.parked = True
        session.backlog.appendleft(argv)
        self._held[session] = None

    def forget(self, session: Session) -> None:
        self._held.pop(session, None)
