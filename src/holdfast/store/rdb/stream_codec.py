"""Streams in redis-server's serialisation: entries in listpacks, then counters, then groups.

The fifth version of the form, that of Redis 8.8, also has the returned entries of each group
(XNACK) and, at its end, the idempotent ids.
"""

from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from typing import NamedTuple

from holdfast.store.rdb.packed import listpack, packed_listpack
from holdfast.store.rdb.primitives import Reader, Steps, length, one, rows, string
from holdfast.store.values.stream import Stream
from holdfast.store.values.stream_group import Group
from holdfast.store.values.stream_id import MAX_SEQUENCE, from_row, id_of, parts_of, signed, to_row
from holdfast.store.values.stream_idempotence import (
    LARGEST,
    LONGEST_S,
    IdempotentIds,
    SettingsRow,
)

NODE_ENTRIES = 100  # entries in one listpack, the default of Redis
ID_BYTES = 16
DELETED, SAME_FIELDS = 1, 2
UNKNOWN = MAX_SEQUENCE  # written for an `entries_read` of None

# The versions of the form, and what each added: counters (Redis 7.0), the last time that a consumer
# got an entry (7.2), ids of idempotent producers (8.6), returned entries (8.8).
WITH_COUNTERS, WITH_ACTIVE_TIME, WITH_PRODUCERS, WITH_RETURNED = 2, 3, 4, 5

Entry = tuple[int, tuple[bytes, ...]]


class GroupData(NamedTuple):
    name: bytes
    last_id: int
    entries_read: int | None
    consumers: list[tuple[bytes, int]]  # name, seen_at_ms
    pending: list[tuple[int, bytes, int, int]]  # id, consumer, delivered_at_ms, deliveries
    returned: Sequence[tuple[int, int]] = ()  # id, deliveries; in the order of their return


class StreamData(NamedTuple):
    entries: list[Entry]
    last_id: int
    max_deleted_id: int
    entries_added: int
    groups: list[GroupData]
    idempotence: SettingsRow | None = None
    iids: Sequence[tuple[bytes, bytes, int]] = ()  # producer, iid, id of the entry

    @property
    def needs_version_5(self) -> bool:
        """Whether the stream has parts for which Redis 7.0 has no form."""
        return self.idempotence is not None or any(group.returned for group in self.groups)


def data_of(stream: Stream) -> StreamData:
    data = StreamData(
        list(stream.range(0)),
        stream.last_id,
        stream.max_deleted_id,
        stream.entries_added,
        [_group_data(group) for group in stream.groups_by_name()],
    )
    ids = stream.idempotence
    if ids is None:
        return data
    iids = [(producer, iid, from_row(id_row)) for (producer, iid), id_row in ids.rows()]
    return data._replace(idempotence=ids.row, iids=iids)


def _group_data(group: Group) -> GroupData:
    returned = islice(group.pending.oldest(), group.returned) if group.returned else ()
    return GroupData(
        group.name,
        group.last_id,
        group.entries_read,
        [(consumer.name, consumer.seen_at_ms) for consumer in group.by_name()],
        [
            (from_row(id_row), *pending.row)
            for id_row, pending in group.pending.items()
            if pending.consumer is not None
        ],
        [(entry_id, pending.deliveries) for entry_id, pending in returned],
    )


# -- writing ----------------------------------------------------------------------------------


def pieces(data: StreamData, version: int = 2) -> Iterator[bytes]:
    """The serialised stream, in the second version of the form, which Redis 7.0 writes, or in the
    fifth. In the second version, a returned entry has a consumer without a name and an early
    delivery time, so that it can be claimed; idempotent ids are left out."""
    entries = data.entries
    starts = range(0, len(entries), NODE_ENTRIES)
    yield length(len(starts))
    for start in starts:
        node = entries[start : start + NODE_ENTRIES]
        yield string(to_row(node[0][0])) + string(_packed_node(node))
    first_id = entries[0][0] if entries else 0
    ids = [_id(i) for i in (data.last_id, first_id, data.max_deleted_id)]
    yield b"".join([length(len(entries)), *ids])
    yield length(data.entries_added & MAX_SEQUENCE) + length(len(data.groups))
    for group in data.groups:
        yield _group(group, version)
    if version >= WITH_PRODUCERS:
        yield from _producers(data)


