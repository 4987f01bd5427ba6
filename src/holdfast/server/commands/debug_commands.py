"""DEBUG: the helpers that tests of clients and of this server use.

Subcommands that show or change the internals of redis-server (its hash tables, buffers and
allocator) are missing, because this server has no such internals.
"""

import logging
import time

from holdfast.commands.args import parse_int_between
from holdfast.commands.encodings import encoding_of
from holdfast.commands.table import command, help_reply
from holdfast.errors import NO_SUCH_KEY, CommandError, StorageError
from holdfast.log_lines import one_line
from holdfast.resp import OK, Attributed, BigNumber, Map, Push, Reply, SetReply, Simple, Verbatim
from holdfast.server.config.value_kinds import memory
from holdfast.server.core.engine import engine_of
from holdfast.server.features import digest
from holdfast.server.sessions.session import Session
from holdfast.store.memory.keyspace import NEVER

log = logging.getLogger(__name__)

NOT_ALLOWED = CommandError(
    "ERR DEBUG command not allowed. If the enable-debug-command option is set to"
    ' "local", you can run it from a local connection, otherwise you need to set this option'
    " in the configuration file, and then restart the server."
)
NOT_POSITIVE = CommandError("ERR value is out of range, must be positive")
RELOAD_OPTIONS = CommandError(
    "ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options."
)
NOT_A_SIZE = CommandError("ERR argument must be a memory value bigger than 1 and smaller than 4gb")
CANNOT_LOAD = CommandError("ERR Error trying to load the RDB dump")
PROTOCOL: dict[bytes, Reply] = {
    b"string": b"Hello World",
    b"integer": 12345,
    b"double": 3.141,
    b"bignum": BigNumber(b"1234567999999999999999999999999999999"),
    b"null": None,
    b"array": [0, 1, 2],
    b"set": SetReply([0, 1, 2]),
    b"map": Map([0, False, 1, True, 2, False]),
    b"attrib": Attributed(
        [{b"key-popularity": [b"key:123", 90]}, b"Some real reply following the attribute"]
    ),
    b"verbatim": Verbatim(b"This is a verbatim\nstring"),
    b"true": True,
    b"false": False,
}


@command("debug", -2, "admin noscript loading stale", group="server", since="1.0.0")
def debug(session: Session, argv: list[bytes]) -> Reply:
    """Helpers for tests; needs enable-debug-command.

    DEBUG subcommand [arg ...]
    """
    allowed = engine_of(session).config.enable_debug_command
    if allowed == "no" or (allowed == "local" and not session.is_local):
        raise NOT_ALLOWED
    name = argv[1].upper()
    handler, argc = SUBCOMMANDS.get(name, (_unknown, range(0)))
    if len(argv) not in argc:
        return _unknown(session, argv)
    return handler(session, argv)


def _unknown(session: Session, argv: list[bytes]) -> Reply:
    raise CommandError(
        b"ERR unknown subcommand or wrong number of arguments for '%b'. Try DEBUG HELP." % argv[1]
    )


def _sleep(session: Session, argv: list[bytes]) -> Reply:
    """Sleep, and answer no client meanwhile: tests need this."""
    try:
        seconds = float(argv[2])
    except ValueError:
        seconds = 0.0
    time.sleep(max(0.0, seconds))
    return OK


def _object(session: Session, argv: list[bytes]) -> Reply:
    key = session.db.space.keys.get(argv[2]) or session.db.find(argv[2])  # also an expired one
    if key is None:
        raise NO_SUCH_KEY
    idle_s = session.keyspace.now_s - key.accessed_s
    return Simple(
        f"Value at:0x{id(key):x} refcount:1 encoding:{encoding_of(session, key).decode()}"
        f" serializedlength:{key.nbytes} lru:{key.accessed_s & 0xFFFFFF}"
        f" lru_seconds_idle:{idle_s} id:{key.id}".encode()
    )


def _error(session: Session, argv: list[bytes]) -> Reply:
    return CommandError(argv[2])


def _set_active_expire(session: Session, argv: list[bytes]) -> Reply:
    engine_of(session).expires_actively = argv[2] != b"0"
    return OK


def _reload(session: Session, argv: list[bytes]) -> Reply:
    """Save, drop all data in memory, and read the file again."""
    options = {option.upper() for option in argv[2:]}
    if not options <= {b"MERGE", b"NOFLUSH", b"NOSAVE"}:
        raise RELOAD_OPTIONS
    if b"NOFLUSH" in options and b"MERGE" not in options and _has_data(session):
        raise CANNOT_LOAD  # the file has the same keys and functions
    if session.in_exec:
        raise CommandError("ERR DEBUG RELOAD would save half of this transaction")
    try:
        engine_of(session).saving.now()
    except StorageError as error:
        raise CommandError(f"ERR {error}") from None
    engine_of(session).reload()
    return OK


