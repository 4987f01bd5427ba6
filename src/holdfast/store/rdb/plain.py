"""A value by itself, without key and rows: the common ground of all serialised forms.

`plain_of` makes one from a collection; `FILLERS` put one into a new collection.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from holdfast.store.change.change_log import ChangeLog
from holdfast.store.rdb.stream_codec import StreamData, data_of
from holdfast.store.values import stream_producers
from holdfast.store.values.hash import Hash
from holdfast.store.values.list import List
from holdfast.store.values.registry import Value
from holdfast.store.values.set import Set
from holdfast.store.values.stream import Stream
from holdfast.store.values.stream_id import to_row
from holdfast.store.values.zset import ZSet

Field = tuple[bytes, bytes, int | None]  # name, value, expires_at_ms


class Plain(NamedTuple):
    """A type and its content: bytes for a string; a sequence of bytes for a list or a set; `Field`s
    for a hash; pairs of member and score for a sorted set; a `StreamData` for a stream."""

    type: str
    content: Any


def plain_of(value: Value) -> Plain:
    if isinstance(value, List):
        return Plain("list", list(value.range(0, -1)))
    if isinstance(value, Hash):
        fields = [(name, text, value.expires_at_ms(name)) for name, text in value.items.items()]
        return Plain("hash", fields)
    if isinstance(value, Set):
        return Plain("set", list(value))
    if isinstance(value, ZSet):
        highest_first = reversed(value.slice(0, len(value)))  # as redis-server writes a large one
        return Plain("zset", [(member, score) for score, member in highest_first])
    if isinstance(value, Stream):
        return Plain("stream", data_of(value))
    return Plain("string", value)


# -- into new collections ---------------------------------------------------------------------


def _fill_list(value: List, elements: list[bytes], log: ChangeLog) -> None:
    value.push_right(elements, log)


def _fill_hash(value: Hash, fields: list[Field], log: ChangeLog) -> None:
    for name, text, expires_at_ms in fields:
        value.set(name, text, log)
        if expires_at_ms is not None:
            value.set_expiry(name, expires_at_ms, log)


def _fill_set(value: Set, members: list[bytes], log: ChangeLog) -> None:
    for member in members:
        value.add(member, log)


def _fill_zset(value: ZSet, entries: list[tuple[bytes, float]], log: ChangeLog) -> None:
    for member, score in entries:
        value.put(member, score, log)


def _fill_stream(value: Stream, data: StreamData, log: ChangeLog) -> None:
    for entry_id, fields in data.entries:
        value.add(entry_id, fields, log)
    value.set_meta(data.last_id, data.max_deleted_id, data.entries_added, log)
    for name, last_id, entries_read, consumers, pending, returned in data.groups:
        value.set_group(name, last_id, entries_read, log)
        group = value.groups[name]
        for consumer, seen_at_ms in consumers:
            value.see_consumer(group, consumer, seen_at_ms, log)
        for entry_id, consumer, delivered_at_ms, deliveries in pending:
            if not consumer:
                # because a negative time marks returned entries
                delivered_at_ms = max(delivered_at_ms, 0)
            value.assign(group, entry_id, (consumer, delivered_at_ms, deliveries), log)
        for entry_id, deliveries in returned:
            value.hand_back(group, to_row(entry_id), deliveries, log)
    # active-active servers have no idempotent ids
    if data.idempotence is not None and not log.states_intents:
        stream_producers.fill(value, data.idempotence, data.iids, log)


FILLERS: dict[str, tuple[type[Any], Callable[[Any, Any, ChangeLog], None]]] = {
    "list": (List, _fill_list),
    "hash": (Hash, _fill_hash),
    "set": (Set, _fill_set),
    "zset": (ZSet, _fill_zset),
    "stream": (Stream, _fill_stream),
}
