"""Connection commands: who the client is and how it talks."""

from holdfast.commands.table import command
from holdfast.errors import CommandError
from holdfast.resp import PONG, Reply
from holdfast.server.session import Session


@command("ping", -1, "fast", group="connection", since="1.0.0", categories="connection")
def ping(session: Session, argv: list[bytes]) -> Reply:
    """Answer PONG, or the argument."""
    if len(argv) > 2:
        raise CommandError("ERR wrong number of arguments for 'ping' command")
    return argv[1] if len(argv) == 2 else PONG
