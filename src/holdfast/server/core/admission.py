"""Decides whether a command may run now: a command that a client sends, a command in EXEC, one that
is tried again for a client that waits, or one that a script calls.

The engine asks only if the session is in a special mode, or the server in an unusual condition.
Otherwise a command runs at once.
"""

import logging
from typing import final

from holdfast.commands.table import Command
from holdfast.errors import OUT_OF_MEMORY, CommandError
from holdfast.resp import QUEUED
from holdfast.server.core.users import Users
from holdfast.server.dispatch.invoke import Invoker
from holdfast.server.features.channels import PubSub
from holdfast.server.features.condition import Condition
from holdfast.server.features.monitors import Monitors
from holdfast.server.features.pause import Pause
from holdfast.server.features.tracking import Tracking
from holdfast.server.scripts.scripts import Running, Scripts
from holdfast.server.sessions.session import (
    IN_MULTI,
    MONITORING,
    NEEDS_AUTH,
    PRIMARY,
    RESTRICTED,
    SUBSCRIBED,
    TRACKING,
    Session,
)
from holdfast.server.sessions.session_host import SessionHost

log = logging.getLogger(__name__)

NO_AUTH = CommandError("NOAUTH Authentication required.")
NOT_IN_MULTI = CommandError("ERR Command not allowed inside a transaction")
NOT_WHILE_MONITORING = CommandError("ERR Replica can't interact with the keyspace")
READ_ONLY_SCRIPT = CommandError("ERR Write commands are not allowed from read-only scripts.")
# Commands that a subscriber may send in RESP2, where other replies would look like messages.
WHILE_SUBSCRIBED = frozenset(
    {"subscribe", "unsubscribe", "psubscribe", "punsubscribe", "ssubscribe", "sunsubscribe"}
    | {"ping", "quit", "reset"}
)


@final
class Admission:
    def __init__(
        self,
        host: SessionHost,
        condition: Condition,
        users: Users,
        scripts: Scripts,
        pause: Pause,
        pubsub: PubSub,
        tracking: Tracking,
        monitors: Monitors,
        invoker: Invoker,
    ) -> None:
        self._host = host
        self._condition = condition
        self._users = users
        self._scripts = scripts
        self._pause = pause
        self._pubsub = pubsub
        self._tracking = tracking
        self._monitors = monitors
        self._invoker = invoker
        scripts.admit = self.admit_in_script

    def admit(self, session: Session, command: Command, argv: list[bytes]) -> bool:
        """Whether a command of a client runs now. If not, it was queued or held. Raises
        CommandError if it is refused.

        The order of the checks is that of Redis: it decides which error a client gets.
        """
        condition = self._condition
        modes = session.modes
        flags = command.flags
        if session.kind == PRIMARY:
            return self._admit_of_primary(session, command, argv)
        if modes & SUBSCRIBED:
            self._pubsub.flush()
        if modes & NEEDS_AUTH and "no_auth" not in flags:
            raise NO_AUTH
        if modes & IN_MULTI and "no_multi" in flags:
            raise NOT_IN_MULTI
        if modes & RESTRICTED:
            self._users.check(session, command, argv)
        if condition.is_busy and "allow_busy" not in flags:
            raise self._scripts.busy_error
        if condition.refusal is not None and (
            session.has_flag(command, "write")
            or (condition.failure is not None and command.name == "ping")
        ):
            raise condition.refusal
        if condition.stale is not None and "stale" not in flags:
            raise condition.stale
        if (
            condition.failure is None
            and condition.deletion is not None
            and not self._host.keyspace.is_replica
            and not (condition.is_paused or self._scripts.running)
        ):
            condition.is_out_of_memory = not condition.deletion.make_room()
            if condition.is_out_of_memory and (
                session.has_flag(command, "denyoom")
                or (modes & IN_MULTI and "no_multi_queue" not in flags)
            ):
                raise OUT_OF_MEMORY
        if modes & SUBSCRIBED and session.protocol == 2 and command.name not in WHILE_SUBSCRIBED:
            raise CommandError(
                f"ERR Can't execute '{command.name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING"
                " / QUIT / RESET are allowed in this context"
            )
        if modes & MONITORING and session.has_flag(command, "readonly", "write"):
            raise NOT_WHILE_MONITORING
        if self._pause.holds(session, command, argv):
            self._pause.hold(session, argv)
            return False
        if modes & IN_MULTI and "no_multi_queue" not in flags:
            queue(session, command, argv)
            return False
        self._host.running = session
        return True

    def _admit_of_primary(self, session: Session, command: Command, argv: list[bytes]) -> bool:
        """Admit a command of the primary: a replica does all that its primary has done."""
        if session.modes & IN_MULTI and "no_multi_queue" not in command.flags:
            queue(session, command, argv)
            return False
        self._host.running = session
        return True

    def admit_in_exec(self, session: Session, command: Command, argv: list[bytes]) -> None:
        """Check permissions again, because rules may have changed since the command was queued.
        Raises CommandError."""
        if session.modes & RESTRICTED:
            self._users.check_in_exec(session, command, argv)

    def may_serve(self, session: Session, command: Command) -> bool:
        """Whether a client that waits may be served now. If its command writes, it goes on waiting
        for as long as the server is read-only."""
        return self._condition.read_only is None or not session.has_flag(command, "write")

    @property
    def is_paused(self) -> bool:
        """Whether CLIENT PAUSE holds commands that write."""
        return self._condition.is_paused

    def admit_again(self, session: Session, command: Command, argv: list[bytes]) -> None:
        """Check permissions again, because rules may have changed since the client began to wait.
        Raises CommandError."""
        if session.modes & RESTRICTED:
            self._users.check(session, command, argv)

    def admit_in_script(self, running: Running, command: Command, argv: list[bytes]) -> None:
        """Check a command of a script. The script has the permissions of its caller, and its own
        flags may allow less. Raises CommandError."""
        condition, caller = self._condition, running.caller
        if not caller.user.is_unrestricted:
            session = self._scripts.session or caller  # a script may have selected a database
            self._users.check_in_script(caller, command, argv, session.db.index)
        if not running.may_write and (command.is_write or "may_replicate" in command.flags):
            raise READ_ONLY_SCRIPT  # PUBLISH, too
        if command.is_write:
            if condition.refusal is not None:
                raise condition.refusal
            if condition.is_out_of_memory and running.lacks_memory_for(command):
                raise OUT_OF_MEMORY

    def reject(
        self, session: Session, error: CommandError, command: Command | None, argv: list[bytes]
    ) -> None:
        """Answer a command that is refused. In a transaction, this makes EXEC fail."""
        if command is not None and command.name == "exec":
            session.reset_transaction()
            reason = error.message.removeprefix(b"ERR ")
            error = CommandError(b"EXECABORT Transaction discarded because of: " + reason)
            self._monitors.feed(session, command, argv)
        elif command is None and argv[0].lower() in (b"post", b"host:"):
            # An attacker made a browser send this; the next lines would be the attacker's commands.
            log.warning("%s sent HTTP: connection closed", session.address)
            session.abort()
            return
        elif session.multi is not None:
            session.multi_failed = True
        if session.modes & TRACKING:
            self._tracking.command_ended(session, command)
        self._invoker.error_stats[error.counted_as] += 1
        session.reply(error)


def queue(session: Session, command: Command, argv: list[bytes]) -> None:
    assert session.multi is not None
    if not (session.multi_failed or session.watch_broken):  # otherwise it will not run
        session.multi.append((command, argv))
    session.reply(QUEUED)