def _id(entry_id: int) -> bytes:
    return b"".join(map(length, parts_of(entry_id)))


def _packed_node(node: list[Entry]) -> bytes:
    """Entries as one listpack. Its head has the field names of the first entry. An entry with the
    same names is written without them."""
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


def _group(group: GroupData, version: int) -> bytes:
    entries_read = UNKNOWN if group.entries_read is None else group.entries_read & MAX_SEQUENCE
    parts = [string(group.name), _id(group.last_id), length(entries_read)]
    returned = [(entry_id, b"", 0, deliveries) for entry_id, deliveries in group.returned]
    pending = sorted(group.pending + returned)
    parts.append(length(len(pending)))
    for entry_id, _, delivered_at_ms, deliveries in pending:
        parts += [to_row(entry_id), _time(delivered_at_ms), length(deliveries & MAX_SEQUENCE)]
    consumers = dict(group.consumers)
    if version >= WITH_RETURNED:
        pending = sorted(group.pending)
    elif returned:
        consumers.setdefault(b"", 0)
    ids_of: dict[bytes, list[bytes]] = {name: [] for name in consumers}
    for entry_id, consumer, _, _ in pending:
        ids_of[consumer].append(to_row(entry_id))
    parts.append(length(len(consumers)))
    for name, seen_at_ms in consumers.items():
        times = [_time(seen_at_ms)] * (2 if version >= WITH_ACTIVE_TIME else 1)
        parts += [string(name), *times, length(len(ids_of[name])), *ids_of[name]]
    if version >= WITH_RETURNED:
        parts += [length(len(returned)), *[to_row(entry_id) for entry_id, *_ in returned]]
    return b"".join(parts)


def _producers(data: StreamData) -> Iterator[bytes]:
    duration_s, maxsize, added, duplicates = data.idempotence or IdempotentIds().row
    by_producer: dict[bytes, list[tuple[bytes, int]]] = {}
    for producer, iid, entry_id in data.iids:
        by_producer.setdefault(producer, []).append((iid, entry_id))
    yield length(duration_s) + length(maxsize) + length(len(by_producer))
    for producer, iids in by_producer.items():
        yield string(producer) + length(len(iids))
        for iid, entry_id in iids:
            yield string(iid) + _id(entry_id)
    yield length(added & MAX_SEQUENCE) + length(duplicates & MAX_SEQUENCE)


def _time(ms: int) -> bytes:
    return ms.to_bytes(8, "little", signed=True)


# -- reading ----------------------------------------------------------------------------------


def load(r: Reader, version: int) -> Steps[StreamData]:
    """Read a stream."""
    entries: list[Entry] = []
    for _ in range((yield from one(r, Reader.length))):
        id_row, node = yield from rows(r, 1, Reader.string, Reader.string)
        if len(id_row) != ID_BYTES:
            raise ValueError("an id has another size")
        entries += _node(from_row(id_row), listpack(node))
    if any(a >= b for (a, _), (b, _) in pairwise(entries)):
        raise ValueError("entries out of order")
    if (yield from one(r, Reader.length)) != len(entries):
        raise ValueError("another number of entries")
    last_id, max_deleted_id, entries_added = (yield from _read_id(r)), 0, len(entries)
    if version >= WITH_COUNTERS:
        yield from _read_id(r)  # the id of the first entry, which `entries` also has
        max_deleted_id = yield from _read_id(r)
        entries_added = signed((yield from one(r, Reader.length)))
    groups: list[GroupData] = []
    for _ in range((yield from one(r, Reader.length))):
        group = yield from _read_group(r, version)
        groups.append(group)
    if len({group.name for group in groups}) < len(groups):
        raise ValueError("a group is there twice")
    if version < WITH_COUNTERS:
        groups = [
            group._replace(entries_read=_estimate(group.last_id, entries, last_id))
            for group in groups
        ]
    data = StreamData(entries, last_id, max_deleted_id, entries_added, groups)
    return data if version < WITH_PRODUCERS else (yield from _with_producers(r, data))


