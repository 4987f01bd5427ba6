"""SLOWLOG: the commands that took long."""

from holdfast.commands.args import parse_int_between
from holdfast.commands.table import command, container, help_reply
from holdfast.errors import CommandError
from holdfast.resp import OK, Reply
from holdfast.server.core.engine import engine_of
from holdfast.server.sessions.session import Session

ADMIN = "admin loading stale"
BAD_COUNT = CommandError("ERR count should be greater than or equal to -1")
EVERYWHERE = "request_policy:all_nodes"

container("slowlog", -2, "", "Commands that took long.", group="server", since="2.2.12")


@command(
    "slowlog|get",
    -2,
    ADMIN,
    group="server",
    since="2.2.12",
    tips=(EVERYWHERE, "nondeterministic_output"),
)
def get(session: Session, argv: list[bytes]) -> Reply:
    """The newest entries of the slow log: id, time, microseconds, arguments, client.

    SLOWLOG GET [count]
    """
    if len(argv) > 3:
        raise CommandError(
            b"ERR unknown subcommand or wrong number of arguments for '%b'. Try SLOWLOG HELP."
            % argv[1]
        )
    limit = 10
    if len(argv) == 3:
        limit = parse_int_between(argv[2], -1, (1 << 63) - 1, BAD_COUNT)
    return [slow.shown() for slow in engine_of(session).slowlog.newest(limit)]


@command(
    "slowlog|len",
    2,
    ADMIN,
    group="server",
    since="2.2.12",
    tips=(EVERYWHERE, "response_policy:agg_sum", "nondeterministic_output"),
)
def len_(session: Session, argv: list[bytes]) -> Reply:
    """Count the entries of the slow log.

    SLOWLOG LEN
    """
    return len(engine_of(session).slowlog)


@command(
    "slowlog|reset",
    2,
    ADMIN,
    group="server",
    since="2.2.12",
    tips=(EVERYWHERE, "response_policy:all_succeeded"),
)
def reset(session: Session, argv: list[bytes]) -> Reply:
    """Empty the slow log.

    SLOWLOG RESET
    """
    engine_of(session).slowlog.clear()
    return OK


@command("slowlog|help", 2, "loading stale", group="server", since="6.2.0")
def help_(session: Session, argv: list[bytes]) -> Reply:
    """Show the subcommands of SLOWLOG.

    SLOWLOG HELP
    """
    return help_reply(
        "SLOWLOG",
        """
        GET [<count>]
            The newest entries, 10 by default, -1 for all. An entry is: id,
            time, microseconds, arguments, address of the client, name of the client.
        LEN
            Count the entries.
        RESET
            Forget all entries.
        """,
    )
