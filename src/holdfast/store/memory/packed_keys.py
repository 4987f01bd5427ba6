"""Small keys that wait, each as a few bytes: id, type, expiry and value beside the name.

A new key is a name, a `Key` and a value with its own objects, 280 bytes or more. While a job or a
session waits, nothing uses these objects. So small strings and hashes are packed when they are made
(`put`, `put_hash`), and the fold reads them from here (`read_new`). It packs other small keys once
they are in the tables (packing.py). For all other code a packed key is a cold one: it is not in
`Space.keys`, and the file has all of it, or will have it after the next pass. To load it takes no
query. A read of a string leaves it packed. Any other use unpacks the key.

The table is in C if that is compiled (_packed_keys.c): a string of 32 bytes takes about 75 bytes
there, name included. The class here does the same with objects.
"""

from itertools import islice
from typing import Any, Final, NamedTuple

from holdfast.store.memory.liveness import is_live
from holdfast.store.values.packed_form import LONGEST_PACKED, decode, encode

Packed = tuple[int, int, int, int | None, bytes]  # id, kind, accessed_s, expires_at_ms, body

STRING: Final = 0  # the kind whose body is the value itself
HASH: Final = 2
MOST_FIELDS: Final = 8  # of a hash that is packed when it is made
LONGEST: Final = 8192  # bytes of a name, and of a body
SLOT_BYTES: Final = 12  # that a key takes in the table beside its record, about


class NewRows(NamedTuple):
    """The rows of new keys, in columns, as `read_new` returns them."""

    next: int  # the number of the name to go on with
    string_ids: list[int]
    string_names: list[bytes]
    strings: list[bytes]
    hash_ids: list[int]
    hash_names: list[bytes]
    field_ids: list[int]  # of the hash that has the field
    fields: list[bytes]
    values: list[bytes]
    ordinals: list[int]
    missing: list[int]  # ids of keys that are not packed any more


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

    def put_hash(self, argv: list[bytes], key_id: int, accessed_s: int) -> int:
        """A new hash, as HSET makes it: the name stands before the fields and values. Returns as
        `put`, or 0 if the hash is not small, or a field comes twice: then nothing is changed."""
        name, words = argv[1], argv[2:]
        fields = set(words[::2])
        if (
            len(words) > 2 * MOST_FIELDS
            or max(map(len, words)) > LONGEST_PACKED
            or len(name) > LONGEST
            or len(fields) < len(words) // 2
        ):
            return 0
        return self.put(name, key_id, HASH, accessed_s, None, encode([0, *words]))

    def read_new(
        self, names: list[bytes], first_id: int, start: int, most_rows: int, most_bytes: int
    ) -> NewRows:
        """The rows of keys that were packed when they were made, and whose ids follow each other,
        from the name with the number `start` on."""
        rows = NewRows(0, [], [], [], [], [], [], [], [], [], [])
        at, count, nbytes = start, 0, 0
        while at < len(names) and count < most_rows and nbytes < most_bytes:
            name, key_id = names[at], first_id + at
            at += 1
            packed = self._keys.get(name)
            if packed is None or packed[0] != key_id:
                rows.missing.append(key_id)
                continue
            nbytes += _size(name, packed)
            if packed[1] == STRING:
                count += 2
                rows.string_ids.append(key_id)
                rows.string_names.append(name)
                rows.strings.append(packed[4])
                continue
            _, *words = decode(packed[4])
            number = len(words) // 2
            count += 1 + number
            rows.hash_ids.append(key_id)
            rows.hash_names.append(name)
            rows.field_ids.extend([key_id] * number)
            rows.fields.extend(words[::2])
            rows.values.extend(words[1::2])
            rows.ordinals.extend(range(1, number + 1))
        return rows._replace(next=at)

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

    def forget(self, most: int, samples: int, before_s: int, below_id: int) -> int:
        """Look at so many samples of keys. From each sample remove the key that was not used for
        longest, of those with ids below `below_id`, if its last use was before this time. Returns
        how many were removed."""
        gone = 0
        for _ in range(most):
            some = [name for name in self._sample(samples) if self._keys[name][0] < below_id]
            least = self._least(some)
            if least is not None and self._keys[least][2] < before_s:
                self.take(least)
                gone += 1
        return gone

    def least(self, samples: int, only_expiring: bool) -> bytes | None:
        """The key of a sample that was not used for longest: of the keys that expire, or of all
        keys. The next call takes another sample. None if there is no such key."""
        some = self._sample(samples)
        if only_expiring:
            some = [name for name in some if self._keys[name][3] is not None]
        return self._least(some)

    def _sample(self, samples: int) -> list[bytes]:
        some = list(islice(self._keys, samples))
        for name in some:
            self._keys[name] = self._keys.pop(name)
        return some

    def _least(self, names: list[bytes]) -> bytes | None:
        return min(names, key=lambda name: self._keys[name][2], default=None)

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
