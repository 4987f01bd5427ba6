"""LATENCY: how long commands take, and the moments when the server was slow."""

from functools import partial

from holdfast.commands.table import command, container, help_reply
from holdfast.errors import CommandError
from holdfast.resp import Pairs, Reply, Verbatim
from holdfast.server.core.engine import engine_of
from holdfast.server.sessions.session import Session

FLAGS = "admin noscript loading stale"
EVERY_NODE = ("request_policy:all_nodes", "response_policy:special")
GRAPH_ROWS = 4
MARKS = "_oO#"

subcommand = partial(command, group="server")
question = partial(subcommand, tips=("nondeterministic_output", *EVERY_NODE))

container("latency", -2, "", "Moments when the server was slow.", group="server", since="2.8.13")


@question("latency|latest", 2, FLAGS, since="2.8.13")
def latest(session: Session, argv: list[bytes]) -> Reply:
    """For each kind of event: when it was last slow, its milliseconds then, and the maximum.

    LATENCY LATEST
    """
    return [
        [name, *event.samples[-1], event.most_ms]
        for name, event in engine_of(session).spikes.events.items()
    ]


@question("latency|history", 3, FLAGS, since="2.8.13")
def history(session: Session, argv: list[bytes]) -> Reply:
    """The last 160 times when an event was slow, in seconds, and how many milliseconds it took.

    LATENCY HISTORY event
    """
    event = engine_of(session).spikes.events.get(argv[2])
    return [] if event is None else [list(sample) for sample in event.samples]


@question("latency|histogram", -2, FLAGS, since="7.0.0")
def histogram(session: Session, argv: list[bytes]) -> Reply:
    """How many calls of each command took no longer than so many microseconds.

    LATENCY HISTOGRAM [command [command ...]]
    """
    engine = engine_of(session)
    if not engine.config.latency_tracking:
        return {}
    names = [name.decode("latin-1").lower() for name in argv[2:]]
    reply: dict[bytes, Reply] = {}
    for name, stats in engine.commands.stats.items():
        is_asked = not names or name in names or name.partition("|")[0] in names
        if is_asked and (calls := stats.calls):
            counts = Pairs([list(pair) for pair in stats.histogram_us()])
            reply[name.encode()] = {b"calls": calls, b"histogram_usec": counts}
    return reply


@question("latency|graph", 3, FLAGS, since="2.8.13")
def graph(session: Session, argv: list[bytes]) -> Reply:
    """Draw how slow an event was each time.

    LATENCY GRAPH event
    """
    event = engine_of(session).spikes.events.get(argv[2])
    if event is None:
        raise CommandError(b"ERR No samples available for event '%s'" % argv[2])
    took = [ms for _, ms in event.samples]
    high, low = max(took), min(took)
    steps = GRAPH_ROWS * len(MARKS)
    heights = [1 + (ms - low) * (steps - 1) // max(1, high - low) for ms in took]
    rows = [
        "".join(
            MARKS[min(height - base, len(MARKS)) - 1] if height > base else " "
            for height in heights
        )
        for base in range(steps - len(MARKS), -1, -len(MARKS))
    ]
    title = f"high {high} ms, low {low} ms (all time high {event.most_ms} ms)"
    ages = [_age(session.keyspace.now_s - at_s) for at_s, _ in event.samples]
    depth = max(map(len, ages))
    labels = ["".join(age.ljust(depth)[row] for age in ages) for row in range(depth)]
    text = "\n".join([f"{argv[2].decode('latin-1')} - {title}", "-" * 80, *rows, "", *labels, ""])
    return Verbatim(text.encode("latin-1"))


def _age(seconds: int) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


@question("latency|doctor", 2, FLAGS, since="2.8.13")
def doctor(session: Session, argv: list[bytes]) -> Reply:
    """Report slow events, with advice.

    LATENCY DOCTOR
    """
    engine = engine_of(session)
    if not engine.spikes.threshold_ms:
        return Verbatim(
            b"Slow moments are not recorded: CONFIG SET latency-monitor-threshold <milliseconds>"
            b" begins to. SLOWLOG GET shows slow commands, INFO latencystats how long each takes.\n"
        )
    lines = [
        f"{name.decode()}: {len(event.samples)} times slow, at most for {event.most_ms} ms."
        f" {ADVICE.get(name, '')}"
        for name, event in engine.spikes.events.items()
    ]
    return Verbatim("\n".join([*lines, ""] if lines else ["Nothing was slow.\n"]).encode())


ADVICE = {
    b"command": "SLOWLOG GET tells which; commands on many elements at once hold up all others.",
    b"fast-command": "These are quick by themselves: the machine is busy, or the disk was read.",
    b"expire-cycle": "Many keys expire in the same moment; spread their times.",
    b"eviction-cycle": "Much is deleted to stay below maxmemory.",
}


@subcommand(
    "latency|reset",
    -2,
    FLAGS,
    since="2.8.13",
    tips=("request_policy:all_nodes", "response_policy:all_succeeded"),
)
def reset(session: Session, argv: list[bytes]) -> Reply:
    """Forget slow events; return how many kinds of events were forgotten.

    LATENCY RESET [event [event ...]]
    """
    return engine_of(session).spikes.reset(argv[2:])


@subcommand("latency|help", 2, "loading stale", since="2.8.13")
def help_(session: Session, argv: list[bytes]) -> Reply:
    """Show the subcommands.

    LATENCY HELP
    """
    return help_reply(
        "LATENCY",
        """
        DOCTOR
            Report slow events, with advice.
        GRAPH <event>
            Draw how slow an event was each time.
        HISTOGRAM [<command> ...]
            How long commands took, as counts.
        HISTORY <event>
            When an event was slow, and for how long.
        LATEST
            The last time each event was slow.
        RESET [<event> ...]
            Forget slow events.
        """,
    )
