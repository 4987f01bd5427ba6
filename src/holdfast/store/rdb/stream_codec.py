"""Streams in redis-server's serialisation: entries in listpacks, then counters, then groups."""

from collections.abc import Iterator
from itertools import islice, pairwise
from typing import NamedTuple

from holdfast.store.rdb.packed import listpack, packed_listpack
from holdfast.store.rdb.primitives import Reader, length, string
from holdfast.store.values.stream import Stream
from holdfast.store.values.stream_group import Group
from holdfast.store.values.stream_id import MAX_SEQUENCE, from_row, id_of, parts_of, signed, to_row

NODE_ENTRIES = 100  # in one listpack, the default of Redis
DELETED, SAME_FIELDS = 1, 2
UNKNOWN = MAX_SEQUENCE  # stands for `entries_read` None

Entry = tuple[int, tuple[bytes, ...]]


class GroupData(NamedTuple):
    name: bytes
    last_id: int
    entries_read: int | None
    consumers: list[tuple[bytes, int]]  # name, seen_at_ms
    pending: list[tuple[int, bytes, int, int]]  # id, consumer, delivered_at_ms, deliveries


class StreamData(NamedTuple):
    entries: list[Entry]
    last_id: int
    max_deleted_id: int
    entries_added: int
    groups: list[GroupData]


# -- writing ----------------------------------------------------------------------------------


def body(stream: Stream) -> bytes:
    """The serialised stream, in the second version of the form, which Redis 7.0 writes."""
    entries = iter(stream.range(0))
    nodes = []
    while node := list(islice(entries, NODE_ENTRIES)):
        nodes.append(string(to_row(node[0][0])) + string(_packed_node(node)))
    parts = [length(len(nodes)), *nodes, length(len(stream))]
    parts += [_id(i) for i in (stream.last_id, stream.first_id, stream.max_deleted_id)]
    parts += [length(stream.entries_added & MAX_SEQUENCE), length(len(stream.groups))]
    parts += [_group(group) for group in stream.groups_by_name()]
    return b"".join(parts)


def _id(entry_id: int) -> bytes:
    return b"".join(map(length, parts_of(entry_id)))


def _packed_node(node: list[Entry]) -> bytes:
    """Entries as one listpack. The field names of the first entry stand at its head. An entry with
    the same names is written without them."""
    first_id, first_fields = node[0]
    names = first_fields[::2]
    elements: list[int | bytes] = [len(node), 0, len(names), *names, 0]
    for entry_id, fields in node:
        offsets = [
            signed(part - first)
            for part, first in zip(parts_of(entry_id), parts_of(first_id), strict=True)
        ]
        if fields[::2] == names:
            elements += [SAME_FIELDS, *offsets, *fields[1::2], len(names) + 3]
        else:
            elements += [0, *offsets, len(fields) // 2, *fields, len(fields) + 4]
    return packed_listpack(elements)


def _group(group: Group) -> bytes:
    entries_read = UNKNOWN if group.entries_read is None else group.entries_read & MAX_SEQUENCE
    parts = [string(group.name), _id(group.last_id), length(entries_read)]
    parts.append(length(len(group.pending)))
    for id_row, pending in group.pending.items():
        parts += [id_row, _time(pending.delivered_at_ms)]
        parts.append(length(pending.deliveries & MAX_SEQUENCE))
    parts.append(length(len(group.consumers)))
    for consumer in group.by_name():
        parts += [string(consumer.name), _time(consumer.seen_at_ms)]
        ids = consumer.pending.rows()
        parts += [length(len(ids)), *ids]
    return b"".join(parts)


def _time(ms: int) -> bytes:
    return ms.to_bytes(8, "little", signed=True)


# -- reading ----------------------------------------------------------------------------------


def load(r: Reader, version: int) -> StreamData:
    """Read a stream. The first version has no counters of added and deleted entries."""
    entries: list[Entry] = []
    for _ in range(r.length()):
        first_id = from_row(r.string())
        entries += _node(first_id, listpack(r.string()))
    if any(a >= b for (a, _), (b, _) in pairwise(entries)):
        raise ValueError("entries out of order")
    if r.length() != len(entries):
        raise ValueError("another number of entries")
    last_id, max_deleted_id, entries_added = _read_id(r), 0, len(entries)
    if version > 1:
        _read_id(r)  # of the first entry, which `entries` has
        max_deleted_id, entries_added = _read_id(r), signed(r.length())
    groups = [_read_group(r, version) for _ in range(r.length())]
    return StreamData(entries, last_id, max_deleted_id, entries_added, groups)


def _read_id(r: Reader) -> int:
    ms = r.length()
    return id_of(ms, r.length())


def _read_time(r: Reader) -> int:
    return signed(r.number(8))


def _node(first_id: int, elements: list[bytes]) -> Iterator[Entry]:
    rest = iter(elements)

    def number() -> int:
        return int(_next(rest))

    def some(count: int) -> list[bytes]:
        return [_next(rest) for _ in range(count)]

    first_ms, first_sequence = parts_of(first_id)
    count = number() + number()
    names = some(number())
    number()
    for _ in range(count):
        flags = number()
        entry_id = id_of(
            *[(first + number()) & MAX_SEQUENCE for first in (first_ms, first_sequence)]
        )
        if flags & SAME_FIELDS:
            values = some(len(names))
            fields = [part for pair in zip(names, values, strict=True) for part in pair]
        else:
            fields = some(number() * 2)
        number()
        if not flags & DELETED:
            yield entry_id, tuple(fields)


def _next(rest: Iterator[bytes]) -> bytes:
    for element in rest:
        return element
    raise ValueError("the entry ends early")


def _read_group(r: Reader, version: int) -> GroupData:
    name, last_id = r.string(), _read_id(r)
    entries_read = r.length() if version > 1 else UNKNOWN
    given = {r.take(16): (_read_time(r), signed(r.length())) for _ in range(r.length())}
    consumers, pending = [], []
    for _ in range(r.length()):
        consumer, seen_at_ms = r.string(), _read_time(r)
        if version > 2:
            r.number(8)  # the last time it was given an entry
        consumers.append((consumer, seen_at_ms))
        for _ in range(r.length()):
            id_row = r.take(16)
            pending.append((from_row(id_row), consumer, *given.pop(id_row)))
    if given:
        raise ValueError("a pending entry without a consumer")
    known = None if entries_read == UNKNOWN else signed(entries_read)
    return GroupData(name, last_id, known, consumers, pending)
