"""Turns the changes of clients from row operations into effects.

Commands know nothing about replicas: they change values, and the values report row operations. Here
the operations of a batch become effects, which each replica can apply. Sometimes a row operation
does not tell enough: an increment is more than a new value, and the row of a list element does not
tell its index. Then the value has stated an intent beside the operation.

This happens only when the batch is complete, so a script that is rolled back leaves nothing to
undo. It is one class because all cases share the record that is being built.
"""

from collections.abc import Callable
from typing import Any, Final, final

from holdfast.crdt.dots import MAX_REPLICA, REPLICA_BITS, Author
from holdfast.crdt.effects import ADDS, WRITES, Effect
from holdfast.crdt.flush import flush
from holdfast.crdt.replicated_key import EXPIRY
from holdfast.crdt.replicated_types import ReplicatedString
from holdfast.store.change.intents import (
    ADDED,
    INSERT_AT,
    PERSISTED,
    POP_LEFT,
    POP_RIGHT,
    PUSH_LEFT,
    PUSH_RIGHT,
    REMOVE_AT,
    SET_AT,
    WRITTEN_AGAIN,
    ChangeIntent,
    Intent,
    ListEndIntent,
    StringsIntent,
)
from holdfast.store.change.ops import (
    HASH_FIELDS,
    KEYS,
    LIST_ITEMS,
    SET_MEMBERS,
    SPACES,
    STRINGS,
    ZSET_MEMBERS,
    Op,
    row_op,
    string_row,
)
from holdfast.store.change.runs import STEP
from holdfast.store.memory.key import FollowedKey
from holdfast.store.replicated.overwrite import written_anew
from holdfast.store.replicated.record_builder import ListEnd, RecordBuilder
from holdfast.store.replicated.replica_keys import (
    NO_CHANGES,
    TEXT_ROW,
    ReplicaKey,
    ReplicaKeys,
    look_at_changed,
)
from holdfast.store.replicated.replicated_database import show_space
from holdfast.store.replicated.stream_effects import STREAM_ROWS
from holdfast.store.values import hll_sketch

_MAGIC: Final = hll_sketch.MAGIC
_FIRST: Final = hll_sketch.MAGIC[0]
_SMALL: Final = 1 << 60  # compiled code compares such numbers without making objects


