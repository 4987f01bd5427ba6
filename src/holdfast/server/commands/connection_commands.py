"""Commands on the connection of a client: its user, protocol and database. CLIENT has its own
file."""

from holdfast.commands.args import parse_int
from holdfast.commands.table import command
from holdfast.errors import SYNTAX, CommandError
from holdfast.resp import OK, PONG, Reply, Simple
from holdfast.server.core.engine import engine_of
from holdfast.server.sessions.session import (
    NEEDS_AUTH,
    REPLIES_ON,
    REPLY_SKIPPED,
    SUBSCRIBED,
    Session,
    checked_name,
)

NO_PASSWORD_SET = CommandError(
    "ERR AUTH <password> called without any password configured for the default user."
    " Are you sure your configuration is correct?"
)
NOT_A_VERSION = CommandError("ERR Protocol version is not an integer or out of range")
NO_SUCH_PROTOCOL = CommandError("NOPROTO unsupported protocol version")
HELLO_NEEDS_AUTH = CommandError(
    "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH"
    " <user> <pass> option can be used to authenticate the client and select the RESP protocol"
    " version at the same time"
)
NO_SUCH_DATABASE = CommandError("ERR DB index is out of range")
NOT_A_C_INT = CommandError(
    "ERR value is out of range, value must between -2147483648 and 2147483647"
)

ALWAYS_ALLOWED = "noscript loading stale fast no_auth allow_busy"


@command("auth", -2, ALWAYS_ALLOWED, group="connection", since="1.0.0", categories="connection")
def auth(session: Session, argv: list[bytes]) -> Reply:
    """Sign in as a user.

    AUTH [username] password
    """
    if len(argv) > 3:
        raise SYNTAX
    users = engine_of(session).users
    if len(argv) == 2 and users.default.nopass:
        raise NO_PASSWORD_SET
    users.authenticate(session, argv, argv[1] if len(argv) == 3 else b"default", argv[-1])
    return OK


@command("hello", -1, ALWAYS_ALLOWED, group="connection", since="6.0.0", categories="connection")
def hello(session: Session, argv: list[bytes]) -> Reply:
    """Facts about the server; choose the protocol, authenticate and name the connection.

    HELLO [protover [AUTH username password] [SETNAME clientname]]
    """
    version = session.protocol
    if len(argv) > 1:
        version = parse_int(argv[1], NOT_A_VERSION)
        if version not in (2, 3):
            raise NO_SUCH_PROTOCOL
    credentials: tuple[bytes, bytes] | None = None
    name: bytes | None = None
    at = 2
    while at < len(argv):
        option = argv[at].upper()
        if option == b"AUTH" and at + 2 < len(argv):
            credentials = argv[at + 1], argv[at + 2]
            at += 3
        elif option == b"SETNAME" and at + 1 < len(argv):
            name = checked_name(argv[at + 1])
            at += 2
        else:
            raise CommandError(b"ERR Syntax error in HELLO option '%s'" % argv[at])
    if credentials is not None:
        engine_of(session).users.authenticate(session, argv, *credentials)
    if session.modes & NEEDS_AUTH:
        raise HELLO_NEEDS_AUTH
    if name is not None:
        session.name = name
    session.use_protocol(version)
    return {
        b"server": b"redis",
        b"version": engine_of(session).config.redis_version.encode(),
        b"proto": version,
        b"id": session.id,
        b"mode": b"standalone",
        b"role": b"replica" if engine_of(session).is_replica else b"master",
        b"modules": [],
    }


@command(
    "ping",
    -1,
    "fast",
    group="connection",
    since="1.0.0",
    categories="connection",
    tips=("request_policy:all_shards", "response_policy:all_succeeded"),
)
def ping(session: Session, argv: list[bytes]) -> Reply:
    """Answer PONG, or the argument.

    PING [message]
    """
    if len(argv) > 2:
        raise CommandError("ERR wrong number of arguments for 'ping' command")
    if session.modes & SUBSCRIBED and session.protocol == 2:
        return (b"pong", argv[1] if len(argv) == 2 else b"")
    return argv[1] if len(argv) == 2 else PONG


@command(
    "echo", 2, "loading stale fast", group="connection", since="1.0.0", categories="connection"
)
def echo(session: Session, argv: list[bytes]) -> Reply:
    """Answer the argument.

    ECHO message
    """
    return argv[1]


@command(
    "select", 2, "loading stale fast", group="connection", since="1.0.0", categories="connection"
)
def select(session: Session, argv: list[bytes]) -> Reply:
    """Choose the database that the following commands work on.

    SELECT index
    """
    index = parse_int(argv[1])
    if not -(1 << 31) <= index < 1 << 31:
        raise NOT_A_C_INT
    if not 0 <= index < len(session.keyspace.databases):
        raise NO_SUCH_DATABASE
    session.db = session.keyspace.databases[index]
    return OK


@command(
    "quit",
    -1,
    f"{ALWAYS_ALLOWED} no_multi_queue",
    group="connection",
    since="1.0.0",
    categories="connection",
)
def quit_(session: Session, argv: list[bytes]) -> Reply:
    """Close the connection, after the replies to all earlier commands.

    QUIT
    """
    session.hang_up()
    return OK


@command(
    "reset",
    1,
    f"{ALWAYS_ALLOWED} no_multi_queue",
    group="connection",
    since="6.2.0",
    categories="connection",
)
def reset(session: Session, argv: list[bytes]) -> Reply:
    """Bring the connection back to the state of a new one.

    RESET
    """
    engine_of(session).monitors.remove(session)
    engine_of(session).pubsub.forget(session)
    engine_of(session).tracking.end(session)
    session.db = session.keyspace.databases[0]
    session.use_protocol(2)
    engine_of(session).users.welcome(session)
    session.reset_transaction()
    session.name = b""
    session.drop_fieldsets()
    session.flags -= {"e", "T"}
    if session.reply_mode != REPLY_SKIPPED:
        session.reply_mode = REPLIES_ON
    return Simple(b"RESET")
