"""CLIENT: the connections of this server, shown to clients and controlled by them.

Tracking keys is in tracking_commands.py.
"""

from holdfast.commands.args import parse_int
from holdfast.commands.table import command, container, help_reply
from holdfast.errors import SYNTAX, CommandError
from holdfast.resp import OK, Reply, Verbatim
from holdfast.server.commands.client_filter import FILTERS, ClientFilter
from holdfast.server.core.engine import engine_of
from holdfast.server.features.client_line import describe
from holdfast.server.sessions.session import (
    REPLIES_OFF,
    REPLIES_ON,
    REPLY_SKIP_NEXT,
    Session,
    checked_attribute,
    checked_name,
)

ANYONE = "noscript loading stale"
ADMIN = "admin noscript loading stale"

NO_SUCH_CLIENT = CommandError("ERR No such client")
BAD_CLIENT_ID = CommandError("ERR Invalid client ID")
BAD_PAUSE_MODE = CommandError("ERR CLIENT PAUSE mode must be WRITE or ALL")
PAUSE_NOT_A_NUMBER = CommandError("ERR timeout is not an integer or out of range")
PAUSE_NEGATIVE = CommandError("ERR timeout is negative")
BAD_UNBLOCK_REASON = CommandError("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")
UNBLOCKED = CommandError("UNBLOCKED client unblocked via CLIENT UNBLOCK")

container("client", -2, "", "Look after connections.", group="connection", since="2.4.0")


def _has_filters(options: list[bytes]) -> bool:
    """Whether a filter follows the numbers of `ID client-id [client-id ...]`."""
    return any(word.upper().removeprefix(b"NOT-") in FILTERS for word in options[2:])


def _switch(word: bytes) -> bool:
    try:
        return {b"on": True, b"off": False}[word.lower()]
    except KeyError:
        raise SYNTAX from None


def _too_many_arguments(argv: list[bytes]) -> CommandError:
    return CommandError(
        b"ERR unknown subcommand or wrong number of arguments for '%s'. Try CLIENT HELP."
        % argv[1][:128]
    )


# -- this connection ------------------------------------------------------------------------------


@command("client|id", 2, ANYONE, group="connection", since="5.0.0", categories="connection")
def id_(session: Session, argv: list[bytes]) -> Reply:
    """The number of this connection. No other connection ever gets the same number.

    CLIENT ID
    """
    return session.id


@command("client|getname", 2, ANYONE, group="connection", since="2.6.9", categories="connection")
def getname(session: Session, argv: list[bytes]) -> Reply:
    """The name given to this connection.

    CLIENT GETNAME
    """
    return session.name or None


@command("client|setname", 3, ANYONE, group="connection", since="2.6.9", categories="connection")
def setname(session: Session, argv: list[bytes]) -> Reply:
    """Name this connection; an empty name removes the name.

    CLIENT SETNAME connection-name
    """
    session.name = checked_name(argv[2])
    return OK


@command("client|setinfo", 4, ANYONE, group="connection", since="7.2.0", categories="connection")
def setinfo(session: Session, argv: list[bytes]) -> Reply:
    """Say which client library this is.

    CLIENT SETINFO LIB-NAME libname | LIB-VER libver
    """
    attribute = {b"LIB-NAME": "lib_name", b"LIB-VER": "lib_ver"}.get(argv[2].upper())
    if attribute is None:
        raise CommandError(b"ERR Unrecognized option '%s'" % argv[2])
    setattr(session, attribute, checked_attribute(argv[3], argv[2]))
    return OK


def _line(session: Session, running: list[bytes] | None) -> bytes:
    engine = engine_of(session)
    return describe(session, engine.pubsub, engine.tracking, running)


@command(
    "client|info",
    2,
    ANYONE,
    group="connection",
    since="6.2.0",
    categories="connection",
    tips=("nondeterministic_output",),
)
def info(session: Session, argv: list[bytes]) -> Reply:
    """This connection's line of CLIENT LIST.

    CLIENT INFO
    """
    return Verbatim(_line(session, argv) + b"\n")


