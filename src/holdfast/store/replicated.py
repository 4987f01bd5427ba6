"""Replicated databases: what several servers may change at once, and the log of its changes.

Beside each value that clients see stands a replicated one (crdt/). A batch of local changes
becomes a record before it is committed (`seal`); a record from elsewhere changes the replicated
value first and then what is shown of it (`apply`). Rows, record and vector are in the same batch
as the rows that clients see. Nothing here knows links or members' addresses.
"""

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, final

import msgspec

from holdfast.crdt.dots import Author, Vector, covers, dot_of, includes, join
from holdfast.crdt.effects import OVERWRITES, WRITES, Change, Effect
from holdfast.crdt.flush import FLUSHED, clearings, points_of
from holdfast.crdt.hlc import HybridClock
from holdfast.crdt.keys import EXPIRY
from holdfast.crdt.log import GapError, Record, decode, encode, is_news
from holdfast.crdt.shapes import read_record
from holdfast.crdt.types import text_in
from holdfast.errors import HalfDoneError
from holdfast.store import walking
from holdfast.store.members import Members
from holdfast.store.ops import CRDT_FACTS, CRDT_KEYS, CRDT_LOG, Op
from holdfast.store.replicated_changes import Changes
from holdfast.store.replicated_compare import Survey
from holdfast.store.replicated_log import LIMIT_BYTES, RecordLog, rows_gone
from holdfast.store.replicated_rows import (
    NO_CHANGES,
    PIECES,
    TEXT_ROW,
    Address,
    Slot,
    Slots,
    look_at,
)
from holdfast.store.replicated_runs import NEXT_DOT, TEXT, WIDTHS, one_by_one, part_of_run
from holdfast.store.replicated_shown import Shown
from holdfast.store.tables import FLUSHED_IDS

if TYPE_CHECKING:
    from holdfast.store.keys import Key as StoreKey
    from holdfast.store.replicated_keyspace import ReplicatedKeyspace

_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder().decode

SnapshotKey = tuple[int, bytes, tuple[tuple[str, Any, Any], ...]]  # database, name, rows


# The fact that says up to which id the keys of a standalone server's file are replicated; None when
# all are. See adoption.py.
ADOPTING: Final = b"adopting"


# Names looked at in a slice of `merge_rest`, and what a key costs that has to be merged.
SLICE_LOOKS: Final = 20_000
LOOKS_PER_MERGE: Final = 100


