"""WAIT and WAITAOF: how many servers have all writes so far."""

from holdfast.commands.args import INT64_MAX, parse_int, parse_int_between
from holdfast.commands.context import Result
from holdfast.commands.table import command
from holdfast.errors import CommandError
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
    """How many replicas have all writes so far; wait until there are enough.

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
def waitaof(session: Session, argv: list[bytes]) -> Result:
    """Whether all writes so far are on this server's disk, and on how many replicas' disks.

    WAITAOF numlocal numreplicas timeout

    The reply has two numbers: 1 for this server's disk (0 without a file), and the number of
    replicas. It waits until enough replicas have them, or until the timeout in milliseconds is
    over; 0 is for ever. When the reply leaves, the writes are on this server's disk, whatever the
    timeout and `appendfsync` are. A database in memory has no disk to wait for. A Holdfast replica
    counts only under `appendfsync always`.
    """
    wants_disk = parse_int_between(argv[1], 0, 1, BAD_LOCAL)
    wanted = parse_int_between(argv[2], 0, INT64_MAX, NOT_POSITIVE)
    _check_timeout(argv[3])
    engine = engine_of(session)
    if not engine.store.is_durable:
        if wants_disk:
            raise NO_FILE
        return [0, 0]
    engine.turn.must_sync = True
    return engine.primary.wait(session, wanted, parse_int(argv[3]) / 1000, is_on_disk=True)


def _check_timeout(text: bytes) -> None:
    if parse_int(text, BAD_TIMEOUT) < 0:
        raise NEGATIVE_TIMEOUT
