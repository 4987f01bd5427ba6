"""Streams as logs: adding entries, reading ranges, deleting and trimming. XREAD and XREADGROUP are
in stream_reads.py, deletions that respect consumer groups in stream_deletes.py, the other commands
on consumer groups in stream_groups.py and stream_claims.py.
"""

from functools import partial
from itertools import islice
from typing import NamedTuple

from holdfast.commands.args import Options, parse_int
from holdfast.commands.context import Context
from holdfast.commands.streams.stream_args import (
    POLICIES,
    as_stream,
    entries_reply,
    is_mark,
    parse_high,
    parse_id,
    parse_low,
    parse_new_id,
)
from holdfast.commands.table import command, one
from holdfast.errors import NO_SUCH_KEY, SYNTAX, CommandError
from holdfast.resp import NULL_ARRAY, OK, Reply
from holdfast.store.memory.events import STREAM
from holdfast.store.values import stream_producers, stream_references
from holdfast.store.values.stream import Stream
from holdfast.store.values.stream_id import parts_of, text_at, text_of
from holdfast.store.values.stream_idempotence import iid_of
from holdfast.store.values.stream_references import KEEP_REFERENCES

ID_TOO_SMALL = CommandError(
    "ERR The ID specified in XADD is equal or smaller than the target stream top item"
)
NO_SEQUENCE_LEFT = CommandError("ERR Elements are too large to be stored")  # Redis's text
ID_ZERO = CommandError("ERR The ID specified in XADD must be greater than 0-0")
EXHAUSTED = CommandError(
    "ERR The stream has exhausted the last possible ID, unable to add more items"
)
TWO_STRATEGIES = CommandError(
    "ERR syntax error, MAXLEN and MINID options at the same time are not compatible"
)
MAXLEN_NEGATIVE = CommandError("ERR The MAXLEN argument must be >= 0.")
LIMIT_NEGATIVE = CommandError("ERR The LIMIT argument must be >= 0.")
LIMIT_WITHOUT_STRATEGY = CommandError(
    "ERR syntax error, LIMIT cannot be used without specifying a trimming strategy"
)
LIMIT_WITHOUT_TILDE = CommandError(
    "ERR syntax error, LIMIT cannot be used without the special ~ option"
)
NO_STRATEGY = CommandError("ERR syntax error, XTRIM must be called with a trimming strategy")
ADDED_NEGATIVE = CommandError("ERR entries_added must be positive")
SMALLER_THAN_GIVEN_DELETED = CommandError(
    "ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id"
)
SMALLER_THAN_TOP = CommandError(
    "ERR The ID specified in XSETID is smaller than the target stream top item"
)
FEWER_THAN_THERE = CommandError(
    "ERR The entries_added specified in XSETID is smaller than the target stream length"
)

# A trim with `~` removes at most this many nodes, unless LIMIT gives a number of entries. If nodes
# have no limit of size, it removes at most DEFAULT_LIMIT entries.
MOST_NODES = 100
DEFAULT_LIMIT, HIGHEST_LIMIT = 10_000, 1_000_000

IDMP_TWICE = CommandError("ERR syntax error, IDMP/IDMPAUTO specified multiple times")
IDMP_WITH_ID = CommandError(
    "ERR syntax error, IDMP/IDMPAUTO can be used only with auto-generated IDs"
)
NO_IID = CommandError("ERR syntax error, IDMP requires a non-empty idempotent ID")

# Two servers could add the same message at once.
NOT_IDEMPOTENT = CommandError("ERR an active-active server takes no IDMP and no IDMPAUTO")
# The server chooses the ids: clients of two servers could give two entries the same id.
NOT_ITS_OWN_ID = CommandError("ERR on an active-active server only * is allowed as ID of an entry")

stream_command = partial(command, group="stream", categories="stream", since="5.0.0")