@final
class Replication:
    """Made anew whenever the keyspace forgets what it knows. `load` takes what the tables have,
    `replay` what the journal has; `begin` makes it usable."""

    def __init__(self, keyspace: "ReplicatedKeyspace") -> None:
        self.keyspace = keyspace
        self.node = keyspace.node
        self.vector: Vector = {}
        self.stamps: dict[int, int] = {}  # of each replica's last record, where it came as one
        self.clock = HybridClock(lambda: keyspace.now_ms)
        self.log = RecordLog(keyspace.tables)
        self.members = Members(keyspace.node)
        self.drift_ms = 0  # the alarm: how far a record's stamp is ahead, when that is too far
        self.drift_replica = 0  # whose record
        # Of keys in memory by their id, as of the last seal: the Address, or the Slot once that
        # was looked for.
        self.addresses: dict[int, Any] = {}
        self.own_end = 0  # the number of the log's record behind our last own
        self.sealed = 0  # operations of the open batch that are told already
        self.retired_spaces: dict[int, int] = {}  # flushed since: their databases
        self.facts: dict[bytes, Any] = {}
        self._shown = Shown(keyspace)
        self.slots = Slots(keyspace)
        self._replayed_texts: set[Address] = set()  # likewise: strings that records have changed
        self._touched: dict[Slot, StoreKey | None] = {}  # while applying
        self._not_as_usual: set[Address] = set()  # likewise: strings of runs that were not
        self._has_moved = False  # the vector or the clock, since they were last noted
        self._has_residue: set[Address] = set()  # maybe
        # Of keys with expiries of nothing (see Key.orphans): what had been seen here when they were
        # found, if nothing has changed since.
        self._orphaned: dict[Address, Vector] = {}
        self._tidied: Vector = {}  # what was stable when last looked at

    # -- the file -----------------------------------------------------------------------------

    def load(self) -> None:
        tables = self.keyspace.tables
        if tables is None:
            return
        self.facts = {name: _unpack(value) for name, value in tables.crdt_facts().items()}
        self.slots.flushed = dict(self.facts.get(FLUSHED_IDS, {}))
        self.slots.load(tables.crdt_keys())
        self.log.load()

    def replay(self, op: Op) -> None:
        table, key_id, sub, value = op
        if table == CRDT_FACTS:
            if value is None:
                self.facts.pop(sub, None)
            else:
                self.facts[sub] = _unpack(value)
                if sub == FLUSHED_IDS:
                    self.slots.replay_flushed(self.facts[sub])
        elif table == CRDT_LOG:
            record = self.log.replay(sub, key_id, value)
            if record is not None:
                self._replay_record(record)
        elif table == CRDT_KEYS:
            self.slots.replay_key(key_id, value)
        else:
            self.slots.replay_row(key_id, sub, value)

    def _replay_record(self, record: Record) -> None:
        for database, name, kind, effect in one_by_one(record.changes):
            if kind == FLUSHED:
                self.slots.replay_flush(database, effect)
                continue
            self.slots.replay_effect((database, name), kind, effect)
            if kind == TEXT:
                self._replayed_texts.add((database, name))

    def begin(self) -> None:
        facts = self.facts
        vector, last, *stamps = facts.get(b"position", ({}, 0))
        self.vector = dict(vector)
        self.stamps = dict(stamps[0]) if stamps else {}
        self.clock.last = last
        self.log.begin(*facts.get(b"base", ({}, 0)))
        self.slots.begin()
        self.members.load(facts, self.note)
        identity = facts.get(b"identity")
        if identity is not None:
            self.node, self.replica = identity
            self.members.identify(self.node, self.replica)
            if b"rows" not in facts:
                self.slots.renew_rows()
                self.note(b"rows", PIECES)
        for database in self.keyspace.replicated_databases:
            for key in database.space.keys.values():
                self.addresses[key.id] = (database.index, key.name)
        for address in sorted(self._replayed_texts):
            self._shown.recover_string(self.slots.at(address))
        self._replayed_texts = set()
        shown = {
            (database.index, name)
            for database in self.keyspace.databases
            for name in walking.names(self.keyspace, database.space)
        }
        self._has_residue = set(self.slots.addresses) - shown

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

    # -- local changes ------------------------------------------------------------------------

    def seal(self) -> None:
        """What the open batch has changed since the last time becomes a record."""
        ops = self.keyspace.ops
        if len(ops) > self.sealed:
            own = ops[self.sealed :]
            del ops[self.sealed :]
            kept = self.tell(own)
            if kept:
                ops[self.sealed : self.sealed] = kept
            self.sealed = len(ops)
            if self.retired_spaces:
                self.retired_spaces.clear()

    def tell(self, own: list[Op]) -> list[Op]:
        """Returns those of the operations that the journal needs beside the record."""
        author = Author(self.replica, self.clock.tick(), self.vector)
        changes = Changes(author, self.database_of, self.addresses, self.slots)
        changes.take(own)
        self.keyspace.recorded += changes.recorded
        told = changes.told.changes
        if not told:
            return changes.kept
        after = self.vector.get(self.replica, 0)
        if author.seq == after:
            author.dot()  # a record has a number of its own
        record = Record(self.replica, after, author.seq, author.hlc, told)
        self._append(record, encode(record))
        self.own_end = self.log.start + len(self.log)
        return changes.kept

    def database_of(self, space: int) -> int:
        """The number of the one that shows it, or did before it was flushed."""
        for each in self.keyspace.databases:
            if each.space.id == space:
                return each.index
        return self.retired_spaces[space]

    def _append(self, record: Record, data: bytes) -> None:
        removals = record.removals
        self.vector[record.origin] = record.seq
        self.stamps[record.origin] = record.hlc
        self.keyspace.ops += self.log.write(record, data)
        if removals or self._has_residue:
            # Strings of runs hold something, but for those. (To look at them took as long as all
            # else, wherever a queue is popped from as well.)
            touched = {(change[0], change[1]) for change in record.changes if change[1] is not None}
            touched |= self._not_as_usual
            self.slots.drop_empty(touched)
            for address in touched & self._orphaned.keys():
                del self._orphaned[address]
            if removals:
                self._has_residue |= {address for address in touched if address in self.slots}
        self._has_moved = True

    def note_position(self) -> None:
        """Once for all records of a batch, when it is about to be committed."""
        if self._has_moved:
            self._has_moved = False
            self.note(b"position", (self.vector, self.clock.last, self.stamps))

    # -- a standalone server's file -----------------------------------------------------------

    @property
    def is_adopting(self) -> bool:
        return self.facts.get(ADOPTING) is not None

    def adopted(self, seq: int, last_id: int) -> None:
        """Keys up to that id have replicated values, which took the numbers up to `seq`."""
        self.vector[self.replica] = seq
        self._has_moved = True
        self.note(ADOPTING, last_id)
        self.sealed = len(self.keyspace.ops)

    def adopted_all(self) -> None:
        """No record tells of them: a peer that lacks them needs a snapshot."""
        self.note(ADOPTING, None)
        self.log.base = join(self.log.base, self.vector)
        self.note(b"base", (self.log.base, self.log.start))
        self.sealed = len(self.keyspace.ops)

    # -- changes from elsewhere ---------------------------------------------------------------

    def apply(self, data: bytes) -> bool:
        """A record that a peer sent; False when it was here already. Raises GapError and
        MalformedError, before anything has changed; and HalfDoneError: see `_half_done`."""
        self.seal()
        record = read_record(data, len(self.keyspace.databases))
        if not is_news(self.vector, record):
            return False
        if record.origin == self.replica:
            raise GapError(f"record {record.seq} of this server is none of its own")
        ahead_ms = self.clock.observe(record.hlc)
        if ahead_ms > self.drift_ms:
            self.drift_ms, self.drift_replica = ahead_ms, record.origin
        touched = self._touched = {}
        keyspace = self.keyspace
        keyspace.is_replicated = False  # `stating_no_intents` would take longer than a small record
        keyspace.settled = len(keyspace.ops)
        try:
            for change in record.changes:
                if change[2] == FLUSHED:
                    self._apply_flush(change[0], change[3])
                elif change[1] is None:
                    self._apply_run(change[0], change[3])
                else:
                    slot = self.slots.at((change[0], change[1]))
                    self._integrate(slot, change[2], change[3])
            self._append(record, data)
        except Exception as error:
            what = f"record {record.seq} of replica {record.origin}"
            raise self._half_done(what) from error
        finally:
            keyspace.is_replicated = True
            keyspace.settled = 0
        self._not_as_usual = set()
        for slot, key in touched.items():
            self._shown.announce(slot.address, key)
        self.sealed = len(keyspace.ops)
        return True

    def _half_done(self, what: str) -> HalfDoneError:
        """Memory has a part of it, and the batch has not: whoever hears of this commits the batch
        and reads the file again, so that all is as it was before."""
        del self.keyspace.ops[self.keyspace.settled :]
        return HalfDoneError(f"{what} cannot be taken in, see the log")

    def _integrate(self, slot: Slot, kind: str, effect: Effect) -> None:
        if kind == "list" and self.slots.at_end(slot, effect):
            self._touched[slot] = self._shown.list_at_end(slot, effect)
            return
        before = slot.type
        changes = slot.integrate(kind, effect)
        if changes:
            self.slots.changed(slot, kind, changes)
            self._touched[slot] = self._shown.update(slot, kind, changes, before)
            if kind == EXPIRY and slot.orphans:
                self._has_residue.add(slot.address)

    def _apply_flush(self, database: int, effect: Effect) -> None:
        """All keys at once; one by one only those that were changed by what the flush has not
        seen, of which something may be left."""
        points = points_of(effect)
        kept: list[Slot] = []
        for name in self._changed_unseen(effect[1], database):
            slot = self.slots.at((database, name))
            for kind, clearing in clearings(effect, slot, points.get(name, {})):
                slot.integrate(kind, clearing)
            if next(slot.rows(), None) is not None:
                kept.append(slot)
        self.slots.flush(database, kept)
        self._shown.flush(database)
        for slot in kept:
            self._touched[slot] = self._shown.rebuild(slot, None)
            self._has_residue.add(slot.address)

    def _changed_unseen(self, seen: Vector, database: int) -> Iterable[bytes]:
        """The keys that were changed by what somebody has not seen who has seen so much. The log
        tells; if it does not reach back so far, it may be any."""
        log = self.log
        if not includes(seen, log.base):
            return self.slots.names_with_id(database)
        names: dict[bytes, None] = {}
        for number in range(log.start, log.start + len(log)):
            stored = log.at(number)
            if not covers(seen, dot_of(stored.origin, stored.seq)):
                for change in one_by_one(decode(log.read(number)).changes):
                    if change[0] == database and change[1] is not None:
                        names[change[1]] = None
        return names

    def _apply_run(self, database: int, run: Effect) -> None:
        """Of strings that are here nearly always, and not changed by anybody else."""
        slots, shown, keyspace = self.slots, self._shown, self.keyspace
        names = slots.names(database)
        what: int = run[0]
        is_heard = shown.is_heard(database)
        dot: int = run[1]
        parts: list[Any] = run[-1]
        hlc: int = 0 if len(run) < 4 else run[2]
        width = WIDTHS[what]
        found = [names.get(name) for name in parts[::width]]
        look_at(found)
        next_fold = keyspace.next_fold
        count = grown = i = 0
        for each in found:
            slot: Slot = slots.at((database, parts[i])) if each is None else each
            cell = slot.text
            key = shown.key_of(slot) if slot.shown is None else slot.shown
            text: bytes | None = None
            if cell is not None and key is not None:
                if what == OVERWRITES:
                    if cell.overwrite_own(dot, hlc, parts[i + 1]):
                        text = parts[i + 1]
                elif what == WRITES:
                    if cell.overwrite(parts[i + 2], dot, hlc, parts[i + 1]):
                        text = parts[i + 1]
                elif cell.count(dot, parts[i + 1], parts[i + 3]):
                    text = text_in(cell)
            if text is None or key is None:
                self._integrate(slot, TEXT, part_of_run(what, dot, hlc, parts, i))
                self._not_as_usual.add(slot.address)
            else:
                # A record tells it, and recovery gets it from there.
                old = key.value
                assert isinstance(old, bytes)
                grown += len(text) - len(old)
                key.value = text
                if key.changed_in != next_fold:
                    keyspace.string_changed(key)
                if slot.unwritten is not TEXT_ROW:
                    slots.changed(slot, TEXT, NO_CHANGES)
                if is_heard:
                    self._touched[slot] = key
                count += 1
            dot += NEXT_DOT
            i += width
        keyspace.used_bytes += grown
        keyspace.recorded += count
        if not is_heard:
            keyspace.dirty += count

    # -- whole states -------------------------------------------------------------------------

    def snapshot(self) -> Iterator[SnapshotKey]:
        """All keys, each as it is when it is asked for. What changes meanwhile is in the log from
        where it was when this began, and to apply that again changes nothing in the end."""
        for address in self.slots.addresses:
            if address in self.slots:
                yield (*address, tuple(self.slots.glance(address).rows()))

    def merge(self, snapshot: SnapshotKey, other_seen: Vector) -> None:
        """One key as somebody has it who has seen so much (at least)."""
        self.seal()
        self.keyspace.settled = len(self.keyspace.ops)
        try:
            self._merge(snapshot, other_seen)
        except Exception as error:
            what = f"key {snapshot[1]!r} of a snapshot"
            raise self._half_done(what) from error
        finally:
            self.keyspace.settled = 0
        self.sealed = len(self.keyspace.ops)

    def _merge(self, snapshot: SnapshotKey, other_seen: Vector) -> None:
        database, name, rows = snapshot
        slot = self.slots.at((database, name))
        before = slot.type
        merged = slot.merge(rows, self.vector, other_seen)
        for kind in dict.fromkeys(kind for kind, _ in merged):
            changes = [change for of_kind, change in merged if of_kind == kind]
            self.slots.write(slot, kind, changes)
        if merged:
            with self.keyspace.stating_no_intents():
                key = self._shown.rebuild(slot, before)
            self._shown.announce(slot.address, key)
        self.slots.drop_empty([slot.address])
        self._orphaned.pop(slot.address, None)
        if slot.id and slot.has_residue:
            self._has_residue.add(slot.address)

    def merge_rest(self, names: set[Address], other_seen: Vector) -> Iterator[None]:
        """A snapshot is complete: what it does not have, though its author has seen it, goes. In
        slices; until the last one nothing else may be applied. Else an element that came meanwhile
        would stay, though the removal that is already seen took it away."""
        looks_left = SLICE_LOOKS
        for address in self.slots.addresses:
            looks_left -= 1
            if address not in names:
                self.merge((*address, ()), other_seen)
                looks_left -= LOOKS_PER_MERGE
            if looks_left <= 0:
                yield
                looks_left = SLICE_LOOKS
        self.seal()
        for replica, seq in other_seen.items():
            if seq > self.vector.get(replica, 0):
                self.stamps.pop(replica, None)
        self.vector = join(self.vector, other_seen)
        self.log.base = join(self.log.base, other_seen)
        self.note(b"base", (self.log.base, self.log.start))
        self._has_moved = True
        self.sealed = len(self.keyspace.ops)

    def own_stamp(self, seq: int) -> int | None:
        """Of our own record with that number; 0 if we made no such record, None if it is not known
        any more."""
        if seq == self.vector.get(self.replica, 0):
            return self.stamps.get(self.replica)
        for record in self.log.backwards():
            if record.origin == self.replica and record.seq <= seq:
                return record.hlc if record.seq == seq else 0
        return None

    def can_serve(self, seen: Vector) -> bool:
        return self.log.can_serve(seen)

    def digest(self) -> int:
        """Those who have seen the same have the same."""
        return Survey(self.keyspace).finish().digest

    # -- members ------------------------------------------------------------------------------

    def acknowledge(self, replica: int, vector: Vector, now_ms: int, view: bytes) -> None:
        """See Members. It says nothing of a time before which we do not know all it did."""
        if vector.get(replica, 0) <= self.vector.get(replica, 0):
            self.members.heard(replica, now_ms)
        self.members.acknowledge(replica, vector, view)
        if includes(vector, self.log.base):
            self.members.caught_up(replica)

    @property
    def stable(self) -> Vector:
        return self.members.stable(self.vector)

    @property
    def behind_log(self) -> set[int]:
        """The replicas that the log's first record is kept for; 0 for nodes that never came."""
        if not len(self.log):
            return set()
        first = self.log.at(self.log.start)
        known = self.members.known
        return {known.get(node, 0) for node in self.members.behind({first.origin: first.seq})}

    @property
    def unconfirmed_removals(self) -> int:
        return self.log.removals

    def tidy(self, log_limit_bytes: int = LIMIT_BYTES, linked_from: int = sys.maxsize) -> None:
        """Cut the log, and forget residue, where every member has confirmed it. The log is cut to
        its limit in any case, see `RecordLog.shrink`."""
        self.seal()
        stable = self.stable
        self._cut_log(stable, log_limit_bytes, linked_from)
        found, self.slots.with_residue = self.slots.with_residue, set()
        if stable == self._tidied and not self._orphaned and not found:
            return
        self._tidied = stable
        self._has_residue |= found
        for address in list(self._has_residue):
            slot = self.slots.at(address)
            for kind, change in [*slot.settle(stable), *self._orphans_to_forget(slot, stable)]:
                self.slots.write(slot, kind, [change])
        self.slots.drop_empty(self._has_residue)
        self._has_residue = {
            address
            for address in self._has_residue
            if address in self.slots and self.slots.at(address).has_residue
        }
        self.sealed = len(self.keyspace.ops)

    def _cut_log(self, stable: Vector, limit_bytes: int, linked_from: int) -> None:
        log, start = self.log, self.log.start
        cut = log.cut(stable) if stable != self._tidied else []
        if log.cost_bytes > limit_bytes and (cut_early := log.shrink(limit_bytes, linked_from)):
            cut += cut_early
            self.members.lapse(log.base)
        if cut:
            self.keyspace.ops += rows_gone(start, cut)
            self.note(b"base", (log.base, log.start))
            self.sealed = len(self.keyspace.ops)

    def _orphans_to_forget(self, slot: Slot, stable: Vector) -> list[tuple[str, Change]]:
        """Expiries of nothing, once all have seen what was seen here when they were found. What
        anybody writes to the key from then on, he writes where there is nothing, and takes them
        away; before, somebody might add to what he has not seen deleted, and mean them to stay."""
        if not slot.orphans:
            self._orphaned.pop(slot.address, None)
            return []
        seen = self._orphaned.setdefault(slot.address, dict(self.vector))
        if not includes(stable, seen):
            return []
        del self._orphaned[slot.address]
        return slot.forget_orphans()
