"""Commands on pending entries, which a consumer has received and not acknowledged: XACK, XNACK,
XPENDING, XCLAIM, XAUTOCLAIM."""

from functools import partial
from itertools import islice

from holdfast.commands.args import INT64_MAX, Options, parse_int, parse_int_between
from holdfast.commands.context import Context
from holdfast.commands.streams.stream_args import (
    entry_reply,
    is_id,
    no_such_group,
    parse_high,
    parse_id,
    parse_low,
    read_group,
)
from holdfast.commands.table import command, one
from holdfast.errors import SYNTAX, CommandError
from holdfast.resp import NULL_ARRAY, Reply
from holdfast.resp.c_strings import c_string
from holdfast.store.memory.events import STREAM
from holdfast.store.values.stream import Stream
from holdfast.store.values.stream_group import Group
from holdfast.store.values.stream_id import MOST_DELIVERIES, one_more, text_of, to_row

COUNT_NOT_POSITIVE = CommandError("ERR COUNT must be > 0")
NO_SUCH_MODE = CommandError("ERR mode must be SILENT, FAIL, or FATAL")
NUMIDS_NOT_POSITIVE = CommandError("ERR numids must be a positive integer")
FEWER_IDS = CommandError("ERR number of IDs doesn't match numids")
RETRIES_NEGATIVE = CommandError("ERR Invalid RETRYCOUNT value, must be >= 0")
NO_IDS = CommandError("ERR syntax error, expected IDS keyword")

MOST_IDS = (1 << 31) - 1  # of XNACK
DEFAULT_COUNT = 100  # of XAUTOCLAIM, which examines up to ATTEMPTS times as many entries
ATTEMPTS = 10

stream_command = partial(command, group="stream", categories="stream")


@stream_command("xack", -4, "write fast", one("RW update"), since="5.0.0")
def xack(c: Context, argv: list[bytes]) -> Reply:
    """Acknowledge entries, so that they are no longer pending; return how many were pending.

    XACK key group id [id ...]
    """
    stream = c.db.read_as(argv[1], Stream)
    group = stream.groups.get(argv[2]) if stream is not None else None
    if stream is None or group is None:
        return 0
    ids = [parse_id(text) for text in argv[3:]]
    acknowledged = sum(stream.release(group, to_row(entry_id), c.keyspace) for entry_id in ids)
    c.keyspace.dirty += acknowledged
    return acknowledged


@stream_command("xnack", -7, "write fast", one("RW update"), since="8.8.0")
def xnack(c: Context, argv: list[bytes]) -> Reply:
    """Return pending entries to the group: they stay pending, and any consumer can claim them.

    XNACK key group SILENT|FAIL|FATAL IDS numids id [id ...] [RETRYCOUNT count] [FORCE]

    SILENT takes back one delivery, FAIL leaves the count of deliveries as it is, FATAL sets the
    highest count, RETRYCOUNT sets this count. FORCE also returns entries that were not pending. The
    reply is the number of entries that were returned.
    """
    found = c.db.find_as(argv[1], Stream)
    group = None if found is None else found[1].groups.get(argv[2])
    if found is None or group is None:
        raise no_such_group(argv[1], argv[2])
    key, stream = found
    mode = argv[3].upper()
    if mode not in (b"SILENT", b"FAIL", b"FATAL"):
        raise NO_SUCH_MODE
    texts, retries, is_forced = _parse_nack(argv)
    returned = 0
    for entry_id in [parse_id(text) for text in texts]:
        id_row = to_row(entry_id)
        pending = group.pending.get(id_row)
        if pending is not None:
            deliveries = pending.deliveries
        elif is_forced and stream.entries.get(entry_id) is not None:
            deliveries = 0
        else:
            continue
        if retries is not None:
            deliveries = retries
        elif mode == b"SILENT":
            deliveries -= deliveries > 0
        elif mode == b"FATAL":
            deliveries = MOST_DELIVERIES
        stream.hand_back(group, id_row, deliveries, c.keyspace)
        returned += 1
    if returned:
        c.keyspace.dirty += returned
        c.db.wake_waiters(key)  # clients that wait with CLAIM
    return returned


