"""The keyspace of an active-active server. Standalone servers have the plain `Keyspace`, and this
code costs them nothing.
"""

from collections.abc import Callable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, final

from holdfast.store.change.ops import Op, RowOp
from holdfast.store.memory.key import FollowedKey, Key, Space
from holdfast.store.memory.keyspace import Keyspace
from holdfast.store.replicated.growth import grow_one
from holdfast.store.replicated.replica_keys import PIECES
from holdfast.store.replicated.replicated_database import ReplicatedDatabase
from holdfast.store.replicated.stage import ADOPTING, ReplicationStage
from holdfast.store.values.registry import Value
from holdfast.store.values.stream import Stream
from holdfast.store.values.stream_group import Group
from holdfast.store.values.stream_id import parts_of

if TYPE_CHECKING:
    from holdfast.store.file.tables import Tables

# A key takes two ids. After a dict has grown, the next one waits for so many ids. That is long
# enough to serve clients in between, and short enough for four dicts to grow before they are full.
LOOK_EVERY_IDS: Final = 512
GROW_EVERY_IDS: Final = 1536


@final
class ReplicatedKeyspace(Keyspace):
    """The keyspace. Its `ops` and `intents` are the changes of clients since the last seal; `stage`
    has the rest of the batch, ready for the journal."""

    states_intents = True
    is_active_active = True
    takes_entry_ids = False  # two servers would add entries with the same id
    loads_rows_alone = False  # peers need the value of a key that is removed

    def __init__(self, tables: "Tables | None", databases: int, node: int) -> None:
        self.node = node
        self._expected = 0  # so many other members have to be known
        self._look_at_id = 0  # dicts may have to grow when ids reach this one
        # Whether this server may make records. As long as it may not, expired keys and fields are
        # not removed: the server may not know yet which numbers of its node are used.
        self.takes_writes = True
        super().__init__(tables, databases)
        self.freeing.let_go = self._let_go
        if tables is None:
            self.recovered(lambda key_id: False)

    def _database(self, index: int) -> ReplicatedDatabase:
        return ReplicatedDatabase(self, index, Space(index))

    @property
    def replicated_databases(self) -> list[ReplicatedDatabase]:
        return self.databases  # type: ignore[return-value]

    # -- the file -----------------------------------------------------------------------------

    def forget(self) -> None:
        self.stage = ReplicationStage(self, self.replicated_databases, self.node)
        self.stage.members.expected = self._expected
        super().forget()
        self.stage.load()

    def take_crdt(self, op: RowOp) -> None:
        self.stage.replay(op)

    def recovered(self, is_clean: Callable[[int], bool]) -> None:
        """Look for keys without replica keys: the file was a standalone server's until now (see
        adoption.py)."""
        stage = self.stage
        stage.replica_keys.is_clean = is_clean
        stage.begin()
        if stage.is_new:
            stage.identify(self.node, self.node)
            stage.note(b"rows", PIECES)
            if any(len(database.space) for database in self.databases):
                stage.note(ADOPTING, 0)

    def unwritten_rows(self) -> Iterator[RowOp]:
        return chain(super().unwritten_rows(), self.stage.replica_keys.unwritten_rows())

    def begin_fold(self) -> None:
        super().begin_fold()
        self.stage.log.fold_begins()

    def end_fold(self) -> None:
        super().end_fold()
        self.stage.replica_keys.written()
        self.stage.log.fold_ended()

    # -- the batch ----------------------------------------------------------------------------

    @property
    def open_ops(self) -> int:
        return len(self.ops) + len(self.intents) + len(self.stage.rows)

    def seal(self) -> list[Op]:
        stage = self.stage
        stage.seal()
        stage.note_position()
        if self.next_id >= self._look_at_id:
            self._grow_early()
        return stage.rows

    def _grow_early(self) -> None:
        """See growth.py. A dict that grows within the batch is not helped."""
        has_grown = grow_one(self.dicts_by_key())
        self._look_at_id = self.next_id + (GROW_EVERY_IDS if has_grown else LOOK_EVERY_IDS)

    def dicts_by_key(self) -> "Iterator[dict[Any, Any]]":
        """The dicts with an entry for each key."""
        for database in self.databases:
            yield database.space.keys
        yield self.stage.addresses
        yield from self.stage.replica_keys.dicts_by_key()

    def end_batch(self) -> None:
        super().end_batch()
        self.stage.rows.clear()

    # -- this replica among others ------------------------------------------------------------

    @property
    def own_position(self) -> tuple[int, int]:
        return self.stage.replica, self.stage.own_seq

    def expect(self, others: int) -> None:
        """Set the number of other members. Until so many are known, nothing counts as confirmed by
        all."""
        if others > self._expected:
            self.stage.members.caught_up(0)  # one more member to wait for
        self._expected = self.stage.members.expected = others

    @property
    def horizon_ms(self) -> int:
        """The time until which keys may be removed when they expire: no member can have prolonged
        them. Keys that expire later stay, in memory and in the file, for any length of time."""
        return min(self.now_ms, self.stage.members.horizon_ms) if self.takes_writes else 0

    @property
    def fields_horizon_ms(self) -> int:
        """The same for fields of hashes. A server that takes no writes keeps all fields, and
        clients read them. To hide them, each command on hashes would have to compare their
        times."""
        return self.now_ms if self.takes_writes else 0

    def next_entry_id(self, stream: Stream) -> tuple[int, int]:
        """The id for a new entry, which no other replica uses."""
        return parts_of(stream.next_id_of(self.stage.replica, self.now_ms))

    def group_lag(self, stream: Stream, group: Group) -> int | None:
        """The number of entries after the last one that the group got. They are counted, because
        the number of entries that the group has passed means nothing here: an entry of another
        server may arrive with an id that the group has passed already."""
        return stream.count_behind(group.last_id)

    # -- keys that come and go ----------------------------------------------------------------

    def key(
        self, key_id: int, space: Space, name: bytes, value: Value, expires_at_ms: int | None
    ) -> Key:
        return FollowedKey(key_id, space, name, value, expires_at_ms)

    def adopt(
        self, space: Space, key_id: int, name: bytes, type_name: str, expires_at_ms: int | None
    ) -> Key:
        key = super().adopt(space, key_id, name, type_name, expires_at_ms)
        for database in self.databases:
            if database.space is space:
                self.stage.addresses[key_id] = (database.index, name)
        return key

    def evict(self, key: Key) -> None:
        found = self.stage.addresses.pop(key.id, None)
        if found is not None:
            self.stage.replica_keys.evict(found if type(found) is tuple else found.address)
        super().evict(key)
        for entries in (key.space.keys, self.stage.addresses):
            if not entries:
                entries.clear()  # an empty dict keeps its table otherwise

    def _let_go(self, key: Key) -> None:
        """Called when a key of a flushed space is freed. If the file was read again meanwhile,
        another key may have its id, in a space that clients see: that other key stays."""
        assert isinstance(key, FollowedKey)
        if key.replica_key is not None:
            key.replica_key.release()
        if key.space.id not in [database.space.id for database in self.databases]:
            self.stage.seal()  # first, because `seal` looks up the keys that the batch has changed
            self.stage.addresses.pop(key.id, None)