@command(
    "client|capa",
    -3,
    "noscript loading stale allow_busy valkey",
    group="connection",
    since="8.0.0",
    categories="connection",
)
def capa(session: Session, argv: list[bytes]) -> Reply:
    """Say what this client can do. REDIRECT has no effect: this server redirects no client.

    CLIENT CAPA capability [capability ...]
    """
    if b"REDIRECT" in [word.upper() for word in argv[2:]]:
        session.capabilities = "r"
    return OK


@command("client|reply", 3, ANYONE, group="connection", since="3.2.0", categories="connection")
def reply(session: Session, argv: list[bytes]) -> Reply:
    """Stop, skip or resume the answers to this connection's commands.

    CLIENT REPLY ON | OFF | SKIP
    """
    mode = {b"ON": REPLIES_ON, b"OFF": REPLIES_OFF, b"SKIP": REPLY_SKIP_NEXT}.get(argv[2].upper())
    if mode is None:
        raise SYNTAX
    if mode != REPLY_SKIP_NEXT or session.reply_mode != REPLIES_OFF:
        session.reply_mode = mode
    return OK


@command("client|no-evict", 3, ADMIN, group="connection", since="7.0.0", categories="connection")
def no_evict(session: Session, argv: list[bytes]) -> Reply:
    """Spare this connection when memory for clients runs out.

    CLIENT NO-EVICT ON | OFF
    """
    _set_flag(session, "e", _switch(argv[2]))
    return OK


@command("client|no-touch", 3, ANYONE, group="connection", since="7.2.0", categories="connection")
def no_touch(session: Session, argv: list[bytes]) -> Reply:
    """Keep this connection's commands from changing the idle time of keys.

    CLIENT NO-TOUCH ON | OFF
    """
    _set_flag(session, "T", _switch(argv[2]))
    return OK


def _set_flag(session: Session, flag: str, on: bool) -> None:
    (session.flags.add if on else session.flags.discard)(flag)


# -- other connections ----------------------------------------------------------------------------


@command(
    "client|list",
    -2,
    ADMIN,
    group="connection",
    since="2.4.0",
    categories="connection",
    tips=("nondeterministic_output",),
)
def list_(session: Session, argv: list[bytes]) -> Reply:
    """A line about each connection.

    CLIENT LIST [TYPE NORMAL | MASTER | REPLICA | PUBSUB] [ID client-id [client-id ...]]
        [USER username] [ADDR ip:port] [LADDR ip:port] [SKIPME YES | NO] [MAXAGE maxage]
        [IDLE seconds] [NAME name] [LIB-NAME name] [LIB-VER version] [DB index] [IP ip]
        [FLAGS letters] [CAPA letters]

    All filters but SKIPME, MAXAGE and IDLE also exist with NOT- before them.
    """
    known = engine_of(session).sessions
    options = argv[2:]
    if len(options) > 1 and options[0].upper() == b"ID" and not _has_filters(options):
        ids = [parse_int(arg, BAD_CLIENT_ID) for arg in options[1:]]
        found = [known[client_id] for client_id in ids if client_id in known]
    else:
        wanted = ClientFilter(options, engine_of(session), skips_me=False)
        found = [other for other in known.values() if wanted.lets_pass(other, session)]
    lines = [_line(other, argv if other is session else None) for other in found]
    return Verbatim(b"".join([line + b"\n" for line in lines]))


@command("client|kill", -3, ADMIN, group="connection", since="2.4.0", categories="connection")
def kill(session: Session, argv: list[bytes]) -> Reply:
    """Close connections: the one of that address, or all that pass every filter.

    CLIENT KILL ip:port | [ID client-id [client-id ...]]
    [TYPE NORMAL | MASTER | SLAVE | REPLICA | PUBSUB]
    [USER username] [ADDR ip:port] [LADDR ip:port] [SKIPME YES | NO] [MAXAGE maxage]

    The other filters of CLIENT LIST are possible, too.
    """
    is_old_form = len(argv) == 3
    options = [b"ADDR", argv[2], b"SKIPME", b"no"] if is_old_form else argv[2:]
    wanted = ClientFilter(options, engine_of(session), skips_me=True)
    doomed = [
        other for other in engine_of(session).sessions.values() if wanted.lets_pass(other, session)
    ]
    if is_old_form and not doomed:
        raise NO_SUCH_CLIENT
    for other in doomed:
        if other is session:
            session.hang_up()
        else:
            engine_of(session).disconnected(other)
            other.sink.close()
    return OK if is_old_form else len(doomed)


