"""XREAD and XREADGROUP: new entries of several streams. With BLOCK they wait for entries.

A client that is woken runs its command again. `$` means the last id at the time when the wait
began. So the command that runs again has that id in the place of `$`.
"""

from collections.abc import Iterable
from functools import partial
from itertools import islice

from holdfast.commands.context import Block, Context, Result
from holdfast.commands.streams.stream_args import (
    as_stream,
    entries_reply,
    is_mark,
    no_such_group,
    parse_id,
)
from holdfast.commands.streams.stream_read_args import Reading, ReadOptions, parse_reading
from holdfast.commands.table import Keys, command
from holdfast.errors import CommandError
from holdfast.resp import NULL_ARRAY, Pairs, Reply
from holdfast.store.memory.events import STREAM
from holdfast.store.values.stream import Stream
from holdfast.store.values.stream_entries import Entry
from holdfast.store.values.stream_group import Consumer, Group, Pending
from holdfast.store.values.stream_id import MAX_ID, one_more, text_of

DOLLAR_IN_XREADGROUP = CommandError(
    "ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history of"
    " this consumer by specifying a proper ID, or use the > ID to get new messages. The $ ID"
    " would just return an empty result set."
)
NEWER_IN_XREAD = CommandError(
    "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer>"
    " option."
)
STREAM_GONE = CommandError("UNBLOCKED the stream key no longer exists")
GROUP_GONE = CommandError("NOGROUP the consumer group this client was blocked on no longer exists")

MOST_WHEN_WOKEN = 1000  # entries of a stream, for a client that waited and gave no COUNT
# If no entry is pending, a client that waits with CLAIM looks again after its min-idle-time, but
# not before this time.
SHORTEST_LOOK_MS = 100

stream_command = partial(command, group="stream", categories="stream", since="5.0.0")


def _newest(c: Context, stream: Stream) -> int:
    """The id of the newest entry. As in Redis 7.0, a client that was woken gets the id of the last
    entry that was added, even if that has been deleted since."""
    return stream.last_id if c.is_woken else stream.newest_id


# -- XREAD ------------------------------------------------------------------------------------


@stream_command(
    "xread",
    -4,
    "readonly blocking movablekeys",
    Keys("RO access", 1, -1, keyword="STREAMS", limit=2),
)
def xread(c: Context, argv: list[bytes]) -> Result:
    """The entries of streams after given ids; `$` is the last id of a stream. BLOCK waits.

    XREAD [COUNT count] [MAXCOUNT maxcount] [MAXSIZE maxsize] [BLOCK milliseconds] STREAMS key
    [key ...] id [id ...]

    COUNT is the number of entries of each stream, MAXCOUNT that of the whole reply. A reply of
    MAXSIZE bytes gets no further entry.
    """
    reading = parse_reading(c, argv, is_group=False)
    if reading.timeout_s is not None:
        c.check_waitable(reading.names)
    streams = reading.streams(c)
    after = [_xread_id(_stream(c, name), text) for name, text in streams]
    count = reading.most or (MOST_WHEN_WOKEN if c.is_woken else None)
    budget = None if reading.options is None else reading.options.budget()
    found = Pairs()
    for (name, _), after_id in zip(streams, after, strict=True):
        stream = _stream(c, name)
        if stream is not None and _newest(c, stream) > after_id:
            entries: Iterable[Entry] = islice(stream.range(after_id + 1), count)
            if budget is not None:
                if budget.is_spent:
                    break
                budget.begin(name)
                entries = budget.take(entries)
            found.append([name, entries_reply(entries)])
    if found:
        return found
    if reading.timeout_s is None:
        return NULL_ARRAY
    fixed = [*argv[: -len(after)], *map(text_of, after)]
    return Block(reading.names, Stream, reading.timeout_s, retry_argv=fixed)


def _stream(c: Context, name: bytes) -> Stream | None:
    """The stream of a key. For a client that was woken, a key of another type counts as missing."""
    if c.is_woken:
        key = c.db.find(name)
        return key.value if key is not None and isinstance(key.value, Stream) else None
    return c.db.read_as(name, Stream)


def _xread_id(stream: Stream | None, text: bytes) -> int:
    if is_mark(text, b"$"):
        return 0 if stream is None else stream.last_id
    if is_mark(text, b">"):
        raise NEWER_IN_XREAD
    return parse_id(text)


# -- XREADGROUP -------------------------------------------------------------------------------


