"""MONITOR. server/features/monitors.py shows the commands."""

from holdfast.commands.table import command
from holdfast.errors import CommandError
from holdfast.resp import OK, Reply
from holdfast.server.core.engine import engine_of
from holdfast.server.sessions.session import Session


@command("monitor", 1, "admin noscript loading stale", group="server", since="1.0.0")
def monitor(session: Session, argv: list[bytes]) -> Reply:
    """Show every command that the server runs, from now on.

    MONITOR
    """
    if session.in_exec:
        raise CommandError("ERR MONITOR isn't allowed for DENY BLOCKING client")
    if not engine_of(session).monitors.add(session):
        session.skip_this_reply()
    return OK
