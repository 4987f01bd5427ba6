"""COMMANDLOG of Valkey: commands that took long, and commands with large requests or replies.

The slow commands are those of SLOWLOG. Large ones are noted only after
`commandlog-request-larger-than` or `commandlog-reply-larger-than` was set, because to measure each
command takes time.
"""

from functools import partial

from holdfast.commands.args import INT64_MAX, parse_int_between
from holdfast.commands.table import command, container, help_reply
from holdfast.errors import CommandError
from holdfast.resp import OK, Reply
from holdfast.server.core.engine import engine_of
from holdfast.server.features.slowlog import SlowLog
from holdfast.server.sessions.session import Session

ADMIN = "admin loading stale valkey"
EVERYWHERE = "request_policy:all_nodes"
BAD_COUNT = CommandError("ERR count should be greater than or equal to -1")
BAD_TYPE = CommandError("ERR type should be one of the following: slow, large-request, large-reply")

logging = partial(command, group="server", since="8.1.0")
container("commandlog", -2, "valkey", "Commands that were costly.", group="server", since="8.1.0")


def _log_of(session: Session, kind: bytes) -> SlowLog:
    engine = engine_of(session)
    logs = {
        b"slow": engine.slowlog,
        b"large-request": engine.large_requests,
        b"large-reply": engine.large_replies,
    }
    found = logs.get(kind.lower())
    if found is None:
        raise BAD_TYPE
    return found


@logging("commandlog|get", 4, ADMIN, tips=(EVERYWHERE, "nondeterministic_output"))
def get(session: Session, argv: list[bytes]) -> Reply:
    """The newest entries of a log: id, time, microseconds or bytes, arguments, client.

    COMMANDLOG GET count slow | large-request | large-reply
    """
    limit = parse_int_between(argv[2], -1, INT64_MAX, BAD_COUNT)
    return [entry.shown() for entry in _log_of(session, argv[3]).newest(limit)]


@logging(
    "commandlog|len",
    3,
    ADMIN,
    tips=(EVERYWHERE, "response_policy:agg_sum", "nondeterministic_output"),
)
def len_(session: Session, argv: list[bytes]) -> Reply:
    """Count the entries of a log.

    COMMANDLOG LEN slow | large-request | large-reply
    """
    return len(_log_of(session, argv[2]))


@logging("commandlog|reset", 3, ADMIN, tips=(EVERYWHERE, "response_policy:all_succeeded"))
def reset(session: Session, argv: list[bytes]) -> Reply:
    """Empty a log.

    COMMANDLOG RESET slow | large-request | large-reply
    """
    _log_of(session, argv[2]).clear()
    return OK


@logging("commandlog|help", 2, "loading stale valkey")
def help_(session: Session, argv: list[bytes]) -> Reply:
    """Show the subcommands of COMMANDLOG.

    COMMANDLOG HELP
    """
    return help_reply(
        "COMMANDLOG",
        """
        GET <count> <type>
            The newest entries of a log, -1 for all. An entry is: id, time, microseconds
            or bytes, arguments, address of the client, name of the client. A type is
            slow, large-request or large-reply.
        LEN <type>
            Count the entries.
        RESET <type>
            Forget all entries.
        """,
    )
