"""XINFO: a description of a stream, its groups and their consumers."""

from functools import partial
from itertools import groupby, islice

from holdfast.commands.args import parse_int
from holdfast.commands.context import Context
from holdfast.commands.streams.stream_args import entries_reply, entry_reply
from holdfast.commands.table import command, container, help_reply, one
from holdfast.errors import NO_SUCH_KEY, CommandError
from holdfast.resp import Reply
from holdfast.resp.c_strings import c_string
from holdfast.store.values.stream import Stream
from holdfast.store.values.stream_group import Consumer, Group
from holdfast.store.values.stream_id import text_of, to_row

DEFAULT_COUNT = 10  # of FULL

subcommand = partial(command, group="stream", categories="stream", since="5.0.0")

container(
    "xinfo", -2, "", "Describe a stream, its groups and consumers.", group="stream", since="5.0.0"
)


def _read(c: Context, name: bytes) -> Stream:
    stream = c.db.read_as(name, Stream)
    if stream is None:
        raise NO_SUCH_KEY
    return stream


@subcommand("xinfo|stream", -3, "readonly", one("RO access", 2))
def stream_(c: Context, argv: list[bytes]) -> Reply:
    """Describe a stream; with FULL also its entries, groups and consumers.

    XINFO STREAM key [FULL [COUNT count]]
    """
    stream = _read(c, argv[2])
    is_full, count = len(argv) > 3, DEFAULT_COUNT
    if is_full:
        words = [word.upper() for word in argv[3:5]]
        if len(argv) not in (4, 6) or words != [b"FULL", b"COUNT"][: len(words)]:
            raise CommandError(
                b"ERR unknown subcommand or wrong number of arguments for '%b'. Try XINFO HELP."
                % c_string(argv[1])[:128]
            )
        if len(argv) == 6:
            count = parse_int(argv[5])
            if count < 0:
                count = DEFAULT_COUNT
    keys = [to_row(node.first_id) for node in stream.entries.nodes]
    described: dict[bytes, Reply] = {
        b"length": len(stream),
        b"radix-tree-keys": len(keys),
        b"radix-tree-nodes": _tree_nodes(keys),
        b"last-generated-id": text_of(stream.last_id),
        b"max-deleted-entry-id": text_of(stream.max_deleted_id),
        b"entries-added": stream.entries_added,
        b"recorded-first-entry-id": text_of(stream.first_id),
    }
    ids = stream.idempotence
    if ids is not None:  # the same reply as Redis 7.0, as long as no client uses it
        producers, iids = ids.tracked(c.keyspace.now_ms)
        described |= {
            b"idmp-duration": ids.duration_s,
            b"idmp-maxsize": ids.maxsize,
            b"pids-tracked": producers,
            b"iids-tracked": iids,
            b"iids-added": ids.added,
            b"iids-duplicates": ids.duplicates,
        }
    if not is_full:
        first, last = stream.entries.first, stream.entries.last
        return described | {
            b"groups": len(stream.groups),
            b"first-entry": None if first is None else entry_reply(first),
            b"last-entry": None if last is None else entry_reply(last),
        }
    limit = count or None  # 0: all
    groups: list[Reply] = [
        _full_group(c, stream, group, limit) for group in stream.groups_by_name()
    ]
    return described | {
        b"entries": entries_reply(islice(stream.range(0), limit)),
        b"groups": groups,
    }


def _tree_nodes(keys: list[bytes], depth: int = 0) -> int:
    """The number of nodes below some depth in Redis's radix tree of these ordered keys: one for
    each key, one for each fork, and one for each stretch without forks."""
    if not keys:
        return 1
    first, last = keys[0], keys[-1]
    if len(keys) == 1:
        return 1 + (depth < len(first))
    fork = next(at for at in range(depth, len(first)) if first[at] != last[at])
    branches = groupby(keys, key=lambda key: key[fork])
    below = sum(_tree_nodes(list(branch), fork + 1) for _, branch in branches)
    return below + 1 + (depth < fork)


def _full_group(c: Context, stream: Stream, group: Group, limit: int | None) -> Reply:
    pending = islice(group.pending.range(), limit)
    consumers: list[Reply] = [_full_consumer(consumer, limit) for consumer in group.by_name()]
    described: dict[bytes, Reply] = {
        b"name": group.name,
        b"last-delivered-id": text_of(group.last_id),
        b"entries-read": group.entries_read,
        b"lag": c.keyspace.group_lag(stream, group),
        b"pel-count": len(group.pending),
    }
    if group.returned:  # the same reply as Redis 7.0, as long as no client uses XNACK
        described[b"nacked-count"] = group.returned
    return described | {
        b"pending": [
            [text_of(entry_id), one_.consumer_name, one_.last_delivery_ms, one_.deliveries]
            for entry_id, one_ in pending
        ],
        b"consumers": consumers,
    }


def _full_consumer(consumer: Consumer, limit: int | None) -> Reply:
    pending = islice(consumer.pending.range(), limit)
    return {
        b"name": consumer.name,
        b"seen-time": consumer.seen_at_ms,
        b"pel-count": len(consumer.pending),
        b"pending": [
            [text_of(entry_id), one_.delivered_at_ms, one_.deliveries] for entry_id, one_ in pending
        ],
    }


@subcommand("xinfo|groups", 3, "readonly", one("RO access", 2))
def groups(c: Context, argv: list[bytes]) -> Reply:
    """Describe the groups of a stream.

    XINFO GROUPS key
    """
    stream = _read(c, argv[2])
    return [
        {
            b"name": group.name,
            b"consumers": len(group.consumers),
            b"pending": len(group.pending),
            b"last-delivered-id": text_of(group.last_id),
            b"entries-read": group.entries_read,
            b"lag": c.keyspace.group_lag(stream, group),
        }
        for group in stream.groups_by_name()
    ]


@subcommand(
    "xinfo|consumers", 4, "readonly", one("RO access", 2), tips=("nondeterministic_output",)
)
def consumers(c: Context, argv: list[bytes]) -> Reply:
    """Describe the consumers of a group.

    XINFO CONSUMERS key group
    """
    group = _read(c, argv[2]).groups.get(argv[3])
    if group is None:
        raise CommandError(
            b"NOGROUP No such consumer group '%b' for key name '%b'"
            % (c_string(argv[3]), c_string(argv[2]))
        )
    now_ms = c.keyspace.now_ms
    return [
        {
            b"name": consumer.name,
            b"pending": len(consumer.pending),
            b"idle": max(0, now_ms - consumer.seen_at_ms),
        }
        for consumer in group.by_name()
    ]


@subcommand("xinfo|help", 2, "loading stale")
def help_(c: Context, argv: list[bytes]) -> Reply:
    """Show the subcommands.

    XINFO HELP
    """
    return help_reply(
        "XINFO",
        """
        CONSUMERS <key> <group>
            Describe the consumers of a group.
        GROUPS <key>
            Describe the groups of a stream.
        STREAM <key> [FULL [COUNT <count>]]
            Describe a stream.
        """,
    )