@stream_command(
    "xreadgroup",
    -7,
    "write blocking movablekeys",
    Keys("RO access", 4, -1, keyword="STREAMS", limit=2),
)
def xreadgroup(c: Context, argv: list[bytes]) -> Result:
    """Entries that are new to a group (`>`), and BLOCK waits; or a consumer's pending entries.

    XREADGROUP GROUP group consumer [COUNT count] [MAXCOUNT maxcount] [MAXSIZE maxsize]
    [BLOCK milliseconds] [CLAIM min-idle-time] [NOACK] STREAMS key [key ...] id [id ...]

    With CLAIM, entries that are pending for long enough come first, and are claimed. Each entry has
    two more elements: how long it was idle, and how often it was delivered before.
    """
    reading = parse_reading(c, argv, is_group=True)
    if reading.timeout_s is not None:
        c.check_waitable(reading.names)
    assert reading.group is not None
    wanted = []
    for name, text in reading.streams(c):
        stream, group = _group(c, name, reading.group)
        if is_mark(text, b">"):
            after_id = None
        elif is_mark(text, b"$"):
            raise DOLLAR_IN_XREADGROUP
        else:
            after_id = parse_id(text)
        wanted.append((name, stream, group, after_id))
    options = reading.options
    limited = None if options is None else LimitedRead(c, reading, options)
    found = Pairs()
    entries: Reply
    for name, stream, group, after_id in wanted:
        if after_id == MAX_ID:
            after_id = None  # Redis represents `>` as the highest id
        if limited is not None:
            entries = limited.entries(name, stream, group, after_id)
            if entries is None:
                continue
        elif after_id is not None or _newest(c, stream) > group.last_id:
            consumer = _seen(c, name, stream, group, reading.consumer)
            if after_id is not None:
                pending = islice(consumer.pending.range(after_id + 1, MAX_ID), reading.most)
                entries = _history(c, stream, group, consumer, list(pending))
            else:
                entries = entries_reply(_news(c, stream, group, consumer, reading))
        else:
            continue
        found.append([name, entries])
        c.keyspace.dirty += 1
    if found:
        return found
    if reading.timeout_s is None:
        return NULL_ARRAY
    if options is None or options.min_idle_ms is None:
        return Block(
            reading.names, Stream, reading.timeout_s, even_if_gone=True, rivals=reading.group
        )
    groups = [(stream, group) for _, stream, group, _ in wanted]
    return Block(
        reading.names,
        Stream,
        reading.timeout_s,
        even_if_gone=True,
        rivals=(reading.group, options.min_idle_ms),
        look_again_s=_until_claimable_ms(c, groups, options.min_idle_ms) / 1000,
    )


def _group(c: Context, name: bytes, group_name: bytes) -> tuple[Stream, Group]:
    key = c.db.find(name) if c.is_woken else c.db.read(name)
    if c.is_woken:
        if key is None or not isinstance(key.value, Stream):
            raise STREAM_GONE
        if group_name not in key.value.groups:
            raise GROUP_GONE
    stream = as_stream(key)
    group = None if stream is None else stream.groups.get(group_name)
    if stream is None or group is None:
        raise no_such_group(name, group_name, b" in XREADGROUP with GROUP option")
    return stream, group


def _seen(c: Context, name: bytes, stream: Stream, group: Group, consumer: bytes) -> Consumer:
    is_new = consumer not in group.consumers
    seen = stream.see_consumer(group, consumer, c.keyspace.now_ms, c.keyspace)
    if is_new:
        c.db.notify(name, b"xgroup-createconsumer", STREAM)
    return seen


def _news(
    c: Context, stream: Stream, group: Group, consumer: Consumer, reading: Reading
) -> list[Entry]:
    """Assign entries that are new to the group to this consumer, and return them."""
    count = _most(c, reading)
    if count is None:
        entries = list(stream.range(group.last_id + 1))
    else:
        entries = stream.entries.first_from(group.last_id + 1, count)
    _deliver(c, stream, group, consumer, entries, reading.no_ack)
    return entries


def _most(c: Context, reading: Reading) -> int | None:
    """How many entries of a stream the client gets at most."""
    return reading.most or (MOST_WHEN_WOKEN if c.is_woken else None)


def _deliver(
    c: Context,
    stream: Stream,
    group: Group,
    consumer: Consumer,
    entries: list[Entry],
    no_ack: bool,
) -> None:
    ids = [entry_id for entry_id, _ in entries]
    stream.pass_to(group, ids, c.keyspace)
    if not no_ack:
        stream.deliver(group, consumer, ids, c.keyspace.now_ms, c.keyspace)


