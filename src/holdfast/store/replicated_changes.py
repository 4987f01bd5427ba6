"""Local changes of a replicated database, from row operations to effects.

Commands know nothing of replicas: they change values, which report row operations. What those
mean for everybody is worked out here, once for each batch, before it is committed. Where the
operations do not tell (an increment is more than a new value, a place in a list is not its row),
an `INTENT` does. So a script that is rolled back leaves nothing to undo, and standalone servers
have none of this.
"""

from collections.abc import Callable
from typing import Any, Final, final

from holdfast.crdt.dots import MAX_REPLICA, REPLICA_BITS, Author
from holdfast.crdt.effects import ADDS, WRITES, Effect
from holdfast.crdt.flush import flush
from holdfast.crdt.keys import EXPIRY
from holdfast.crdt.types import String
from holdfast.store import hll
from holdfast.store.chunks import STEP
from holdfast.store.keys import FollowedKey
from holdfast.store.ops import (
    ADDED,
    CHANGED,
    HASH_FIELDS,
    INSERT_AT,
    INTENT,
    KEYS,
    LIST_ITEMS,
    PERSISTED,
    POP_LEFT,
    POP_RIGHT,
    PUSH_LEFT,
    PUSH_RIGHT,
    REMOVE_AT,
    SET_AT,
    SET_MEMBERS,
    SPACES,
    STRINGS,
    WRITTEN_AGAIN,
    ZSET_MEMBERS,
    Op,
)
from holdfast.store.replicated_anew import written_anew
from holdfast.store.replicated_rows import NO_CHANGES, TEXT_ROW, Slot, Slots, look_at_changed
from holdfast.store.replicated_runs import ListEnd, Told
from holdfast.store.replicated_streams import STREAM_ROWS

_MAGIC: Final = hll.MAGIC
_FIRST: Final = hll.MAGIC[0]
_SMALL: Final = 1 << 60  # compared without an object, when compiled