@command("client|unblock", -3, ADMIN, group="connection", since="5.0.0", categories="connection")
def unblock(session: Session, argv: list[bytes]) -> Reply:
    """End the wait of a connection, as if its timeout had ended, or with an error.

    CLIENT UNBLOCK client-id [TIMEOUT | ERROR]
    """
    if len(argv) > 4:
        raise _too_many_arguments(argv)
    reason = argv[3].upper() if len(argv) == 4 else b"TIMEOUT"
    if reason not in (b"TIMEOUT", b"ERROR"):
        raise BAD_UNBLOCK_REASON
    engine = engine_of(session)
    target = engine.sessions.get(parse_int(argv[2]))
    waiter = target.waiter if target is not None else None
    if waiter is None:
        return 0
    if reason == b"ERROR":
        engine.invoker.count_failure(engine.commands.stats_of(waiter.command), UNBLOCKED)
        engine.blocking.unblock(waiter, UNBLOCKED)
    else:
        engine.blocking.unblock(waiter, waiter.block.on_timeout)
    return 1


@command("client|pause", -3, ADMIN, group="connection", since="2.9.50", categories="connection")
def pause(session: Session, argv: list[bytes]) -> Reply:
    """Hold all commands, or those that write, for some time.

    CLIENT PAUSE timeout [WRITE | ALL]
    """
    if len(argv) > 4:
        raise _too_many_arguments(argv)
    mode = argv[3].upper() if len(argv) == 4 else b"ALL"
    if mode not in (b"WRITE", b"ALL"):
        raise BAD_PAUSE_MODE
    timeout_ms = parse_int(argv[2], PAUSE_NOT_A_NUMBER)
    if timeout_ms < 0:
        raise PAUSE_NEGATIVE
    engine_of(session).pause.begin(timeout_ms, writes_only=mode == b"WRITE")
    return OK


@command("client|unpause", 2, ADMIN, group="connection", since="6.2.0", categories="connection")
def unpause(session: Session, argv: list[bytes]) -> Reply:
    """Let the commands run that CLIENT PAUSE holds.

    CLIENT UNPAUSE
    """
    engine_of(session).pause.end()
    return OK


@command(
    "client|help", 2, "loading stale", group="connection", since="5.0.0", categories="connection"
)
def help_(session: Session, argv: list[bytes]) -> Reply:
    """Show the subcommands of CLIENT.

    CLIENT HELP
    """
    return help_reply(
        "CLIENT",
        """
        CACHING (YES|NO)
            Track, or do not track, the keys of the next command.
        CAPA <capability> [...]
            Say what this client can do.
        GETNAME
            The name of this connection.
        GETREDIR
            Which connection is told about the keys that this one tracks.
        ID
            The number of this connection.
        INFO
            A line about this connection.
        KILL <ip:port>
            Close the connection from that address.
        KILL <option> <value> [<option> <value> [...]]
            Close the connections that pass every filter: ID, TYPE, USER, ADDR, LADDR, MAXAGE,
            IDLE, NAME, LIB-NAME, LIB-VER, DB, IP, FLAGS, CAPA.
            SKIPME (YES|NO) says whether this connection is spared.
        LIST [<option> <value> [...]]
            A line about each connection that passes every filter.
        NO-EVICT (ON|OFF)
            Spare this connection when memory for clients runs out.
        NO-TOUCH (ON|OFF)
            Keep this connection's commands from changing the idle time of keys.
        PAUSE <timeout> [WRITE|ALL]
            Hold all commands, or those that write, for this number of milliseconds.
        REPLY (ON|OFF|SKIP)
            Resume, stop or skip the answers to this connection's commands.
        SETINFO (LIB-NAME|LIB-VER) <value>
            Say which client library this is.
        SETNAME <name>
            Name this connection.
        TRACKING (ON|OFF) [<option> ...]
            Be told when keys change that this connection has read.
        TRACKINGINFO
            Whether and how this connection tracks keys.
        UNBLOCK <clientid> [TIMEOUT|ERROR]
            End the wait of a connection.
        UNPAUSE
            Let the commands run that CLIENT PAUSE holds.
        """,
    )
