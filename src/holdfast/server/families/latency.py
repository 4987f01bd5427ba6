"""LATENCY. Spikes are not recorded here, so there is little to tell: see SLOWLOG and INFO."""

from functools import partial

from holdfast.commands.table import command, container, help_reply
from holdfast.errors import CommandError
from holdfast.resp import Reply, Verbatim
from holdfast.server.session import Session

FLAGS = "admin noscript loading stale"
EVERY_NODE = ("request_policy:all_nodes", "response_policy:special")

subcommand = partial(command, group="server")
question = partial(subcommand, tips=("nondeterministic_output", *EVERY_NODE))

container("latency", -2, "", "Moments when the server was slow.", group="server", since="2.8.13")


@question("latency|latest", 2, FLAGS, since="2.8.13")
@question("latency|history", 3, FLAGS, since="2.8.13")
def nothing_recorded(session: Session, argv: list[bytes]) -> Reply:
    """The spikes that were recorded: none.

    LATENCY LATEST
    LATENCY HISTORY event
    """
    return []


@question("latency|histogram", -2, FLAGS, since="7.0.0")
def histogram(session: Session, argv: list[bytes]) -> Reply:
    """How long commands took, by command: nothing, for that is not recorded.

    LATENCY HISTOGRAM [command [command ...]]
    """
    return {}


@question("latency|graph", 3, FLAGS, since="2.8.13")
def graph(session: Session, argv: list[bytes]) -> Reply:
    """Draw the spikes of an event, of which there are none.

    LATENCY GRAPH event
    """
    raise CommandError(b"ERR No samples available for event '%s'" % argv[2])


@question("latency|doctor", 2, FLAGS, since="2.8.13")
def doctor(session: Session, argv: list[bytes]) -> Reply:
    """What to do about slowness.

    LATENCY DOCTOR
    """
    return Verbatim(
        b"Spikes are not recorded here. SLOWLOG GET shows the slowest commands,"
        b" INFO commandstats what each kind costs.\n"
    )


@subcommand(
    "latency|reset",
    -2,
    FLAGS,
    since="2.8.13",
    tips=("request_policy:all_nodes", "response_policy:all_succeeded"),
)
def reset(session: Session, argv: list[bytes]) -> Reply:
    """Forget spikes; how many events had any: 0.

    LATENCY RESET [event [event ...]]
    """
    return 0


@subcommand("latency|help", 2, "loading stale", since="2.8.13")
def help_(session: Session, argv: list[bytes]) -> Reply:
    """Show the subcommands.

    LATENCY HELP
    """
    return help_reply(
        "LATENCY",
        """
        DOCTOR
            What to do about slowness.
        GRAPH <event>
            Draw the spikes of an event.
        HISTOGRAM [<command> ...]
            How long commands took.
        HISTORY <event>
            The spikes of an event.
        LATEST
            The latest spike of each event.
        RESET [<event> ...]
            Forget them.
        """,
    )
