"""Small keys that wait, each as a few bytes: id, type, expiry and value beside the name.

A new key is a name, a `Key` and a value with its own objects, 280 bytes or more. While a job or a
session waits, nothing uses these objects. So the fold packs small keys once they are in the tables
(packing.py). For all other code a packed key is a cold one: it is not in `Space.keys`, and the file
has all of it. To load it takes no query. A read of a string leaves it packed. Any other use unpacks
the key, and it is not packed again.

The table is in C if that is compiled (_packed_keys.c): a string of 32 bytes takes about 75 bytes
there, name included. The class here does the same with objects.
"""

from itertools import islice
from typing import Any, Final

from holdfast.store.memory.liveness import is_live

Packed = tuple[int, int, int, int | None, bytes]  # id, kind, accessed_s, expires_at_ms, body

STRING: Final = 0  # the kind whose body is the value itself
LONGEST: Final = 8192  # bytes of a name, and of a body
SLOT_BYTES: Final = 12  # that a key takes in the table beside its record, about


class PackedKeysInPython:
    __slots__ = ("_keys", "nbytes")

    def __init__(self) -> None:
        self._keys: dict[bytes, Packed] = {}
        self.nbytes = 0  # of all records

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, name: bytes) -> bool:
        return name in self._keys

    def put(
        self,
        name: bytes,
        key_id: int,
        kind: int,
        accessed_s: int,
        expires_at_ms: int | None,
        body: bytes,
    ) -> int:
        """The name must not be there. Returns how much `nbytes` has grown."""
        if name in self._keys or len(name) > LONGEST or len(body) > LONGEST:
            raise ValueError("too long, or there")
        packed = key_id, kind, accessed_s, expires_at_ms, body
        self._keys[name] = packed
        size = _size(name, packed)
        self.nbytes += size
        return size

    def row(self, name: bytes) -> tuple[int, int, int | None] | None:
        """Id, kind and expiry; None if it is not there."""
        packed = self._keys.get(name)
        return None if packed is None else (packed[0], packed[1], packed[3])

    def take(self, name: bytes) -> Packed | None:
        """Remove a key and return it."""
        packed = self._keys.pop(name, None)
        if packed is not None:
            self.nbytes -= _size(name, packed)
        return packed

    def string(self, name: bytes, now_ms: int, now_s: int) -> bytes | None:
        """A string that has not expired, which counts as used now. None for all other keys."""
        packed = self._keys.get(name)
        if packed is None:
            return None
        key_id, kind, _, expires_at_ms, body = packed
        if kind != STRING or not is_live(expires_at_ms, now_ms):
            return None
        self._keys[name] = (key_id, kind, now_s, expires_at_ms, body)
        return body

    def forget(self, most: int, samples: int, before_s: int) -> int:
        """Look at so many samples of keys. From each sample remove the key that was not used for
        longest, if its last use was before this time. Returns how many were removed."""
        gone = 0
        for _ in range(most):
            least = self.least(samples, only_expiring=False)
            if least is not None and self._keys[least][2] < before_s:
                self.take(least)
                gone += 1
        return gone

    def least(self, samples: int, only_expiring: bool) -> bytes | None:
        """The key of a sample that was not used for longest: of the keys that expire, or of all
        keys. The next call takes another sample. None if there is no such key."""
        some = list(islice(self._keys, samples))
        for name in some:
            self._keys[name] = self._keys.pop(name)
        if only_expiring:
            some = [name for name in some if self._keys[name][3] is not None]
        return min(some, key=lambda name: self._keys[name][2], default=None)

    def dissolve(self, most: int) -> int:
        """For a table that is not needed any more: free so many parts. How many are left."""
        self.nbytes = 0
        for _ in range(min(most * 1000, len(self._keys))):
            self._keys.popitem()
        return (len(self._keys) + 999) // 1000

    def names(self) -> list[bytes]:
        return list(self._keys)


def _size(name: bytes, packed: Packed) -> int:
    """Of its record in _packed_keys.c."""
    key_id, _, _, expires_at_ms, body = packed
    numbers = (key_id, len(name), len(body))
    size = sum([max(1, (number.bit_length() + 6) // 7) for number in numbers])
    return 9 + size + (0 if expires_at_ms is None else 8) + len(name) + len(body)


def _no_trim(is_idle: bool) -> bool:
    """Python cannot ask for this."""
    return True


try:
    from holdfast.store.memory import _packed_keys
except ImportError:  # it is compiled where that is possible
    PackedKeys: Any = PackedKeysInPython
    trim: Any = _no_trim
else:
    PackedKeys = _packed_keys.PackedKeys
    # Gives free memory back to the system, and returns True. If that may take long, it is done only
    # when the server `is_idle`.
    trim = _packed_keys.trim
