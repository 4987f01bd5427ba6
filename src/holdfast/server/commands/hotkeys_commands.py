"""HOTKEYS: the keys whose commands take most of the time or of the network."""

from holdfast.commands.args import Options, parse_int_between
from holdfast.commands.table import command, container, help_reply
from holdfast.errors import SYNTAX, CommandError
from holdfast.resp import OK, Reply
from holdfast.server.core.engine import Engine, engine_of
from holdfast.server.features.hotkeys import HotKeys, HotKeysOptions
from holdfast.server.sessions.session import Session

ADMIN = "admin noscript"
METRICS = (b"CPU", b"NET")
LONGEST_S = 1_000_000
MOST_KEYS_SHOWN = 64
LAST_SLOT = 16383

IN_PROGRESS = CommandError("ERR hotkey tracking session already in progress")
STOP_FIRST = CommandError("ERR hotkey tracking session in progress, stop tracking first")
METRICS_MISSING = CommandError("ERR METRICS parameter is required")
BAD_METRICS_COUNT = CommandError(f"ERR METRICS count must be > 0 and <= {len(METRICS)}")
METRICS_MISMATCH = CommandError("ERR METRICS count does not match number of metric types provided")
NO_METRICS = CommandError("ERR METRICS no valid metrics passed. Supported: CPU|NET")
BAD_COUNT = CommandError(f"ERR COUNT must be between 1 and {MOST_KEYS_SHOWN}")
BAD_DURATION = CommandError(f"ERR DURATION must be between 1 and {LONGEST_S}")
BAD_SAMPLE = CommandError("ERR SAMPLE ratio must be positive")
NO_SLOTS = CommandError("ERR SLOTS parameter cannot be used in non-cluster mode")

container("hotkeys", -2, "", "Find the keys that cost most.", group="server", since="8.6.0")


@command("hotkeys|start", -2, ADMIN, group="server", since="8.6.0")
def start(session: Session, argv: list[bytes]) -> Reply:
    """Begin to count what commands cost, for each key.

    HOTKEYS START METRICS count [CPU] [NET] [COUNT k] [DURATION seconds] [SAMPLE ratio]

    CPU: the time that commands took. NET: the bytes of commands and replies.
    """
    engine = engine_of(session)
    if engine.hotkeys is not None and engine.hotkeys.is_active:
        raise IN_PROGRESS
    hotkeys = HotKeys(_parse(argv), engine.clock.now_ms(), engine.rng)
    engine.hotkeys = hotkeys
    engine.observe(hotkeys.saw)
    if hotkeys.options.duration_s:
        engine.clock.call_later(hotkeys.options.duration_s, lambda: _stop(engine, hotkeys))
    return OK


def _parse(argv: list[bytes]) -> HotKeysOptions:
    if len(argv) < 4 or argv[2].upper() != b"METRICS":
        raise METRICS_MISSING
    number = parse_int_between(argv[3], 1, len(METRICS), BAD_METRICS_COUNT)
    metrics = [word.upper() for word in argv[4 : 4 + number]]
    for name in METRICS:
        if metrics.count(name) > 1:
            raise CommandError(f"ERR METRICS {name.decode()} defined more than once!")
    if len(metrics) != number:
        raise METRICS_MISMATCH
    if not set(metrics) & set(METRICS):  # unknown metrics are allowed beside a known one
        raise NO_METRICS
    given = {b"COUNT": 10, b"DURATION": 0, b"SAMPLE": 1}
    limits = {
        b"COUNT": (MOST_KEYS_SHOWN, BAD_COUNT),
        b"DURATION": (LONGEST_S, BAD_DURATION),
        b"SAMPLE": ((1 << 31) - 1, BAD_SAMPLE),
    }
    options = Options(argv, 4 + number)
    while options:
        word = options.word()
        if word == b"SLOTS" and options:
            raise NO_SLOTS
        if word not in limits:
            raise SYNTAX
        most, error = limits[word]
        given[word] = parse_int_between(options.value(), 1, most, error)
    return HotKeysOptions(
        b"CPU" in metrics, b"NET" in metrics, given[b"COUNT"], given[b"DURATION"], given[b"SAMPLE"]
    )


@command("hotkeys|stop", 2, ADMIN, group="server", since="8.6.0")
def stop(session: Session, argv: list[bytes]) -> Reply:
    """Stop counting; the counts can still be read. Null if nothing is counted.

    HOTKEYS STOP
    """
    engine = engine_of(session)
    if engine.hotkeys is None or not engine.hotkeys.is_active:
        return None
    _stop(engine, engine.hotkeys)
    return OK


def _stop(engine: Engine, hotkeys: HotKeys) -> None:
    if hotkeys.is_active:
        hotkeys.ended_ms = engine.clock.now_ms()
        engine.observe_no_more(hotkeys.saw)


@command("hotkeys|reset", 2, ADMIN, group="server", since="8.6.0")
def reset(session: Session, argv: list[bytes]) -> Reply:
    """Forget all counts.

    HOTKEYS RESET
    """
    engine = engine_of(session)
    if engine.hotkeys is not None and engine.hotkeys.is_active:
        raise STOP_FIRST
    engine.hotkeys = None
    return OK


@command("hotkeys|get", 2, ADMIN, group="server", since="8.6.0")
def get(session: Session, argv: list[bytes]) -> Reply:
    """The counts: the keys that cost most, and sums. Null if nothing was counted.

    HOTKEYS GET
    """
    engine = engine_of(session)
    hotkeys = engine.hotkeys
    if hotkeys is None:
        return None
    options = hotkeys.options
    ended_ms = engine.clock.now_ms() if hotkeys.ended_ms is None else hotkeys.ended_ms
    facts: dict[bytes, Reply] = {
        b"tracking-active": int(hotkeys.is_active),
        b"sample-ratio": options.sample_ratio,
        b"selected-slots": [[0, LAST_SLOT]],
        b"all-commands-all-slots-us": hotkeys.all_ns // 1000,
        b"net-bytes-all-commands-all-slots": hotkeys.all_bytes,
        b"collection-start-time-unix-ms": hotkeys.started_ms,
        b"collection-duration-ms": ended_ms - hotkeys.started_ms,
    }
    if options.by_cpu:
        user_ms, system_ms = hotkeys.cpu_ms()
        facts[b"total-cpu-time-user-ms"] = user_ms
        facts[b"total-cpu-time-sys-ms"] = system_ms
    if options.by_net:
        facts[b"total-net-bytes"] = hotkeys.net_bytes.total
    if options.by_cpu:
        facts[b"by-cpu-time-us"] = _flat(hotkeys.cpu_ns.top(options.most, 1000))
    if options.by_net:
        facts[b"by-net-bytes"] = _flat(hotkeys.net_bytes.top(options.most))
    return [facts]


def _flat(pairs: list[tuple[bytes, int]]) -> Reply:
    return [part for pair in pairs for part in pair]


@command("hotkeys|help", 2, "loading stale", group="server", since="8.6.0")
def help_(session: Session, argv: list[bytes]) -> Reply:
    """Show the subcommands of HOTKEYS.

    HOTKEYS HELP
    """
    return help_reply(
        "HOTKEYS",
        """
        START METRICS <count> [CPU] [NET] [COUNT <k>] [DURATION <seconds>] [SAMPLE <ratio>]
            Begin to count what commands cost, for each key.
        STOP
            Stop counting.
        GET
            The keys that cost most.
        RESET
            Forget all counts.
        """,
    )
