"""Sessions that see every command (MONITOR), and the line they are shown."""

from holdfast.clock import Clock
from holdfast.commands.table import Command
from holdfast.resp import Simple
from holdfast.server.config_kinds import quoted
from holdfast.server.secrets import without_secrets
from holdfast.server.session import MONITORING, Session
from holdfast.server.unasked import Shared


class Monitors:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.sessions: dict[int, Session] = {}

    def add(self, session: Session) -> bool:
        """False when it is one already."""
        if session.id in self.sessions:
            return False
        self.sessions[session.id] = session
        session.gate |= MONITORING
        return True

    def remove(self, session: Session) -> None:
        self.sessions.pop(session.id, None)
        session.gate &= ~MONITORING

    def feed(self, session: Session, command: Command, argv: list[bytes]) -> None:
        """Show a command that has run. What administers the server is nobody's business."""
        if "skip_monitor" not in command.flags and "admin" not in command.flags:
            self.show(session, without_secrets(command.name, argv))

    def show(self, session: Session, argv: list[bytes]) -> None:
        now_us = self._clock.now_us()
        line = b"%d.%06d [%d %s] %s" % (
            now_us // 1_000_000,
            now_us % 1_000_000,
            session.db.index,
            session.address.encode(),
            b" ".join(quoted(arg) for arg in argv),
        )
        Shared(Simple(line)).send_to(*self.sessions.values())