def _has_data(session: Session) -> bool:
    functions = engine_of(session).scripts.functions
    return bool(functions.libraries) or any(map(len, session.keyspace.databases))


def _digest(session: Session, argv: list[bytes]) -> Reply:
    session.keyspace.may_wait_at = NEVER  # all data at once
    return Simple(digest.of_data(session.keyspace).hex().encode())


def _digest_value(session: Session, argv: list[bytes]) -> Reply:
    session.keyspace.may_wait_at = NEVER
    found = [digest.of_value(session.db, name) for name in argv[2:]]
    return [Simple(value.hex().encode()) for value in found]


def _set_disable_deny_scripts(session: Session, argv: list[bytes]) -> Reply:
    engine_of(session).scripts.denies = argv[2] == b"0"
    return OK


def _pause_cron(session: Session, argv: list[bytes]) -> Reply:
    engine_of(session).runs_cron = argv[2] == b"0"
    return OK


def _quicklist_packed_threshold(session: Session, argv: list[bytes]) -> Reply:
    """Accept a size without effect: our lists do not have two kinds of nodes."""
    size = memory(argv[2])
    if size is None or not 0 <= size < 1 << 32:
        raise NOT_A_SIZE
    return OK


def _log(session: Session, argv: list[bytes]) -> Reply:
    log.warning("DEBUG LOG: %s", one_line(argv[2].decode("utf-8", "backslashreplace")))
    return OK


def _populate(session: Session, argv: list[bytes]) -> Reply:
    """`DEBUG POPULATE count [prefix] [size]`: create string keys, which are stored like any
    others."""
    count = parse_int_between(argv[2], 0, 1 << 62, NOT_POSITIVE)
    prefix = argv[3] if len(argv) > 3 else b"key"
    size = parse_int_between(argv[4], 0, 1 << 30, NOT_POSITIVE) if len(argv) > 4 else None
    for number in range(count):
        name = b"%b:%d" % (prefix, number)
        value = b"value:%d" % number
        if session.db.find(name) is None:
            session.db.create(name, value if size is None else value[:size].ljust(size, b"\0"))
    return OK


def _protocol(session: Session, argv: list[bytes]) -> Reply:
    kind = argv[2].lower()
    if kind == b"push":
        session.send(Push([b"server-cpu-usage", 42]))
        return b"Some real reply following the push reply"
    if kind in PROTOCOL:
        return PROTOCOL[kind]
    raise CommandError(
        "ERR Wrong protocol type name. Please use one of the following: string|integer|double|"
        "bignum|null|array|set|map|attrib|push|verbatim|true|false"
    )


def _help(session: Session, argv: list[bytes]) -> Reply:
    return help_reply(
        "DEBUG",
        """
        DIGEST
            A hash of all data, the same as in redis-server.
        DIGEST-VALUE <key> [<key> ...]
            Hashes of single values.
        ERROR <string>
            Answer with this error.
        LOG <message>
            Write a line into the log.
        OBJECT <key>
            Show how a key is kept.
        PAUSE-CRON <0|1>
            Whether the regular work of the server is stopped.
        POPULATE <count> [<prefix>] [<size>]
            Create string keys.
        PROTOCOL <type>
            Answer with a value of this type.
        RELOAD
            Save, drop all data in memory, and read the file again.
        QUICKLIST-PACKED-THRESHOLD <size>
            Accepted without effect.
        SET-ACTIVE-EXPIRE <0|1>
            Whether keys expire that no command reads.
        SET-DISABLE-DENY-SCRIPTS <0|1>
            Whether scripts may call commands that are forbidden to them.
        SLEEP <seconds>
            Stop the whole server for a while.
        """,
    )


SUBCOMMANDS = {
    b"DIGEST": (_digest, range(2, 3)),
    b"DIGEST-VALUE": (_digest_value, range(2, 1 << 20)),
    b"ERROR": (_error, range(3, 4)),
    b"HELP": (_help, range(2, 3)),
    b"LOADAOF": (_reload, range(2, 3)),
    b"LOG": (_log, range(3, 4)),
    b"OBJECT": (_object, range(3, 4)),
    b"PAUSE-CRON": (_pause_cron, range(3, 4)),
    b"POPULATE": (_populate, range(3, 6)),
    b"PROTOCOL": (_protocol, range(3, 4)),
    b"QUICKLIST-PACKED-THRESHOLD": (_quicklist_packed_threshold, range(3, 4)),
    b"RELOAD": (_reload, range(2, 1 << 20)),
    b"SET-ACTIVE-EXPIRE": (_set_active_expire, range(3, 4)),
    b"SET-DISABLE-DENY-SCRIPTS": (_set_disable_deny_scripts, range(3, 4)),
    b"SLEEP": (_sleep, range(3, 4)),
}
