"""The parts of a list: chunks in memory, packed chunks, and extents, which are only in the file.

Pure structure: nothing here knows keys or commands.

Elements have positions, which order them. Pushes only take multiples of `STEP` (the grid), so
usually the first position tells all positions of a chunk. A chunk gets an array of positions when
an element was inserted or removed in its middle. Elements that are inserted between two others are
off the grid. If an extent has no such element, and its span is exactly as wide as its count needs,
no element is missing: it has `is_regular`, and the position of its n-th element can be computed.
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Final, final

import msgspec

from holdfast.store.change.runs import STEP

# Elements in a chunk. Sizes of 128, 256 and 512 were measured. Pushes and pops at the left move the
# pointers of half a chunk; at 256 this costs less than a deque would cost LRANGE. With smaller
# chunks the chunks themselves take noticeable time and memory.
CHUNK = 256

# The bytes that a small element takes in addition to its own: object header, rounding, its pointer.
# And the bytes that a packed chunk takes in addition to its data.
ELEMENT_OVERHEAD: Final = 57
PACKED_OVERHEAD: Final = 128

# The most bytes in all elements of a packed chunk. For longer elements the overhead is less than
# half of the memory, and reading one of them unpacks the whole chunk.
MOST_PACKED: Final = 32 * 1024

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[bytes]).decode

# Loads rows with from_pos <= pos <= to_pos. The arguments are from_pos, to_pos, limit, reverse and
# skip: at most `limit` rows, after `skip` others; ascending, or descending if reverse.
Load = Callable[[int, int, int, bool, int], list[tuple[int, bytes]]]


def grid_after(pos: int) -> int:
    """The next position on the grid."""
    return (pos | STEP - 1) + 1


def grid_before(pos: int) -> int:
    """The previous position on the grid."""
    return (pos - 1) & -STEP


@final
class Chunk:
    """Some neighbouring elements, in memory. It is empty only while it is filled or dropped."""

    __slots__ = ("explicit", "first", "values")

    def __init__(
        self, first: int, values: list[bytes], explicit: "array[int] | None" = None
    ) -> None:
        self.first = first
        self.values = values
        self.explicit = explicit  # all positions; None if they are first, first + STEP, …

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
        """The place of this position, and whether an element is there."""
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
        """Keep the elements before `at`; return the rest."""
        explicit = self.explicit
        rest = Chunk(self.positions[at], self.values[at:], explicit and explicit[at:])
        self.delete(at, len(self.values))
        return rest

    def renumber(self, at: int, positions: Sequence[int]) -> None:
        """Give new positions to the elements from `at` on."""
        explicit = array("q", self.positions)
        explicit[at : at + len(positions)] = array("q", positions)
        self.first = explicit[0]
        self.explicit = _unless_plain(explicit)

    def packed(self) -> "Packed | None":
        """A packed chunk of the same elements; None if they are too long."""
        nbytes = 0
        for value in self.values:
            nbytes += len(value)
        return None if nbytes > MOST_PACKED else Packed(self, nbytes)


@final
class Packed:
    """A chunk away from the ends, with its elements as one msgpack array: an element takes 2 bytes
    in addition to its own, instead of an object. It never changes: `chunk` makes a chunk of it."""

    __slots__ = ("_data", "_explicit", "count", "first", "last", "saved_bytes")

    def __init__(self, chunk: Chunk, nbytes: int) -> None:
        self.first = chunk.first
        self.last = chunk.last
        self.count = len(chunk.values)
        self._explicit = chunk.explicit
        # A copy, because the bytes of the encoder keep its buffer, which is a third larger.
        self._data = bytes(memoryview(_encode(chunk.values)))
        unpacked = nbytes + self.count * ELEMENT_OVERHEAD
        self.saved_bytes = unpacked - len(self._data) - PACKED_OVERHEAD

    def chunk(self) -> Chunk:
        """A chunk of the same elements, for changes."""
        return Chunk(self.first, _decode(self._data), self._explicit)

    def read(self) -> Chunk:
        """A chunk of the same elements, for reading only."""
        return Chunk(self.first, self.values, self._explicit)

    @property
    def values(self) -> list[bytes]:
        """The elements, for reading only. Pages of a list, and indexes in a row, unpack it only
        once."""
        if _last_read.packed is not self:
            _last_read.packed, _last_read.values = self, _decode(self._data)
        return _last_read.values

    def may_have(self, value: bytes) -> bool:
        """Whether it may have such an element. False is certain."""
        return value in self._data


@final
class LastRead:
    """The packed chunk, of any list, that was read last."""

    __slots__ = ("packed", "values")

    def __init__(self) -> None:
        self.packed: Packed | None = None
        self.values: list[bytes] = []


_last_read: Final = LastRead()


@final
class Extent:
    """Elements that are only in the file: the first position, the last one, and their number."""

    __slots__ = ("count", "first", "is_regular", "last")

    def __init__(self, first: int, last: int, count: int, *, is_regular: bool) -> None:
        self.first = first
        self.last = last
        self.count = count
        self.is_regular = is_regular

    def offset_near(self, pos: int) -> int:
        """The index of the element to load in order to get to pos: exact in a regular extent,
        otherwise an estimate."""
        return (pos - self.first) * (self.count - 1) // (self.last - self.first or 1)

    def open(self, offset: int, load: Load) -> "list[Node]":
        """The nodes in place of this extent: the loaded chunk that has the element at `offset`, and
        extents before and after it."""
        count = self.count
        lo = offset - offset % CHUNK
        hi = min(lo + CHUNK, count)
        left_last, right_first = self.first + (lo - 1) * STEP, self.first + hi * STEP
        if self.is_regular:
            rows = load(left_last + STEP, right_first - STEP, CHUNK, False, 0)
        else:
            # One more row on either side tells where the rest ends and begins. The file counts from
            # the nearer end: SQLite steps over rows without returning them.
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
