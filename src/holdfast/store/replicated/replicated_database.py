"""A database of an active-active server. Standalone servers have the plain `Database`, and this
code costs them nothing.
"""

from holdfast.errors import CommandError
from holdfast.store.change.intents import PERSISTED
from holdfast.store.memory.database import Database
from holdfast.store.memory.key import Key
from holdfast.store.values.registry import Value

NO_SWAPPING = CommandError("ERR SWAPDB is not possible on an active-active server")


class ReplicatedDatabase(Database):
    """A database. An expired key is dead at once for all clients. But its value stays as long as
    records may arrive from a member that has prolonged it."""

    __slots__ = ()

    # -- finding ------------------------------------------------------------------------------

    def glance(self, name: bytes) -> Key | None:
        """The key of this name, expired or not."""
        key = self.space.keys.get(name)
        if key is None and self.space.cold:
            key = self.keyspace.load(self.space, name)
        return key

    def inspect(self, name: bytes) -> Key | None:
        """`glance`, for reading only: a key that is only in the file does not stay in memory."""
        key = self.space.keys.get(name)
        tables = self.keyspace.tables
        if key is not None or not self.space.cold or tables is None:
            return key
        for key_id, type_name, expires_at_ms in tables.rows_named(self.space.id, name):
            if not self.keyspace.fold_state.is_ahead_of_file(key_id):
                value, rest = tables.value(key_id, type_name, _uncounted)
                for _ in rest or ():
                    pass
                return self.keyspace.key(key_id, self.space, name, value, expires_at_ms)
        return None

    # -- what clients do ----------------------------------------------------------------------

    def replace(self, key: Key, value: bytes, old: bytes, added: object = None) -> None:
        """Set a string. The batch gets the key and no row: `seal` decides whether the journal needs
        the row."""
        self.keyspace.put_string(key, value, old)
        self.keyspace.intend_string(key, value, added)

    def create(
        self,
        name: bytes,
        value: bytes,
        expires_at_ms: int | None = None,
        *,
        is_new: bool = True,
        added: object = None,
    ) -> Key:
        key = self.new_string(name, value, expires_at_ms, is_new=is_new)
        self.keyspace.intend_string(key, value, added)
        return key

    def persist(self, key: Key) -> bool:
        """PERSIST. A key without expiry may get one from another server at the same time: PERSIST
        wins."""
        self.keyspace.intend(PERSISTED, key.id, None)
        return super().persist(key)

    def swap(self, other: Database) -> None:
        raise NO_SWAPPING

    # -- what peers did -----------------------------------------------------------------------

    def show_string(self, key: Key, text: bytes, old: bytes) -> None:
        """`replace` for a change of a peer: the journal gets the row."""
        super().replace(key, text, old)

    def show_new_string(self, name: bytes, text: bytes) -> Key:
        """`create` for a change of a peer."""
        return super().create(name, text)

    # -- keys whose time has come -------------------------------------------------------------

    def expire(self, key: Key) -> bool:
        assert key.expires_at_ms is not None
        if key.expires_at_ms <= self.keyspace.horizon_ms:
            super().expire(key)
        return True

    def copy(self, key: Key, name: bytes) -> Key:
        self.bury(name)
        return super().copy(key, name)

    def move(self, key: Key, target: Database, name: bytes) -> None:
        assert isinstance(target, ReplicatedDatabase)
        target.bury(name)
        super().move(key, target, name)

    def _new(self, name: bytes, value: Value, expires_at_ms: int | None) -> Key:
        self.bury(name)
        return super()._new(name, value, expires_at_ms)

    def bury(self, name: bytes) -> None:
        """Remove an expired key that still exists, because its name is about to get another key."""
        key = self.space.keys.get(name)
        if key is not None:
            self.remove(key)
            if self.keyspace.on_removed is not None:
                self.keyspace.on_removed(self.index, name, [])


def show_space(spaces: dict[int, int], database: int, space: int) -> None:
    """Note that the database shows this space. `spaces` has for each space the number of the
    database that shows it."""
    for old in [each for each, shown_by in spaces.items() if shown_by == database]:
        del spaces[old]
    spaces[space] = database


def _uncounted(nbytes: int) -> None:
    """For a value that is forgotten at once."""
