"""The replicated stream: entries, counters and consumer groups, each a cell of its own.

Entries are removed as they were seen; of entries that several replicas gave the same id all are
kept. Groups are different: what belongs to a group names the event that created it, and goes
with it, whoever was reading meanwhile. Groups created under one name at once are shown as one.
Ids are 128-bit numbers, milliseconds and sequence, and end with the replica's own.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from holdfast.crdt.cell import Write
from holdfast.crdt.cells import Cells, Name
from holdfast.crdt.dots import REPLICA_BITS, Author, Dot, Vector
from holdfast.crdt.effects import ADD, MANY, REMOVE, WRITE, Change, Effect
from holdfast.crdt.numbers import total
from holdfast.crdt.replicated import Rows

# What a cell is, by the first byte of its name; then what is written to it.
STREAM = b"s"  # nothing: it exists, though it may be empty
ENTRY = b"e"  # id: the fields
LAST_ID, MAX_DELETED_ID = b"l", b"d"  # an id: the highest is shown
ADDED = b"a"  # nothing: it counts how many entries there ever were
GROUP = b"g"  # name: nothing
POSITION = b"p"  # dot of the group: (hlc and minus replica of the last SETID, last id, read)
CONSUMER = b"c"  # dot of the group, name: seen_at_ms
PENDING = b"n"  # dot of the group, id: (consumer, delivered_at_ms, deliveries)

OF_GROUPS = (POSITION, CONSUMER, PENDING)
BY_VALUE = (LAST_ID, MAX_DELETED_ID, POSITION)

Fields = tuple[bytes, ...]


class Group(NamedTuple):
    """What a group looks like. `dots` are the events that created it."""

    dots: tuple[Dot, ...]
    last_id: int
    entries_read: int | None
    consumers: dict[bytes, int]
    pending: dict[bytes, tuple[bytes, int, int]]  # by the bytes of ids

    @property
    def shown_consumers(self) -> dict[bytes, int]:
        """Also those that have an entry, though they were deleted elsewhere."""
        return {row[0]: row[1] for row in self.pending.values()} | self.consumers


class Stream(Cells):
    """`_groups` has the names of the groups that there are, by the dots of their creation."""

    __slots__ = ("_groups", "_has_orphans")

    def __init__(self) -> None:
        super().__init__()
        self._has_orphans = False  # a group went, and what belongs to it is still to go
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
        """Above all that were here, and no other replica's."""
        lowest = max(now_ms << 64, self.last_id + 1)
        own = lowest >> REPLICA_BITS << REPLICA_BITS | replica
        return own if own >= lowest else own + (1 << REPLICA_BITS)

    def groups(self) -> dict[bytes, Group]:
        found: dict[bytes, Group] = {}
        for dot, name in sorted(self._groups.items()):
            tag = _tag(dot)
            *_, last_id, read = self.written(POSITION + tag) or (b"", -1)
            consumers = {cell[9:]: self.written(cell) for cell in self._named(CONSUMER + tag)}
            pending = {cell[9:]: self.written(cell) for cell in self._named(PENDING + tag)}
            group = Group((dot,), _number(last_id), None if read < 0 else read, consumers, pending)
            found[name] = _joined(found[name], group) if name in found else group
        return found

    def dots_of(self, group: bytes) -> list[Dot]:
        """The events that created the group, the first one first."""
        return sorted(dot for dot, name in self._groups.items() if name == group)

    def position_of(self, group: Dot) -> int:
        """Up to which id it was read."""
        return _number((self.written(POSITION + _tag(group)) or (0, 0, b"", -1))[2])

    def deleted_holder(self, dots: Sequence[Dot], id_row: bytes) -> tuple[bytes, int] | None:
        """The consumer that has an entry and was deleted by somebody who did not know, and when it
        got the entry."""
        for dot in dots:
            row = self.written(PENDING + _tag(dot) + id_row)
            if row is not None:
                cells = [CONSUMER + _tag(each) + row[0] for each in dots]
                return None if any(cell in self for cell in cells) else (row[0], row[1])
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
        """XSETID too."""
        return self.write(LAST_ID, _bytes(entry_id), author)

    def leave(self, ids: Iterable[int], author: Author, *, is_trim: bool = False) -> Effect:
        """XDEL or XTRIM. Remembers that XDEL leaves holes."""
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
        """XGROUP SETID: from here on, whatever others have read meanwhile."""
        value = (author.hlc, -author.replica, _bytes(last_id), -1 if read is None else read)
        return self.write(POSITION + _tag(group), value, author)

    def pass_to(self, group: Dot, last_id: int, read: int | None, author: Author) -> Effect:
        """The group has read up to here: the furthest of those who read at once counts."""
        name = POSITION + _tag(group)
        hlc, replica, *_ = self.written(name)
        value = (hlc, replica, _bytes(last_id), -1 if read is None else read)
        return self.write(name, value, author)

    def see_consumer(self, group: Dot, name: bytes, now_ms: int, author: Author) -> Effect:
        return self.write(CONSUMER + _tag(group) + name, now_ms, author)

    def delete_consumer(
        self, dots: Sequence[Dot], name: bytes, pending: Sequence[bytes], author: Author
    ) -> Effect:
        """It goes, and the entries that it has."""
        gone = [CONSUMER + _tag(dot) + name for dot in dots]
        gone += [PENDING + _tag(dot) + id_row for dot in dots for id_row in pending]
        return (MANY, tuple(self.remove(cell, author) for cell in gone if cell in self))

    def assign(
        self, group: Dot, id_row: bytes, row: tuple[bytes, int, int], author: Author
    ) -> Effect:
        """Consumer, delivered_at_ms and deliveries of an entry: XREADGROUP, XCLAIM."""
        return self.write(PENDING + _tag(group) + id_row, row, author)

    def release(self, dots: Sequence[Dot], id_rows: Iterable[bytes], author: Author) -> Effect:
        """XACK."""
        names = [PENDING + _tag(dot) + id_row for id_row in id_rows for dot in dots]
        return (MANY, tuple(self.remove(name, author) for name in names if name in self))

    # -- applying -----------------------------------------------------------------------------

    def integrate(self, effect: Effect) -> list[Change]:
        if effect[0] in (WRITE, REMOVE, ADD) and not self._belongs(effect[1]):
            return []
        return super().integrate(effect) + self._drop_orphans()

    def merge(self, rows: Rows, seen: Vector, other_seen: Vector) -> list[Change]:
        changes = super().merge(rows, seen, other_seen)
        self._has_orphans = True  # there may be rows of a group that we know to be gone
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
        """Whether the group is there that the cell is a part of, if it is."""
        return name[:1] not in OF_GROUPS or _number(name[1:9]) in self._groups

    def _drop_orphans(self) -> list[Change]:
        if not self._has_orphans:
            return []
        self._has_orphans = False
        changes: list[Change] = []
        for name in [name for name in self._named(b"") if not self._belongs(name)]:
            changes += self._replace(name, [dot for dot, _, _ in self._writes(name)], 0, 0, None)
        return changes


def _joined(one: Group, other: Group) -> Group:
    further = max(one, other, key=lambda group: group.last_id)
    return Group(
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
