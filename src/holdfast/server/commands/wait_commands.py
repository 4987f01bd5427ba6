"""WAIT and WAITAOF: whether writes are safe, and where."""

from holdfast.commands.args import INT64_MAX, parse_int, parse_int_between
from holdfast.commands.context import Result
from holdfast.commands.table import command
from holdfast.errors import CommandError
from holdfast.resp import Reply
from holdfast.server.core.engine import engine_of
from holdfast.server.sessions.session import Session

BAD_TIMEOUT = CommandError("ERR timeout is not an integer or out of range")
NEGATIVE_TIMEOUT = CommandError("ERR timeout is negative")
NOT_POSITIVE = CommandError("ERR value is out of range, must be positive")
BAD_LOCAL = CommandError("ERR value is out of range, value must between 0 and 1")
NO_FILE = CommandError(
    "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled."
)
TIPS = ("request_policy:all_shards", "response_policy:agg_min")


@command("wait", 3, "noscript", group="generic", since="3.0.0", categories="connection", tips=TIPS)
def wait(session: Session, argv: list[bytes]) -> Result:
    """How many replicas have all writes so far; wait until they are enough.

    WAIT numreplicas timeout

    The timeout is in milliseconds; 0 is for ever. Peers of an active-active server are not counted:
    ACTIVE PEERS tells how far each of them is.
    """
    wanted = parse_int(argv[1])
    _check_timeout(argv[2])
    return engine_of(session).primary.wait(session, wanted, parse_int(argv[2]) / 1000)


@command(
    "waitaof",
    4,
    "noscript blocking",
    group="generic",
    since="7.2.0",
    categories="connection",
    tips=TIPS,
)
def waitaof(session: Session, argv: list[bytes]) -> Reply:
    """Whether the writes so far are on this server's disk, and on how many replicas': [1, 0].

    WAITAOF numlocal numreplicas timeout

    The answer leaves once it is true, whatever the timeout and `appendfsync` are. A database in
    memory has no disk to wait for.
    """
    wants_disk = parse_int_between(argv[1], 0, 1, BAD_LOCAL)
    parse_int_between(argv[2], 0, INT64_MAX, NOT_POSITIVE)
    _check_timeout(argv[3])
    is_durable = engine_of(session).store.is_durable
    if wants_disk and not is_durable:
        raise NO_FILE
    engine_of(session).turn.must_sync |= is_durable
    return [int(is_durable), 0]


def _check_timeout(text: bytes) -> None:
    if parse_int(text, BAD_TIMEOUT) < 0:
        raise NEGATIVE_TIMEOUT
