"""Row operations of a stream, turned into effects; a part of effect_builder.py.

The caller must apply each effect before it asks for the next.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from holdfast.crdt.dots import Author
from holdfast.crdt.effects import Effect
from holdfast.crdt.replicated_stream import ADDED, ENTRY, MAX_DELETED_ID, ReplicatedStream
from holdfast.store.change.ops import (
    STREAM_CONSUMERS,
    STREAM_ENTRIES,
    STREAM_GROUPS,
    STREAM_META,
    STREAM_PENDING,
)
from holdfast.store.values.stream_id import from_row

_decode_fields = msgspec.msgpack.Decoder(tuple[bytes, ...]).decode


def _entry(
    stream: ReplicatedStream, sub: bytes, row: bytes | None, author: Author
) -> Iterator[Effect]:
    if row is None:
        yield stream.remove(ENTRY + sub, author)
    elif from_row(sub) > stream.last_id:
        yield stream.enter(from_row(sub), _decode_fields(row), author)
    else:  # COPY: the counters are written before the entries
        yield stream.write(ENTRY + sub, _decode_fields(row), author)


def _meta(
    stream: ReplicatedStream, _: None, row: tuple[bytes, bytes, int], author: Author
) -> Iterator[Effect]:
    """The effects of a new row with the counters. After an added entry nothing is left to do."""
    last_id, max_deleted_id, entries_added = row
    if not stream:
        yield stream.create(author)
    if from_row(last_id) != stream.last_id:
        yield stream.set_last_id(from_row(last_id), author)
    if from_row(max_deleted_id) != stream.max_deleted_id:
        yield stream.write(MAX_DELETED_ID, max_deleted_id, author)
    if entries_added != stream.entries_added:
        yield stream.add(ADDED, entries_added - stream.entries_added, author)


def _group(stream: ReplicatedStream, name: bytes, row: Any, author: Author) -> Iterator[Effect]:
    dots = stream.dots_of(name)
    if row is None:
        yield stream.destroy_group(name, author)
        if not stream:  # only the group had survived a deletion, and clients see a stream
            yield stream.create(author)
        return
    last_id, entries_read = from_row(row[0]), row[1]
    if not dots:
        yield stream.create_group(name, last_id, entries_read, author)
    for dot in dots:
        goes_on = last_id > stream.position_of(dot)
        move = stream.pass_to if goes_on else stream.seek
        yield move(dot, last_id, entries_read, author)


def _consumer(
    stream: ReplicatedStream, sub: tuple[bytes, bytes], seen_at_ms: int | None, author: Author
) -> Iterator[Effect]:
    dots = stream.dots_of(sub[0])
    if seen_at_ms is None:
        yield stream.delete_consumer(dots, sub[1], (), author)
    else:
        yield stream.see_consumer(dots[0], sub[1], seen_at_ms, author)


def _pending(
    stream: ReplicatedStream, sub: tuple[bytes, bytes], row: Any, author: Author
) -> Iterator[Effect]:
    dots = stream.dots_of(sub[0])
    holder = stream.deleted_holder(dots, sub[1])
    if holder is not None and (row is None or row[0] != holder[0]):
        # because clients still see the consumer
        yield stream.see_consumer(dots[0], *holder, author)
    if row is None:
        yield stream.release(dots, [sub[1]], author)
    else:
        yield stream.assign(dots[0], sub[1], tuple(row), author)


# By table. Each function takes the stream, `sub` and `value` of the operation, and the author.
STREAM_ROWS: Final[dict[int, Callable[[ReplicatedStream, Any, Any, Author], Iterator[Effect]]]] = {
    STREAM_META: _meta,
    STREAM_ENTRIES: _entry,
    STREAM_GROUPS: _group,
    STREAM_CONSUMERS: _consumer,
    STREAM_PENDING: _pending,
}
