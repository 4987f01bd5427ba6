"""The value of a stream key: entries, counters and consumer groups, each in a row of its own.

Each change is one row: `write_row` applies it as recovery would, and reports it to the log, which
is the last argument of all methods that change the stream. Entries in memory are in
stream_entries.py, groups in stream_group.py. Nothing here knows key names, replies or SQL. It is
one class because a change of entries also changes counters and groups.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from holdfast.store.change.change_log import ChangeLog, RewrittenRow
from holdfast.store.change.ops import (
    STREAM_CONSUMERS,
    STREAM_ENTRIES,
    STREAM_GROUPS,
    STREAM_IDEMPOTENCE,
    STREAM_IIDS,
    STREAM_META,
    STREAM_PENDING,
    row_op,
)
from holdfast.store.change.undo import RowUndo
from holdfast.store.values.stream_entries import (
    NODE_BYTES,
    NODE_ENTRIES,
    Entries,
    Entry,
    Fields,
    length_of,
)
from holdfast.store.values.stream_group import PENDING_OVERHEAD, Consumer, Group, PendingRow
from holdfast.store.values.stream_id import (
    MAX_ID,
    MAX_SEQUENCE,
    SMALL,
    from_row,
    id_of,
    join,
    parts_of,
    row_at,
    signed,
    to_row,
)
from holdfast.store.values.stream_idempotence import IdempotentIds

ENTRY_OVERHEAD: Final = 150
ELEMENT_OVERHEAD: Final = 45

_encode: Final = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[bytes, ...]).decode

Row = Any  # as in row operations


class Stream:
    """A stream. `last_id` and `entries_added` count all entries that were ever added.
    `max_deleted_id` is the highest id that XDEL removed: XDEL leaves holes between ids, trimming
    does not. `idempotence` is None until it is used, because most streams never use it."""

    __slots__ = (
        "_last_id",
        "_last_ms",
        "_last_sequence",
        "_meta_row",
        "entries",
        "entries_added",
        "groups",
        "id",
        "idempotence",
        "max_deleted_id",
        "nbytes",
    )

    def __init__(self, key_id: int) -> None:
        self.id: Any = key_id  # as in Elements
        self.nbytes = 0
        self.entries = Entries()
        self.groups: dict[bytes, Group] = {}
        self._last_id = self._last_ms = self._last_sequence = 0
        self.max_deleted_id = 0
        self.entries_added = 0
        self._meta_row = RewrittenRow()
        self.idempotence: IdempotentIds | None = None

    def __len__(self) -> int:
        return len(self.entries)

    def parts(self) -> list[Any]:
        """See Collection. Pending entries and consumers refer to each other."""
        parts: list[Any] = [self.entries.nodes]
        for group in self.groups.values():
            parts += group.pending.parts()
            for consumer in group.consumers.values():
                parts += consumer.pending.parts()
        if self.idempotence is not None:
            parts += self.idempotence.parts()
        return parts

    # -- looking ------------------------------------------------------------------------------

    @property
    def last_id(self) -> int:
        return self._last_id

    @property
    def is_exhausted(self) -> bool:
        """Whether the last id is the highest possible one."""
        return self._last_sequence == MAX_SEQUENCE and self._last_ms == MAX_SEQUENCE

    @property
    def first_id(self) -> int:
        """The id of the first entry; 0 if there are no entries."""
        nodes = self.entries.nodes
        return nodes[0].ids[0] if nodes else 0

    @property
    def newest_id(self) -> int:
        """The id of the last existing entry; 0 if there are no entries."""
        nodes = self.entries.nodes
        return nodes[-1].ids[-1] if nodes else 0

    def range(self, low: int, high: int = MAX_ID) -> Iterator[Entry]:
        return self.entries.range(low, high)

    def groups_by_name(self) -> list[Group]:
        return [self.groups[name] for name in sorted(self.groups)]

    def next_parts(self, now_ms: int) -> tuple[int, int]:
        """The milliseconds and the sequence of the id for a new entry. The stream must not be
        exhausted."""
        if now_ms > self._last_ms:
            return now_ms, 0
        if self._last_sequence < SMALL:
            return self._last_ms, self._last_sequence + 1
        return parts_of(self._last_id + 1)

    def next_id_of(self, replica: int, now_ms: int) -> int:
        """The id for a new entry that no other replica uses: its last 16 bits are the number of the
        replica."""
        lowest = join(*self.next_parts(now_ms))
        own = lowest >> 16 << 16 | replica
        return own if own >= lowest else own + (1 << 16)

    def next_id_at(self, ms: int) -> int | None:
        """The id for a new entry with these milliseconds; None if they have no sequence left."""
        if ms != self._last_ms:
            return id_of(ms, 0)
        return None if self._last_sequence == MAX_SEQUENCE else self._last_id + 1

    def has_holes_from(self, entry_id: int) -> bool:
        """Whether XDEL deleted entries at or after this id, so that ids do not tell the number of
        entries. (False if all remaining entries are after the deleted ones.)"""
        deleted_id = self.max_deleted_id
        return 0 < deleted_id >= entry_id and len(self) > 0 and self.first_id <= deleted_id

    def place_of(self, entry_id: int) -> int | None:
        """How many entries were added up to this id, including deleted ones; None if that is
        unknown."""
        if not self.entries_added:
            return 0
        if not len(self) and entry_id <= self.last_id:
            return self.entries_added
        if entry_id >= self.last_id:
            return self.entries_added if entry_id == self.last_id else None
        if self.max_deleted_id < self.first_id and entry_id <= self.first_id:
            return self.entries_added - len(self) + (entry_id == self.first_id)
        return None

    def lag_of(self, group: Group) -> int | None:
        """How many entries the group has not got yet; None if that is unknown."""
        if not self.entries_added:
            return 0
        if group.entries_read is not None and not self.has_holes_from(group.last_id):
            place: int | None = group.entries_read
        else:
            place = self.place_of(group.last_id)
        return None if place is None else signed(self.entries_added - place)

    def count_behind(self, entry_id: int) -> int:
        """The number of entries with higher ids."""
        return len(self) - self.entries.excess(None, entry_id + 1)

    # -- entries ------------------------------------------------------------------------------

    def add(
        self,
        entry_id: int,
        fields: Fields,
        log: ChangeLog,
        node_entries: int = NODE_ENTRIES,
        node_bytes: int = NODE_BYTES,
    ) -> None:
        """Add an entry. The id must be higher than `last_id`."""
        ms, sequence = parts_of(entry_id)
        self.add_at(ms, sequence, fields, log, node_entries, node_bytes)

    def add_at(
        self,
        ms: int,
        sequence: int,
        fields: Fields,
        log: ChangeLog,
        node_entries: int,
        node_bytes: int,
    ) -> None:
        """Add an entry, whose id is given in parts."""
        sub = row_at(ms, sequence)
        if log.undo is not None:
            log.undo.append(RowUndo(STREAM_ENTRIES, self, sub, None))
            log.undo.append(RowUndo(STREAM_META, self, None, self._meta))
        text_bytes = length_of(fields)
        entry_id = join(ms, sequence)
        self.entries.append(entry_id, ms, sequence, fields, text_bytes, node_entries, node_bytes)
        nbytes = ENTRY_OVERHEAD + ELEMENT_OVERHEAD * len(fields) + text_bytes
        self.nbytes += nbytes
        log.used_bytes += nbytes
        self._last_id, self._last_ms, self._last_sequence = entry_id, ms, sequence
        self.entries_added = added = signed(self.entries_added + 1)
        if log.states_intents:  # there each step has a meaning
            log.ops.append(row_op(STREAM_ENTRIES, self.id, sub, _encode(fields)))
            self._meta_row.write(row_op(STREAM_META, self.id, None, self._meta), log)
            return
        if not log.add_entry(self, sub, fields, added):
            log.begin_entries(self, self.id, to_row(self.max_deleted_id), sub, fields, added)
            self._meta_row.leave()

    def delete(self, entry_id: int, log: ChangeLog) -> bool:
        """XDEL; False if the entry does not exist."""
        if self.entries.get(entry_id) is None:
            return False
        self.write_row(STREAM_ENTRIES, to_row(entry_id), None, log)
        if entry_id > self.max_deleted_id:
            self.set_meta(self.last_id, entry_id, self.entries_added, log)
        return True

    def trim(self, count: int, log: ChangeLog) -> None:
        """Remove the first entries."""
        for entry_id in self.entries.first_ids(count):
            self.write_row(STREAM_ENTRIES, to_row(entry_id), None, log)

    def remove(self, entry_id: int, log: ChangeLog) -> None:
        """Remove an entry as a trim does, without a note that it was deleted."""
        self.write_row(STREAM_ENTRIES, to_row(entry_id), None, log)

    def set_meta(
        self, last_id: int, max_deleted_id: int, entries_added: int, log: ChangeLog
    ) -> None:
        if log.undo is not None:
            log.undo.append(RowUndo(STREAM_META, self, None, self._meta))
        self._set_last_id(last_id)
        self.max_deleted_id = max_deleted_id
        self.entries_added = entries_added
        self._meta_row.write(row_op(STREAM_META, self.id, None, self._meta), log)

    def create(self, log: ChangeLog) -> None:
        """Write the row that makes a stream without entries exist."""
        self.set_meta(0, 0, 0, log)

    # -- groups -------------------------------------------------------------------------------

    def set_group(
        self, name: bytes, last_id: int, entries_read: int | None, log: ChangeLog
    ) -> None:
        """Change a group, or create it."""
        row = (to_row(last_id), entries_read)
        group = self.groups.get(name)
        if log.undo is not None:
            was = None if group is None else group.row
            log.undo.append(RowUndo(STREAM_GROUPS, self, name, was))
        if group is None:
            group = self._new_group(name, last_id, entries_read)
            log.used_bytes += group.nbytes
        else:
            group.last_id, group.entries_read = last_id, entries_read
        group.position_row.write(row_op(STREAM_GROUPS, self.id, name, row), log)

    def delete_group(self, group: Group, log: ChangeLog) -> None:
        for consumer in list(group.consumers.values()):
            self.delete_consumer(group, consumer, log)
        for id_row in group.pending.rows():  # returned entries
            self.release(group, id_row, log)
        self.write_row(STREAM_GROUPS, group.name, None, log)

    def see_consumer(self, group: Group, name: bytes, now_ms: int, log: ChangeLog) -> Consumer:
        """Note that a consumer was seen; create it if necessary."""
        consumer = group.consumers.get(name)
        if consumer is not None and consumer.seen_at_ms == now_ms:
            return consumer
        self.write_row(STREAM_CONSUMERS, (group.name, name), now_ms, log)
        return group.consumers[name]

    def delete_consumer(self, group: Group, consumer: Consumer, log: ChangeLog) -> None:
        for id_row in consumer.pending.rows():
            self.release(group, id_row, log)
        self.write_row(STREAM_CONSUMERS, (group.name, consumer.name), None, log)

    def pass_to(self, group: Group, ids: list[int], log: ChangeLog) -> None:
        """Note that the group got these entries, in their order, and so has all earlier ones."""
        last_id, entries_read = group.last_id, group.entries_read
        for entry_id in ids:
            if entry_id <= last_id:
                continue
            last_id = entry_id
            if entries_read is not None and not self.has_holes_from(entry_id):
                entries_read = signed(entries_read + 1)
            elif self.entries_added:
                entries_read = self.place_of(entry_id)
        if last_id != group.last_id:
            self.set_group(group.name, last_id, entries_read, log)

    def assign(self, group: Group, entry_id: int, row: PendingRow, log: ChangeLog) -> None:
        """Write which consumer has the entry, since when, and how often the entry was delivered."""
        self.write_row(STREAM_PENDING, (group.name, to_row(entry_id)), row, log)

    def hand_back(self, group: Group, id_row: bytes, deliveries: int, log: ChangeLog) -> None:
        """XNACK: the entry stays pending, but no consumer has it."""
        row = (b"", group.last_returned + 1, deliveries)
        self.write_row(STREAM_PENDING, (group.name, id_row), row, log)

    def deliver(
        self, group: Group, consumer: Consumer, ids: list[int], now_ms: int, log: ChangeLog
    ) -> None:
        """`assign` for entries that usually no consumer has yet."""
        row: Any = (consumer.name, now_ms, 1)  # one object for all entries
        for entry_id in ids:
            id_row = to_row(entry_id)
            if log.undo is not None or group.pending.get(id_row) is not None:
                self.write_row(STREAM_PENDING, (group.name, id_row), row, log)
                continue
            group.add_pending(id_row, consumer, now_ms)
            self.nbytes += PENDING_OVERHEAD
            log.used_bytes += PENDING_OVERHEAD
            log.ops.append(row_op(STREAM_PENDING, self.id, (group.name, id_row), row))

    def release(self, group: Group, id_row: bytes, log: ChangeLog) -> bool:
        """Remove the entry from its consumer; False if the entry was not pending."""
        if group.pending.get(id_row) is None:
            return False
        self.write_row(STREAM_PENDING, (group.name, id_row), None, log)
        return True

    # -- whole --------------------------------------------------------------------------------

    def copy(self, new_id: int, log: ChangeLog) -> "Stream":
        """See Collection. No undo, and no bytes are counted: the key of the copy does both."""
        new = Stream(new_id)
        for table, sub, row in self.rows():
            ROWS[table](new, sub, row)
            log.ops.append(row_op(table, new_id, sub, row))
        return new

    def rows(self) -> Iterator[tuple[int, Any, Row]]:
        """All rows, as `table`, `sub` and `value` of row operations."""
        yield STREAM_META, None, self._meta
        for entry_id, fields in self.range(0):
            yield STREAM_ENTRIES, to_row(entry_id), _encode(fields)
        for name, group in self.groups.items():
            yield STREAM_GROUPS, name, group.row
            for consumer in group.consumers.values():
                yield STREAM_CONSUMERS, (name, consumer.name), consumer.seen_at_ms
            for id_row, pending in group.pending.items():
                yield STREAM_PENDING, (name, id_row), pending.row
        if self.idempotence is not None:
            yield STREAM_IDEMPOTENCE, None, self.idempotence.row
            for sub, row in self.idempotence.rows():
                yield STREAM_IIDS, sub, row

    # -- rows ---------------------------------------------------------------------------------

    def apply_meta(self, _: None, row: Row) -> None:
        if row is not None:
            self._set_last_id(from_row(row[0]))
            self.max_deleted_id = from_row(row[1])
            self.entries_added = row[2]

    def apply_entry(self, sub: bytes, row: bytes | None) -> None:
        self._put_entry(from_row(sub), None if row is None else _decode(row))

    def load(self, entries: list[tuple[bytes, Fields]]) -> None:
        """Add the entries of a row of the file."""
        for sub, fields in entries:
            self._put_entry(from_row(sub), fields)

    def apply_group(self, name: bytes, row: Row) -> None:
        group = self.groups.get(name)
        if row is None:
            if group is not None:
                self.nbytes -= group.nbytes
                del self.groups[name]
            return
        last_id, entries_read = from_row(row[0]), row[1]
        if group is None:
            self._new_group(name, last_id, entries_read)
        else:
            group.last_id, group.entries_read = last_id, entries_read

    def apply_consumer(self, sub: tuple[bytes, bytes], seen_at_ms: int | None) -> None:
        """Apply the row of a consumer. A row of a group that does not exist is ignored: a fold was
        interrupted, and the journal has the right rows."""
        group = self.groups.get(sub[0])
        if group is not None:
            self.nbytes += group.put_consumer(sub[1], seen_at_ms)

    def apply_pending(self, sub: tuple[bytes, bytes], row: PendingRow | None) -> None:
        group = self.groups.get(sub[0])
        if group is not None:
            self.nbytes += group.put_pending(sub[1], row)

    def apply_idempotence(self, _: None, row: Row) -> None:
        ids = self.idempotence
        if row is None:
            if ids is not None:
                self.nbytes -= ids.nbytes
                self.idempotence = None
        elif ids is None:
            self._begin_idempotence().set(row)
        else:
            ids.set(row)

    def apply_iid(self, sub: tuple[bytes, bytes], row: bytes | None) -> None:
        """Apply the row of an idempotent id. It may come before the settings if a fold was
        interrupted; then the journal has the settings."""
        ids = self.idempotence
        if ids is None and row is not None:
            ids = self._begin_idempotence()
        if ids is not None:
            self.nbytes += ids.put(sub, row)

    # -- parts --------------------------------------------------------------------------------

    def _begin_idempotence(self) -> IdempotentIds:
        ids = self.idempotence = IdempotentIds()
        self.nbytes += ids.nbytes
        return ids

    def _set_last_id(self, last_id: int) -> None:
        self._last_id = last_id
        self._last_ms, self._last_sequence = parts_of(last_id)

    @property
    def _meta(self) -> tuple[bytes, bytes, int]:
        return to_row(self.last_id), to_row(self.max_deleted_id), self.entries_added

    def _new_group(self, name: bytes, last_id: int, entries_read: int | None) -> Group:
        group = self.groups[name] = Group(name, last_id, entries_read)
        self.nbytes += group.nbytes
        return group

    def _put_entry(self, entry_id: int, fields: Fields | None) -> None:
        if fields is None:
            old = self.entries.pop(entry_id)
        else:
            old = self.entries.put(entry_id, fields)
            self.nbytes += _size(fields)
        if old is not None:
            self.nbytes -= _size(old)

    def write_row(self, table: int, sub: Any, row: Row, log: ChangeLog) -> None:
        if log.undo is not None:
            log.undo.append(RowUndo(table, self, sub, self._row(table, sub)))
        log.ops.append(row_op(table, self.id, sub, row))
        nbytes = self.nbytes
        ROWS[table](self, sub, row)
        log.used_bytes += self.nbytes - nbytes

    def _entry_of(self, sub: tuple[bytes, bytes]) -> int | None:
        producer = None if self.idempotence is None else self.idempotence.producers.get(sub[0])
        return None if producer is None else producer.get(sub[1])

    def _row(self, table: int, sub: Any) -> Row:
        """The current value of a row."""
        if table == STREAM_ENTRIES:
            fields = self.entries.get(from_row(sub))
            return None if fields is None else _encode(fields)
        if table == STREAM_IIDS:
            entry_id = self._entry_of(sub)
            return None if entry_id is None else to_row(entry_id)
        group = self.groups.get(sub if table == STREAM_GROUPS else sub[0])
        if group is None or table == STREAM_GROUPS:
            return None if group is None else group.row
        if table == STREAM_CONSUMERS:
            consumer = group.consumers.get(sub[1])
            return None if consumer is None else consumer.seen_at_ms
        pending = group.pending.get(sub[1])
        return None if pending is None else pending.row


ROWS: dict[int, Callable[[Stream, Any, Row], None]] = {
    STREAM_META: Stream.apply_meta,
    STREAM_ENTRIES: Stream.apply_entry,
    STREAM_GROUPS: Stream.apply_group,
    STREAM_CONSUMERS: Stream.apply_consumer,
    STREAM_PENDING: Stream.apply_pending,
    STREAM_IDEMPOTENCE: Stream.apply_idempotence,
    STREAM_IIDS: Stream.apply_iid,
}


def _size(fields: Fields) -> int:
    return ENTRY_OVERHEAD + ELEMENT_OVERHEAD * len(fields) + length_of(fields)
