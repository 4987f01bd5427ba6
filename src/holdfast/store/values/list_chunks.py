"""The parts a list is made of: chunks in memory, packed ones, and extents that are still in the
file.

Pure structure: nothing here knows keys or commands.

Elements have positions, which order them. Pushes only ever take multiples of `STEP` (the grid),
so a chunk normally knows its positions from the first one; it gets an array of them once an
element came or went in its middle. Elements that are inserted between two others lie off the
grid. Where none does, and the span is just as wide as the count needs, no element can be
missing either: such an extent has `is_regular`, and its n-th element is found by arithmetic.
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Final, final

import msgspec

from holdfast.store.change.runs import STEP

# Elements per chunk. Measured with 128, 256 and 512: pushes and pops at the left move half a
# chunk of pointers, which at 256 still costs less than a deque makes LRANGE dearer; below it
# the chunks themselves begin to weigh.
CHUNK = 256

# The bytes that a small element costs beyond its own: object header, rounding, its pointer. And
# those that a packed chunk costs beyond its data.
ELEMENT_OVERHEAD: Final = 57
PACKED_OVERHEAD: Final = 128

# Bytes of all elements of a chunk that is packed, at most. Of longer elements the overhead is less
# than half, and to read one of them takes all of the chunk.
MOST_PACKED: Final = 32 * 1024

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[bytes]).decode

# Rows with from_pos <= pos <= to_pos, ascending, or descending if reverse; at most limit, after
# skip others.
Load = Callable[[int, int, int, bool, int], list[tuple[int, bytes]]]


def grid_after(pos: int) -> int:
    """The next position on the grid."""
    return (pos | STEP - 1) + 1


def grid_before(pos: int) -> int:
    """The previous position on the grid."""
    return (pos - 1) & -STEP


@final
class Chunk:
    """Some consecutive elements, in memory; empty only while it is being filled or dropped."""

    __slots__ = ("explicit", "first", "values")

    def __init__(
        self, first: int, values: list[bytes], explicit: "array[int] | None" = None
    ) -> None:
        self.first = first
        self.values = values
        self.explicit = explicit  # all positions; None while they are first, first + STEP, …

    @classmethod
    def of(cls, rows: list[tuple[int, bytes]]) -> "Chunk":
        explicit = _unless_plain(array("q", [pos for pos, _ in rows]))
        return cls(rows[0][0], [value for _, value in rows], explicit)

    @property
    def count(self) -> int:
        return len(self.values)

    @property
    def last(self) -> int:
        return self.positions[-1]

    @property
    def positions(self) -> Sequence[int]:
        return _grid(self.first, len(self.values)) if self.explicit is None else self.explicit

    def find(self, pos: int) -> tuple[int, bool]:
        """Where pos is or belongs, and whether it is there."""
        count = len(self.values)
        if self.explicit is None:
            at, beyond = divmod(pos - self.first, STEP)
            if 0 <= at < count:
                return (at + 1, False) if beyond else (at, True)
            return (count if at > 0 else 0), False
        at = bisect_left(self.explicit, pos)
        return at, at < count and self.explicit[at] == pos

    def insert(self, at: int, pos: int, value: bytes) -> None:
        count = len(self.values)
        if not count:
            self.first = pos
            self.explicit = array("q") if pos % STEP else None
        elif self.explicit is None:
            is_next = at == count and pos == self.first + count * STEP
            is_previous = at == 0 and pos == self.first - STEP
            if not (is_next or is_previous):
                self.explicit = array("q", self.positions)
        self.values.insert(at, value)
        if self.explicit is not None:
            self.explicit.insert(at, pos)
        if at == 0:
            self.first = pos

    def delete(self, start: int, stop: int) -> None:
        count = len(self.values)
        if self.explicit is None and start and stop < count:
            self.explicit = array("q", self.positions)
        if self.explicit is not None:
            del self.explicit[start:stop]
        if start == 0 and stop < count:
            self.first = self.first + stop * STEP if self.explicit is None else self.explicit[0]
        del self.values[start:stop]

    def split(self, at: int) -> "Chunk":
        """Keep the elements before `at`; the rest is returned."""
        explicit = self.explicit
        rest = Chunk(self.positions[at], self.values[at:], explicit and explicit[at:])
        self.delete(at, len(self.values))
        return rest

    def renumber(self, at: int, positions: Sequence[int]) -> None:
        """New positions for the elements from `at` on."""
        explicit = array("q", self.positions)
        explicit[at : at + len(positions)] = array("q", positions)
        self.first = explicit[0]
        self.explicit = _unless_plain(explicit)

    def packed(self) -> "Packed | None":
        """The same elements, packed. None if they are too long for that."""
        nbytes = 0
        for value in self.values:
            nbytes += len(value)
        return None if nbytes > MOST_PACKED else Packed(self, nbytes)


@final
class Packed:
    """A chunk away from the ends, its elements as one msgpack array: 2 bytes more for each instead
    of an object. It is never changed: `chunk` makes a chunk of it again."""

    __slots__ = ("_data", "_explicit", "count", "first", "last", "saved_bytes")

    def __init__(self, chunk: Chunk, nbytes: int) -> None:
        self.first = chunk.first
        self.last = chunk.last
        self.count = len(chunk.values)
        self._explicit = chunk.explicit
        # A copy, because the encoder's own bytes keep its buffer, a third larger.
        self._data = bytes(memoryview(_encode(chunk.values)))
        unpacked = nbytes + self.count * ELEMENT_OVERHEAD
        self.saved_bytes = unpacked - len(self._data) - PACKED_OVERHEAD

    def chunk(self) -> Chunk:
        """To be changed."""
        return Chunk(self.first, _decode(self._data), self._explicit)

    def read(self) -> Chunk:
        """The same, not to be changed."""
        return Chunk(self.first, self.values, self._explicit)

    @property
    def values(self) -> list[bytes]:
        """Not to be changed. Pages of a list, and indexes in a row, have it unpacked once."""
        if _last_read.packed is not self:
            _last_read.packed, _last_read.values = self, _decode(self._data)
        return _last_read.values

    def may_have(self, value: bytes) -> bool:
        """False if it surely has no such element."""
        return value in self._data


@final
class LastRead:
    """The packed chunk that was read last, of all lists."""

    __slots__ = ("packed", "values")

    def __init__(self) -> None:
        self.packed: Packed | None = None
        self.values: list[bytes] = []


_last_read: Final = LastRead()


@final
class Extent:
    """Elements that are only in the file: where they begin and end, and how many they are."""

    __slots__ = ("count", "first", "is_regular", "last")

    def __init__(self, first: int, last: int, count: int, *, is_regular: bool) -> None:
        self.first = first
        self.last = last
        self.count = count
        self.is_regular = is_regular

    def offset_near(self, pos: int) -> int:
        """Which element to load in order to get to pos, or near it: right if it is regular, a
        good guess if it is nearly so."""
        return (pos - self.first) * (self.count - 1) // (self.last - self.first or 1)

    def open(self, offset: int, load: Load) -> "list[Node]":
        """This extent again, with the chunk loaded that has the element at `offset`."""
        count = self.count
        lo = offset - offset % CHUNK
        hi = min(lo + CHUNK, count)
        left_last, right_first = self.first + (lo - 1) * STEP, self.first + hi * STEP
        if self.is_regular:
            rows = load(left_last + STEP, right_first - STEP, CHUNK, False, 0)
        else:
            # One row more on either side tells where the rest ends and begins. The file counts
            # from the nearer end: it walks, but over rows that it need not hand out.
            before, after = int(lo > 0), int(hi < count)
            from_right = 2 * offset >= count
            skip = count - hi - after if from_right else lo - before
            rows = load(self.first, self.last, before + hi - lo + after, from_right, skip)
            if from_right:
                rows.reverse()
            if before:
                left_last = rows.pop(0)[0]
            if after:
                right_first = rows.pop()[0]
        if len(rows) != hi - lo:
            raise RuntimeError(f"list rows {self.first}..{self.last} are not {count} as they were")
        parts: list[Node] = [Chunk.of(rows)]
        if lo:
            parts.insert(0, Extent(self.first, left_last, lo, is_regular=self.is_regular))
        if hi < count:
            rest = Extent(right_first, self.last, count - hi, is_regular=self.is_regular)
            parts.append(rest)
        return parts


Node = Chunk | Packed | Extent


def _grid(first: int, count: int) -> range:
    return range(first, first + count * STEP, STEP)


def _unless_plain(positions: "array[int]") -> "array[int] | None":
    first = positions[0]
    is_plain = first % STEP == 0 and all(map(int.__eq__, positions, _grid(first, len(positions))))
    return None if is_plain else positions
