"""CONFIG: read and change the configuration of a running server."""

import logging

from holdfast.commands.table import command, container, help_reply
from holdfast.errors import SYNTAX
from holdfast.resp import OK, Reply
from holdfast.server.config.secrets import without_secrets
from holdfast.server.core.engine import engine_of
from holdfast.server.sessions.session import Session

log = logging.getLogger(__name__)

ADMIN = "admin noscript loading stale"

container("config", -2, "", "Read and change the configuration.", group="server", since="2.0.0")


@command("config|get", -3, ADMIN, group="server", since="2.0.0")
def get(session: Session, argv: list[bytes]) -> Reply:
    """The values of parameters, by name or pattern.

    CONFIG GET parameter [parameter ...]
    """
    return dict[bytes, Reply](engine_of(session).config.get(*argv[2:]))


@command(
    "config|set",
    -4,
    ADMIN,
    group="server",
    since="2.0.0",
    tips=("request_policy:all_nodes", "response_policy:all_succeeded"),
)
def set_(session: Session, argv: list[bytes]) -> Reply:
    """Change parameters, all of them or none.

    CONFIG SET parameter value [parameter value ...]
    """
    if len(argv) % 2:
        raise SYNTAX
    pairs = list(zip(argv[2::2], argv[3::2], strict=True))
    engine_of(session).config.set_many(pairs, local=session.is_local)
    shown = b" ".join(without_secrets("config|set", argv)[2:]).decode("utf-8", "backslashreplace")
    log.info("CONFIG SET of %s: %.300s", session.address, shown)
    return OK


@command("config|resetstat", 2, ADMIN, group="server", since="2.0.0")
def resetstat(session: Session, argv: list[bytes]) -> Reply:
    """Set the statistics that INFO shows back to zero.

    CONFIG RESETSTAT
    """
    engine_of(session).reset_stats()
    return OK


@command("config|rewrite", 2, ADMIN, group="server", since="2.8.0")
def rewrite(session: Session, argv: list[bytes]) -> Reply:
    """Write the present values into the configuration file.

    CONFIG REWRITE
    """
    engine = engine_of(session)
    engine.users.keep()
    engine.config.rewrite()
    return OK


@command("config|help", 2, "loading stale", group="server", since="5.0.0")
def help_(session: Session, argv: list[bytes]) -> Reply:
    """Show the subcommands of CONFIG.

    CONFIG HELP
    """
    return help_reply(
        "CONFIG",
        """
        GET <pattern> [<pattern> ...]
            The parameters that match, and their values.
        SET <parameter> <value> [<parameter> <value> ...]
            Change parameters, all of them or none.
        RESETSTAT
            Set the statistics of INFO back to zero.
        REWRITE
            Write the present values into the configuration file.
        """,
    )
