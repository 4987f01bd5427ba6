"""Redis's replication, as the primary: PSYNC and SYNC, REPLCONF, ROLE, WAIT."""

from holdfast.commands.args import INT64_MAX, parse_int, parse_int_between
from holdfast.commands.table import command
from holdfast.errors import SYNTAX, CommandError
from holdfast.resp import Reply, Simple
from holdfast.server.core.engine import engine_of
from holdfast.server.sessions.session import Session

BAD_PORT = CommandError("ERR value is not an integer or out of range")
OK = Simple(b"OK")


@command("psync", -3, "admin noscript no_async_loading no_multi", group="server", since="2.8.0")
def psync(session: Session, argv: list[bytes]) -> Reply:
    """Follow this server: continue at an offset, or begin with a snapshot.

    PSYNC replicationid offset
    """
    offset = parse_int(argv[2])
    engine_of(session).primary.ask(session, argv[1], offset)
    return None


@command("sync", 1, "admin noscript no_async_loading no_multi", group="server", since="1.0.0")
def sync(session: Session, argv: list[bytes]) -> Reply:
    """Follow this server from a snapshot on, as replicas before Redis 2.8 did.

    SYNC
    """
    engine_of(session).primary.ask(session, b"?", -1, is_old=True)
    return None


@command("replconf", -1, "admin noscript loading stale allow_busy", group="server", since="3.0.0")
def replconf(session: Session, argv: list[bytes]) -> Reply:
    """What a replica says about itself, and how far it is.

    REPLCONF option value [option value ...]
    """
    if len(argv) % 2 == 0:
        raise SYNTAX
    primary = engine_of(session).primary
    for option, value in zip(argv[1::2], argv[2::2], strict=True):
        match option.lower():
            case b"listening-port":
                primary.facts(session).port = parse_int_between(value, 0, INT64_MAX, BAD_PORT)
            case b"ip-address":
                primary.facts(session).address = value.decode("latin-1")
            case b"capa":
                if value.lower() == b"eof":
                    primary.facts(session).knows_eof = True
            case b"rdb-only":
                primary.facts(session).wants_snapshot_only = bool(parse_int(value))
            case b"version" | b"rdb-filter-only":
                pass
            case b"ack":
                session.skip_this_reply()
                primary.acknowledged(session, parse_int(value))
                return None
            case b"getack":
                session.skip_this_reply()
                return None
            case _:
                raise CommandError(b"ERR Unrecognized REPLCONF option: %b" % option)
    return OK
