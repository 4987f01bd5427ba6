"""The part of the server that its sessions use. `Engine` is the only subclass.

So sessions, and the features above them, need not know the engine itself.
"""

import random
from collections import deque

from holdfast.clock import Clock
from holdfast.commands.table import Command
from holdfast.resp import Reply
from holdfast.server.auth.acl import User
from holdfast.server.config.config import Config
from holdfast.server.sessions.session import Outgoing, Session, Waiter
from holdfast.store.memory.keyspace import Keyspace


class SessionHost:
    def __init__(
        self, keyspace: Keyspace, config: Config, clock: Clock, rng: random.Random
    ) -> None:
        self.keyspace = keyspace
        self.config = config
        self.clock = clock
        self.rng = rng
        self.outgoing = Outgoing()
        self.default_user: User  # the user of sessions that have not signed in
        self.sessions: dict[int, Session] = {}  # all connected sessions, by id
        self.runnable: deque[Session] = deque()  # sessions with commands to run, the next one first
        self.run_first = 0  # so many of them have a short request and run before the others
        # Whether turns take long, so that clients with short requests have to run first.
        self.has_long_turns = False
        # The session of the running command, if `Admission` has checked it.
        self.running: Session | None = None
        self.now_s = clock.monotonic_s()  # at the last tick: exact enough for idle times
        self._session_ids = 0

    def next_session_id(self) -> int:
        self._session_ids += 1
        return self._session_ids

    def refresh_clock(self) -> None:
        now_ms = self.clock.now_ms()
        self.keyspace.now_ms = now_ms
        self.keyspace.now_s = now_ms // 1000

    def make_runnable(self, session: Session) -> None:
        """Let the commands of this session run at the end of the turn, after those of the sessions
        that came before."""
        if not session.is_runnable:
            session.is_runnable = True
            self.runnable.append(session)
            if not self.outgoing.is_scheduled:
                self.outgoing.schedule()

    def make_runnable_first(self, session: Session) -> None:
        """Let a short request run at the begin of the turn."""
        session.is_runnable = True
        self.runnable.appendleft(session)
        self.run_first += 1
        if not self.outgoing.is_scheduled:
            self.outgoing.schedule()

    # -- what the engine does -----------------------------------------------------------------

    def find_command(self, argv: list[bytes]) -> Command:
        """The command that an argv calls. Raises CommandError."""
        raise NotImplementedError

    def work_off(self, session: Session) -> None:
        """Run kept commands of a session, for the time of one share at most."""
        raise NotImplementedError

    def unblock(self, waiter: Waiter, result: Reply) -> bool:
        """Answer a client that waits. Returns False if it no longer waits."""
        raise NotImplementedError

    def disconnected(self, session: Session, why: str = "closed by this server") -> None:
        """Forget a client that has gone: its wait, its watched keys and its subscriptions."""
        raise NotImplementedError