def _history(
    c: Context,
    stream: Stream,
    group: Group,
    consumer: Consumer,
    pending: list[tuple[int, Pending]],
) -> Reply:
    """Deliver pending entries of the consumer once more. A deleted entry is null."""
    replies: list[Reply] = []
    for entry_id, was in pending:
        fields = stream.entries.get(entry_id)
        if fields is not None:
            row = (consumer.name, c.keyspace.now_ms, one_more(was.deliveries))
            stream.assign(group, entry_id, row, c.keyspace)
        replies.append([text_of(entry_id), NULL_ARRAY if fields is None else fields])
    return replies


# -- with CLAIM, MAXCOUNT or MAXSIZE ----------------------------------------------------------


class LimitedRead:
    """A call of XREADGROUP with these options. It asks for the entries of one stream after the
    other."""

    def __init__(self, c: Context, reading: Reading, options: ReadOptions) -> None:
        self._c = c
        self._reading = reading
        self._min_idle_ms = options.min_idle_ms
        self._budget = options.budget()

    def entries(self, name: bytes, stream: Stream, group: Group, after_id: int | None) -> Reply:
        """The entries of a stream: pending ones of this consumer after an id, or else claimed and
        new ones. None: there are none, or the limits are reached."""
        c, reading, budget = self._c, self._reading, self._budget
        if after_id is not None:
            self._min_idle_ms = None  # as in Redis, also for the following streams
        claims = self._claimable(stream, group)
        has_news = _newest(c, stream) > group.last_id
        if budget.is_spent or not (after_id is not None or claims or has_news):
            return None
        budget.begin(name)
        consumer = _seen(c, name, stream, group, reading.consumer)
        if after_id is not None:
            own = islice(consumer.pending.range(after_id + 1, MAX_ID), reading.most)
            known = list(own)
            taken = budget.take(
                (entry_id, stream.entries.get(entry_id) or ()) for entry_id, _ in known
            )
            return _history(c, stream, group, consumer, known[: len(taken)])
        claims = claims[: len(budget.take([entry for entry, _ in claims]))]
        replies = [self._claim(stream, group, consumer, *claim) for claim in claims]
        most = _most(c, reading)
        rest = None if most is None else most - len(claims)
        news = budget.take(islice(stream.range(group.last_id + 1), rest), 0 if claims else 1)
        _deliver(c, stream, group, consumer, news, reading.no_ack)
        if self._min_idle_ms is None:
            return entries_reply(news)
        return replies + [[text_of(entry_id), fields, 0, 0] for entry_id, fields in news]

    def _claimable(self, stream: Stream, group: Group) -> list[tuple[Entry, Pending]]:
        """The entries that are pending for long enough, the longest first. Deleted entries are not
        claimed; they stay pending, as in Redis."""
        found: list[tuple[Entry, Pending]] = []
        if self._min_idle_ms is None:
            return found
        most, now_ms = _most(self._c, self._reading), self._c.keyspace.now_ms
        for entry_id, pending in group.pending.oldest():
            if len(found) == most or not pending.is_idle(self._min_idle_ms, now_ms):
                break
            fields = stream.entries.get(entry_id)
            if fields is not None:
                found.append(((entry_id, fields), pending))
        return found

    def _claim(
        self, stream: Stream, group: Group, consumer: Consumer, entry: Entry, pending: Pending
    ) -> Reply:
        """Assign a pending entry to the consumer. The reply has the time and the count from
        before."""
        keyspace = self._c.keyspace
        entry_id, fields = entry
        idle_ms = max(0, keyspace.now_ms - pending.last_delivery_ms)
        shown: Reply = [text_of(entry_id), fields, idle_ms, pending.deliveries]
        row = (consumer.name, keyspace.now_ms, one_more(pending.deliveries))
        stream.assign(group, entry_id, row, keyspace)
        return shown


def _until_claimable_ms(c: Context, groups: list[tuple[Stream, Group]], min_idle_ms: int) -> int:
    """The time until the first pending entry can be claimed. If none is pending: the time after
    which an entry that another consumer gets now could be claimed."""
    now_ms = c.keyspace.now_ms
    first_ms = now_ms + max(min_idle_ms, SHORTEST_LOOK_MS)
    for stream, group in groups:
        for entry_id, pending in group.pending.oldest():
            if stream.entries.get(entry_id) is not None:
                first_ms = min(first_ms, pending.last_delivery_ms + min_idle_ms)
                break
    return max(first_ms - now_ms, 1)
