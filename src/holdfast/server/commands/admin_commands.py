"""Running the server: INFO, saving, shutting down, the time of day."""

from holdfast.commands.args import parse_int
from holdfast.commands.context import Block
from holdfast.commands.table import command
from holdfast.errors import SYNTAX, CommandError, StorageError
from holdfast.resp import OK, Reply, Simple, Verbatim
from holdfast.server.commands.info import info as info_text
from holdfast.server.core.engine import engine_of
from holdfast.server.core.saving import SaveKind
from holdfast.server.core.shutdown import NONE_IN_PROGRESS
from holdfast.server.sessions.session import REPLIES_OFF, Session

SAVES = "admin noscript no_async_loading"
ALREADY_SAVING = CommandError("ERR Background save already in progress")
ALREADY_REWRITING = CommandError("ERR Background append only file rewriting already in progress")


@command(
    "info",
    -1,
    "loading stale",
    group="server",
    since="1.0.0",
    categories="dangerous",
    tips=("nondeterministic_output", "request_policy:all_shards", "response_policy:special"),
)
def info(session: Session, argv: list[bytes]) -> Reply:
    """Facts and figures about the server.

    INFO [section ...]
    """
    asked = [section.decode("latin-1") for section in argv[1:]]
    return Verbatim(info_text(engine_of(session), asked).encode("utf-8", "surrogateescape"))


@command(
    "time",
    1,
    "loading stale fast",
    group="server",
    since="2.6.0",
    tips=("nondeterministic_output",),
)
def time(session: Session, argv: list[bytes]) -> Reply:
    """The server's clock: seconds since 1970, and microseconds.

    TIME
    """
    now_us = engine_of(session).clock.now_us()
    return (b"%d" % (now_us // 1_000_000), b"%d" % (now_us % 1_000_000))


@command(
    "role",
    1,
    "noscript loading stale fast",
    group="server",
    since="2.8.12",
    categories="admin dangerous",
)
def role(session: Session, argv: list[bytes]) -> Reply:
    """The part this server plays in replication: a master and its replicas, or a replica.

    ROLE
    """
    engine = engine_of(session)
    primary, following = engine.primary, engine.following
    if following is not None and following.is_on:
        return following.role()
    replicas: list[Reply] = [
        [each.address.encode(), b"%d" % each.port, b"%d" % each.acknowledged]
        for each in primary.online()
    ]
    return [b"master", primary.offset, replicas]


@command("lolwut", -1, "readonly fast", group="server", since="5.0.0")
def lolwut(session: Session, argv: list[bytes]) -> Reply:
    """Something to look at, and the version.

    LOLWUT [VERSION version]
    """
    if len(argv) > 2 and argv[1].upper() == b"VERSION":
        parse_int(argv[2])
    version = engine_of(session).config.redis_version
    rng = session.rng
    blades = [rng.randrange(4, 9) for _ in range(12)]
    rows = [
        "".join(rng.choice("()") if blade > height else " " for blade in blades)
        for height in range(max(blades) - 1, -1, -1)
    ]
    kelp = "\n".join([*(f"  {row}".rstrip() for row in rows), " /" + "^" * 12 + "\\"])
    return Verbatim(f"{kelp}\n\nRedis ver. {version}\n".encode())


# -- saving ---------------------------------------------------------------------------------------


@command("save", 1, f"{SAVES} no_multi", group="server", since="1.0.0")
def save(session: Session, argv: list[bytes]) -> Reply:
    """Write everything from the journal into the tables; reply when that is done.

    SAVE
    """
    saving = engine_of(session).saving
    if saving.running is not None:
        raise ALREADY_SAVING
    try:
        saving.now()
    except StorageError as error:
        raise CommandError(f"ERR {error}") from None
    return OK


@command("bgsave", -1, SAVES, group="server", since="1.0.0")
def bgsave(session: Session, argv: list[bytes]) -> Reply:
    """Write everything from the journal into the tables, while serving.

    BGSAVE [SCHEDULE]
    """
    if len(argv) > 2 or (len(argv) == 2 and argv[1].upper() != b"SCHEDULE"):
        raise SYNTAX
    if engine_of(session).saving.running is not None:
        raise ALREADY_SAVING
    _start(session, SaveKind.SAVE)
    return Simple(b"Background saving started")


@command("bgrewriteaof", 1, SAVES, group="server", since="1.0.0")
def bgrewriteaof(session: Session, argv: list[bytes]) -> Reply:
    """The same as BGSAVE: the journal becomes as short as possible.

    BGREWRITEAOF
    """
    saving = engine_of(session).saving
    if saving.running is SaveKind.REWRITE:
        raise ALREADY_REWRITING
    if saving.running is not None:
        # The fold that runs already does this work.
        return Simple(b"Background append only file rewriting scheduled")
    _start(session, SaveKind.REWRITE)
    return Simple(b"Background append only file rewriting started")


def _start(session: Session, kind: SaveKind) -> None:
    try:
        engine_of(session).saving.in_background(kind)
    except StorageError as error:
        raise CommandError(f"ERR {error}") from None


@command(
    "lastsave",
    1,
    "loading stale fast",
    group="server",
    since="1.0.0",
    categories="admin dangerous",
    tips=("nondeterministic_output",),
)
def lastsave(session: Session, argv: list[bytes]) -> Reply:
    """The time when all changes were last in the tables, in seconds since 1970.

    LASTSAVE
    """
    return engine_of(session).saving.last_s


# -- shutting down --------------------------------------------------------------------------------


@command(
    "shutdown",
    -1,
    "admin noscript loading stale no_multi allow_busy",
    group="server",
    since="1.0.0",
)
def shutdown(session: Session, argv: list[bytes]) -> Reply | Block:
    """Stop the server. Nothing is lost either way; NOSAVE leaves the journal for the next start.
    While a replica lacks writes, the server waits for it, for shutdown-timeout at most. ABORT ends
    the shutdown, and the server continues. NOW does not wait.

    SHUTDOWN [NOSAVE | SAVE] [NOW] [FORCE] [ABORT]
    """
    words = {word.upper() for word in argv[1:]}
    if not words <= {b"NOSAVE", b"SAVE", b"NOW", b"FORCE", b"ABORT"}:
        raise SYNTAX
    if {b"NOSAVE", b"SAVE"} <= words or (b"ABORT" in words and len(words) > 1):
        raise SYNTAX
    engine = engine_of(session)
    stop, scripts = engine.shutdown, engine.scripts
    if b"ABORT" in words:
        if stop is None:
            raise NONE_IN_PROGRESS
        stop.abort()
        return OK
    if engine.condition.is_busy and b"NOSAVE" not in words:
        raise scripts.busy_error
    if stop is None:
        raise CommandError("ERR There is no server to shut down: close the database instead")
    scripts.end_for_shutdown()
    folds, waits = b"NOSAVE" not in words, b"NOW" not in words
    if stop.begin(folds=folds, why=f"SHUTDOWN of {session.address}", waits=waits):
        return stop.wait(session)
    session.reply_mode = REPLIES_OFF  # the end of the connection is the reply
    return OK