@final
class EffectBuilder:
    """Turns the operations of one batch into effects. Each effect is applied to its replica key
    before the next is made; `record` gets those that changed something. `spaces` and `addresses`
    tell the key of an operation (see ReplicationStage), and are kept up to date. `rows` gets the
    operations that the journal needs in addition to the record.

    A row that changes many times in a batch gets one effect, because no replica sees the states in
    between. So the last operation of each row waits in `_waiting`, the sum of increments in
    `_sums`, and pushes and pops at one end of a list in `_ends`. Strings do not wait: see
    `RecordBuilder.again`.
    """

    def __init__(
        self,
        author: Author,
        spaces: dict[int, int],
        addresses: dict[int, Any],
        replica_keys: ReplicaKeys,
        rows: list[Op],
    ) -> None:
        self._author = author
        self._spaces = spaces
        self._addresses = addresses
        self._replica_keys = replica_keys
        self.record = RecordBuilder()
        self._rows = rows
        self.recorded = 0  # the number of operations that the journal does not need
        self._added: Any = None  # the amount, if the next operation is an increment
        self._waiting: dict[Any, Op] = {}
        self._sums: dict[Any, Any] = {}
        self._ends: dict[int, ListEnd] = {}  # by key id

    def take(self, ops: list[Op], intents: list[Intent]) -> None:
        """Take all operations of a batch, and the intents that belong between them."""
        stated, count = 0, len(intents)
        for number, op in enumerate(ops):
            while stated < count and intents[stated].before <= number:
                self._intent(intents[stated])
                stated += 1
            table: int = op[0]
            key_id: int = op[1]
            sub, value = op[2], op[3]
            if table == SPACES:
                self._flush(key_id, value)
            elif table == KEYS:
                self._key_row(key_id, value)
            elif table == LIST_ITEMS:
                self._tell_end(key_id)
            self._rows.append(op)
            if table in _ROWS:
                self._row(op)
            elif table == STRINGS:
                if (replica_key := self._replica_key_of(key_id)) is not None:
                    self.tell_string(replica_key, value, None)
            elif table in STREAM_ROWS and (replica_key := self._replica_key_of(key_id)) is not None:
                stream = replica_key.part("stream")
                for effect in STREAM_ROWS[table](stream, sub, value, self._author):
                    self._change(replica_key, "stream", effect)
        while stated < count:
            self._intent(intents[stated])
            stated += 1
        self._tell_all()

    def _intent(self, intent: Intent) -> None:
        if isinstance(intent, StringsIntent):
            self._strings(intent.changes)
        elif isinstance(intent, ListEndIntent):
            self._at_end(intent.key_id, intent.what, intent.element, intent.position)
        elif isinstance(intent, ChangeIntent):
            self._meaning(intent.key_id, intent.what, intent.data)

    def _strings(self, run: list[Any]) -> None:
        """Take a StringsIntent. Strings in runs need no rows in the journal, because recovery gets
        them from the record. All other strings get rows."""
        look_at_changed(run)
        self.recorded += 1  # the intent itself
        for at in range(0, len(run), 2):
            key: FollowedKey = run[at]
            change = run[at + 1]
            replica_key: ReplicaKey | None = key.replica_key
            if replica_key is None and (replica_key := self._replica_key_of(key.id)) is not None:
                replica_key.show_by(key)
            if type(change) is bytes:
                if replica_key is not None and self._write_again(replica_key, change):
                    continue
                added, value = None, change
            else:
                added, value = change
                if replica_key is not None and self._add_more(replica_key, added):
                    continue
            if replica_key is not None:
                self.tell_string(replica_key, value, added)
            self._rows.append(string_row(key.id, value))
            self.recorded -= 1

    def _do(self, replica_key: ReplicaKey, kind: str, effect: Effect) -> None:
        if not (kind == "list" and self._replica_keys.at_end(replica_key, effect)):
            changes = replica_key.integrate(kind, effect)
            if not changes:
                return
            self._replica_keys.changed(replica_key, kind, changes)
        self.record.add(replica_key.database, replica_key.name, kind, effect)

    def _replica_key_of(self, key_id: Any) -> ReplicaKey | None:
        """The replica key of the key with this id; None if the key is gone."""
        found = self._addresses.get(key_id)
        if type(found) is tuple:
            found = self._addresses[key_id] = self._replica_keys.at(found)
        replica_key: ReplicaKey | None = found
        return replica_key

    def _row(self, op: Op) -> None:
        place = (op[1], op[2])
        waiting = self._waiting.get(place)
        added, self._added = self._added, None
        if waiting is not None:
            before = self._sums.pop(place, None)
            value, old = op[3], waiting[3]
            if added is not None and type(added) is type(before) is int:
                added += before
            elif (
                # the increment follows a written value, or cannot be added to the one before
                added is not None
                or old is None  # the row was removed, and is created again
                or (op[0] == HASH_FIELDS and value is not None and value[2] != old[2])
            ):
                self._tell(waiting, before)
        self._waiting[place] = op
        if added is not None:
            self._sums[place] = added

    def _tell(self, op: Op, added: Any) -> None:
        replica_key = self._replica_key_of(op[1])
        if replica_key is not None:  # otherwise the key is gone by now
            _ROWS[op[0]](self, replica_key, op[2], op[3], added)

    def _tell_all(self) -> None:
        rows, self._waiting = self._waiting, {}
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
            self._rows.append(end.as_run(key_id))
            self.recorded += len(end.data) - 1
        replica_key = self._replica_key_of(key_id)
        if replica_key is not None:
            effect = _LIST_ENDS[end.what](replica_key.part("list"), end.data, self._author)
            self._change(replica_key, "list", effect)

    def _flush(self, database: int, space: int) -> None:
        """Note that the database shows a new space. The flush covers all events that its author has
        seen."""
        self._tell_all()
        show_space(self._spaces, database, space)
        self.record.flush(database, flush(self._replica_keys.counted(database), self._author))
        self._replica_keys.flush(database, [])

    # -- keys ---------------------------------------------------------------------------------

    def _key_row(self, key_id: int, row: tuple[int, bytes, str, int | None] | None) -> None:
        old = self._replica_key_of(key_id)
        if row is None:
            if old is not None:
                self._tell_all()
                del self._addresses[key_id]
                old.release()
                self._delete(old)
            return
        space, name, _, expires_at_ms = row
        replica_key = self._replica_keys.at((self._spaces[space], name))
        if old is not None and old is not replica_key:
            self._tell_all()
            old.release()
            self._recreate(old, replica_key)
            self._delete(old)
        self._addresses[key_id] = replica_key
        if replica_key.expires_at_ms != expires_at_ms:
            expiry, author = replica_key.part(EXPIRY), self._author
            # A key that loses its expiry loses only the one that this server has seen. An expiry
            # that another server sets at the same time stays. PERSIST also wins against that one,
            # by an intent.
            effect = (
                expiry.remove(None, author)
                if expires_at_ms is None
                else expiry.write(None, expires_at_ms, author)
            )
            self._do(replica_key, EXPIRY, effect)

    def _delete(self, replica_key: ReplicaKey) -> None:
        for kind, effect in replica_key.delete(self._author):
            self._do(replica_key, kind, effect)

    def _recreate(self, old: ReplicaKey, new: ReplicaKey) -> None:
        """RENAME and MOVE: write the value that clients see under the new name."""
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

    def _change(self, replica_key: ReplicaKey, kind: str, effect: Effect) -> None:
        """Apply an effect. Values of other types under this name, which clients do not see, are
        removed first."""
        if not replica_key.has_one:
            for other, clearing in replica_key.supersede(kind, self._author):
                self._do(replica_key, other, clearing)
        self._do(replica_key, kind, effect)

    # -- intents ------------------------------------------------------------------------------

    def _at_end(self, key_id: int, what: int, value: bytes | None, pos: int) -> None:
        end = self._ends.get(key_id)
        if end is None or not end.goes_on(what, pos):
            self._tell_end(key_id)
            step = STEP if what in (PUSH_RIGHT, POP_LEFT) else -STEP
            end = self._ends[key_id] = ListEnd(what, pos, step)
        end.data.append(value)

    def _meaning(self, key_id: int, what: int, data: Any) -> None:
        if what == ADDED:
            self._added = data
        elif what <= POP_RIGHT:
            self._tell_end(key_id)
            end = self._ends[key_id] = ListEnd(what, 0, 0)
            end.data += data
        elif what == WRITTEN_AGAIN:
            table, sub, value = data
            self._row(row_op(table, key_id, sub, 0 if value is None else value))
        elif (replica_key := self._replica_key_of(key_id)) is not None:
            author = self._author
            if what == PERSISTED:
                self._do(replica_key, EXPIRY, replica_key.part(EXPIRY).write(None, None, author))
            else:
                self._tell_end(key_id)
                effect = _LIST_INTENTS[what](replica_key.part("list"), data, author)
                self._change(replica_key, "list", effect)

    # -- strings ------------------------------------------------------------------------------

    def tell_string(self, replica_key: ReplicaKey, value: bytes, added: Any) -> None:
        if value.startswith(_MAGIC) and (held := registers(value)) is not None:
            self._sketch(replica_key, held)
            return
        part: ReplicatedString = replica_key.part("string")
        author = self._author
        effect = (
            part.write(None, value, author)
            if added is None
            else part.increment(None, added, value, author)
        )
        self._change(replica_key, "string", effect)

    def _write_again(self, replica_key: ReplicaKey, value: bytes) -> bool:
        """`tell_string` for strings that consist of one write, in less time. False for all other
        strings."""
        cell = replica_key.text
        if cell is None or cell.counter is not None or cell.others:
            return False
        seen = cell.dot
        if not seen or (value and value[0] == _FIRST):
            return False
        author, record = self._author, self.record
        if seen < record.first_dot or not record.again(WRITES, seen, value):
            dot, hlc = author.dot(), author.hlc
            cell.dot = dot
            cell.hlc = hlc
            if (seen ^ dot) & MAX_REPLICA:
                record.write(replica_key.database, replica_key.name, dot, hlc, value, seen)
            else:
                record.overwrite(replica_key.database, replica_key.name, dot, hlc, value, seen)
        cell.value = value
        if replica_key.unwritten is not TEXT_ROW:
            self._replica_keys.changed(replica_key, "string", NO_CHANGES)
        return True

    def _add_more(self, replica_key: ReplicaKey, added: Any) -> bool:
        """`tell_string` for counters that no other replica has changed, in less time. False for all
        other strings."""
        cell, author = replica_key.text, self._author
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
        if not self.record.again(ADDS, last << REPLICA_BITS | author.replica, now):
            dot = author.dot()
            counter.seq = author.seq
            self.record.count(
                replica_key.database, replica_key.name, dot, last, counter.amount, now
            )
        counter.amount = now
        if replica_key.unwritten is not TEXT_ROW:
            self._replica_keys.changed(replica_key, "string", NO_CHANGES)
        return True

    def _sketch(self, replica_key: ReplicaKey, held: bytes) -> None:
        """Take a HyperLogLog that PFADD or PFMERGE has changed. They raise registers. If a register
        is lower than before, it is a new HyperLogLog."""
        part, author = replica_key.part("hyperloglog"), self._author
        seen = part.view() or bytes(len(held))
        if any(map(int.__lt__, held, seen)):
            self._do(replica_key, "hyperloglog", part.clear(author))
        elif part and held == seen:
            return  # PFCOUNT has cached its result in the string
        ranks = [(register, rank) for register, rank in enumerate(held) if rank]
        self._change(replica_key, "hyperloglog", part.add(ranks, author))

    # -- hashes, sets, sorted sets ------------------------------------------------------------

    def tell_field(self, replica_key: ReplicaKey, field: bytes, row: Any, added: Any) -> None:
        part, author = replica_key.part("hash"), self._author
        expiry = replica_key.find(EXPIRY)
        expires_at_ms = None if expiry is None else replica_key.part(EXPIRY).written(field)
        if row is None:
            self._change(replica_key, "hash", part.remove(field, author))
            new_expires_at_ms = None
        else:
            value, _, new_expires_at_ms = row
            if added is not None:
                self._change(replica_key, "hash", part.increment(field, added, value, author))
            elif new_expires_at_ms == expires_at_ms or part.get(field) != value:
                self._change(replica_key, "hash", part.write(field, value, author))
        if new_expires_at_ms != expires_at_ms:
            cells = replica_key.part(EXPIRY)
            effect = (
                cells.remove(field, author)
                if new_expires_at_ms is None
                else cells.write(field, new_expires_at_ms, author)
            )
            self._do(replica_key, EXPIRY, effect)

    def tell_member(
        self, replica_key: ReplicaKey, member: bytes, ordinal: int | None, _: Any
    ) -> None:
        part, author = replica_key.part("set"), self._author
        effect = (
            part.remove(member, author) if ordinal is None else part.write(member, None, author)
        )
        self._change(replica_key, "set", effect)

    def tell_scored(
        self, replica_key: ReplicaKey, member: bytes, score: float | None, added: Any
    ) -> None:
        part, author = replica_key.part("zset"), self._author
        if score is None:
            effect = part.remove(member, author)
        elif added is None:
            effect = part.write(member, score, author)
        else:
            effect = part.increment(member, added, author)
        self._change(replica_key, "zset", effect)


# Tables for which the last operation of a row is enough.
_ROWS: Final[dict[int, Any]] = {
    HASH_FIELDS: EffectBuilder.tell_field,
    SET_MEMBERS: EffectBuilder.tell_member,
    ZSET_MEMBERS: EffectBuilder.tell_scored,
}
# For each kind of change at an end of a list. `data` has the pushed elements, or a None for each
# pop.
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
    """The registers of a HyperLogLog; None for a string that only begins like one."""
    try:
        return hll_sketch.registers(value) if hll_sketch.is_valid(value) else None
    except hll_sketch.CorruptError:
        return None
