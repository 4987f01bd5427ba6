"""Before a command runs: whether it may, and now, and what is said if not.

Only of what is special: a session that is gated, a server that is.
"""

import logging
from typing import TYPE_CHECKING

from holdfast.commands.table import Command
from holdfast.errors import OUT_OF_MEMORY, CommandError
from holdfast.resp import QUEUED
from holdfast.server.session import (
    IN_MULTI,
    MONITORING,
    NEEDS_AUTH,
    RESTRICTED,
    SUBSCRIBED,
    TRACKING,
    Session,
)

if TYPE_CHECKING:
    from holdfast.server.engine import Engine

log = logging.getLogger(__name__)

NO_AUTH = CommandError("NOAUTH Authentication required.")
NOT_IN_MULTI = CommandError("ERR Command not allowed inside a transaction")
NOT_WHILE_MONITORING = CommandError("ERR Replica can't interact with the keyspace")
# What a client may say in RESP2 while it listens: a reply must not look like a message.
WHILE_SUBSCRIBED = frozenset(
    {"subscribe", "unsubscribe", "psubscribe", "punsubscribe", "ssubscribe", "sunsubscribe"}
    | {"ping", "quit", "reset"}
)


def admit(engine: "Engine", session: Session, command: Command, argv: list[bytes]) -> bool:
    """Whether the command runs now. If not it was queued, held, or this raises.

    The order of these checks is Redis's, and clients can tell.
    """
    gate = session.gate
    flags = command.flags
    if gate & SUBSCRIBED:
        engine.pubsub.flush()
    if gate & NEEDS_AUTH and "no_auth" not in flags:
        raise NO_AUTH
    if gate & IN_MULTI and "no_multi" in flags:
        raise NOT_IN_MULTI
    if gate & RESTRICTED:
        engine.users.check(session, command, argv)
    if engine.scripts.is_busy and "allow_busy" not in flags:
        raise engine.scripts.busy_error
    if engine.refusal is not None and (
        session.has_flag(command, "write")
        or (engine.failure is not None and command.name == "ping")
    ):
        raise engine.refusal
    if (
        engine.failure is None
        and engine.deletion is not None
        and not (engine.pause.is_on or engine.scripts.running)
    ):
        engine.is_out_of_memory = not engine.deletion.make_room()
        if engine.is_out_of_memory and (
            session.has_flag(command, "denyoom")
            or (gate & IN_MULTI and "no_multi_queue" not in flags)
        ):
            raise OUT_OF_MEMORY
    if gate & SUBSCRIBED and session.protocol == 2 and command.name not in WHILE_SUBSCRIBED:
        raise CommandError(
            f"ERR Can't execute '{command.name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING"
            " / QUIT / RESET are allowed in this context"
        )
    if gate & MONITORING and session.has_flag(command, "readonly", "write"):
        raise NOT_WHILE_MONITORING
    if engine.pause.holds(session, command, argv):
        engine.pause.hold(session, argv)
        return False
    if gate & IN_MULTI and "no_multi_queue" not in flags:
        queue(session, command, argv)
        return False
    engine.running = session
    return True


def queue(session: Session, command: Command, argv: list[bytes]) -> None:
    assert session.multi is not None
    if not (session.multi_failed or session.watch_broken):  # else it will not run
        session.multi.append((command, argv))
    session.reply(QUEUED)


def reject(
    engine: "Engine",
    session: Session,
    error: CommandError,
    command: Command | None,
    argv: list[bytes],
) -> None:
    """Answer a command that does not run. It spoils the transaction it was meant for."""
    if command is not None and command.name == "exec":
        session.reset_transaction()
        reason = error.message.removeprefix(b"ERR ")
        error = CommandError(b"EXECABORT Transaction discarded because of: " + reason)
        engine.monitors.feed(session, command, argv)
    elif command is None and argv[0].lower() in (b"post", b"host:"):
        # A browser was made to send this; what follows are a stranger's commands.
        log.warning("%s sent HTTP: connection closed", session.address)
        session.abort()
        return
    elif session.multi is not None:
        session.multi_failed = True
    if session.gate & TRACKING:
        engine.tracking.said(session, command)
    engine.error_stats[error.counted_as] += 1
    session.reply(error)
