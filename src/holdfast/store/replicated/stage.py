"""The stage between the batch and the journal of an active-active server.

Clients change values, and the batch gets row operations. Before the batch is committed, `seal`
turns these into the effects that they have on all replicas, and adds one record to the log. Each
value that clients see has a replicated one beside it (a ReplicaKey), which gets the same effects. A
record of a peer goes the other way (inbound.py): it changes replica keys first, and then the keys
that clients see. Rows, record and vector are written in one batch. No links, no addresses of peers.
"""

import logging
import sys
from collections.abc import Iterator
from typing import Any, Final, final

import msgspec

from holdfast.crdt.causal_log import Record, encode
from holdfast.crdt.dots import Author, join
from holdfast.crdt.flush import FLUSHED
from holdfast.errors import StorageError
from holdfast.store.change.intents import Intent
from holdfast.store.change.ops import CRDT_FACTS, CRDT_KEYS, CRDT_LOG, Op, RowOp
from holdfast.store.file.tables import FLUSHED_IDS
from holdfast.store.memory import scanning
from holdfast.store.memory.keyspace import Keyspace
from holdfast.store.replicated.effect_builder import EffectBuilder
from holdfast.store.replicated.inbound import Inbound, SnapshotKey
from holdfast.store.replicated.record_builder import TEXT, one_by_one
from holdfast.store.replicated.record_log import LIMIT_BYTES
from holdfast.store.replicated.replica_keys import PIECES, Address, ReplicaKeys
from holdfast.store.replicated.replica_state import ReplicaState
from holdfast.store.replicated.replicated_database import ReplicatedDatabase
from holdfast.store.replicated.residue import Residue
from holdfast.store.replicated.view_updater import ViewUpdater

log = logging.getLogger(__name__)

_unpack = msgspec.msgpack.Decoder().decode

# The fact with the highest id up to which the keys of a standalone server's file are replicated;
# None if all are. See adoption.py.
ADOPTING: Final = b"adopting"

_NO_SLOW_STRINGS: Final[set[Address]] = set()