def _parse_nack(argv: list[bytes]) -> tuple[list[bytes], int | None, bool]:
    """The ids, the count of RETRYCOUNT, and whether FORCE is given."""
    texts: list[bytes] = []
    retries: int | None = None
    is_forced = False
    at = 4
    while at < len(argv):
        word, has_value = argv[at].upper(), at + 1 < len(argv)
        if word == b"IDS" and has_value:
            count = parse_int_between(argv[at + 1], 1, MOST_IDS, NUMIDS_NOT_POSITIVE)
            texts = argv[at + 2 : at + 2 + count]
            if len(texts) < count:
                raise FEWER_IDS
            at += 1 + count
        elif word == b"FORCE":
            is_forced = True
        elif word == b"RETRYCOUNT" and has_value:
            at += 1
            retries = parse_int(argv[at])
            if retries < 0:
                raise RETRIES_NEGATIVE
        else:
            raise CommandError(b"ERR Unrecognized XNACK option '%b'" % c_string(argv[at]))
        at += 1
    if not texts:
        raise NO_IDS
    return texts, retries, is_forced


# -- looking ----------------------------------------------------------------------------------


@stream_command(
    "xpending", -3, "readonly", one("RO access"), since="5.0.0", tips=("nondeterministic_output",)
)
def xpending(c: Context, argv: list[bytes]) -> Reply:
    """The pending entries of a group: a summary, or those in a range of ids.

    XPENDING key group [[IDLE min-idle-time] start end count [consumer]]
    """
    if len(argv) == 3:
        return _summary(read_group(c, argv[1], argv[2])[1])
    if not 6 <= len(argv) <= 9:
        raise SYNTAX
    at, min_idle_ms = 3, 0
    if argv[3].upper() == b"IDLE":
        min_idle_ms = parse_int(argv[4])
        if len(argv) < 8:
            raise SYNTAX
        at = 5
    count = max(parse_int(argv[at + 2]), 0)
    low = parse_low(argv[at])
    high = parse_high(argv[at + 1])
    _, group = read_group(c, argv[1], argv[2])
    entries = group.pending
    if len(argv) > at + 3:
        consumer = group.consumers.get(argv[at + 3])
        if consumer is None:
            return []
        entries = consumer.pending
    now_ms = c.keyspace.now_ms
    idle_enough = (
        (entry_id, pending)
        for entry_id, pending in entries.range(low, high)
        if pending.is_idle(min_idle_ms, now_ms)
    )
    return [
        [
            text_of(entry_id),
            pending.consumer_name,
            -1 if pending.consumer is None else max(0, now_ms - pending.delivered_at_ms),
            pending.deliveries,
        ]
        for entry_id, pending in islice(idle_enough, count)
    ]


def _summary(group: Group) -> Reply:
    count = len(group.pending)
    if not count:
        return [0, None, None, NULL_ARRAY]
    low, high = group.pending.ends()
    consumers: list[Reply] = [
        [consumer.name, b"%d" % len(consumer.pending)]
        for consumer in group.by_name()
        if len(consumer.pending)
    ]
    return [count, text_of(low), text_of(high), consumers]


# -- claiming ---------------------------------------------------------------------------------


class Claim:
    """Assigns pending entries of a group to a consumer. The first entry creates the consumer."""

    def __init__(
        self, c: Context, name: bytes, found: tuple[Stream, Group], consumer: bytes, ids_only: bool
    ) -> None:
        self._c = c
        self._name = name
        self._stream, self._group = found
        self._consumer = consumer
        self._ids_only = ids_only
        self._is_seen = False
        self.replies: list[Reply] = []

    def take(
        self, entry_id: int, deliveries: int, delivered_at_ms: int, *, counts: bool = True
    ) -> None:
        """Assign an entry. With `counts` this counts as a delivery, unless only ids are
        returned."""
        self._see()
        if counts and not self._ids_only:
            deliveries = one_more(deliveries)
        row = (self._consumer, delivered_at_ms, deliveries)
        self._stream.assign(self._group, entry_id, row, self._c.keyspace)
        if self._ids_only:
            self.replies.append(text_of(entry_id))
        else:
            fields = self._stream.entries.get(entry_id)
            assert fields is not None
            self.replies.append(entry_reply((entry_id, fields)))
        self._c.keyspace.dirty += 1

    def drop(self, entry_id: int) -> None:
        """Release an entry that was deleted from the stream."""
        self._stream.release(self._group, to_row(entry_id), self._c.keyspace)
        self._c.keyspace.dirty += 1

    def _see(self) -> None:
        if self._is_seen:
            return
        self._is_seen = True
        is_new = self._consumer not in self._group.consumers
        keyspace = self._c.keyspace
        self._stream.see_consumer(self._group, self._consumer, keyspace.now_ms, keyspace)
        if is_new:
            self._c.db.notify(self._name, b"xgroup-createconsumer", STREAM)


def _invalid(what: str, name: str) -> CommandError:
    return CommandError(f"ERR Invalid {what} argument for {name}")