def _estimate(group_id: int, entries: list[Entry], last_id: int) -> int | None:
    """The number of entries that a group has read, if the last id that it got tells it. Redis
    computes it so, because the first version of the form has no count."""
    if not entries or group_id < entries[0][0]:
        return 0
    if group_id == last_id:
        return len(entries)
    return 1 if group_id == entries[0][0] else None


def _read_id(r: Reader) -> Steps[int]:
    ms, sequence = yield from rows(r, 1, Reader.length, Reader.length)
    return id_of(ms, sequence)


def _read_time(r: Reader) -> int:
    return signed(r.number(8))


def _read_id_row(r: Reader) -> bytes:
    return r.take(ID_BYTES)


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


def _read_group(r: Reader, version: int) -> Steps[GroupData]:
    name = yield from one(r, Reader.string)
    last_id = yield from _read_id(r)
    entries_read = UNKNOWN
    if version >= WITH_COUNTERS:
        entries_read = yield from one(r, Reader.length)
    count = yield from one(r, Reader.length)
    flat = yield from rows(r, count, _read_id_row, _read_time, Reader.length)
    times = zip(flat[1::3], map(signed, flat[2::3]), strict=True)
    given = dict(zip(flat[::3], times, strict=True))
    consumers: dict[bytes, int] = {}
    pending: list[tuple[int, bytes, int, int]] = []
    times_of_consumer = (_read_time, _read_time) if version >= WITH_ACTIVE_TIME else (_read_time,)
    for _ in range((yield from one(r, Reader.length))):
        consumer, seen_at_ms, *_ = yield from rows(r, 1, Reader.string, *times_of_consumer)
        if consumer in consumers:
            raise ValueError("a consumer is there twice")
        consumers[consumer] = seen_at_ms
        count = yield from one(r, Reader.length)
        ids = yield from rows(r, count, _read_id_row)
        pending += [(from_row(id_row), consumer, *given.pop(id_row)) for id_row in ids]
    returned: list[tuple[int, int]] = []
    if version >= WITH_RETURNED:
        count = yield from one(r, Reader.length)
        ids = yield from rows(r, count, _read_id_row)
        returned = [(from_row(id_row), given.pop(id_row)[1]) for id_row in ids]
    if given:
        raise ValueError("a pending entry without a consumer")
    known = None if entries_read == UNKNOWN else signed(entries_read)
    return GroupData(name, last_id, known, list(consumers.items()), pending, returned)


def _with_producers(r: Reader, data: StreamData) -> Steps[StreamData]:
    """Read the idempotent ids, and add them to the stream."""
    duration_s, maxsize, producers = yield from rows(r, 1, *[Reader.length] * 3)
    iids: list[tuple[bytes, bytes, int]] = []
    for _ in range(producers):
        producer, count = yield from rows(r, 1, Reader.string, Reader.length)
        flat = yield from rows(r, count, Reader.string, Reader.length, Reader.length)
        ids = map(id_of, flat[1::3], flat[2::3])
        iids += [(producer, iid, entry_id) for iid, entry_id in zip(flat[::3], ids, strict=True)]
    added, duplicates = map(signed, (yield from rows(r, 2, Reader.length)))
    if not (1 <= duration_s <= LONGEST_S and 1 <= maxsize <= LARGEST):
        raise ValueError("settings of idempotent ids out of range")
    settings = (duration_s, maxsize, added, duplicates)
    if not iids and settings == IdempotentIds().row:
        return data  # as of a stream that never used them
    return data._replace(idempotence=settings, iids=iids)
