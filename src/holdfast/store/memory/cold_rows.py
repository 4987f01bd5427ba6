"""Facts about a cold key that need no value: whether it lives, its type, expiry and size."""

from typing import TYPE_CHECKING, Final

from holdfast.store.change.fold_state import LARGE
from holdfast.store.memory.liveness import is_live
from holdfast.store.memory.packing import KINDS
from holdfast.store.values.hash import Hash
from holdfast.store.values.set import Set
from holdfast.store.values.zset import ZSet

if TYPE_CHECKING:
    from holdfast.store.memory.key import Key, Space
    from holdfast.store.memory.keyspace import Keyspace

KeyRow = tuple[int, str, int | None]  # id, type, expires_at_ms

MOST_SIZES: Final = 10_000  # sizes that are remembered


class ColdRows:
    __slots__ = ("_keyspace", "_sizes")

    def __init__(self, keyspace: "Keyspace") -> None:
        self._keyspace = keyspace
        self._sizes: dict[int, int] = {}  # by id, of keys that are cold since they were asked for

    def row(self, space: "Space", name: bytes) -> KeyRow | None:
        """The row of a cold key. Memory may know it better than the file: then the row of the file
        is not used."""
        key = space.unloaded.get(name)
        if key is not None:
            return key.id, key.type_name, key.expires_at_ms
        packed = space.packed
        if packed is not None:
            found = packed.row(name)
            if found is not None:
                return found[0], KINDS[found[1]], found[2]
            if len(packed) >= space.cold:
                return None
        keyspace = self._keyspace
        assert keyspace.tables is not None
        for row in keyspace.tables.rows_named(space.id, name):
            if not keyspace.fold_state.is_ahead_of_file(row[0]):
                return row
        return None

    def living(self, space: "Space", name: bytes) -> KeyRow | None:
        """The row of a cold key that lives. None if `Keyspace.load` must decide. That includes
        packed keys, which cost no query."""
        if space.packed is not None and name in space.packed:
            return None
        row = self.row(space, name) if self._keyspace.loads_rows_alone else None
        return row if row is not None and self._lives(row) else None

    def needs_value(self, row: KeyRow, only_row: bool) -> bool:
        """Whether a command loads the value with the key. A collection that has expired is not
        loaded, because it is removed next. Nor is a living collection if only the row is wanted. A
        string is always loaded: to leave it out would save little."""
        keyspace = self._keyspace
        if row[1] == "string" or not keyspace.loads_rows_alone:
            return True
        if not (is_live(row[2], keyspace.now_ms) or keyspace.obeys_primary):
            return False
        return not (only_row and self._lives(row))

    def size(self, row: KeyRow) -> int:
        """The number of elements of a living key, or bytes of a string. The count is kept, because
        to count a million elements takes about 0.1 s."""
        key_id, type_name, _ = row
        size = self._sizes.get(key_id)
        if size is None:
            keyspace = self._keyspace
            assert keyspace.tables is not None
            size, is_lasting = keyspace.tables.size(
                key_id, type_name, 0 if keyspace.is_replica else keyspace.now_ms
            )
            if is_lasting:
                self._remember(key_id, size)
        return size

    def note(self, key: "Key") -> None:
        """The key becomes cold."""
        value = key.value
        if not isinstance(value, Hash | Set | ZSet) or len(value) < LARGE:
            return
        if not (isinstance(value, Hash) and value.has_deadlines):
            self._remember(key.id, len(value))

    def _remember(self, key_id: int, size: int) -> None:
        if len(self._sizes) >= MOST_SIZES:
            self._sizes.clear()
        self._sizes[key_id] = size

    def forget(self, key_id: int) -> None:
        """The key is loaded, and may change."""
        self._sizes.pop(key_id, None)

    def _lives(self, row: KeyRow) -> bool:
        key_id, type_name, expires_at_ms = row
        keyspace = self._keyspace
        if not (is_live(expires_at_ms, keyspace.now_ms) or keyspace.obeys_primary):
            return False
        if type_name != "hash" or keyspace.is_replica:
            return True
        assert keyspace.tables is not None
        return keyspace.tables.has_living_field(key_id, keyspace.now_ms)  # all may have expired
