"""A key in memory, and the keys that one database shows."""

from typing import Any, Final

from holdfast.store.memory.packed_keys import SLOT_BYTES, PackedKeys
from holdfast.store.values.registry import TYPE_NAMES, Value, nbytes_of

# Bytes that a key costs beyond its name and value: the Key, its id, a dict slot, headers.
KEY_OVERHEAD: Final = 256

NOT_LOADED: Final = -1  # in place of the fold that a change was before: there can be none


class Key:
    """A name's value, while it is in memory. `accessed_s` serves OBJECT IDLETIME and eviction,
    `dirty_in_fold` says before which fold its string was changed last (see FoldState).

    A key that is not loaded is there for its row only: it may be removed, renamed, or expire at
    another time. Its value is empty, and its elements are in the file (see Space.unloaded)."""

    __slots__ = ("accessed_s", "dirty_in_fold", "expires_at_ms", "id", "name", "space", "value")

    def __init__(
        self, key_id: int, space: "Space", name: bytes, value: Value, expires_at_ms: int | None
    ) -> None:
        # Compiled objects have their fields in this order: the fields that a SET uses are
        # neighbours.
        self.id = key_id
        self.value = value
        self.expires_at_ms = expires_at_ms
        self.accessed_s = 0
        self.dirty_in_fold = 0
        self.space = space
        self.name = name

    @property
    def is_loaded(self) -> bool:
        return self.dirty_in_fold != NOT_LOADED

    @property
    def is_attached(self) -> bool:
        space = self.space
        keys = space.unloaded if self.dirty_in_fold == NOT_LOADED else space.keys
        return keys.get(self.name) is self

    @property
    def type_name(self) -> str:
        return TYPE_NAMES[type(self.value)]

    @property
    def nbytes(self) -> int:
        return KEY_OVERHEAD + len(self.name) + nbytes_of(self.value)


class FollowedKey(Key):
    """A key of a replicated database, as clients see it. `replica_key` is the replicated key that
    it shows (see ReplicaKey); None until it is looked for."""

    __slots__ = ("replica_key",)

    def __init__(
        self, key_id: int, space: "Space", name: bytes, value: Value, expires_at_ms: int | None
    ) -> None:
        super().__init__(key_id, space, name, value, expires_at_ms)
        self.replica_key: Any = None


class Space:
    """The keys that one database shows. FLUSHDB swaps it for a new one."""

    __slots__ = ("cold", "id", "keys", "packed", "unloaded")

    def __init__(self, space_id: int, cold: int = 0) -> None:
        self.id = space_id
        self.keys: dict[bytes, Key] = {}
        self.cold = cold  # how many keys are in the file and not in `keys`
        # Of these, the collections whose row is in memory, perhaps newer than that in the file.
        self.unloaded: dict[bytes, Key] = {}
        # Of these, the keys that memory has in a small form (see PackedKeys); None if there are
        # none. (Any: it is a class of Python or of C.)
        self.packed: Any = None

    def __len__(self) -> int:
        return len(self.keys) + self.cold

    @property
    def has_any_in_memory(self) -> bool:
        return bool(self.keys or self.unloaded) or self.packed is not None

    @property
    def needs_file(self) -> bool:
        """Whether the file has keys that memory does not have, not even in their small form."""
        return self.cold > self.packed_count

    @property
    def packed_count(self) -> int:
        return 0 if self.packed is None else len(self.packed)

    @property
    def packed_bytes(self) -> int:
        packed = self.packed
        return 0 if packed is None else packed.nbytes + len(packed) * SLOT_BYTES

    def packed_keys(self) -> Any:
        """The table of packed keys, which is made for the first of them."""
        packed = self.packed
        if packed is None:
            packed = self.packed = PackedKeys()
        return packed

    def in_memory(self) -> list[Key]:
        """Without packed keys."""
        return [*self.keys.values(), *self.unloaded.values()]

    @property
    def nbytes(self) -> int:
        """What its keys take in memory, counted."""
        return sum(key.nbytes for key in self.in_memory()) + self.packed_bytes
