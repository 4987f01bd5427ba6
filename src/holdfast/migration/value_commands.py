"""A value as the commands that make it, none of which is large: for values whose RESTORE would be
one huge message, and for values that a server does not RESTORE.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from holdfast.client.topology.single import Command
from holdfast.store.rdb.plain import Field, Plain
from holdfast.store.rdb.stream_codec import GroupData, StreamData
from holdfast.store.values.stream_id import text_of

PIECE_BYTES: Final = 1 << 20
PIECE_ELEMENTS: Final = 1000
ENTRY_BYTES: Final = 16  # of an id of a stream, or a score
MAKER: Final = b"holdfast"  # a group, for a moment


def nbytes_of(value: Plain) -> int:
    """The bytes of its strings, about as many as a message with all of it has."""
    content = value.content
    if value.type == "string":
        return len(content)
    if value.type in ("list", "set"):
        return sum(map(len, content))
    if value.type == "zset":
        return sum(len(member) + ENTRY_BYTES for member, _ in content)
    if value.type == "hash":
        return sum(len(name) + len(text) for name, text, _ in content)
    entries = sum(ENTRY_BYTES + sum(map(len, fields)) for _, fields in content.entries)
    return entries + sum(len(group.pending) * ENTRY_BYTES for group in content.groups)


def commands_for(name: bytes, value: Plain) -> Iterator[Command]:
    """In the order in which they must run, on a key that does not exist. Of a stream, a pending
    entry is left out if the stream does not have the entry any more: no command makes one."""
    content = value.content
    if value.type == "string":
        yield from _string(name, content)
    elif value.type == "list":
        yield from _joined(("RPUSH", name), ((element,) for element in content))
    elif value.type == "set":
        yield from _joined(("SADD", name), ((member,) for member in content))
    elif value.type == "zset":
        pairs = ((repr(score).encode(), member) for member, score in content)
        yield from _joined(("ZADD", name), pairs)
    elif value.type == "hash":
        yield from _hash(name, content)
    else:
        yield from _stream(name, content)


def _string(name: bytes, text: bytes) -> Iterator[Command]:
    yield "SET", name, text[:PIECE_BYTES]
    for start in range(PIECE_BYTES, len(text), PIECE_BYTES):
        yield "APPEND", name, text[start : start + PIECE_BYTES]


def _joined(
    head: tuple[str | bytes | int, ...], items: Iterable[tuple[bytes, ...]]
) -> Iterator[Command]:
    """Commands that take many items each."""
    words: list[bytes] = []
    nbytes = count = 0
    for item in items:
        size = sum(map(len, item))
        if words and (nbytes + size > PIECE_BYTES or count >= PIECE_ELEMENTS):
            yield (*head, *words)
            words, nbytes, count = [], 0, 0
        words += item
        nbytes += size
        count += 1
    if words:
        yield (*head, *words)


def _hash(name: bytes, fields: list[Field]) -> Iterator[Command]:
    yield from _joined(("HSET", name), ((field, text) for field, text, _ in fields))
    for field, _, at_ms in fields:
        if at_ms is not None:
            yield "HPEXPIREAT", name, at_ms, "FIELDS", 1, field


def _stream(name: bytes, data: StreamData) -> Iterator[Command]:
    # A stream may have no entries, and XADD would make one.
    yield "XGROUP", "CREATE", name, MAKER, "0", "MKSTREAM"
    yield "XGROUP", "DESTROY", name, MAKER
    for entry_id, fields in data.entries:
        yield ("XADD", name, text_of(entry_id), *fields)
    deleted = text_of(data.max_deleted_id)
    counters = ("ENTRIESADDED", data.entries_added, "MAXDELETEDID", deleted)
    yield ("XSETID", name, text_of(data.last_id), *counters)
    for group in data.groups:
        yield from _group(name, group)


def _group(name: bytes, group: GroupData) -> Iterator[Command]:
    read = () if group.entries_read is None else ("ENTRIESREAD", group.entries_read)
    yield ("XGROUP", "CREATE", name, group.name, text_of(group.last_id), *read)
    for consumer, _ in group.consumers:
        yield "XGROUP", "CREATECONSUMER", name, group.name, consumer
    for entry_id, consumer, at_ms, deliveries in group.pending:
        yield _claim(name, group.name, consumer, entry_id, at_ms, deliveries)
    for entry_id, deliveries in group.returned:
        yield _claim(name, group.name, b"", entry_id, 0, deliveries)


def _claim(
    name: bytes, group: bytes, consumer: bytes, entry_id: int, at_ms: int, deliveries: int
) -> Command:
    claimed = ("XCLAIM", name, group, consumer, 0, text_of(entry_id), "TIME", at_ms)
    return (*claimed, "RETRYCOUNT", deliveries, "FORCE", "JUSTID")
