"""MULTI, EXEC, DISCARD, WATCH, UNWATCH."""

from holdfast.commands.table import command, many
from holdfast.errors import CommandError
from holdfast.resp import NULL_ARRAY, OK, Reply
from holdfast.server.session import IN_MULTI, Session

EXEC_ABORT = CommandError("EXECABORT Transaction discarded because of previous errors.")


@command(
    "multi",
    1,
    "noscript loading stale fast allow_busy no_multi_queue",
    group="transactions",
    since="1.2.0",
    categories="transaction",
)
def multi(session: Session, argv: list[bytes]) -> Reply:
    """Start a transaction: commands are queued until EXEC."""
    if session.multi is not None:
        raise CommandError("ERR MULTI calls can not be nested")
    session.multi = []
    session.gate |= IN_MULTI
    return OK


@command(
    "exec",
    1,
    "noscript loading stale skip_slowlog no_multi_queue",
    group="transactions",
    since="1.2.0",
    categories="transaction",
)
def exec_(session: Session, argv: list[bytes]) -> Reply:
    """Run what was queued since MULTI, as one."""
    queued = session.multi
    if queued is None:
        raise CommandError("ERR EXEC without MULTI")
    failed = session.multi_failed
    broken = session.watch_broken or any(
        was_alive and database.find(name) is None for database, name, was_alive in session.watching
    )
    session.reset_transaction()
    if failed:
        raise EXEC_ABORT
    if broken:
        return NULL_ARRAY
    call = session.engine.call
    return [call(session, entry, queued_argv) for entry, queued_argv in queued]


@command(
    "discard",
    1,
    "noscript loading stale fast allow_busy no_multi_queue",
    group="transactions",
    since="2.0.0",
    categories="transaction",
)
def discard(session: Session, argv: list[bytes]) -> Reply:
    """Forget what was queued since MULTI."""
    if session.multi is None:
        raise CommandError("ERR DISCARD without MULTI")
    session.reset_transaction()
    return OK


@command(
    "watch",
    -2,
    "noscript loading stale fast allow_busy no_multi_queue",
    many("RO"),
    group="transactions",
    since="2.2.0",
    categories="transaction",
)
def watch(session: Session, argv: list[bytes]) -> Reply:
    """Make the next EXEC fail if one of these keys changes before it."""
    if session.multi is not None:
        raise CommandError("ERR WATCH inside MULTI is not allowed")
    database = session.db
    for name in argv[1:]:
        watchers = database.watched.setdefault(name, set())
        if session not in watchers:
            watchers.add(session)
            session.watching.append((database, name, database.find(name) is not None))
    return OK


@command(
    "unwatch",
    1,
    "noscript loading stale fast allow_busy",
    group="transactions",
    since="2.2.0",
    categories="transaction",
)
def unwatch(session: Session, argv: list[bytes]) -> Reply:
    """Forget all watched keys."""
    session.unwatch()
    return OK
