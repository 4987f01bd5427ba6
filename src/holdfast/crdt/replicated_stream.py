"""The replicated stream: entries, counters and consumer groups are cells.

The removal of an entry removes the entry that its author has seen. If several replicas gave one id
to different entries, all are kept. Groups are different: each part of a group names the event that
created the group, and is removed with it, even if a client of another replica reads at that moment.
Groups that were created under one name at the same time are shown as one. Ids are 128-bit numbers,
milliseconds and sequence. Their last 16 bits are the number of the replica.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from holdfast.crdt.cell import Write
from holdfast.crdt.cells import Cells, Name
from holdfast.crdt.dots import REPLICA_BITS, Author, Dot, Vector
from holdfast.crdt.effects import ADD, MANY, REMOVE, WRITE, Effect, RowChange
from holdfast.crdt.exact_numbers import total
from holdfast.crdt.replicated_value import Rows

# The first byte of a name tells the kind of the cell. In the comments, the rest of the name comes
# before the colon (if there is any), and the written value comes after it.
STREAM = b"s"  # no value: the stream exists, even if it is empty
ENTRY = b"e"  # id: the fields
LAST_ID, MAX_DELETED_ID = b"l", b"d"  # an id: the highest one is shown
ADDED = b"a"  # no value: the total is the number of entries that were ever added
GROUP = b"g"  # name: no value
POSITION = b"p"  # dot of the group: (hlc and negative replica of the last SETID, last id, read)
CONSUMER = b"c"  # dot of the group, name: seen_at_ms
# dot of the group, id: (consumer, delivered_at_ms, deliveries). If the time is negative and the
# name empty, the entry was returned by XNACK, and no consumer has it.
PENDING = b"n"

OF_GROUPS = (POSITION, CONSUMER, PENDING)
BY_VALUE = (LAST_ID, MAX_DELETED_ID, POSITION)

Fields = tuple[bytes, ...]


class ReplicatedGroup(NamedTuple):
    """A group as clients see it. `dots` are the events that created it."""

    dots: tuple[Dot, ...]
    last_id: int
    entries_read: int | None
    consumers: dict[bytes, int]
    pending: dict[bytes, tuple[bytes, int, int]]  # by id, as bytes

    @property
    def shown_consumers(self) -> dict[bytes, int]:
        """The consumers, including those that were deleted on another replica but have a pending
        entry."""
        holders = {row[0]: row[1] for row in self.pending.values() if row[0] or row[1] >= 0}
        return holders | self.consumers


class ReplicatedStream(Cells):
    """A stream. `_groups` has the names of the groups, by the dots of the events that created
    them."""

    __slots__ = ("_groups", "_has_orphans")

    def __init__(self) -> None:
        super().__init__()
        self._has_orphans = False  # a group is gone, and parts of it may still exist
        self._groups: dict[Dot, bytes] = {}

    def precedence(self, name: Name, write: Write) -> Any:
        kind = (name or b"")[:1]
        if kind in BY_VALUE:
            return write[2], write[0]
        return write[0] if kind == ENTRY else super().precedence(name, write)

    # -- looking ------------------------------------------------------------------------------

    def view(self) -> list[tuple[int, Fields]]:
        return [
            (_number(name[1:]), fields)
            for name in sorted(self._named(ENTRY))
            for _, _, fields in self._writes(name)
        ]

    @property
    def last_id(self) -> int:
        return _number(self.written(LAST_ID) or b"")

    @property
    def max_deleted_id(self) -> int:
        return _number(self.written(MAX_DELETED_ID) or b"")

    @property
    def entries_added(self) -> int:
        return int(total(self.terms(ADDED)))

    def next_id(self, now_ms: int, replica: int) -> int:
        """An id above all ids that were ever here, which no other replica uses."""
        lowest = max(now_ms << 64, self.last_id + 1)
        own = lowest >> REPLICA_BITS << REPLICA_BITS | replica
        return own if own >= lowest else own + (1 << REPLICA_BITS)

    def groups(self) -> dict[bytes, ReplicatedGroup]:
        found: dict[bytes, ReplicatedGroup] = {}
        for dot, name in sorted(self._groups.items()):
            tag = _tag(dot)
            *_, last_id, read = self.written(POSITION + tag) or (b"", -1)
            consumers = {cell[9:]: self.written(cell) for cell in self._named(CONSUMER + tag)}
            pending = {cell[9:]: self.written(cell) for cell in self._named(PENDING + tag)}
            group = ReplicatedGroup(
                (dot,), _number(last_id), None if read < 0 else read, consumers, pending
            )
            found[name] = _joined(found[name], group) if name in found else group
        return found

    def dots_of(self, group: bytes) -> list[Dot]:
        """The events that created the group, in order."""
        return sorted(dot for dot, name in self._groups.items() if name == group)

    def position_of(self, group: Dot) -> int:
        """The last id that the group got."""
        return _number((self.written(POSITION + _tag(group)) or (0, 0, b"", -1))[2])

    def deleted_holder(self, dots: Sequence[Dot], id_row: bytes) -> tuple[bytes, int] | None:
        """The consumer of a pending entry, if it was deleted on a replica that did not know the
        entry; and the time when it got the entry."""
        for dot in dots:
            row = self.written(PENDING + _tag(dot) + id_row)
            if row is not None:
                cells = [CONSUMER + _tag(each) + row[0] for each in dots]
                is_returned = not row[0] and row[1] < 0
                is_shown = is_returned or any(cell in self for cell in cells)
                return None if is_shown else (row[0], row[1])
        return None

    def _named(self, prefix: bytes) -> list[bytes]:
        return [
            name
            for name, cell in self._all()
            if name is not None and cell.dot and name.startswith(prefix)
        ]

    def _writes(self, name: bytes) -> tuple[Write, ...]:
        cell = self._find(name)
        return () if cell is None else cell.writes

    # -- changes, as effects ------------------------------------------------------------------

    def create(self, author: Author) -> Effect:
        """XGROUP CREATE … MKSTREAM."""
        return self.write(STREAM, None, author)

    def enter(self, entry_id: int, fields: Fields, author: Author) -> Effect:
        """XADD. The id must be above `last_id`."""
        row = _bytes(entry_id)
        entry = (WRITE, ENTRY + row, author.dot(), author.hlc, fields, (), ())
        return (MANY, (entry, self.set_last_id(entry_id, author), self.add(ADDED, 1, author)))

    def set_last_id(self, entry_id: int, author: Author) -> Effect:
        """XADD and XSETID."""
        return self.write(LAST_ID, _bytes(entry_id), author)

    def leave(self, ids: Iterable[int], author: Author, *, is_trim: bool = False) -> Effect:
        """XDEL or XTRIM. XDEL leaves a hole in the stream, which `MAX_DELETED_ID` notes."""
        names = [ENTRY + _bytes(entry_id) for entry_id in ids]
        effects = [self.remove(name, author) for name in names if name in self]
        highest = max(names, default=ENTRY)[1:]
        if not is_trim and highest > (self.written(MAX_DELETED_ID) or b""):
            effects.append(self.write(MAX_DELETED_ID, highest, author))
        return (MANY, tuple(effects))

    def create_group(self, name: bytes, last_id: int, read: int | None, author: Author) -> Effect:
        created = self.write(GROUP + name, None, author)
        return (MANY, (created, self.seek(created[2], last_id, read, author)))

    def destroy_group(self, name: bytes, author: Author) -> Effect:
        return self.remove(GROUP + name, author)

    def seek(self, group: Dot, last_id: int, read: int | None, author: Author) -> Effect:
        """XGROUP SETID: it wins over reads that have not seen it."""
        value = (author.hlc, -author.replica, _bytes(last_id), -1 if read is None else read)
        return self.write(POSITION + _tag(group), value, author)

    def pass_to(self, group: Dot, last_id: int, read: int | None, author: Author) -> Effect:
        """The group got entries up to this id. Of reads that have not seen each other, the furthest
        one counts."""
        name = POSITION + _tag(group)
        hlc, replica, *_ = self.written(name)
        value = (hlc, replica, _bytes(last_id), -1 if read is None else read)
        return self.write(name, value, author)

    def see_consumer(self, group: Dot, name: bytes, now_ms: int, author: Author) -> Effect:
        return self.write(CONSUMER + _tag(group) + name, now_ms, author)

    def delete_consumer(
        self, dots: Sequence[Dot], name: bytes, pending: Sequence[bytes], author: Author
    ) -> Effect:
        """Remove the consumer and its pending entries."""
        gone = [CONSUMER + _tag(dot) + name for dot in dots]
        gone += [PENDING + _tag(dot) + id_row for dot in dots for id_row in pending]
        return (MANY, tuple(self.remove(cell, author) for cell in gone if cell in self))

    def assign(
        self, group: Dot, id_row: bytes, row: tuple[bytes, int, int], author: Author
    ) -> Effect:
        """Set consumer, delivered_at_ms and deliveries of an entry: XREADGROUP, XCLAIM."""
        return self.write(PENDING + _tag(group) + id_row, row, author)

    def release(self, dots: Sequence[Dot], id_rows: Iterable[bytes], author: Author) -> Effect:
        """XACK."""
        names = [PENDING + _tag(dot) + id_row for id_row in id_rows for dot in dots]
        return (MANY, tuple(self.remove(name, author) for name in names if name in self))

    # -- applying -----------------------------------------------------------------------------

    def integrate(self, effect: Effect) -> list[RowChange]:
        if effect[0] in (WRITE, REMOVE, ADD) and not self._belongs(effect[1]):
            return []
        return super().integrate(effect) + self._drop_orphans()

    def merge(self, rows: Rows, seen: Vector, other_seen: Vector) -> list[RowChange]:
        changes = super().merge(rows, seen, other_seen)
        self._has_orphans = True  # because the rows may belong to a group that was removed here
        return changes + self._drop_orphans()

    def _keep(self, name: Name, writes: list[Write]) -> None:
        if name is not None and name.startswith(GROUP):
            for dot, _, _ in self._writes(name):
                del self._groups[dot]
                self._has_orphans = True
            for dot, _, _ in writes:
                self._groups[dot] = name[1:]
        super()._keep(name, writes)

    def _belongs(self, name: bytes) -> bool:
        """Whether the cell belongs to the stream or to an existing group."""
        return name[:1] not in OF_GROUPS or _number(name[1:9]) in self._groups

    def _drop_orphans(self) -> list[RowChange]:
        if not self._has_orphans:
            return []
        self._has_orphans = False
        changes: list[RowChange] = []
        for name in [name for name in self._named(b"") if not self._belongs(name)]:
            changes += self._replace(name, [dot for dot, _, _ in self._writes(name)], 0, 0, None)
        return changes


def _joined(one: ReplicatedGroup, other: ReplicatedGroup) -> ReplicatedGroup:
    further = max(one, other, key=lambda group: group.last_id)
    return ReplicatedGroup(
        one.dots + other.dots,
        further.last_id,
        further.entries_read,
        other.consumers | one.consumers,
        other.pending | one.pending,
    )


def _tag(dot: Dot) -> bytes:
    return dot.to_bytes(8, "big")


def _bytes(entry_id: int) -> bytes:
    return entry_id.to_bytes(16, "big")


def _number(data: bytes) -> int:
    return int.from_bytes(data, "big")
