"""Replicated databases: what several servers may change at once, and the log of its changes.

Beside each value that clients see stands a replicated one (crdt/). A batch of local changes
becomes a record before it is committed (`seal`); a record from elsewhere changes the replicated
value first and then what is shown of it (`apply`). Rows, record and vector are in the same batch
as the rows that clients see. Nothing here knows links or members' addresses.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from holdfast.crdt.dots import Author, Vector, join
from holdfast.crdt.effects import Change, Effect
from holdfast.crdt.hlc import HybridClock
from holdfast.crdt.keys import Key
from holdfast.crdt.log import Log, Record, decode, encode, frozen, is_news
from holdfast.store.members import Members
from holdfast.store.ops import CRDT_FACTS, CRDT_KEYS, CRDT_LOG, CRDT_ROWS, INTENT, Op
from holdfast.store.replicated_changes import Address, Changes
from holdfast.store.replicated_shown import Shown

if TYPE_CHECKING:
    from holdfast.store.keys import Key as StoreKey
    from holdfast.store.replicated_keyspace import ReplicatedKeyspace

# Their places are in files, so for ever.
KINDS = ("string", "list", "hash", "set", "zset", "stream", "hyperloglog", "expiry")
NUMBERS = {kind: number for number, kind in enumerate(KINDS)}
LIST = "list"  # whose sub keys are positions, which are bytes already

_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder().decode

SnapshotKey = tuple[int, bytes, tuple[tuple[str, Any, Any], ...]]  # database, name, rows


class Stored(NamedTuple):
    """A record as the log keeps and sends it."""

    origin: int
    seq: int
    hlc: int
    removals: int
    data: bytes


class Slot:
    """A replicated key in memory. `id` is 0 while it has no rows."""

    __slots__ = ("address", "id", "key")

    def __init__(self, key_id: int, address: Address) -> None:
        self.id = key_id
        self.address = address
        self.key = Key()


class Replication:
    """Made anew whenever the keyspace forgets what it knows. `load` takes what the tables have,
    `replay` what the journal has; `begin` makes it usable."""

    def __init__(self, keyspace: "ReplicatedKeyspace") -> None:
        self.keyspace = keyspace
        self.node = keyspace.node
        self.vector: Vector = {}
        self.clock = HybridClock(lambda: keyspace.now_ms)
        self.log: Log[Stored] = Log()
        self.members = Members(keyspace.node)
        self.drift_ms = 0  # the alarm: how far a peer's clock is ahead, when that is too far
        self.addresses: dict[int, Address] = {}  # of keys in memory, as of the last seal
        self.sealed = 0  # operations of the open batch that are told already
        self.facts: dict[bytes, Any] = {}
        # Whether the tables have all of a replicated key: the fold knows, where there is one.
        self.is_clean: Callable[[int], bool] = lambda key_id: False
        self._shown = Shown(keyspace)
        self._slots: dict[Address, Slot] = {}
        self._ids: dict[Address, int] = {}
        self._places: dict[int, Address] = {}  # by id: while replaying
        self._log_rows: dict[int, bytes] = {}  # likewise
        self._has_residue: set[Address] = set()  # maybe
        self._tidied: Vector = {}  # what was stable when last looked at
        self._rows: list[Op] = []
        self._changes: list[tuple[int, bytes, str, Effect]] = []

    # -- the file -----------------------------------------------------------------------------

    def load(self) -> None:
        tables = self.keyspace.tables
        if tables is None:
            return
        for key_id, address in tables.crdt_keys():
            self._ids[address] = key_id
            self._places[key_id] = address
        self._log_rows = dict(tables.crdt_log())
        self.facts = {name: _unpack(value) for name, value in tables.crdt_facts().items()}

    def replay(self, op: Op) -> None:
        table, key_id, sub, value = op
        if table == CRDT_FACTS:
            self.facts[sub] = _unpack(value)
        elif table == CRDT_LOG:
            if value is None:
                self._log_rows.pop(sub, None)
            else:
                self._log_rows[sub] = value
        elif table == CRDT_KEYS:
            address = self._places.pop(key_id, None)
            if address is not None and self._ids.get(address) == key_id:
                del self._ids[address]
                self._slots.pop(address, None)
            if value is not None:
                database, name = value
                address = (database, name)
                self._places[key_id] = address
                self._ids[address] = key_id
        elif key_id in self._places:  # else of a key whose end was folded already
            kind, place = sub
            part = self.slot(self._places[key_id]).key.part(KINDS[kind])
            part.apply(_sub(kind, place), None if value is None else frozen(_unpack(value)))

    def begin(self) -> None:
        facts = self.facts
        vector, last = facts.get(b"position", ({}, 0))
        self.vector = dict(vector)
        self.clock.last = last
        base, start = facts.get(b"base", ({}, 0))
        self.log = Log(dict(base), start)
        for lsn in sorted(self._log_rows):
            self.log.append(_stored(self._log_rows[lsn]))
        self._log_rows = {}
        self._places = {}
        self.members.load(facts, self.note)
        identity = facts.get(b"identity")
        if identity is not None:
            self.node, self.replica = identity
            self.members.identify(self.node, self.replica)
        for database in self.keyspace.replicated_databases:
            for key in database.space.keys.values():
                self.addresses[key.id] = (database.index, key.name)
        shown = {
            (database.index, name)
            for database in self.keyspace.databases
            for name in self.keyspace.names(database.space)
        }
        self._has_residue = self._ids.keys() - shown

    replica = 0

    @property
    def is_new(self) -> bool:
        """Whether the file was never part of anything replicated."""
        return b"identity" not in self.facts

    def identify(self, node: int, replica: int) -> None:
        self.node, self.replica = node, replica
        self.members.identify(node, replica)
        self.keyspace.replica = replica
        self.note(b"identity", (node, replica))

    def note(self, name: bytes, value: Any) -> None:
        """A fact that has to last."""
        self.facts[name] = value
        self.keyspace.ops.append((CRDT_FACTS, 0, name, _pack(value)))

    # -- replicated keys ----------------------------------------------------------------------

    def slot(self, address: Address) -> Slot:
        slot = self._slots.get(address)
        if slot is None:
            slot = self._slots[address] = Slot(self._ids.get(address, 0), address)
            tables = self.keyspace.tables
            if slot.id and tables is not None:
                part = slot.key.part
                for (kind, sub), row in tables.crdt_rows(slot.id):
                    part(KINDS[kind]).apply(_sub(kind, sub), frozen(_unpack(row)))
        return slot

    def key_at(self, address: Address) -> Key:
        return self.slot(address).key

    def forget_slot(self, address: Address) -> None:
        """It is loaded again when it is needed, if the tables have all of it."""
        slot = self._slots.get(address)
        if slot is not None and self.is_clean(slot.id):
            del self._slots[address]

    @property
    def all_addresses(self) -> list[Address]:
        return list(self._ids)

    def _put_rows(self, slot: Slot, kind: str, changes: Iterable[Change]) -> None:
        rows = self._rows
        key_id = slot.id
        if not key_id:
            key_id = slot.id = self.keyspace.next_id
            self.keyspace.next_id += 1
            self._ids[slot.address] = key_id
            rows.append((CRDT_KEYS, key_id, None, slot.address))
        number = NUMBERS[kind]
        for sub, new, _ in changes:
            place = sub if kind == LIST else _pack(sub)
            rows.append((CRDT_ROWS, key_id, (number, place), None if new is None else _pack(new)))

    def _drop_empty(self, addresses: Iterable[Address]) -> None:
        for address in addresses:
            slot = self._slots.get(address)
            if slot is not None and next(slot.key.rows(), None) is None:
                del self._slots[address]
                if slot.id:
                    del self._ids[address]
                    self._rows.append((CRDT_KEYS, slot.id, None, None))

    # -- local changes ------------------------------------------------------------------------

    def seal(self) -> None:
        """What the open batch has changed since the last time becomes a record."""
        ops = self.keyspace.ops
        if len(ops) > self.sealed:
            own = ops[self.sealed :]
            ops[self.sealed :] = [op for op in own if op[0] != INTENT]
            self.tell(own)
            self.sealed = len(ops)

    def tell(self, own: Iterable[Op]) -> None:
        author = Author(self.replica, self.clock.tick(), self.vector)
        changes = Changes(author, self.databases, self.addresses, self.key_at, self._do)
        changes.take(own)
        if not self._changes:
            self._flush_rows()
            return
        after = self.vector.get(self.replica, 0)
        if author.seq == after:
            author.dot()  # a record has a number of its own
        record = Record(self.replica, after, author.seq, author.hlc, tuple(self._changes))
        self._append(record, encode(record))

    @property
    def databases(self) -> dict[int, int]:
        return {database.space.id: database.index for database in self.keyspace.databases}

    def _do(self, address: Address, kind: str, effect: Effect) -> None:
        slot = self.slot(address)
        changes = slot.key.integrate(kind, effect)
        if changes:
            self._put_rows(slot, kind, changes)
            self._changes.append((*address, kind, effect))

    def _append(self, record: Record, data: bytes) -> None:
        log = self.log
        lsn = log.start + len(log)
        log.append(Stored(record.origin, record.seq, record.hlc, record.removals, data))
        self.vector[record.origin] = record.seq
        self._rows.append((CRDT_LOG, 0, lsn, data))
        touched = {change[:2] for change in record.changes}
        if record.removals or self._has_residue:
            self._drop_empty(touched)
        self._has_residue |= touched & self._ids.keys() if record.removals else set()
        self._changes = []
        self._flush_rows()
        self._note_position()

    def _flush_rows(self) -> None:
        self.keyspace.ops += self._rows
        self._rows = []

    def _note_position(self) -> None:
        self.note(b"position", (self.vector, self.clock.last))

    # -- changes from elsewhere ---------------------------------------------------------------

    def apply(self, data: bytes) -> bool:
        """A record that a peer sent; False when it was here already. Raises GapError."""
        self.seal()
        record = decode(data)
        if not is_news(self.vector, record):
            return False
        self.drift_ms = max(self.drift_ms, self.clock.observe(record.hlc))
        touched: dict[Address, None] = {}
        for database, name, kind, effect in record.changes:
            address = (database, name)
            slot = self.slot(address)
            before = slot.key.type
            changes = slot.key.integrate(kind, effect)
            if changes:
                self._put_rows(slot, kind, changes)
                self._show(slot, kind, changes, before)
                touched[address] = None
        self._append(record, data)
        for address in touched:
            self._shown.announce(address)
        self.sealed = len(self.keyspace.ops)
        return True

    def _show(self, slot: Slot, kind: str, changes: list[Change], before: str | None) -> None:
        self._is_at(slot, self._shown.update(slot.address, slot.key, kind, changes, before))

    def _is_at(self, slot: Slot, key: "StoreKey | None") -> None:
        if key is not None:
            self.addresses[key.id] = slot.address

    # -- whole states -------------------------------------------------------------------------

    def snapshot(self) -> Iterator[SnapshotKey]:
        """All keys, each as it is when it is asked for. What changes meanwhile is in the log from
        where it was when this began, and to apply that again changes nothing in the end."""
        for address in self.all_addresses:
            if address in self._ids:
                yield (*address, tuple(self.key_at(address).rows()))

    def merge(self, snapshot: SnapshotKey, other_seen: Vector) -> None:
        """One key as somebody has it who has seen so much (at least)."""
        self.seal()
        database, name, rows = snapshot
        slot = self.slot((database, name))
        before = slot.key.type
        merged = slot.key.merge(rows, self.vector, other_seen)
        for kind in dict.fromkeys(kind for kind, _ in merged):
            changes = [change for of_kind, change in merged if of_kind == kind]
            self._put_rows(slot, kind, changes)
        if merged:
            self._is_at(slot, self._shown.rebuild(slot.address, slot.key, before))
            self._shown.announce(slot.address)
        self._drop_empty([slot.address])
        self._flush_rows()
        self.sealed = len(self.keyspace.ops)

    def merged_all(self, names: set[Address], other_seen: Vector) -> None:
        """A snapshot is complete: what it does not have, though its author has seen it, goes."""
        for address in self.all_addresses:
            if address not in names:
                self.merge((*address, ()), other_seen)
        self.vector = join(self.vector, other_seen)
        self.log.base = join(self.log.base, other_seen)
        self.note(b"base", (self.log.base, self.log.start))
        self._note_position()
        self.sealed = len(self.keyspace.ops)

    def can_serve(self, seen: Vector) -> bool:
        return self.log.can_serve(seen)

    def digest(self) -> int:
        """Those who have seen the same have the same."""
        self.seal()
        return sum(
            self.key_at(address).digest(b"%d:%s" % address) for address in self.all_addresses
        ) % (1 << 128)

    # -- members ------------------------------------------------------------------------------

    def acknowledge(self, replica: int, vector: Vector, now_ms: int, view: bytes) -> None:
        """See Members. It says nothing of a time before which we do not know all it did."""
        if vector.get(replica, 0) <= self.vector.get(replica, 0):
            self.members.heard(replica, now_ms)
        self.members.acknowledge(replica, vector, view)

    @property
    def stable(self) -> Vector:
        return self.members.stable(self.vector)

    @property
    def log_bytes(self) -> int:
        """Counted: for people."""
        return sum(len(record.data) for record in self.log.since(self.log.start))

    @property
    def unconfirmed_removals(self) -> int:
        return self.log.removals

    def tidy(self) -> None:
        """Cut the log, and forget residue, where every member has confirmed it."""
        self.seal()
        stable = self.stable
        if stable == self._tidied:
            return
        self._tidied = stable
        start = self.log.start
        if self.log.cut(stable):
            self.keyspace.ops += [(CRDT_LOG, 0, lsn, None) for lsn in range(start, self.log.start)]
            self.note(b"base", (self.log.base, self.log.start))
        for address in list(self._has_residue):
            slot = self.slot(address)
            for kind, change in slot.key.settle(stable):
                self._put_rows(slot, kind, [change])
        self._drop_empty(self._has_residue)
        self._has_residue = {
            address
            for address in self._has_residue & self._ids.keys()
            if any(part.has_residue for part in self.key_at(address).parts.values())
        }
        self._flush_rows()
        self.sealed = len(self.keyspace.ops)


def _sub(kind: int, place: bytes) -> Any:
    return place if KINDS[kind] == LIST else frozen(_unpack(place))


def _stored(data: bytes) -> Stored:
    record = decode(data)
    return Stored(record.origin, record.seq, record.hlc, record.removals, data)
