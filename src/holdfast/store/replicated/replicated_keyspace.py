"""The keyspace of an active-active server. Standalone servers have the plain `Keyspace`, and none
of this costs them anything."""

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

# A key takes two ids. After a dict has grown, the next one waits for so many keys that clients are
# served in between, and for so few that four dicts have grown before they are full.
LOOK_EVERY_IDS: Final = 512
GROW_EVERY_IDS: Final = 1536


@final
class ReplicatedKeyspace(Keyspace):
    """Its `ops` and `intents` are the changes of clients since the last seal; `stage` has the rest
    of the batch, ready for the journal."""

    states_intents = True
    is_active_active = True
    takes_entry_ids = False  # two servers would add entries with the same id
    loads_rows_alone = False  # peers get the value of a key that is removed

    def __init__(self, tables: "Tables | None", databases: int, node: int) -> None:
        self.node = node
        self._expected = 0  # how many other members there are to be at least
        self._look_at_id = 0  # when ids get there, dicts may have to grow
        # Whether this server may make records. While it may not, nothing is removed that expires:
        # the server may not know yet which numbers of its node are used.
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
        """A file that was a standalone server's until now has keys without replica keys: see
        adoption.py."""
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
        """See growth.py. It is too late for a dict that grows within the batch."""
        has_grown = grow_one(self.dicts_by_key())
        self._look_at_id = self.next_id + (GROW_EVERY_IDS if has_grown else LOOK_EVERY_IDS)

    def dicts_by_key(self) -> "Iterator[dict[Any, Any]]":
        """The dicts that have an entry for each key."""
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
        """Nothing is forgotten as confirmed by all before so many other members are known."""
        if others > self._expected:
            self.stage.members.caught_up(0)  # there is one more to wait for
        self._expected = self.stage.members.expected = others

    @property
    def horizon_ms(self) -> int:
        """No member can have prolonged a key that was to expire until then. Keys that expire later
        are left alone, in memory and in the file, however long that takes."""
        return min(self.now_ms, self.stage.members.horizon_ms) if self.takes_writes else 0

    @property
    def fields_horizon_ms(self) -> int:
        """A server that takes no writes keeps all fields, and clients read them. To hide them,
        every command on hashes would have to look at their times."""
        return self.now_ms if self.takes_writes else 0

    def next_entry_id(self, stream: Stream) -> tuple[int, int]:
        """An id that no other replica makes."""
        return parts_of(stream.next_id_of(self.stage.replica, self.now_ms))

    def group_lag(self, stream: Stream, group: Group) -> int | None:
        """The number of entries that the group has passed means nothing here: an entry of another
        server may arrive with an id that the group has passed already. So entries are counted."""
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
                entries.clear()  # an empty dict keeps its table

    def _let_go(self, key: Key) -> None:
        """A key of a flushed space is taken apart. If the file was read again meanwhile, another
        key has its id, in a space that clients see: that other key stays."""
        assert isinstance(key, FollowedKey)
        if key.replica_key is not None:
            key.replica_key.release()
        if key.space.id not in [database.space.id for database in self.databases]:
            self.stage.seal()  # `seal` looks for the keys that the batch has changed
            self.stage.addresses.pop(key.id, None)
