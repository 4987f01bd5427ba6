"""This server as one replica of several: its identity, the events that it has seen, its log.

All of this is stored, in facts and log records of the file. No keys, no values, no links.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.crdt.causal_log import Record
from holdfast.crdt.dots import Vector, includes, join
from holdfast.crdt.hlc import HybridClock
from holdfast.store.change.ops import CRDT_FACTS, Op, row_op
from holdfast.store.replicated.members import REPLICAS_PER_NODE, Members
from holdfast.store.replicated.record_log import RecordLog, rows_gone

if TYPE_CHECKING:
    from holdfast.store.file.tables import Tables

_pack = msgspec.msgpack.Encoder().encode


class ReplicaState:
    """The state. `vector` has the number of events that this server has seen from each replica,
    `stamps` the time of each replica's last record. `rows` are the rows of the open batch that are
    ready for the journal."""

    replica = 0  # the number of this replica; 0 until `identify`

    def __init__(self, node: int, tables: "Tables | None", now_ms: Callable[[], int]) -> None:
        self.node = node
        self.rows: list[Op] = []
        self.facts: dict[bytes, Any] = {}
        self.vector: Vector = {}
        self.stamps: dict[int, int] = {}  # without replicas that are known only from a snapshot
        self.clock = HybridClock(now_ms)
        self.log = RecordLog(tables)
        self.own_end = 0  # the number in the log after our own last record
        self.members = Members(node)
        # The alarm for a clock that is too far ahead: by how much, and which replica sent the
        # record.
        self.drift_ms = 0
        self.drift_replica = 0
        # Conflicts that effects of peers have met since the start: see ReplicatedKey.conflict_of.
        self.conflicts = {"writes": 0, "removals": 0, "types": 0}
        self._has_moved = False  # whether vector or clock changed since they were last noted

    # -- facts --------------------------------------------------------------------------------

    def note(self, name: bytes, value: Any) -> None:
        """Store a fact."""
        self.facts[name] = value
        self.rows.append(row_op(CRDT_FACTS, 0, name, _pack(value)))

    def note_position(self) -> None:
        """Store vector, clock and stamps, once in a batch with any number of records."""
        if self._has_moved:
            self._has_moved = False
            self.note(b"position", (self.vector, self.clock.last, self.stamps))

    def load_position(self) -> None:
        vector, last, *stamps = self.facts.get(b"position", ({}, 0))
        self.vector = dict(vector)
        self.stamps = dict(stamps[0]) if stamps else {}
        self.clock.last = last
        self.log.begin(*self.facts.get(b"base", ({}, 0)))

    # -- identity -----------------------------------------------------------------------------

    @property
    def is_new(self) -> bool:
        """Whether the file never belonged to an active-active server."""
        return b"identity" not in self.facts

    def take_identity(self, node: int, replica: int) -> None:
        self.node, self.replica = node, replica
        self.members.identify(node, replica)

    @property
    def own_seq(self) -> int:
        """The number of our own last event."""
        return self.vector.get(self.replica, 0)

    def own_stamp(self, seq: int) -> int | None:
        """The stamp of our own record with that number. 0 if there is no such record, None if it is
        unknown by now."""
        if seq == self.own_seq:
            return self.stamps.get(self.replica)
        for record in self.log.backwards():
            if record.origin == self.replica and record.seq <= seq:
                return record.hlc if record.seq == seq else 0
        return None

    # -- records ------------------------------------------------------------------------------

    def append(self, record: Record, data: bytes) -> int:
        """Add a record to the log and the vector, after the replica keys have it. Returns the
        number of removals in it."""
        self.vector[record.origin] = record.seq
        self.stamps[record.origin] = record.hlc
        self._has_moved = True
        removals = self.log.removals
        self.rows += self.log.write(record, data)
        return self.log.removals - removals

    def skip_to(self, seq: int) -> None:
        """Count our own events up to that number. They are in rows and in no record: see
        adoption.py."""
        self.vector[self.replica] = seq
        self._has_moved = True

    def join_snapshot(self, seen: Vector) -> None:
        """Add the events that the author of a snapshot had seen, after all its keys are merged. No
        record has these changes, so a peer that lacks one of them also needs a snapshot."""
        for replica, seq in seen.items():
            if seq > self.vector.get(replica, 0):
                self.stamps.pop(replica, None)
        self.vector = join(self.vector, seen)
        self.log.merged(seen)
        self.note_base()
        self._has_moved = True

    def note_base(self) -> None:
        self.note(b"base", (self.log.base, self.log.start))

    def cut_log(self, confirmed: Vector, limit_bytes: int, linked_from: int) -> None:
        """Drop the first records of the log: those in `confirmed`, and those beyond the limit."""
        log, start = self.log, self.log.start
        cut = log.cut(confirmed)
        if log.cost_bytes > limit_bytes and (cut_early := log.shrink(limit_bytes, linked_from)):
            cut += cut_early
            self.members.lapse(log.base)
        if cut:
            self.rows += rows_gone(start, cut)
            self.note_base()

    def can_serve(self, seen: Vector) -> bool:
        """Whether the log has all that a peer lacks if it has seen these events."""
        return self.log.can_serve(seen)

    @property
    def unconfirmed_removals(self) -> int:
        return self.log.removals

    # -- snapshots that are not complete ------------------------------------------------------

    def owe(self, seen: Vector) -> None:
        """Note that a snapshot begins whose author had seen these events. Until it is complete,
        keys may show events that our own vector does not cover."""
        self.note(b"owed", list(join(self.owed, seen).items()))

    @property
    def owed(self) -> Vector:
        """The events of begun snapshots that this server does not have yet. Removed nodes do not
        count, because their events cannot arrive any more."""
        removed = self.members.removed
        return {
            replica: seq
            for replica, seq in self.facts.get(b"owed", ())
            if seq > self.vector.get(replica, 0) and replica % REPLICAS_PER_NODE not in removed
        }

    # -- members ------------------------------------------------------------------------------

    def acknowledge(self, replica: int, vector: Vector, now_ms: int, view: bytes) -> None:
        """Note that a member has these events on disk (see Members). Its time counts only if we
        have all that it did before."""
        if vector.get(replica, 0) <= self.vector.get(replica, 0):
            self.members.heard(replica, now_ms)
        self.members.acknowledge(replica, vector, view)
        if includes(vector, self.log.base):
            self.members.caught_up(replica)

    @property
    def stable(self) -> Vector:
        """The events that each member has confirmed."""
        return self.members.stable(self.vector)

    @property
    def behind_log(self) -> set[int]:
        """The replicas for which the log keeps its first record; 0 for nodes that have never
        linked."""
        if not len(self.log):
            return set()
        first = self.log.at(self.log.start)
        known = self.members.known
        return {known.get(node, 0) for node in self.members.behind({first.origin: first.seq})}
