"""Redis's replication: REPLICAOF at a replica; PSYNC, SYNC and REPLCONF at its primary."""

from holdfast.commands.args import INT64_MAX, parse_int, parse_int_between
from holdfast.commands.table import command
from holdfast.errors import SYNTAX, CommandError
from holdfast.resp import Reply, Simple
from holdfast.server.core.engine import Engine, engine_of
from holdfast.server.features.following import Following
from holdfast.server.primary.replica import FUNCTIONS
from holdfast.server.sessions.session import LINK, Session

BAD_PORT = CommandError("ERR value is not an integer or out of range")
OK = Simple(b"OK")
BAD_MASTER_PORT = CommandError("ERR Invalid master port")
ACTIVE_ACTIVE = CommandError("ERR a server of an active-active database cannot be a replica")
NO_TIME = CommandError("ERR FAILOVER timeout must be greater than 0")
IS_REPLICA = CommandError("ERR Command is not valid when client is a replica.")
FIRST_WITH_FIELD_TIMES = 9  # of Valkey: its RDB files have the times of fields of hashes
NO_PROCESS = CommandError("ERR an embedded database follows no server")


@command("replicaof", 3, "admin noscript stale no_async_loading", group="server", since="5.0.0")
def replicaof(session: Session, argv: list[bytes]) -> Reply:
    """Follow another server, and have its data; or, with NO ONE, be a primary again.

    REPLICAOF host port | NO ONE

    The present data is served until the snapshot of the other server is complete. Then the snapshot
    replaces it.
    """
    return _follow(session, argv)


def _follow(session: Session, argv: list[bytes]) -> Reply:
    engine = engine_of(session)
    if argv[1].lower() == b"no" and argv[2].lower() == b"one":
        if engine.following is not None:
            engine.following.lead()
        return OK
    if engine.peers is not None:
        raise ACTIVE_ACTIVE
    if session.kind == LINK:
        raise IS_REPLICA
    port = parse_int_between(argv[2], 0, 65535, BAD_MASTER_PORT)
    host = argv[1].decode("latin-1")
    following = _following(engine)
    if engine.is_replica and engine.config.replicaof == (host, str(port)):
        return Simple(b"OK Already connected to specified master")
    following.follow(host, port)
    return OK


def _following(engine: Engine) -> Following:
    if engine.following is None:
        if engine.open_following is None:
            raise NO_PROCESS
        engine.following = engine.open_following()
    return engine.following


@command("slaveof", 3, "admin noscript stale no_async_loading", group="server", since="1.0.0")
def slaveof(session: Session, argv: list[bytes]) -> Reply:
    """The older name of REPLICAOF.

    SLAVEOF host port | NO ONE
    """
    return _follow(session, argv)


@command("failover", -1, "admin noscript stale", group="server", since="6.2.0")
def failover(session: Session, argv: list[bytes]) -> Reply:
    """Exchange roles with a replica, as soon as it has all writes. Clients cannot write meanwhile.

    FAILOVER [TO host port [FORCE]] [ABORT] [TIMEOUT milliseconds]
    """
    target: tuple[str, int] | None = None
    timeout_s: float | None = None
    force = aborts = False
    at = 1
    while at < len(argv):
        match argv[at].upper():
            case b"TO" if target is None and at + 2 < len(argv):
                port = parse_int_between(argv[at + 2], 0, 65535, BAD_PORT)
                target = (argv[at + 1].decode("latin-1"), port)
                at += 2
            case b"FORCE" if not force:
                force = True
            case b"ABORT" if len(argv) == 2:
                aborts = True
            case b"TIMEOUT" if timeout_s is None and at + 1 < len(argv):
                timeout_s = parse_int(argv[at + 1]) / 1000
                if timeout_s <= 0:
                    raise NO_TIME
                at += 1
            case _:
                raise SYNTAX
        at += 1
    engine = engine_of(session)
    if engine.peers is not None:
        raise ACTIVE_ACTIVE
    following = _following(engine)
    if aborts:
        following.abort_failover()
        return OK
    following.begin_failover(target, timeout_s, force=force)
    return OK


@command("psync", -3, "admin noscript no_async_loading no_multi", group="server", since="2.8.0")
def psync(session: Session, argv: list[bytes]) -> Reply:
    """Follow this server: continue at an offset, or begin with a snapshot.

    PSYNC replicationid offset
    """
    offset = parse_int(argv[2])
    engine = engine_of(session)
    following = engine.following
    if following is not None and following.is_on and argv[3:4] == [b"FAILOVER"]:
        following.promote(argv[1])
    engine.primary.ask(session, argv[1], offset)
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
    """Facts that a replica tells its primary, and its progress.

    REPLCONF option value [option value ...]
    """
    if len(argv) % 2 == 0:
        raise SYNTAX
    primary = engine_of(session).primary
    for at in range(1, len(argv), 2):
        option, value = argv[at : at + 2]
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
            case b"rdb-filter-only":
                primary.facts(session).parts = _parts(value)
            case b"version":
                primary.facts(session).knows_field_times = _is_valkey_9(value)
            case b"ack":
                session.skip_this_reply()
                primary.acknowledged(session, parse_int(value), _on_disk(argv[at + 2 :]))
                return None
            case b"getack":
                session.skip_this_reply()
                return None
            case _:
                raise CommandError(b"ERR Unrecognized REPLCONF option: %b" % option)
    return OK


def _is_valkey_9(version: bytes) -> bool:
    """Whether this is the version of a Valkey from 9 on, or of a Holdfast. A Redis does not tell
    its version."""
    major = version.partition(b".")[0]
    return major.isdigit() and int(major) >= FIRST_WITH_FIELD_TIMES


def _on_disk(words: list[bytes]) -> int:
    """The offset up to which a replica has synced, if it says so."""
    return parse_int(words[1]) if words and words[0].lower() == b"fack" else 0


def _parts(value: bytes) -> frozenset[bytes]:
    """The parts of a snapshot that a replica wants. (redis-cli wants functions, or no part.)"""
    parts = frozenset(value.lower().split())
    for part in parts - {FUNCTIONS}:
        raise CommandError(b"ERR Unsupported rdb-filter-only option: %b" % part)
    return parts