class Trim(NamedTuple):
    """A request to trim: keep the last `maxlen` entries, or if that is None, those from `min_id`
    on."""

    maxlen: int | None
    min_id: int
    is_rough: bool
    limit: int = 0
    policy: int = KEEP_REFERENCES

    def apply(self, c: Context, stream: Stream) -> int:
        """Trim the stream; return how many entries were removed. As in Redis, a trim whose policy
        needs single entries ignores `~`."""
        if self.policy != KEEP_REFERENCES:
            return stream_references.trim(
                stream, self.maxlen, self.min_id, self.limit, self.policy, c.keyspace
            )
        entries = stream.entries
        if self.is_rough:
            count = entries.excess_nodes(self.maxlen, self.min_id, self.limit)
        else:
            count = entries.excess(self.maxlen, self.min_id)
        stream.trim(count, c.keyspace)
        return count


# A producer, and the id that it gave to a message; None if the id follows from the fields.
Message = tuple[bytes, bytes | None]


def _parse_options(
    c: Context, argv: list[bytes], *, is_xadd: bool
) -> tuple[Trim | None, bool, Message | None, int]:
    """Parse `[KEEPREF|DELREF|ACKED] [MAXLEN|MINID [=|~] threshold [LIMIT count]]`, for XADD also
    `[NOMKSTREAM] [IDMPAUTO producer-id | IDMP producer-id idempotent-id]`. Returns the trim; for
    XADD also whether a stream may be created, the message, and the index of the id."""
    trim: Trim | None = None
    message: Message | None = None
    may_create, limit, policy = True, None, None
    at = 2
    while at < len(argv):
        word = argv[at].upper()
        more = len(argv) - 1 - at
        if is_xadd and is_mark(word, b"*"):
            break
        if word in (b"MAXLEN", b"MINID") and more:
            if trim is not None:
                raise TWO_STRATEGIES
            is_rough = False
            if more >= 2 and argv[at + 1] in (b"~", b"="):
                at += 1
                is_rough = argv[at] == b"~"
            at += 1
            if word == b"MAXLEN":
                maxlen = parse_int(argv[at])
                if maxlen < 0:
                    raise MAXLEN_NEGATIVE
                trim = Trim(maxlen, 0, is_rough)
            else:
                trim = Trim(None, parse_id(argv[at]), is_rough)
        elif word == b"LIMIT" and more:
            at += 1
            limit = parse_int(argv[at])
            if limit < 0:
                raise LIMIT_NEGATIVE
        elif policy is None and word in POLICIES:
            policy = POLICIES[word]
        elif is_xadd and word == b"NOMKSTREAM":
            may_create = False
        elif is_xadd and ((word == b"IDMPAUTO" and more) or (word == b"IDMP" and more >= 2)):
            if message is not None:
                raise IDMP_TWICE
            message = _message(argv, at)
            at += 1 if message[1] is None else 2
        elif is_xadd:
            parse_new_id(argv[at])
            if message is not None:
                raise IDMP_WITH_ID
            break
        else:
            raise SYNTAX
        at += 1
    if limit and trim is None:
        raise LIMIT_WITHOUT_STRATEGY
    if trim is None:
        if not is_xadd:
            raise NO_STRATEGY
    elif trim.is_rough:
        if limit is None:
            limit_by_nodes = MOST_NODES * c.keyspace.stream_node_entries
            trim = trim._replace(limit=min(limit_by_nodes, HIGHEST_LIMIT) or DEFAULT_LIMIT)
        else:
            trim = trim._replace(limit=limit)
    has_tilde = trim is not None and trim.is_rough
    # (A primary of Redis sends the exact length that was left, and the LIMIT that a client gave.)
    if limit is not None and not has_tilde and not c.keyspace.obeys_primary:
        raise LIMIT_WITHOUT_TILDE
    if trim is not None and policy:
        trim = trim._replace(policy=policy)
    return trim, may_create, message, at


def _message(argv: list[bytes], at: int) -> Message:
    word = argv[at].upper()
    if not argv[at + 1]:
        name = word.decode()
        raise CommandError(f"ERR syntax error, {name} requires a non-empty producer ID")
    if word == b"IDMPAUTO":
        return argv[at + 1], None
    if not argv[at + 2]:
        raise NO_IID
    return argv[at + 1], argv[at + 2]


