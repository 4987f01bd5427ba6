"""XDELEX and XACKDEL: deletions with a policy for the references to deleted entries. The reply has
one status for each id."""

from functools import partial

from holdfast.commands.args import INT64_MAX, parse_int_between
from holdfast.commands.context import Context
from holdfast.commands.streams.stream_args import POLICIES, parse_id
from holdfast.commands.table import command, one
from holdfast.errors import SYNTAX, CommandError
from holdfast.resp import Reply
from holdfast.store.memory.events import STREAM
from holdfast.store.values.stream import Stream
from holdfast.store.values.stream_id import to_row
from holdfast.store.values.stream_references import KEEP_REFERENCES, delete

COUNT_NOT_POSITIVE = CommandError("ERR Number of IDs must be a positive integer")
FEWER_IDS = CommandError("ERR The `numids` parameter must match the number of arguments")
NO_IDS = CommandError("ERR IDS option is required")

NOT_FOUND, DELETED, STILL_REFERENCED = -1, 1, 2  # for each id

stream_command = partial(command, group="stream", categories="stream", since="8.2.0")


def _parse(argv: list[bytes], at: int) -> tuple[int, list[bytes]]:
    """Parse `[KEEPREF|DELREF|ACKED] IDS numids id [id ...]`, in any order. The ids are not parsed:
    Redis does not look at them if there is no stream."""
    policy: int | None = None
    ids: list[bytes] = []
    while at < len(argv):
        word = argv[at].upper()
        if policy is None and word in POLICIES:
            policy = POLICIES[word]
            at += 1
        elif word == b"IDS" and at + 1 < len(argv):
            count = parse_int_between(argv[at + 1], 1, INT64_MAX, COUNT_NOT_POSITIVE)
            ids = argv[at + 2 : at + 2 + count]
            if len(ids) < count:
                raise FEWER_IDS
            at += 2 + count
        else:
            raise SYNTAX
    if not ids:
        raise NO_IDS
    return KEEP_REFERENCES if policy is None else policy, ids


def _delete(c: Context, stream: Stream, entry_id: int, policy: int) -> tuple[int, bool]:
    """Delete an entry by this policy. Returns a status, and whether the stream has lost the
    entry."""
    is_deleted = delete(stream, entry_id, policy, c.keyspace)
    if is_deleted is None:
        return STILL_REFERENCED, False
    return DELETED if is_deleted else NOT_FOUND, is_deleted


@stream_command("xdelex", -5, "write fast", one("RW delete"))
def xdelex(c: Context, argv: list[bytes]) -> Reply:
    """Delete entries, with or without the references of groups, or only acknowledged ones.

    XDELEX key [KEEPREF|DELREF|ACKED] IDS numids id [id ...]

    The reply has a number for each id: 1 deleted, -1 not found, 2 a group still refers to it.
    """
    found = c.db.find_as(argv[1], Stream)
    policy, texts = _parse(argv, 2)
    if found is None:
        return [NOT_FOUND] * len(texts)
    ids = [parse_id(text) for text in texts]
    changes = c.keyspace.changes
    results = [_delete(c, found[1], entry_id, policy) for entry_id in ids]
    deleted = sum(is_deleted for _, is_deleted in results)
    if deleted:
        c.db.signal(argv[1], b"xdel", STREAM)
        c.keyspace.dirty += deleted - 1
    elif c.keyspace.changes != changes:
        c.keyspace.dirty += 1  # only references to entries that were deleted before have changed
    return [status for status, _ in results]


@stream_command("xackdel", -6, "write fast", one("RW update delete"))
def xackdel(c: Context, argv: list[bytes]) -> Reply:
    """Acknowledge pending entries of a group and delete them, as XDELEX does.

    XACKDEL key group [KEEPREF|DELREF|ACKED] IDS numids id [id ...]

    The reply has a number for each id: 1 deleted, -1 not pending, 2 acknowledged, but a group still
    refers to it.
    """
    stream = c.db.read_as(argv[1], Stream)
    policy, texts = _parse(argv, 3)
    group = None if stream is None else stream.groups.get(argv[2])
    if stream is None or group is None:
        return [NOT_FOUND] * len(texts)
    replies: list[Reply] = []
    acknowledged = deleted = 0
    for entry_id in [parse_id(text) for text in texts]:
        if not stream.release(group, to_row(entry_id), c.keyspace):
            replies.append(NOT_FOUND)
            continue
        acknowledged += 1
        status, is_deleted = _delete(c, stream, entry_id, policy)
        deleted += is_deleted
        # An entry that was pending, but was deleted before, counts as deleted.
        replies.append(DELETED if status == NOT_FOUND else status)
    c.keyspace.dirty += acknowledged
    if deleted:
        c.db.signal(argv[1], b"xdel", STREAM)
        c.keyspace.dirty -= 1  # the signal counts a change, and all are counted above
    return replies
