"""CLIENT TRACKING, CACHING, TRACKINGINFO and GETREDIR. server/features/tracking.py keeps the
tracked keys."""

from holdfast.commands.args import parse_int
from holdfast.commands.table import command
from holdfast.errors import SYNTAX, CommandError
from holdfast.resp import OK, Reply, SetReply
from holdfast.server.core.engine import engine_of
from holdfast.server.features.tracking import Tracker
from holdfast.server.sessions.session import Session

ANYONE = "noscript loading stale"

NOT_TRACKING = CommandError(
    "ERR CLIENT CACHING can be called only when the client is in tracking mode"
    " with OPTIN or OPTOUT mode enabled"
)
YES_WITHOUT_OPTIN = CommandError(
    "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode."
)
NO_WITHOUT_OPTOUT = CommandError(
    "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode."
)
TWO_REDIRECTIONS = CommandError("ERR A client can only redirect to a single other client")
NO_SUCH_TARGET = CommandError("ERR The client ID you want redirect to does not exist")
PREFIX_WITHOUT_BCAST = CommandError("ERR PREFIX option requires BCAST mode to be enabled")
BCAST_SWITCHED = CommandError(
    "ERR You can't switch BCAST mode on/off before disabling tracking for this client,"
    " and then re-enabling it with a different mode."
)
BCAST_AND_OPT = CommandError("ERR OPTIN and OPTOUT are not compatible with BCAST")
OPTIN_AND_OPTOUT = CommandError("ERR You can't specify both OPTIN mode and OPTOUT mode")
OPT_SWITCHED = CommandError(
    "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client,"
    " and then re-enabling it with a different mode."
)


@command("client|tracking", -3, ANYONE, group="connection", since="6.0.0", categories="connection")
def tracking(session: Session, argv: list[bytes]) -> Reply:
    """Get a message when keys change that this connection has read, or that have a prefix.

    CLIENT TRACKING ON | OFF [REDIRECT client-id] [PREFIX prefix [PREFIX prefix ...]] [BCAST]
    [OPTIN] [OPTOUT] [NOLOOP]
    """
    tracker, prefixes = _options(session, argv)
    state = engine_of(session).tracking
    switch = argv[2].lower()
    if switch == b"on":
        current = state.get(session)
        _check(tracker, prefixes, current)
        if tracker.bcast:
            _check_overlaps(prefixes, current)
            tracker.prefixes = set(prefixes or [b""])
        state.begin(session, tracker)
    elif switch == b"off":
        state.end(session)
    else:
        raise SYNTAX
    return OK


def _options(session: Session, argv: list[bytes]) -> tuple[Tracker, list[bytes]]:
    tracker = Tracker()
    prefixes: list[bytes] = []
    words = iter(argv[3:])
    for word in words:
        option = word.lower()
        if option in (b"bcast", b"optin", b"optout", b"noloop"):
            setattr(tracker, option.decode(), True)
            continue
        value = next(words, None)
        if option == b"redirect" and value is not None:
            if tracker.redirect:
                raise TWO_REDIRECTIONS
            tracker.redirect = parse_int(value)
            if tracker.redirect not in engine_of(session).sessions:
                raise NO_SUCH_TARGET
        elif option == b"prefix" and value is not None:
            prefixes.append(value)
        else:
            raise SYNTAX
    return tracker, prefixes


def _check(new: Tracker, prefixes: list[bytes], current: Tracker | None) -> None:
    if prefixes and not new.bcast:
        raise PREFIX_WITHOUT_BCAST
    if current is not None and current.bcast != new.bcast:
        raise BCAST_SWITCHED
    if new.bcast and (new.optin or new.optout):
        raise BCAST_AND_OPT
    if new.optin and new.optout:
        raise OPTIN_AND_OPTOUT
    if current is not None and ((new.optin and current.optout) or (new.optout and current.optin)):
        raise OPT_SWITCHED


def _check_overlaps(prefixes: list[bytes], current: Tracker | None) -> None:
    for at, prefix in enumerate(prefixes):
        for other in sorted(current.prefixes) if current is not None else ():
            if _overlap(prefix, other):
                raise _overlapping(prefix, b"an existing", other)
        for other in prefixes[at + 1 :]:
            if _overlap(prefix, other):
                raise _overlapping(prefix, b"another provided", other)


def _overlap(one: bytes, other: bytes) -> bool:
    return one.startswith(other) or other.startswith(one)


def _overlapping(prefix: bytes, which: bytes, other: bytes) -> CommandError:
    return CommandError(
        b"ERR Prefix '%s' overlaps with %s prefix '%s'."
        b" Prefixes for a single client must not overlap." % (prefix, which, other)
    )


@command(
    "client|trackinginfo", 2, ANYONE, group="connection", since="6.2.0", categories="connection"
)
def trackinginfo(session: Session, argv: list[bytes]) -> Reply:
    """Whether and how this connection tracks keys.

    CLIENT TRACKINGINFO
    """
    tracker = engine_of(session).tracking.get(session)
    if tracker is None:
        return {b"flags": SetReply([b"off"]), b"redirect": -1, b"prefixes": []}
    flags = {
        b"on": True,
        b"bcast": tracker.bcast,
        b"optin": tracker.optin,
        b"caching-yes": tracker.optin and tracker.caching,
        b"optout": tracker.optout,
        b"caching-no": tracker.optout and tracker.caching,
        b"noloop": tracker.noloop,
        b"broken_redirect": tracker.is_broken,
    }
    return {
        b"flags": SetReply([name for name, is_so in flags.items() if is_so]),
        b"redirect": tracker.redirect,
        b"prefixes": tuple(sorted(tracker.prefixes)),
    }


@command("client|caching", 3, ANYONE, group="connection", since="6.0.0", categories="connection")
def caching(session: Session, argv: list[bytes]) -> Reply:
    """Track, or do not track, the keys of the next command or transaction.

    CLIENT CACHING YES | NO
    """
    tracker = engine_of(session).tracking.get(session)
    if tracker is None:
        raise NOT_TRACKING
    word = argv[2].lower()
    if word == b"yes":
        if not tracker.optin:
            raise YES_WITHOUT_OPTIN
    elif word == b"no":
        if not tracker.optout:
            raise NO_WITHOUT_OPTOUT
    else:
        raise SYNTAX
    tracker.caching = True
    return OK


@command("client|getredir", 2, ANYONE, group="connection", since="6.0.0", categories="connection")
def getredir(session: Session, argv: list[bytes]) -> Reply:
    """The connection that gets this one's messages about keys; -1 if it tracks none.

    CLIENT GETREDIR
    """
    tracker = engine_of(session).tracking.get(session)
    return -1 if tracker is None else tracker.redirect