@stream_command(
    "xadd",
    -5,
    "write denyoom fast",
    one("RW update", notes="UPDATE instead of INSERT because of the optional trimming feature"),
    tips=("nondeterministic_output",),
)
def xadd(c: Context, argv: list[bytes]) -> Reply:
    """Add an entry to a stream, creating it if needed; return the entry's id.

    XADD key [NOMKSTREAM] [KEEPREF|DELREF|ACKED]
    [IDMPAUTO producer-id | IDMP producer-id idempotent-id]
    [MAXLEN|MINID [=|~] threshold [LIMIT count]] *|id field value [field value ...]

    With IDMP or IDMPAUTO, a message that the producer has sent before is not added again: the reply
    is the id of its entry.
    """
    name = argv[1]
    message: Message | None = None
    if argv[2] == b"*":
        trim, may_create, id_at = None, True, 2
    else:
        trim, may_create, message, id_at = _parse_options(c, argv, is_xadd=True)
    fields = tuple(argv[id_at + 1 :])
    if len(fields) < 2 or len(fields) % 2:
        raise CommandError("ERR wrong number of arguments for 'xadd' command")
    given = None if is_mark(argv[id_at], b"*") else parse_new_id(argv[id_at])
    if given is not None:
        if given == (0, True):
            raise ID_ZERO
        if not c.keyspace.takes_entry_ids:
            raise NOT_ITS_OWN_ID
    if message is not None and not c.keyspace.takes_entry_ids:
        raise NOT_IDEMPOTENT
    db = c.db
    key = db.find(name)
    stream = as_stream(key)
    if key is None or stream is None:
        if not may_create:
            return None
        key, stream = db.create_as(name, Stream)
    log = c.keyspace
    if message is not None:
        message = (message[0], message[1] or iid_of(fields))
        entry_id = _entry_of(c, stream, message)
        if entry_id is not None:
            return text_of(entry_id)
    ms, sequence = _new_id(c, stream, given)
    stream.add_at(ms, sequence, fields, log, log.stream_node_entries, log.stream_node_bytes)
    if message is not None:
        producer, iid = message
        assert iid is not None
        stream_producers.record(stream, producer, iid, stream.last_id, log.now_ms, log)
    db.signal(name, b"xadd", STREAM)
    if trim is not None and trim.apply(c, stream):
        db.notify(name, b"xtrim", STREAM)
    db.wake_waiters(key)
    return text_at(ms, sequence)


def _entry_of(c: Context, stream: Stream, message: Message) -> int | None:
    """The entry of the message, if the message has come before. It then counts as a duplicate."""
    keyspace = c.keyspace
    producer, iid = message
    assert iid is not None
    entry_id = stream_producers.find(stream, producer, iid, keyspace.now_ms)
    if entry_id is None:
        stream_producers.begin(
            stream, keyspace.stream_idmp_duration_s, keyspace.stream_idmp_maxsize, keyspace
        )
        return None
    # Unlike in Redis, this is no change of the data: replicas do not get this count.
    stream_producers.count_duplicate(stream, keyspace)
    return entry_id


def _new_id(c: Context, stream: Stream, given: tuple[int, bool] | None) -> tuple[int, int]:
    """The two parts of the id of a new entry."""
    if stream.is_exhausted:
        raise EXHAUSTED
    if given is None:
        return c.keyspace.next_entry_id(stream)
    entry_id, has_sequence = given
    if not has_sequence:
        next_id = stream.next_id_at(parts_of(entry_id)[0])
        if next_id is None:
            raise NO_SEQUENCE_LEFT
        entry_id = next_id
    if entry_id <= stream.last_id:
        raise ID_TOO_SMALL
    return parts_of(entry_id)


@stream_command("xlen", 2, "readonly fast only_rows", one("RO"))
def xlen(c: Context, argv: list[bytes]) -> Reply:
    """How many entries a stream has.

    XLEN key
    """
    return c.db.read_size(argv[1], Stream)