@final
class ReplicationStage(ReplicaState):
    """The stage. It is made anew whenever the keyspace is read again. `load` takes the rows of the
    tables, `replay` those of the journal; after `begin` it is ready."""

    def __init__(self, keyspace: Keyspace, databases: list[ReplicatedDatabase], node: int) -> None:
        super().__init__(node, keyspace.tables, lambda: keyspace.now_ms)
        self.keyspace = keyspace
        self._databases = databases
        # For keys in memory at the last seal, by id: the Address, or the ReplicaKey once it was
        # looked up.
        self.addresses: dict[int, Any] = {}
        # for each space, at the last seal, the database that shows it
        self.spaces: dict[int, int] = {}
        self.replica_keys = ReplicaKeys(keyspace, self.rows)
        self._view = ViewUpdater(keyspace, databases, self.addresses, self.spaces)
        self._residue = Residue(self.replica_keys)
        self.inbound = Inbound(
            keyspace, self, self.replica_keys, self._view, self._residue, self.seal
        )
        # strings that records in the journal have changed
        self._replayed_strings: set[Address] = set()

    # -- the file -----------------------------------------------------------------------------

    def load(self) -> None:
        tables = self.keyspace.tables
        if tables is None:
            return
        self.facts = {name: _unpack(value) for name, value in tables.crdt_facts().items()}
        self.replica_keys.flushed = dict(self.facts.get(FLUSHED_IDS, {}))
        self.replica_keys.load(tables.crdt_keys())
        self.log.load()

    def replay(self, op: RowOp) -> None:
        table, key_id, sub, value = op
        if table == CRDT_FACTS:
            if value is None:
                self.facts.pop(sub, None)
            else:
                self.facts[sub] = _unpack(value)
                if sub == FLUSHED_IDS:
                    self.replica_keys.replay_flushed(self.facts[sub])
        elif table == CRDT_LOG:
            record = self.log.replay(sub, key_id, value)
            if record is not None:
                self._replay_record(record)
        elif table == CRDT_KEYS:
            self.replica_keys.replay_key(key_id, value)
        else:
            self.replica_keys.replay_row(key_id, sub, value)

    def _replay_record(self, record: Record) -> None:
        for database, name, kind, effect in one_by_one(record.changes):
            if kind == FLUSHED:
                self.replica_keys.replay_flush(database, effect)
                continue
            self.replica_keys.replay_effect((database, name), kind, effect)
            if kind == TEXT:
                self._replayed_strings.add((database, name))

    def begin(self) -> None:
        facts = self.facts
        self.load_position()
        self.replica_keys.begin()
        self.members.load(facts, self.note)
        if not self.is_new:
            self.take_identity(*facts[b"identity"])
            if b"rows" not in facts:
                self.replica_keys.renew_rows()
                self.note(b"rows", PIECES)
        for database in self._databases:
            self.spaces[database.space.id] = database.index
            for key in database.space.keys.values():
                self.addresses[key.id] = (database.index, key.name)
        for address in sorted(self._replayed_strings):
            self._view.recover_string(self.replica_keys.at(address))
        self._replayed_strings = set()
        self._residue.begin(
            {
                (database.index, name)
                for database in self._databases
                for name in scanning.names(self.keyspace, database.space)
            }
        )

    def identify(self, node: int, replica: int) -> None:
        """Give this server's events the numbers of that replica, from now on, and also the changes
        of the open batch that are not sealed yet."""
        self.take_identity(node, replica)
        self.note(b"identity", (node, replica))

    @property
    def has_history(self) -> bool:
        """Whether anything was ever written here, or any other node is known."""
        keyspace = self.keyspace
        return bool(self.vector or self.members.known or keyspace.ops or keyspace.intents)

    # -- what clients did ---------------------------------------------------------------------

    def seal(self) -> None:
        """Make a record of the changes of clients since the last seal. Raises StorageError if that
        fails, because a change must not be acknowledged that peers cannot get."""
        keyspace = self.keyspace
        own, intents = keyspace.ops, keyspace.intents
        if not own and not intents:
            return
        keyspace.ops = []
        keyspace.intents = []
        try:
            self._record(own, intents)
        except Exception as error:
            log.error("changes cannot be sent to peers", exc_info=error)
            raise StorageError(f"cannot tell peers: {error}") from error

    def _record(self, own: list[Op], intents: list[Intent]) -> None:
        author = Author(self.replica, self.clock.tick(), self.vector)
        after = author.seq
        effects = EffectBuilder(author, self.spaces, self.addresses, self.replica_keys, self.rows)
        effects.take(own, intents)
        self.keyspace.recorded += effects.recorded
        changes = effects.record.changes
        if not changes:
            return
        if author.seq == after:
            author.dot()  # so that the record has a number of its own
        record = Record(self.replica, after, author.seq, author.hlc, changes)
        removals = self.append(record, encode(record))
        self.own_end = self.log.start + len(self.log)
        self._residue.recorded(record, removals, _NO_SLOW_STRINGS)

    # -- a standalone server's file -----------------------------------------------------------

    @property
    def is_adopting(self) -> bool:
        return self.facts.get(ADOPTING) is not None

    def adopted(self, seq: int, last_id: int) -> None:
        """Note that keys up to that id have replica keys, whose events have the numbers up to
        `seq`."""
        self.skip_to(seq)
        self.note(ADOPTING, last_id)

    def adopted_all(self) -> None:
        """Note that all keys have replica keys. No record tells of them, so a peer that lacks them
        needs a snapshot."""
        self.note(ADOPTING, None)
        self.log.base = join(self.log.base, self.vector)
        self.note_base()

    # -- whole states -------------------------------------------------------------------------

    def snapshot(self) -> Iterator[SnapshotKey]:
        """All keys, each in its state at the moment when the iterator reaches it. Changes during
        the snapshot are in the log, after the end that it had when the snapshot began. Applying a
        change twice is harmless."""
        for address in self.replica_keys.walk():
            if address in self.replica_keys:
                yield (*address, tuple(self.replica_keys.glance(address).rows()))

    def tidy(self, log_limit_bytes: int = LIMIT_BYTES, linked_from: int = sys.maxsize) -> None:
        """Cut the log, and forget residue, if each member has confirmed it. The log is also cut to
        its limit, see `RecordLog.shrink`."""
        self.seal()
        confirmed = self.stable
        self.cut_log(confirmed, log_limit_bytes, linked_from)
        self.log.limit_memory()
        if self._residue.is_due(confirmed):
            self._residue.forget(confirmed, self.vector)
