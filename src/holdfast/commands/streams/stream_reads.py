"""XREAD and XREADGROUP: new entries of several streams; with BLOCK they wait for them.

A client that is woken runs its command again. `$` means the last id at the time when the wait
began, so the command that runs again has that id in the place of `$`.
"""

from functools import partial
from itertools import islice

from holdfast.commands.args import TIMEOUT_NEGATIVE, TIMEOUT_NOT_A_NUMBER, parse_int
from holdfast.commands.context import Block, Context, Result
from holdfast.commands.streams.stream_args import (
    as_stream,
    entries_reply,
    is_mark,
    no_such_group,
    parse_id,
)
from holdfast.commands.table import Keys, command
from holdfast.errors import SYNTAX, CommandError
from holdfast.resp import NULL_ARRAY, Pairs, Reply
from holdfast.store.memory.events import STREAM
from holdfast.store.values.stream import Stream
from holdfast.store.values.stream_group import Consumer, Group
from holdfast.store.values.stream_id import MAX_ID, signed, text_of

GROUP_ONLY_IN_XREADGROUP = CommandError(
    "ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead."
)
NOACK_ONLY_IN_XREADGROUP = CommandError(
    "ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead."
)
UNBALANCED = CommandError(
    "ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be specified."
)
NO_GROUP_OPTION = CommandError("ERR Missing GROUP option for XREADGROUP")
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

stream_command = partial(command, group="stream", categories="stream", since="5.0.0")


class Reading:
    """The parsed arguments. `most` None: all entries; `timeout_s` None: do not wait."""

    __slots__ = ("consumer", "group", "ids", "most", "names", "no_ack", "timeout_s")

    def __init__(self) -> None:
        self.group: bytes | None = None
        self.consumer = b""
        self.most: int | None = None
        self.timeout_s: float | None = None
        self.no_ack = False
        self.names: list[bytes] = []
        self.ids: list[bytes] = []

    def streams(self, c: Context) -> list[tuple[bytes, bytes]]:
        """The names and ids to read. As in Redis 7.0, a client that was woken reads only the stream
        that woke it."""
        pairs = [(self.names[at], self.ids[at]) for at in range(len(self.names))]
        woken_by = c.woken_by
        if woken_by is not None:
            return [pair for pair in pairs if pair[0] == woken_by][:1]
        return pairs


def _parse(c: Context, argv: list[bytes], *, is_group: bool) -> Reading:
    reading = Reading()
    at = 1
    while at < len(argv):
        word, more = argv[at], len(argv) - 1 - at
        if word != b"GROUP" and word != b"COUNT" and word != b"STREAMS":  # the usual spelling
            word = word.upper()
        if word == b"BLOCK" and more:
            if c.is_script:
                raise CommandError(
                    b"ERR %s command is not allowed with BLOCK option from scripts" % argv[0]
                )
            at += 1
            reading.timeout_s = _parse_timeout_s(argv[at])
        elif word == b"COUNT" and more:
            at += 1
            reading.most = max(parse_int(argv[at]), 0) or None
        elif word == b"STREAMS" and more:
            break
        elif word == b"GROUP" and more >= 2:
            if not is_group:
                raise GROUP_ONLY_IN_XREADGROUP
            reading.group, reading.consumer = argv[at + 1], argv[at + 2]
            at += 2
        elif word == b"NOACK":
            if not is_group:
                raise NOACK_ONLY_IN_XREADGROUP
            reading.no_ack = True
        else:
            raise SYNTAX
        at += 1
    else:
        raise SYNTAX
    streams = more >> 1
    if more & 1:
        raise UNBALANCED
    if is_group and reading.group is None:
        raise NO_GROUP_OPTION
    reading.names = argv[at + 1 : at + 1 + streams]
    reading.ids = argv[at + 1 + streams :]
    return reading


def _parse_timeout_s(text: bytes) -> float:
    milliseconds = parse_int(text, TIMEOUT_NOT_A_NUMBER)
    if milliseconds < 0:
        raise TIMEOUT_NEGATIVE
    return milliseconds / 1000


def _newest(c: Context, stream: Stream) -> int:
    """The id of the newest entry. As in Redis 7.0, for a client that was woken it counts even if
    the entry has been deleted since."""
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

    XREAD [COUNT count] [BLOCK milliseconds] STREAMS key [key ...] id [id ...]
    """
    reading = _parse(c, argv, is_group=False)
    if reading.timeout_s is not None:
        c.check_waitable(reading.names)
    streams = reading.streams(c)
    after = [_xread_id(_stream(c, name), text) for name, text in streams]
    count = reading.most or (MOST_WHEN_WOKEN if c.is_woken else None)
    found = Pairs()
    for (name, _), after_id in zip(streams, after, strict=True):
        stream = _stream(c, name)
        if stream is not None and _newest(c, stream) > after_id:
            entries = islice(stream.range(after_id + 1), count)
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

    XREADGROUP GROUP group consumer [COUNT count] [BLOCK milliseconds] [NOACK] STREAMS key
    [key ...] id [id ...]
    """
    reading = _parse(c, argv, is_group=True)
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
    found = Pairs()
    for name, stream, group, after_id in wanted:
        # Redis represents `>` as the highest id.
        is_history = after_id is not None and after_id != MAX_ID
        if is_history or _newest(c, stream) > group.last_id:
            consumer = _seen(c, name, stream, group, reading.consumer)
            if after_id is not None and is_history:
                entries = _history(c, stream, group, consumer, after_id, reading.most)
            else:
                entries = _news(c, stream, group, consumer, reading)
            found.append([name, entries])
            c.keyspace.dirty += 1
    if found:
        return found
    if reading.timeout_s is None:
        return NULL_ARRAY
    return Block(reading.names, Stream, reading.timeout_s, even_if_gone=True, rivals=reading.group)


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


def _news(c: Context, stream: Stream, group: Group, consumer: Consumer, reading: Reading) -> Reply:
    """Assign entries that are new to the group to this consumer, and return them."""
    count = reading.most or (MOST_WHEN_WOKEN if c.is_woken else None)
    if count is None:
        entries = list(stream.range(group.last_id + 1))
    else:
        entries = stream.entries.first_from(group.last_id + 1, count)
    ids = [entry_id for entry_id, _ in entries]
    stream.pass_to(group, ids, c.keyspace)
    if not reading.no_ack:
        stream.deliver(group, consumer, ids, c.keyspace.now_ms, c.keyspace)
    return entries_reply(entries)


def _history(
    c: Context, stream: Stream, group: Group, consumer: Consumer, after_id: int, count: int | None
) -> Reply:
    """Deliver the consumer's pending entries once more. A deleted entry is null."""
    pending = list(islice(consumer.pending.range(after_id + 1, MAX_ID), count))
    replies: list[Reply] = []
    for entry_id, was in pending:
        fields = stream.entries.get(entry_id)
        if fields is not None:
            row = (consumer.name, c.keyspace.now_ms, signed(was.deliveries + 1))
            stream.assign(group, entry_id, row, c.keyspace)
        replies.append([text_of(entry_id), NULL_ARRAY if fields is None else fields])
    return replies
