"""The keyspace and the databases of an active-active server. Standalone servers have the plain
ones of keyspace.py and database.py, and pay nothing for what is here."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any, cast, final

from holdfast.errors import CommandError
from holdfast.store.database import Database
from holdfast.store.keys import FollowedKey, Key, Space
from holdfast.store.keyspace import Keyspace
from holdfast.store.ops import CHANGED, KEYS, STRINGS, ChangeLog, Op
from holdfast.store.replicated import ADOPTING, Replication
from holdfast.store.replicated_rows import PIECES
from holdfast.store.types import Value

if TYPE_CHECKING:
    from holdfast.store.tables import Tables

NO_SWAPPING = CommandError("ERR SWAPDB is not possible on an active-active server")


class ReplicatedDatabase(Database):
    """A key whose time has come is dead for whoever looks, at once. But as long as somebody may
    have prolonged it, whom we have not heard yet, its value lingers."""

    __slots__ = ()

    def glance(self, name: bytes) -> Key | None:
        """What the name holds, dead or alive."""
        key = self.space.keys.get(name)
        if key is None and self.space.cold:
            key = self.keyspace.load(self.space, name)
        return key

    def inspect(self, name: bytes) -> Key | None:
        """`glance`, and what is only in the file does not come to memory for good."""
        key = self.space.keys.get(name)
        tables = self.keyspace.tables
        if key is not None or not self.space.cold or tables is None:
            return key
        for key_id, type_name, expires_at_ms in tables.rows_named(self.space.id, name):
            if not self.keyspace.is_ahead_of_file(key_id):
                value = tables.value(key_id, type_name, _uncounted)
                return self.keyspace.key(key_id, self.space, name, value, expires_at_ms)
        return None

    def expire(self, key: Key) -> None:
        assert key.expires_at_ms is not None
        if key.expires_at_ms <= self.keyspace.horizon_ms:
            super().expire(key)

    def replace(self, key: Key, value: bytes, old: bytes, added: object = None) -> None:
        """Whether its row is needed will be seen when the batch is told."""
        keyspace = self.keyspace
        if not keyspace.is_replicated:  # it came from elsewhere
            super().replace(key, value, old)
            return
        keyspace.put_string(key, value, old)
        cast("ReplicatedKeyspace", keyspace).changed(key, added, value)

    def create(
        self,
        name: bytes,
        value: bytes,
        expires_at_ms: int | None = None,
        *,
        is_new: bool = True,
        added: object = None,
    ) -> Key:
        key = super().create(name, value, expires_at_ms, is_new=is_new)
        keyspace = cast("ReplicatedKeyspace", self.keyspace)
        if keyspace.is_replicated:
            keyspace.ops.pop()  # its row
            keyspace.changed(key, added, value)
        return key

    def copy(self, key: Key, name: bytes) -> Key:
        self.bury(name)
        return super().copy(key, name)

    def move(self, key: Key, target: Database, name: bytes) -> None:
        assert isinstance(target, ReplicatedDatabase)
        target.bury(name)
        super().move(key, target, name)

    def flush(self) -> int:
        """One effect, however many keys there are. What was done to them before, in the same batch,
        is told first, and of their space it has to be known then whose it was."""
        keyspace = cast("ReplicatedKeyspace", self.keyspace)
        keyspace.replication.retired_spaces[self.space.id] = self.index
        return super().flush()

    def empty(self) -> int:
        """`flush`, as somebody else did."""
        return super().flush()

    def swap(self, other: Database) -> None:
        raise NO_SWAPPING

    def _new(self, name: bytes, value: Value, expires_at_ms: int | None) -> Key:
        self.bury(name)
        return super()._new(name, value, expires_at_ms)

    def bury(self, name: bytes) -> None:
        """Somebody takes the name: what lingers there goes now."""
        key = self.space.keys.get(name)
        if key is not None:
            self.remove(key)


@final
class ReplicatedKeyspace(Keyspace):
    is_replicated = True
    loads_rows_alone = False  # what others are told of a key takes its value

    def __init__(self, tables: "Tables | None", databases: int, node: int) -> None:
        self.node = node
        self._expected = 0  # others
        super().__init__(tables, databases)
        self.freeing.let_go = self._let_go
        if tables is None:
            self.recovered(lambda key_id: False)

    def _database(self, index: int) -> ReplicatedDatabase:
        return ReplicatedDatabase(self, index, Space(index))

    @property
    def replicated_databases(self) -> list[ReplicatedDatabase]:
        return self.databases  # type: ignore[return-value]

    def forget(self) -> None:
        self.replication = Replication(self)
        self.replication.members.expected = self._expected
        super().forget()
        self.replication.load()

    @property
    def own_position(self) -> tuple[int, int]:
        replication = self.replication
        return replication.replica, replication.vector.get(replication.replica, 0)

    def expect(self, others: int) -> None:
        """So many have to be known before anything is forgotten because all have it."""
        if others > self._expected:
            self.replication.members.caught_up(0)  # there is one more to wait for
        self._expected = self.replication.members.expected = others

    def take_crdt(self, op: Op) -> None:
        self.replication.replay(op)

    def recovered(self, is_clean: Callable[[int], bool]) -> None:
        """What a file has that was a standalone server's until now is not replicated yet: see
        adoption.py."""
        replication = self.replication
        replication.slots.is_clean = is_clean
        replication.begin()
        if replication.is_new:
            replication.identify(self.node, self.node)
            replication.note(b"rows", PIECES)
            if any(len(database.space) for database in self.databases):
                replication.note(ADOPTING, 0)
        self.replica = replication.replica
        replication.sealed = len(self.ops)

    def _let_go(self, key: Key) -> None:
        """It was flushed, and is taken apart. (Or it was read again, and there is another of that
        id, in a space that is shown.)"""
        assert isinstance(key, FollowedKey)
        if key.slot is not None:
            key.slot.release()
        if key.space.id not in [database.space.id for database in self.databases]:
            replication = self.replication
            if len(self.ops) > replication.sealed:
                replication.seal()  # as long as something is to be told of it, it has to be found
            replication.addresses.pop(key.id, None)

    def unwritten_rows(self) -> Iterator[Op]:
        return chain(super().unwritten_rows(), self.replication.slots.unwritten_rows())

    def begin_fold(self) -> None:
        super().begin_fold()
        self.replication.log.fold_begins()

    def end_fold(self) -> None:
        super().end_fold()
        self.replication.slots.written()
        self.replication.log.fold_ended()

    def seal(self) -> None:
        replication = self.replication
        replication.seal()
        replication.note_position()
        replication.sealed = 0  # the next batch begins empty

    def end_run(self) -> None:
        super().end_run()
        self._changed: list[Any] = []
        self._changed_op: Op | None = None

    def changed(self, key: Key, added: object, value: bytes) -> None:
        """A string; see CHANGED."""
        ops, run = self.ops, self._changed
        if ops and ops[-1] is self._changed_op:
            self.recorded += 1
        else:
            run = self._changed = []
            op: Op = (CHANGED, 0, None, run)
            self._changed_op = op
            ops.append(op)
        run.append(key)
        run.append(value if added is None else (added, value))

    @contextmanager
    def stating_no_intents(self) -> Iterator[None]:
        self.is_replicated = False
        try:
            yield
        finally:
            self.is_replicated = True

    @property
    def horizon_ms(self) -> int:
        """Nobody can have prolonged what was to expire until then. What is later is left alone,
        in memory and in the file, however long that takes."""
        return min(self.now_ms, self.replication.members.horizon_ms)

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
                self.replication.addresses[key_id] = (database.index, name)
        return key

    def evict(self, key: Key) -> None:
        found = self.replication.addresses.pop(key.id, None)
        if found is not None:
            self.replication.slots.evict(found if type(found) is tuple else found.address)
        super().evict(key)


def _uncounted(nbytes: int) -> None:
    """It is forgotten at once."""


class _Rows(ChangeLog):
    """A log for whoever only wants to know the rows of a value."""

    is_replicated = True


def rows_of(key: Key) -> list[Op]:
    """The operations that make such a key."""
    made: Op = (KEYS, key.id, None, (key.space.id, key.name, key.type_name, key.expires_at_ms))
    if isinstance(key.value, bytes):
        return [made, (STRINGS, key.id, None, key.value)]
    rows = _Rows()
    key.value.copy(key.id, rows)
    return [made, *rows.ops]
