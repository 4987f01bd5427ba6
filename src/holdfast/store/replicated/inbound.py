"""Applies records and snapshots of peers: they change the replica keys, and then the keys that
clients see.

The other direction, from changes of clients to a record, is effect_builder.py.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, final

from holdfast.crdt.causal_log import GapError, decode, is_news
from holdfast.crdt.dots import Vector, covers, dot_of, includes
from holdfast.crdt.effects import OVERWRITES, WRITES, Effect
from holdfast.crdt.flush import FLUSHED, clearings, points_of
from holdfast.crdt.replicated_key import EXPIRY
from holdfast.crdt.replicated_types import text_in
from holdfast.crdt.shapes import read_record
from holdfast.errors import HalfDoneError
from holdfast.store.memory.key import Key
from holdfast.store.memory.keyspace import Keyspace
from holdfast.store.replicated.record_builder import NEXT_DOT, TEXT, WIDTHS, one_by_one, part_of_run
from holdfast.store.replicated.replica_keys import (
    NO_CHANGES,
    TEXT_ROW,
    Address,
    ReplicaKey,
    ReplicaKeys,
    look_at,
)
from holdfast.store.replicated.replica_state import ReplicaState
from holdfast.store.replicated.residue import Residue
from holdfast.store.replicated.view_updater import ViewUpdater

SnapshotKey = tuple[int, bytes, tuple[tuple[str, Any, Any], ...]]  # database, name, rows

# The work of one slice of `merge_rest`: names that are looked at. One merge counts as so many of
# them.
SLICE_LOOKS: Final = 5_000
LOOKS_PER_MERGE: Final = 50


@final
class Inbound:
    """Applies records and snapshots. It calls `seal`, which makes a record of the changes of
    clients, before it changes a replica key. So records of this server and of peers are in the
    order of their causes."""

    def __init__(
        self,
        keyspace: Keyspace,
        state: ReplicaState,
        replica_keys: ReplicaKeys,
        view: ViewUpdater,
        residue: Residue,
        seal: Callable[[], object],
    ) -> None:
        self._keyspace = keyspace
        self._state = state
        self._replica_keys = replica_keys
        self._view = view
        self._residue = residue
        self._seal = seal
        self._touched: dict[ReplicaKey, Key | None] = {}  # the changed keys of the current record
        self._slow_strings: set[Address] = set()  # strings in its runs that took the slow path

    # -- records ------------------------------------------------------------------------------

    def apply(self, data: bytes) -> bool:
        """Apply a record of a peer; False if it was applied before. Raises GapError and
        MalformedError before anything has changed, and HalfDoneError: see `_half_done`."""
        self._seal()
        state = self._state
        record = read_record(data, len(self._keyspace.databases))
        if not is_news(state.vector, record):
            return False
        if record.origin == state.replica:
            raise GapError(f"this server did not write record {record.seq} under its own number")
        ahead_ms = state.clock.observe(record.hlc)
        if ahead_ms > state.drift_ms:
            state.drift_ms, state.drift_replica = ahead_ms, record.origin
        rows_before = len(state.rows)
        self._view.begin()
        touched = self._touched = {}
        try:
            for change in record.changes:
                if change[2] == FLUSHED:
                    self._flush(change[0], change[3])
                elif change[1] is None:
                    self._apply_run(change[0], change[3])
                else:
                    replica_key = self._replica_keys.at((change[0], change[1]))
                    self._integrate(replica_key, change[2], change[3])
            self._view.end(state.rows)
            removals = state.append(record, data)
            self._residue.recorded(record, removals, self._slow_strings)
        except Exception as error:
            what = f"record {record.seq} of replica {record.origin}"
            raise self._half_done(what, rows_before) from error
        if self._slow_strings:
            self._slow_strings = set()
        for replica_key, key in touched.items():
            self._view.announce(replica_key.address, key)
        return True

    def _half_done(self, what: str, rows_before: int) -> HalfDoneError:
        """Drop the rows of a record of which memory has only a part. The caller must commit the
        batch and read the file again. Then everything is as it was before the record."""
        del self._state.rows[rows_before:]
        self._keyspace.ops.clear()
        return HalfDoneError(f"{what} cannot be taken in, see the log")

    def _integrate(self, replica_key: ReplicaKey, kind: str, effect: Effect) -> None:
        if kind == "list" and self._replica_keys.at_end(replica_key, effect):
            self._touched[replica_key] = self._view.list_at_end(replica_key, effect)
            return
        before = replica_key.type
        changes = replica_key.integrate(kind, effect)
        if changes:
            self._replica_keys.changed(replica_key, kind, changes)
            self._touched[replica_key] = self._view.update(replica_key, kind, changes, before)
            if conflict := replica_key.conflict_of(kind, effect):
                self._state.conflicts[conflict] += 1
            if kind == EXPIRY and replica_key.orphans:
                self._residue.add(replica_key.address)

    def _flush(self, database: int, effect: Effect) -> None:
        """FLUSHDB removes all keys at once. Keys with changes that the flush has not seen are
        handled one by one, because a part of them may remain."""
        points = points_of(effect)
        kept: list[ReplicaKey] = []
        for name in self._changed_unseen(effect[1], database):
            replica_key = self._replica_keys.at((database, name))
            for kind, clearing in clearings(effect, replica_key, points.get(name, {})):
                replica_key.integrate(kind, clearing)
            if next(replica_key.rows(), None) is not None:
                kept.append(replica_key)
        self._replica_keys.flush(database, kept)
        self._view.flush(database)
        for replica_key in kept:
            self._touched[replica_key] = self._view.rebuild(replica_key, None)
            self._residue.add(replica_key.address)

    def _changed_unseen(self, seen: Vector, database: int) -> Iterable[bytes]:
        """The keys that were changed by events beyond this vector. If the log does not reach back
        so far, all keys."""
        log = self._state.log
        if not includes(seen, log.base):
            return self._replica_keys.names_with_id(database)
        names: dict[bytes, None] = {}
        for number in range(log.start, log.start + len(log)):
            stored = log.at(number)
            if not covers(seen, dot_of(stored.origin, stored.seq)):
                for change in one_by_one(decode(log.read(number)).changes):
                    if change[0] == database and change[1] is not None:
                        names[change[1]] = None
        return names

    def _apply_run(self, database: int, run: Effect) -> None:
        """Apply a run of strings. Nearly all of them exist here and were changed by no other
        replica. These are applied in this loop, which takes less time. The journal needs no rows
        for them, because recovery gets them from the record."""
        replica_keys, view, keyspace = self._replica_keys, self._view, self._keyspace
        names = replica_keys.names(database)
        what: int = run[0]
        is_heard = view.is_heard(database)
        dot: int = run[1]
        parts: list[Any] = run[-1]
        hlc: int = 0 if len(run) < 4 else run[2]
        width = WIDTHS[what]
        found = [names.get(name) for name in parts[::width]]
        look_at(found)
        next_fold = keyspace.fold_state.next_fold
        count = grown = i = 0
        for each in found:
            replica_key: ReplicaKey = (
                replica_keys.at((database, parts[i])) if each is None else each
            )
            cell = replica_key.text
            key = view.key_of(replica_key) if replica_key.shown is None else replica_key.shown
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
                self._integrate(replica_key, TEXT, part_of_run(what, dot, hlc, parts, i))
                self._slow_strings.add(replica_key.address)
            else:
                old = key.value
                assert isinstance(old, bytes)
                grown += len(text) - len(old)
                key.value = text
                if key.dirty_in_fold != next_fold:
                    keyspace.string_changed(key)
                if replica_key.unwritten is not TEXT_ROW:
                    replica_keys.changed(replica_key, TEXT, NO_CHANGES)
                if is_heard:
                    self._touched[replica_key] = key
                    view.string_changed(replica_key, key)
                count += 1
            dot += NEXT_DOT
            i += width
        keyspace.used_bytes += grown
        keyspace.recorded += count
        if not is_heard:
            keyspace.dirty += count

    # -- snapshots ----------------------------------------------------------------------------

    def merge(self, snapshot: SnapshotKey, other_seen: Vector) -> None:
        """Merge one key of a snapshot whose author had seen at least the events of `other_seen`."""
        self._seal()
        rows_before = len(self._state.rows)
        self._view.begin()
        try:
            self._merge(snapshot, other_seen)
        except Exception as error:
            raise self._half_done(f"key {snapshot[1]!r} of a snapshot", rows_before) from error

    def _merge(self, snapshot: SnapshotKey, other_seen: Vector) -> None:
        replica_keys = self._replica_keys
        database, name, rows = snapshot
        replica_key = replica_keys.at((database, name))
        before = replica_key.type
        merged = replica_key.merge(rows, self._state.vector, other_seen)
        for kind in dict.fromkeys(kind for kind, _ in merged):
            changes = [change for of_kind, change in merged if of_kind == kind]
            replica_keys.write(replica_key, kind, changes)
        if merged:
            key = self._view.rebuild(replica_key, before)
            self._view.end(self._state.rows)
            self._view.announce(replica_key.address, key)
        replica_keys.drop_empty([replica_key.address])
        self._residue.merged(replica_key)

    def merge_rest(
        self, names: set[Address], first_new_id: int, other_seen: Vector
    ) -> Iterator[None]:
        """Complete a snapshot, in slices: remove keys that it does not have although its author has
        seen them. `names` are the keys that it has, without keys that it created here: these have
        ids from `first_new_id` on. Until the last slice no record may be applied: an element that
        was added meanwhile would stay, although its removal counts as seen already."""
        looks_left = SLICE_LOOKS
        replica_keys = self._replica_keys
        for address in replica_keys.walk():
            looks_left -= 1
            if replica_keys.is_older(address, first_new_id) and address not in names:
                self.merge((*address, ()), other_seen)
                looks_left -= LOOKS_PER_MERGE
            if looks_left <= 0:
                yield
                looks_left = SLICE_LOOKS
        self._seal()
        self._state.join_snapshot(other_seen)