@final
class Changes:
    """Turns the operations of one batch into effects, each of which is applied before the next is
    made; `told` are those that changed something. `database_of` has the number of the database that
    shows a space, `addresses` where the keys with these ids are (see Replication), and is kept up
    to date.

    What happens to one row again and again is told once, as nobody can look in between: the last
    operation waits in `_rows` by its place, as in the fold, and in `_sums` what was added there;
    pushes and pops at one end of a list in `_ends`. Strings do not wait: see `Told.again`.
    """

    def __init__(
        self,
        author: Author,
        database_of: Callable[[int], int],
        addresses: dict[int, Any],
        slots: Slots,
    ) -> None:
        self._author = author
        self._database_of = database_of
        self._addresses = addresses
        self._slots = slots
        self.told = Told()
        self.kept: list[Op] = []  # of the operations, what the journal needs beside the record
        self.recorded = 0  # how many it does not need
        self._added: Any = None  # the amount, when the next operation is an increment
        self._rows: dict[Any, Op] = {}
        self._sums: dict[Any, Any] = {}
        self._ends: dict[int, ListEnd] = {}  # by key id

    def take(self, ops: list[Op]) -> None:
        for op in ops:
            table: int = op[0]
            key_id: int = op[1]
            sub, value = op[2], op[3]
            if table == CHANGED:
                self._strings(value)
                continue
            if table == INTENT:
                if len(op) > 4:
                    self._at_end(key_id, sub, value, op[4])
                else:
                    self._intent(key_id, sub, value)
                continue
            if table == SPACES:
                self._flush(key_id)
            elif table == KEYS:
                self._key_row(key_id, value)
            elif table == LIST_ITEMS:
                self._tell_end(key_id)
            self.kept.append(op)
            if table in _ROWS:
                self._row(op)
            elif table == STRINGS:
                if (slot := self._slot_of(key_id)) is not None:
                    self.tell_string(slot, value, None)
            elif table in STREAM_ROWS and (slot := self._slot_of(key_id)) is not None:
                stream = slot.part("stream")
                for effect in STREAM_ROWS[table](stream, sub, value, self._author):
                    self._change(slot, "stream", effect)
        self._tell_all()

    def _strings(self, run: list[Any]) -> None:
        """See CHANGED. What is told in few words recovery gets from the record."""
        look_at_changed(run)
        self.recorded += 1  # the run
        for at in range(0, len(run), 2):
            key: FollowedKey = run[at]
            change = run[at + 1]
            slot: Slot | None = key.slot
            if slot is None and (slot := self._slot_of(key.id)) is not None:
                slot.show_by(key)
            if type(change) is bytes:
                if slot is not None and self._write_again(slot, change):
                    continue
                added, value = None, change
            else:
                added, value = change
                if slot is not None and self._add_more(slot, added):
                    continue
            if slot is not None:
                self.tell_string(slot, value, added)
            self.kept.append((STRINGS, key.id, None, value))
            self.recorded -= 1

    def _do(self, slot: Slot, kind: str, effect: Effect) -> None:
        if not (kind == "list" and self._slots.at_end(slot, effect)):
            changes = slot.integrate(kind, effect)
            if not changes:
                return
            self._slots.changed(slot, kind, changes)
        self.told.add(slot.database, slot.name, kind, effect)

    def _slot_of(self, key_id: Any) -> Slot | None:
        """The replicated key of which clients see this one; None when that has gone."""
        found = self._addresses.get(key_id)
        if type(found) is tuple:
            found = self._addresses[key_id] = self._slots.at(found)
        slot: Slot | None = found
        return slot

    def _row(self, op: Op) -> None:
        place = (op[1], op[2])
        waiting = self._rows.get(place)
        added, self._added = self._added, None
        if waiting is not None:
            before = self._sums.pop(place, None)
            value, old = op[3], waiting[3]
            if added is not None and type(added) is type(before) is int:
                added += before
            elif (
                added is not None  # to what was written, or to what no sum may be formed of
                or old is None  # what was removed does not live on
                or (op[0] == HASH_FIELDS and value is not None and value[2] != old[2])
            ):
                self._tell(waiting, before)
        self._rows[place] = op
        if added is not None:
            self._sums[place] = added

    def _tell(self, op: Op, added: Any) -> None:
        slot = self._slot_of(op[1])
        if slot is not None:  # else its key died before it was told
            _ROWS[op[0]](self, slot, op[2], op[3], added)

    def _tell_all(self) -> None:
        rows, self._rows = self._rows, {}
        sums, self._sums = self._sums, {}
        if sums:
            for place, op in rows.items():
                self._tell(op, sums.get(place))
        else:
            for op in rows.values():
                self._tell(op, None)
        for key_id in list(self._ends):
            self._tell_end(key_id)

    def _tell_end(self, key_id: int) -> None:
        end = self._ends.pop(key_id, None)
        if end is None:
            return
        if end.step:
            self.kept.append(end.row_op(key_id))
            self.recorded += len(end.data) - 1
        slot = self._slot_of(key_id)
        if slot is not None:
            effect = _LIST_ENDS[end.what](slot.part("list"), end.data, self._author)
            self._change(slot, "list", effect)

    def _flush(self, database: int) -> None:
        """It shows a new space: nothing is as old as all that its author has seen."""
        self._tell_all()
        self.told.flush(database, flush(self._slots.counted(database), self._author))
        self._slots.flush(database, [])

    # -- keys ---------------------------------------------------------------------------------

    def _key_row(self, key_id: int, row: tuple[int, bytes, str, int | None] | None) -> None:
        old = self._slot_of(key_id)
        if row is None:
            if old is not None:
                self._tell_all()
                del self._addresses[key_id]
                old.release()
                self._delete(old)
            return
        space, name, _, expires_at_ms = row
        slot = self._slots.at((self._database_of(space), name))
        if old is not None and old is not slot:
            self._tell_all()
            old.release()
            self._recreate(old, slot)
            self._delete(old)
        self._addresses[key_id] = slot
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

    def _at_end(self, key_id: int, what: int, value: bytes | None, pos: int) -> None:
        end = self._ends.get(key_id)
        if end is None or not end.goes_on(what, pos):
            self._tell_end(key_id)
            step = STEP if what in (PUSH_RIGHT, POP_LEFT) else -STEP
            end = self._ends[key_id] = ListEnd(what, pos, step)
        end.data.append(value)

    def _intent(self, key_id: int, what: int, data: Any) -> None:
        if what == ADDED:
            self._added = data
        elif what <= POP_RIGHT:
            self._tell_end(key_id)
            end = self._ends[key_id] = ListEnd(what, 0, 0)
            end.data += data
        elif what == WRITTEN_AGAIN:
            table, sub, value = data
            self._row((table, key_id, sub, 0 if value is None else value))
        elif (slot := self._slot_of(key_id)) is not None:
            author = self._author
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

    def _write_again(self, slot: Slot, value: bytes) -> bool:
        """As above, in short: most strings hold one write. False if this one is not so."""
        cell = slot.text
        if cell is None or cell.counter is not None or cell.others:
            return False
        seen = cell.dot
        if not seen or (value and value[0] == _FIRST):
            return False
        author, told = self._author, self.told
        if seen < told.first_dot or not told.again(WRITES, seen, value):
            dot, hlc = author.dot(), author.hlc
            cell.dot = dot
            cell.hlc = hlc
            if (seen ^ dot) & MAX_REPLICA:
                told.write(slot.database, slot.name, dot, hlc, value, seen)
            else:
                told.overwrite(slot.database, slot.name, dot, hlc, value, seen)
        cell.value = value
        if slot.unwritten is not TEXT_ROW:
            self._slots.changed(slot, "string", NO_CHANGES)
        return True

    def _add_more(self, slot: Slot, added: Any) -> bool:
        """Likewise, where one replica has added all that there is."""
        cell, author = slot.text, self._author
        counter = None if cell is None else cell.only_counter(author.replica)
        if counter is None or type(added) is not int or type(counter.amount) is not int:
            return False
        until_now: int = counter.amount
        amount: int = added
        total = until_now + amount
        if not -_SMALL < total < _SMALL:
            return False
        now: Any = total
        last = counter.seq
        if not self.told.again(ADDS, last << REPLICA_BITS | author.replica, now):
            dot = author.dot()
            counter.seq = author.seq
            self.told.count(slot.database, slot.name, dot, last, counter.amount, now)
        counter.amount = now
        if slot.unwritten is not TEXT_ROW:
            self._slots.changed(slot, "string", NO_CHANGES)
        return True

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


# The tables of whose rows the last operation says all.
_ROWS: Final[dict[int, Any]] = {
    HASH_FIELDS: Changes.tell_field,
    SET_MEMBERS: Changes.tell_member,
    ZSET_MEMBERS: Changes.tell_scored,
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
