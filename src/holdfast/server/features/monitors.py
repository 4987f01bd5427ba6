"""Sessions that see every command (MONITOR), and the line that they get for each."""

from holdfast.clock import Clock
from holdfast.commands.table import Command
from holdfast.resp import Simple
from holdfast.server.config.secrets import without_secrets
from holdfast.server.config.value_kinds import quoted
from holdfast.server.features.channels import PubSub
from holdfast.server.sessions.out_of_band import Shared
from holdfast.server.sessions.session import MONITORING, Session


class Monitors:
    def __init__(self, clock: Clock, pubsub: PubSub) -> None:
        self._clock = clock
        self._pubsub = pubsub
        self.sessions: dict[int, Session] = {}

    def add(self, session: Session) -> bool:
        """Make a session a monitor. Returns False if it is one already."""
        if session.id in self.sessions:
            return False
        self.sessions[session.id] = session
        session.modes |= MONITORING
        return True

    def remove(self, session: Session) -> None:
        self.sessions.pop(session.id, None)
        session.modes &= ~MONITORING

    def feed(self, session: Session, command: Command, argv: list[bytes]) -> None:
        """Show a command that has run, unless it administers the server."""
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
        self._pubsub.send(Shared(Simple(line)), *self.sessions.values())
