"""MULTI, EXEC, DISCARD, WATCH, UNWATCH."""

from holdfast.commands.table import Command, command, many
from holdfast.errors import CommandError
from holdfast.resp import NULL_ARRAY, OK, Reply
from holdfast.server.core.engine import engine_of
from holdfast.server.sessions.bounded_session import weight
from holdfast.server.sessions.session import IN_MULTI, Session

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
    """Start a transaction: commands are queued until EXEC.

    MULTI
    """
    if session.multi is not None:
        raise CommandError("ERR MULTI calls can not be nested")
    session.multi = []
    session.modes |= IN_MULTI
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
    """Run the commands that were queued since MULTI, as one.

    EXEC
    """
    queued = session.multi
    if queued is None:
        raise CommandError("ERR EXEC without MULTI")
    failed = session.multi_failed
    broken = session.watch_broken or any(
        was_alive and database.find_row(name) is None
        for database, name, was_alive in session.watching
    )
    if failed or broken:
        session.reset_transaction()
        if failed:
            raise EXEC_ABORT
        return NULL_ARRAY
    engine_of(session).loading.require_queued(session, queued)
    session.unwatch()  # otherwise the commands of the transaction could break it
    session.in_exec = True
    try:
        return _run(session, queued)
    finally:  # also if the file cannot be read
        session.in_exec = False
        session.reset_transaction()


def _run(session: Session, queued: list[tuple[Command, list[bytes]]]) -> list[Reply]:
    """Run the commands; return all replies. If the replies exceed the output limit of the client,
    the client is closed, but all commands run."""
    engine = engine_of(session)
    replies: list[Reply] = []
    nbytes = 0
    for entry, argv in queued:
        reply = engine.call_in_exec(session, entry, argv)
        nbytes += len(reply) if isinstance(reply, bytes) else weight(reply)
        if session.overflows(nbytes):
            replies.clear()
            nbytes = 0
        replies.append(reply)
    return replies


@command(
    "discard",
    1,
    "noscript loading stale fast allow_busy no_multi_queue",
    group="transactions",
    since="2.0.0",
    categories="transaction",
)
def discard(session: Session, argv: list[bytes]) -> Reply:
    """Drop the commands that were queued since MULTI.

    DISCARD
    """
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
    """Make the next EXEC fail if one of these keys changes before it.

    WATCH key [key ...]
    """
    if session.multi is not None:
        raise CommandError("ERR WATCH inside MULTI is not allowed")
    database = session.db
    for name in argv[1:]:
        watchers = database.watched.setdefault(name, set())
        if session not in watchers:
            watchers.add(session)
            session.watching.append((database, name, database.find_row(name) is not None))
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
    """Forget all watched keys.

    UNWATCH
    """
    session.unwatch()
    return OK