@stream_command(
    "xclaim", -6, "write fast", one("RW update"), since="5.0.0", tips=("nondeterministic_output",)
)
def xclaim(c: Context, argv: list[bytes]) -> Reply:
    """Claim entries that have been pending long enough; return the entries, or their ids.

    XCLAIM key group consumer min-idle-time id [id ...] [IDLE ms] [TIME unix-time-milliseconds]
    [RETRYCOUNT count] [FORCE] [JUSTID] [LASTID lastid]
    """
    stream, group = found = read_group(c, argv[1], argv[2])
    min_idle_ms = max(parse_int(argv[4], _invalid("min-idle-time", "XCLAIM")), 0)
    end = next((at for at in range(5, len(argv)) if not is_id(argv[at])), len(argv))
    ids = [parse_id(text) for text in argv[5:end]]
    now_ms = c.keyspace.now_ms
    delivered_at_ms, retries, last_id = -1, -1, 0
    is_forced = ids_only = False
    at = end
    while at < len(argv):
        word, has_value = argv[at].upper(), at + 1 < len(argv)
        if word == b"FORCE":
            is_forced = True
        elif word == b"JUSTID":
            ids_only = True
        elif word in (b"IDLE", b"TIME", b"RETRYCOUNT", b"LASTID") and has_value:
            at += 1
            if word == b"LASTID":
                last_id = parse_id(argv[at])
            else:
                number = parse_int(argv[at], _invalid(f"{word.decode()} option", "XCLAIM"))
                if word == b"RETRYCOUNT":
                    retries = number
                else:
                    delivered_at_ms = number if word == b"TIME" else now_ms - number
        else:
            raise CommandError(b"ERR Unrecognized XCLAIM option '%b'" % c_string(argv[at]))
        at += 1
    # (The clock of a primary may be ahead.)
    latest_ms = INT64_MAX if c.keyspace.obeys_primary else now_ms
    if not 0 <= delivered_at_ms <= latest_ms:
        delivered_at_ms = now_ms
    if last_id > group.last_id:
        stream.set_group(group.name, last_id, group.entries_read, c.keyspace)
        c.keyspace.dirty += 1
    claim = Claim(c, argv[1], found, argv[3], ids_only)
    for entry_id in ids:
        pending = group.pending.get(to_row(entry_id))
        if stream.entries.get(entry_id) is None:
            if pending is not None:
                claim.drop(entry_id)
        elif pending is not None and not pending.is_idle(min_idle_ms, now_ms):
            continue
        elif pending is not None or is_forced:
            was = 1 if pending is None else pending.deliveries
            has_retries = retries >= 0
            claim.take(
                entry_id, retries if has_retries else was, delivered_at_ms, counts=not has_retries
            )
    return claim.replies


@stream_command(
    "xautoclaim",
    -6,
    "write fast",
    one("RW delete"),
    since="6.2.0",
    tips=("nondeterministic_output",),
)
def xautoclaim(c: Context, argv: list[bytes]) -> Reply:
    """Claim all entries, from an id on, that have been pending long enough.

    XAUTOCLAIM key group consumer min-idle-time start [COUNT count] [JUSTID]

    The reply: the id to continue at, the entries or their ids, and the ids of deleted entries.
    """
    min_idle_ms = max(parse_int(argv[4], _invalid("min-idle-time", "XAUTOCLAIM")), 0)
    low = parse_low(argv[5])
    count, ids_only = DEFAULT_COUNT, False
    options = Options(argv, 6)
    while options:
        word = options.word()
        if word == b"COUNT" and options:
            most = INT64_MAX // 16
            count = parse_int_between(options.value(), 1, most, COUNT_NOT_POSITIVE)
        elif word == b"JUSTID":
            ids_only = True
        else:
            raise SYNTAX
    stream, group = found = read_group(c, argv[1], argv[2])
    now_ms = c.keyspace.now_ms
    claim = Claim(c, argv[1], found, argv[3], ids_only)
    deleted: list[Reply] = []
    # All entries that may be examined, and one more: the id to continue at.
    candidates = list(islice(group.pending.range(low), min(count * ATTEMPTS, 1 << 31) + 1))
    looked_at = 0
    for entry_id, pending in candidates[: count * ATTEMPTS]:
        if len(claim.replies) + len(deleted) == count:
            break
        looked_at += 1
        if stream.entries.get(entry_id) is None:
            claim.drop(entry_id)
            deleted.append(text_of(entry_id))
        elif pending.is_idle(min_idle_ms, now_ms):
            claim.take(entry_id, pending.deliveries, now_ms)
    next_id = candidates[looked_at][0] if looked_at < len(candidates) else 0
    return [text_of(next_id), claim.replies, deleted]
