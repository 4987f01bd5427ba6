"""Values in the order of their keys, found by key or by index. A replicated list is built on it.

It has chunks with counts: both ends are reached in constant time, an index by bisection. Keys are
byte strings. Nothing here knows replicas, or the meaning of a key.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Final, Generic, TypeVar

CHUNK: Final = 512  # the most values in a chunk

V = TypeVar("V")


class SequenceChunk(Generic[V]):
    """Neighbouring values and their keys; never empty."""

    __slots__ = ("keys", "values")

    def __init__(self, keys: list[bytes], values: list[V]) -> None:
        self.keys = keys
        self.values = values


class PositionSequence(Generic[V]):
    """The sequence. `_bounds` has a key for each chunk but the first. It is above all keys of
    earlier chunks, and not above any key in its chunk; it stays if that key is removed. `_starts`
    has the number of each chunk's first value. Numbers begin anywhere, so that a change at an end
    changes only the first one. A change in the middle makes them wrong; they are counted again at
    the next use of an index."""

    __slots__ = ("_bounds", "_chunks", "_is_counted", "_length", "_starts")

    def __init__(self, items: Iterable[tuple[bytes, V]] = ()) -> None:
        """The items must be in order of their keys."""
        pairs = list(items)
        self._length = len(pairs)
        self._chunks: list[SequenceChunk[V]] = []
        for at in range(0, len(pairs), CHUNK):
            part = pairs[at : at + CHUNK]
            self._chunks.append(
                SequenceChunk([key for key, _ in part], [value for _, value in part])
            )
        self._bounds = [chunk.keys[0] for chunk in self._chunks]
        self._starts = list(range(0, len(pairs), CHUNK))
        self._is_counted = True

    def __len__(self) -> int:
        return self._length

    # -- by key -------------------------------------------------------------------------------

    @property
    def first_key(self) -> bytes:
        """The first key; b"" if there are no values."""
        return self._chunks[0].keys[0] if self._chunks else b""

    @property
    def last_key(self) -> bytes:
        return self._chunks[-1].keys[-1] if self._chunks else b""

    def get(self, key: bytes) -> V | None:
        found = self._find(key)
        return None if found is None else self._chunks[found[0]].values[found[1]]

    def replace(self, key: bytes, value: V) -> V | None:
        """Set another value for a key. Returns the old value; None if the key does not exist."""
        found = self._find(key)
        if found is None:
            return None
        values, at = self._chunks[found[0]].values, found[1]
        old, values[at] = values[at], value
        return old

    def extend(self, keys: list[bytes], values: list[V]) -> bool:
        """Add many values at once, in order. False if they do not belong after all others; then
        nothing changes."""
        if not keys or keys[0] <= self.last_key:
            return False
        chunks, at = self._chunks, 0
        if chunks:
            at = max(CHUNK - len(chunks[-1].keys), 0)
            chunks[-1].keys += keys[:at]
            chunks[-1].values += values[:at]
        first = self._starts[0] + self._length if chunks else 0
        for start in range(at, len(keys), CHUNK):
            end = start + CHUNK
            self._starts.append(first + start)
            self._bounds.append(keys[start])
            chunks.append(SequenceChunk(keys[start:end], values[start:end]))
        self._length += len(keys)
        return True

    def insert(self, key: bytes, value: V) -> bool:
        """Add a value. False if the key exists; then nothing changes."""
        chunks = self._chunks
        if not chunks or key > chunks[-1].keys[-1]:
            if not chunks or len(chunks[-1].keys) >= CHUNK:
                self._starts.append(self._starts[0] + self._length if chunks else 0)
                self._bounds.append(key)
                chunks.append(SequenceChunk([key], [value]))
            else:
                chunks[-1].keys.append(key)
                chunks[-1].values.append(value)
        elif key < chunks[0].keys[0]:
            self._starts[0] -= 1
            if len(chunks[0].keys) >= CHUNK:
                self._starts.insert(1, self._starts[0] + 1)
                self._bounds[0] = chunks[0].keys[0]
                self._bounds.insert(0, b"")
                chunks.insert(0, SequenceChunk([key], [value]))
            else:
                chunks[0].keys.insert(0, key)
                chunks[0].values.insert(0, value)
        elif not self._insert_between(key, value):
            return False
        self._length += 1
        return True

    def _insert_between(self, key: bytes, value: V) -> bool:
        k, at = self._seek(key)
        chunk = self._chunks[k]
        keys, values = chunk.keys, chunk.values
        if at < len(keys) and keys[at] == key:
            return False
        keys.insert(at, key)
        values.insert(at, value)
        self._is_counted = False
        if len(keys) > CHUNK:
            half = len(keys) // 2
            self._chunks.insert(k + 1, SequenceChunk(keys[half:], values[half:]))
            self._bounds.insert(k + 1, keys[half])
            self._starts.insert(k + 1, 0)
            del keys[half:], values[half:]
        return True

    def delete(self, key: bytes) -> V | None:
        """Remove a key. Returns the value; None if the key does not exist."""
        chunks = self._chunks
        if chunks and key == chunks[0].keys[0]:
            k = at = 0
            self._starts[0] += 1
        elif chunks and key == chunks[-1].keys[-1]:
            k = at = -1
        else:
            found = self._find(key)
            if found is None:
                return None
            k, at = found
            self._is_counted = False
        chunk = chunks[k]
        value = chunk.values.pop(at)
        del chunk.keys[at]
        self._length -= 1
        if not chunk.keys:
            del chunks[k], self._bounds[k], self._starts[k]
        return value

    def remove_run(self, run: list[bytes]) -> list[V] | None:
        """Delete many keys, which are in order, at either end. Returns their values. None if these
        keys are not at an end, or if there are no other keys; then nothing changes."""
        count = len(run)
        start = 0 if count and run[0] == self.first_key else self._length - count
        if not 0 < count < self._length or self.keys(start, start + count) != run:
            return None
        values = self.values(start, start + count)
        chunks = self._chunks
        self._length -= count
        whole = 0
        if start:
            while count >= len(chunks[-1 - whole].keys):
                count -= len(chunks[-1 - whole].keys)
                whole += 1
            if whole:
                del chunks[-whole:], self._bounds[-whole:], self._starts[-whole:]
            if count:
                del chunks[-1].keys[-count:], chunks[-1].values[-count:]
        else:
            while count >= len(chunks[whole].keys):
                count -= len(chunks[whole].keys)
                whole += 1
            del chunks[:whole], self._bounds[:whole], self._starts[:whole]
            del chunks[0].keys[:count], chunks[0].values[:count]
            self._starts[0] += count
        return values

    def between(self, first: bytes, last: bytes) -> tuple[list[bytes], list[V]]:
        """Keys and values from the key `first` up to the key `last`, in order."""
        keys: list[bytes] = []
        values: list[V] = []
        k, at = self._seek(first) if self._chunks else (0, 0)
        while k < len(self._chunks):
            chunk = self._chunks[k]
            end = bisect_right(chunk.keys, last, at)
            keys += chunk.keys[at:end]
            values += chunk.values[at:end]
            if end < len(chunk.keys):
                break
            k, at = k + 1, 0
        return keys, values

    # -- by index -----------------------------------------------------------------------------

    def key_at(self, i: int) -> bytes:
        """The key at an index, which must be within the list."""
        chunk, at = self._at(i)
        return chunk.keys[at]

    def value_at(self, i: int) -> V:
        chunk, at = self._at(i)
        return chunk.values[at]

    def rank(self, key: bytes) -> int:
        """How many keys are below this one: its index, if it exists."""
        if not self._chunks:
            return 0
        k, at = self._seek(key)
        self._count()
        return self._starts[k] - self._starts[0] + at

    def values(self, start: int, stop: int) -> list[V]:
        """The values of a range of indexes."""
        found: list[V] = []
        for chunk, part in self._parts(start, stop):
            found += chunk.values[part]
        return found

    def keys(self, start: int, stop: int) -> list[bytes]:
        found: list[bytes] = []
        for chunk, part in self._parts(start, stop):
            found += chunk.keys[part]
        return found

    def items(self) -> Iterator[tuple[bytes, V]]:
        """All keys and values, in order. Nothing may change meanwhile."""
        for chunk in self._chunks:
            yield from zip(chunk.keys, chunk.values, strict=True)

    def indexes(self, value: V) -> Iterator[int]:
        """The indexes of equal values, in order."""
        at = 0
        for chunk in self._chunks:
            if value in chunk.values:
                yield from (at + i for i, other in enumerate(chunk.values) if other == value)
            at += len(chunk.values)

    def indexes_backward(self, value: V) -> Iterator[int]:
        at = self._length
        for chunk in reversed(self._chunks):
            values = chunk.values
            at -= len(values)
            if value in values:
                yield from (at + i for i in reversed(range(len(values))) if values[i] == value)

    # -- parts --------------------------------------------------------------------------------

    def _count(self) -> None:
        if not self._is_counted:
            lengths = (len(chunk.keys) for chunk in self._chunks)
            self._starts = list(accumulate(lengths, initial=0))[:-1]
            self._is_counted = True

    def _at(self, i: int) -> tuple[SequenceChunk[V], int]:
        self._count()
        ordinal = self._starts[0] + i
        k = bisect_right(self._starts, ordinal) - 1
        return self._chunks[k], ordinal - self._starts[k]

    def _parts(self, start: int, stop: int) -> Iterator[tuple[SequenceChunk[V], slice]]:
        while start < stop:
            chunk, at = self._at(start)
            yield chunk, slice(at, at + stop - start)
            start += len(chunk.keys) - at

    def _seek(self, key: bytes) -> tuple[int, int]:
        """The chunk and the index at which the key is or belongs. There must be a chunk."""
        k = bisect_right(self._bounds, key, 1) - 1
        return k, bisect_left(self._chunks[k].keys, key)

    def _find(self, key: bytes) -> tuple[int, int] | None:
        if not self._chunks:
            return None
        k, at = self._seek(key)
        keys = self._chunks[k].keys
        return (k, at) if at < len(keys) and keys[at] == key else None