def _range(c: Context, argv: list[bytes], low: int, high: int, *, backward: bool) -> Reply:
    count: int | None = None
    options = Options(argv, 4)
    while options:
        if options.word() != b"COUNT":
            raise SYNTAX
        count = max(options.integer(), 0)
    stream = c.db.read_as(argv[1], Stream)
    if stream is None:
        return []
    if count == 0:
        return NULL_ARRAY
    entries = stream.entries
    found = (entries.reversed_range if backward else entries.range)(low, high)
    return entries_reply(islice(found, count))


@stream_command("xrange", -4, "readonly", one("RO access"))
def xrange(c: Context, argv: list[bytes]) -> Reply:
    """The entries from one id to another; a `(` before an id excludes it.

    XRANGE key start end [COUNT count]
    """
    low = parse_low(argv[2])
    return _range(c, argv, low, parse_high(argv[3]), backward=False)


@stream_command("xrevrange", -4, "readonly", one("RO access"))
def xrevrange(c: Context, argv: list[bytes]) -> Reply:
    """The entries from one id back to another, the last one first.

    XREVRANGE key end start [COUNT count]
    """
    low = parse_low(argv[3])
    return _range(c, argv, low, parse_high(argv[2]), backward=True)


@stream_command("xdel", -3, "write fast", one("RW delete"))
def xdel(c: Context, argv: list[bytes]) -> Reply:
    """Delete entries; return how many existed. An empty stream stays.

    XDEL key id [id ...]
    """
    found = c.db.find_as(argv[1], Stream)
    if found is None:
        return 0
    ids = [parse_id(text) for text in argv[2:]]
    deleted = sum(found[1].delete(entry_id, c.keyspace) for entry_id in ids)
    if deleted:
        c.db.signal(argv[1], b"xdel", STREAM)
        c.keyspace.dirty += deleted - 1
    return deleted


@stream_command("xtrim", -4, "write", one("RW delete"), tips=("nondeterministic_output",))
def xtrim(c: Context, argv: list[bytes]) -> Reply:
    """Delete the oldest entries, above a length or below an id; return how many.

    XTRIM key MAXLEN|MINID [=|~] threshold [LIMIT count] [KEEPREF|DELREF|ACKED]
    """
    trim = _parse_options(c, argv, is_xadd=False)[0]
    assert trim is not None
    found = c.db.find_as(argv[1], Stream)
    if found is None:
        return 0
    deleted = trim.apply(c, found[1])
    if deleted:
        c.db.signal(argv[1], b"xtrim", STREAM)
        c.keyspace.dirty += deleted - 1
    return deleted


@stream_command("xsetid", -3, "write denyoom fast", one("RW update"))
def xsetid(c: Context, argv: list[bytes]) -> Reply:
    """Set the last id of a stream, and its record of added and deleted entries.

    XSETID key last-id [ENTRIESADDED entries-added] [MAXDELETEDID max-deleted-id]
    """
    last_id = parse_id(argv[2])
    entries_added: int | None = None
    max_deleted_id = 0
    options = Options(argv, 3)
    while options:
        word = options.word()
        if word == b"ENTRIESADDED":
            entries_added = options.integer()
            if entries_added < 0:
                raise ADDED_NEGATIVE
        elif word == b"MAXDELETEDID":
            max_deleted_id = parse_id(options.value())
            if last_id < max_deleted_id:
                raise SMALLER_THAN_GIVEN_DELETED
        else:
            raise SYNTAX
    found = c.db.find_as(argv[1], Stream)
    if found is None:
        raise NO_SUCH_KEY
    _, stream = found
    if len(stream):
        if last_id < stream.newest_id:
            raise SMALLER_THAN_TOP
        if entries_added is not None and entries_added < len(stream):
            raise FEWER_THAN_THERE
    stream.set_meta(
        last_id,
        max_deleted_id or stream.max_deleted_id,
        stream.entries_added if entries_added is None else entries_added,
        c.keyspace,
    )
    c.db.signal_quietly(argv[1], b"xsetid", STREAM)
    return OK
