"""Local changes of a replicated database, from row operations to effects.

Commands know nothing of replicas: they change values, which report row operations. What those
mean for everybody is worked out here, once for each batch, before it is committed. Where the
operations do not tell (an increment is more than a new value, a place in a list is not its row),
an `INTENT` does. So a script that is rolled back leaves nothing to undo, and standalone servers
have none of this.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from holdfast.crdt.dots import Author
from holdfast.crdt.effects import Effect
from holdfast.crdt.keys import EXPIRY
from holdfast.crdt.streams import ADDED as ENTRIES_ADDED
from holdfast.crdt.streams import ENTRY, MAX_DELETED_ID, Stream
from holdfast.crdt.types import String
from holdfast.store import hll
from holdfast.store.ops import (
    ADDED,
    HASH_FIELDS,
    INSERT_AT,
    INTENT,
    KEYS,
    PERSISTED,
    POP_LEFT,
    POP_RIGHT,
    PUSH_LEFT,
    PUSH_RIGHT,
    REMOVE_AT,
    SET_AT,
    SET_MEMBERS,
    STREAM_CONSUMERS,
    STREAM_ENTRIES,
    STREAM_GROUPS,
    STREAM_META,
    STREAM_PENDING,
    STRINGS,
    WRITTEN_AGAIN,
    ZSET_MEMBERS,
    Op,
)
from holdfast.store.replicated_anew import written_anew
from holdfast.store.replicated_rows import NO_CHANGES, Slot, Slots
from holdfast.store.stream_ids import from_row

_MAGIC: Final = hll.MAGIC
_decode_fields = msgspec.msgpack.Decoder(tuple[bytes, ...]).decode


class Waiting:
    """The last operation on a row, and what was added to it."""

    __slots__ = ("added", "key_id", "sub", "table", "value")

    def __init__(self, table: int, key_id: int, sub: Any, value: Any, added: Any) -> None:
        self.table = table
        self.key_id = key_id
        self.sub = sub
        self.value = value
        self.added = added


class Changes:
    """Turns the operations of one batch into effects, each of which is applied before the next is
    made; `told` are those that changed something. `databases` has their numbers by the ids of the
    spaces that they show, `addresses` where the keys with these ids are, and is kept up to date.

    What happens to one row again and again is told once, as nobody can look in between: it waits
    in `_rows` by its place, as in the fold, and pushes and pops at one end of a list in `_ends`.
    """

    def __init__(
        self,
        author: Author,
        databases: dict[int, int],
        addresses: dict[int, Any],
        slots: Slots,
    ) -> None:
        self._author = author
        self._databases = databases
        self._addresses = addresses
        self._slots = slots
        self.told: list[tuple[int, bytes, str, Effect]] = []  # database, name, kind
        self._added: Any = None  # the amount, when the next operation is an increment
        self._rows: dict[Any, Waiting] = {}
        self._ends: dict[int, tuple[int, list[bytes | None]]] = {}  # by key id: what, with what

    def take(self, ops: Iterable[Op]) -> None:
        for op in ops:
            table: int = op[0]
            key_id: int = op[1]
            sub, value = op[2], op[3]
            if table == STRINGS or table in _ROWS:
                self._row(table, key_id, sub, value)
            elif table == INTENT:
                self._intent(key_id, sub, value)
            elif table == KEYS:
                self._key_row(key_id, value)
            elif table in _STREAMS and key_id in self._addresses:
                _STREAMS[table](self, self._slots.at(self._addresses[key_id]), sub, value)
        self._tell_all()

    def _do(self, slot: Slot, kind: str, effect: Effect) -> None:
        changes = NO_CHANGES
        if not slot.advance(kind, effect):
            changes = slot.integrate(kind, effect)
            if not changes:
                return
        self._slots.changed(slot, kind, changes)
        address = slot.address
        self.told.append((address[0], address[1], kind, effect))

    def _row(self, table: int, key_id: int, sub: Any, value: Any) -> None:
        added, self._added = self._added, None
        place: Any = key_id if sub is None else (key_id, sub)
        waiting = self._rows.get(place)
        if waiting is None:
            self._rows[place] = Waiting(table, key_id, sub, value, added)
            return
        if added is not None and type(added) is type(waiting.added) is int:
            added += waiting.added
        elif (
            added is not None  # to what was written, or to what no sum may be formed of
            or waiting.value is None  # what was removed does not live on
            or (table == HASH_FIELDS and value is not None and value[2] != waiting.value[2])
        ):
            self._tell(waiting)
        waiting.value, waiting.added = value, added

    def _tell(self, row: Waiting) -> None:
        address = self._addresses.get(row.key_id)
        if address is None:
            return  # its key died before it was told
        slot = self._slots.at(address)
        if row.table == STRINGS:
            self.tell_string(slot, row.value, row.added)
        else:
            _ROWS[row.table](self, slot, row.sub, row.value, row.added)

    def _tell_all(self) -> None:
        rows, self._rows = self._rows, {}
        for row in rows.values():
            self._tell(row)
        for key_id in list(self._ends):
            self._tell_end(key_id)

    def _tell_end(self, key_id: int) -> None:
        end = self._ends.pop(key_id, None)
        address = self._addresses.get(key_id)
        if end is not None and address is not None:
            what, data = end
            slot = self._slots.at(address)
            effect = _LIST_ENDS[what](slot.part("list"), data, self._author)
            self._change(slot, "list", effect)

    # -- keys ---------------------------------------------------------------------------------

    def _key_row(self, key_id: int, row: tuple[int, bytes, str, int | None] | None) -> None:
        address = self._addresses.get(key_id)
        if row is None:
            if address is not None:
                self._tell_all()
                del self._addresses[key_id]
                self._delete(self._slots.at(address))
            return
        space, name, _, expires_at_ms = row
        new_address = (self._databases[space], name)
        slot = self._slots.at(new_address)
        if address is not None and address != new_address:
            self._tell_all()
            old = self._slots.at(address)
            self._recreate(old, slot)
            self._delete(old)
        self._addresses[key_id] = new_address
        if slot.expires_at_ms != expires_at_ms:
            expiry, author = slot.part(EXPIRY), self._author
            # No expiry: what was seen goes, and what somebody else sets meanwhile stays. PERSIST
            # means more than that, and says so.
            effect = (
                expiry.remove(None, author)
                if expires_at_ms is None
                else expiry.write(None, expires_at_ms, author)
            )
            self._do(slot, EXPIRY, effect)

    def _delete(self, slot: Slot) -> None:
        for kind, effect in slot.delete(self._author):
            self._do(slot, kind, effect)

    def _recreate(self, old: Slot, new: Slot) -> None:
        """RENAME and MOVE: what is seen under one name is written anew under another."""
        kind = old.type
        if kind is None:
            return
        for effect in written_anew(kind, old.part(kind), new.part(kind), self._author):
            self._do(new, kind, effect)
        if kind == "hash" and old.find(EXPIRY) is not None:
            expiry = old.part(EXPIRY)
            for field in [name for name in expiry.names() if name is not None]:
                effect = new.part(EXPIRY).write(field, expiry.written(field), self._author)
                self._do(new, EXPIRY, effect)

    def _change(self, slot: Slot, kind: str, effect: Effect) -> None:
        """What is of another type, and therefore not seen, goes."""
        if not slot.has_one:
            for other, clearing in slot.supersede(kind, self._author):
                self._do(slot, other, clearing)
        self._do(slot, kind, effect)

    # -- intents ------------------------------------------------------------------------------

    def _intent(self, key_id: int, what: int, data: Any) -> None:
        if what == ADDED:
            self._added = data
        elif what in _LIST_ENDS:
            end = self._ends.get(key_id)
            if end is None or end[0] != what:
                self._tell_end(key_id)
                end = self._ends[key_id] = what, []
            end[1].extend((None,) if data is None else data)
        elif what == WRITTEN_AGAIN:
            table, sub, value = data
            self._row(table, key_id, sub, 0 if value is None else value)
        elif key_id in self._addresses:
            slot, author = self._slots.at(self._addresses[key_id]), self._author
            if what == PERSISTED:
                self._do(slot, EXPIRY, slot.part(EXPIRY).write(None, None, author))
            else:
                self._tell_end(key_id)
                effect = _LIST_INTENTS[what](slot.part("list"), data, author)
                self._change(slot, "list", effect)

    # -- strings ------------------------------------------------------------------------------

    def tell_string(self, slot: Slot, value: bytes, added: Any) -> None:
        if value.startswith(_MAGIC) and (held := registers(value)) is not None:
            self._sketch(slot, held)
            return
        part: String = slot.part("string")
        author = self._author
        effect = (
            part.write(None, value, author)
            if added is None
            else part.increment(None, added, value, author)
        )
        self._change(slot, "string", effect)

    def _sketch(self, slot: Slot, held: bytes) -> None:
        """PFADD and PFMERGE raise registers. Whatever else wrote this is a new sketch."""
        part, author = slot.part("hyperloglog"), self._author
        seen = part.view() or bytes(len(held))
        if any(map(int.__lt__, held, seen)):
            self._do(slot, "hyperloglog", part.clear(author))
        elif part and held == seen:
            return  # PFCOUNT noted what it had found
        ranks = [(register, rank) for register, rank in enumerate(held) if rank]
        self._change(slot, "hyperloglog", part.add(ranks, author))

    # -- hashes, sets, sorted sets ------------------------------------------------------------

    def tell_field(self, slot: Slot, field: bytes, row: Any, added: Any) -> None:
        part, author = slot.part("hash"), self._author
        expiry = slot.find(EXPIRY)
        expires_at_ms = None if expiry is None else slot.part(EXPIRY).written(field)
        if row is None:
            self._change(slot, "hash", part.remove(field, author))
            new_expires_at_ms = None
        else:
            value, _, new_expires_at_ms = row
            if added is not None:
                self._change(slot, "hash", part.increment(field, added, value, author))
            elif new_expires_at_ms == expires_at_ms or part.get(field) != value:
                self._change(slot, "hash", part.write(field, value, author))
        if new_expires_at_ms != expires_at_ms:
            cells = slot.part(EXPIRY)
            effect = (
                cells.remove(field, author)
                if new_expires_at_ms is None
                else cells.write(field, new_expires_at_ms, author)
            )
            self._do(slot, EXPIRY, effect)

    def tell_member(self, slot: Slot, member: bytes, ordinal: int | None, _: Any) -> None:
        part, author = slot.part("set"), self._author
        effect = (
            part.remove(member, author) if ordinal is None else part.write(member, None, author)
        )
        self._change(slot, "set", effect)

    def tell_scored(self, slot: Slot, member: bytes, score: float | None, added: Any) -> None:
        part, author = slot.part("zset"), self._author
        if score is None:
            effect = part.remove(member, author)
        elif added is None:
            effect = part.write(member, score, author)
        else:
            effect = part.increment(member, added, author)
        self._change(slot, "zset", effect)

    # -- streams ------------------------------------------------------------------------------

    def take_stream_entry(self, slot: Slot, sub: bytes, row: bytes | None) -> None:
        part: Stream = slot.part("stream")
        if row is None:
            effect = part.remove(ENTRY + sub, self._author)
        elif from_row(sub) > part.last_id:
            effect = part.enter(from_row(sub), _decode_fields(row), self._author)
        else:  # COPY has told before what was counted
            effect = part.write(ENTRY + sub, _decode_fields(row), self._author)
        self._change(slot, "stream", effect)

    def take_stream_meta(self, slot: Slot, _: None, row: tuple[bytes, bytes, int]) -> None:
        """Adding an entry has said all of it already."""
        part: Stream = slot.part("stream")
        author = self._author
        last_id, max_deleted_id, entries_added = row
        if not part:
            self._change(slot, "stream", part.create(author))
        if from_row(last_id) != part.last_id:
            self._change(slot, "stream", part.set_last_id(from_row(last_id), author))
        if from_row(max_deleted_id) != part.max_deleted_id:
            self._change(slot, "stream", part.write(MAX_DELETED_ID, max_deleted_id, author))
        if entries_added != part.entries_added:
            more = entries_added - part.entries_added
            self._change(slot, "stream", part.add(ENTRIES_ADDED, more, author))

    def take_stream_group(self, slot: Slot, name: bytes, row: Any) -> None:
        part: Stream = slot.part("stream")
        author = self._author
        dots = part.dots_of(name)
        if row is None:
            self._change(slot, "stream", part.destroy_group(name, author))
            return
        last_id, entries_read = from_row(row[0]), row[1]
        if not dots:
            effect = part.create_group(name, last_id, entries_read, author)
            self._change(slot, "stream", effect)
        for dot in dots:
            goes_on = last_id > part.position_of(dot)
            move = part.pass_to if goes_on else part.seek
            self._change(slot, "stream", move(dot, last_id, entries_read, author))

    def take_stream_consumer(
        self, slot: Slot, sub: tuple[bytes, bytes], seen_at_ms: int | None
    ) -> None:
        part: Stream = slot.part("stream")
        dots = part.dots_of(sub[0])
        if seen_at_ms is None:
            effect = part.delete_consumer(dots, sub[1], (), self._author)
        else:
            effect = part.see_consumer(dots[0], sub[1], seen_at_ms, self._author)
        self._change(slot, "stream", effect)

    def take_stream_pending(self, slot: Slot, sub: tuple[bytes, bytes], row: Any) -> None:
        part: Stream = slot.part("stream")
        dots = part.dots_of(sub[0])
        entry_id = from_row(sub[1])
        if row is None:
            effect = part.release(dots, [entry_id], self._author)
        else:
            effect = part.assign(dots[0], entry_id, tuple(row), self._author)
        self._change(slot, "stream", effect)


# The tables, beside that of strings, of whose rows the last operation says all.
_ROWS: Final[dict[int, Any]] = {
    HASH_FIELDS: Changes.tell_field,
    SET_MEMBERS: Changes.tell_member,
    ZSET_MEMBERS: Changes.tell_scored,
}
_STREAMS: Final[dict[int, Callable[[Changes, Slot, Any, Any], None]]] = {
    STREAM_META: Changes.take_stream_meta,
    STREAM_ENTRIES: Changes.take_stream_entry,
    STREAM_GROUPS: Changes.take_stream_group,
    STREAM_CONSUMERS: Changes.take_stream_consumer,
    STREAM_PENDING: Changes.take_stream_pending,
}

# What is pushed or, for each pop, a None.
_LIST_ENDS: Final[dict[int, Callable[[Any, Any, Author], Effect]]] = {
    PUSH_LEFT: lambda value, data, author: value.push_left(data, author),
    PUSH_RIGHT: lambda value, data, author: value.push_right(data, author),
    POP_LEFT: lambda value, data, author: value.pop_left(len(data)),
    POP_RIGHT: lambda value, data, author: value.pop_right(len(data)),
}
_LIST_INTENTS: Final[dict[int, Callable[[Any, Any, Author], Effect]]] = {
    INSERT_AT: lambda value, data, author: value.insert(*data, author),
    SET_AT: lambda value, data, author: value.set(*data, author),
    REMOVE_AT: lambda value, data, author: value.delete(data),
}


def registers(value: bytes) -> bytes | None:
    """None when it only looks like a HyperLogLog."""
    try:
        return hll.registers(value) if hll.is_valid(value) else None
    except hll.CorruptError:
        return None
