"""The value of a list key: elements in chunks, each with a position, which is the sub key of its
row.

Each method that changes the list reports the changed rows to its last argument, the `ChangeLog`.
Nothing here knows key names, replies or SQL. list_elements.py keeps and finds the elements,
list_ends.py has pushes and pops.
"""

from bisect import bisect_right
from itertools import repeat
from typing import Any

from holdfast.store.change.change_log import ChangeLog
from holdfast.store.change.intents import INSERT_AT, PUSH_RIGHT, REMOVE_AT, SET_AT
from holdfast.store.change.ops import LIST_ITEMS, row_ops
from holdfast.store.change.runs import STEP
from holdfast.store.values.list_chunks import ELEMENT_OVERHEAD, Chunk, grid_after, grid_before
from holdfast.store.values.list_elements import ENDS, starts_of
from holdfast.store.values.list_ends import ListEnds, nbytes_of
from holdfast.store.values.packed_form import LONGEST_PACKED, MOST_PACKED

# A window that is renumbered to make room: its smallest size, and the smallest gap that is worth
# the work. Larger windows need larger gaps, so that a wide renumbering is not needed again soon.
WINDOW, WINDOW_GAP, GAP_GROWTH = 32, 64.0, 1.5


class List(ListEnds):
    """A list. LINSERT takes the middle of a gap as the position. For the ends see list_ends.py."""

    __slots__ = ()

    # -- by index -----------------------------------------------------------------------------

    def index(self, i: int) -> bytes | None:
        """The element at an index. A negative index counts from the end. None if it is out of
        range."""
        if i < 0:
            i += self._length
        if not 0 <= i < self._length:
            return None
        at, node = self._node(i)
        return node.values[i - at]

    def range(self, start: int, stop: int) -> tuple[bytes, ...]:
        """LRANGE: the elements from start to stop, both included. Negative indexes count from the
        end."""
        start, end = self._slice(start, stop)
        if start >= end:
            return ()
        part: list[bytes] = []
        while len(part) < end - start:
            at, node = self._node(start + len(part))
            part += node.values[start + len(part) - at : end - at]
        return tuple(part)

    def set(self, i: int, value: bytes, log: ChangeLog) -> bool:
        """LSET; False if the index is out of range."""
        if i < 0:
            i += self._length
        if not 0 <= i < self._length:
            return False
        log.intend(SET_AT, self.id, (i, value))
        at, chunk = self._chunk(i)
        old, chunk.values[i - at] = chunk.values[i - at], value
        self._record(log, chunk.positions[i - at], value, old)
        self._resize(len(value) - len(old), log)
        self._settle(log)
        return True

    # -- by value -----------------------------------------------------------------------------

    def find(self, value: bytes, rank: int, count: int, maxlen: int) -> list[int]:
        """LPOS: indexes of up to `count` matches (0: all), beginning with match number `rank`.

        A negative rank counts and searches from the tail. At most `maxlen` elements are compared
        (0: all).
        """
        looked_at = min(maxlen or self._length, self._length)
        lo, hi = (0, looked_at) if rank > 0 else (self._length - looked_at, self._length)
        skip = abs(rank) - 1
        found: list[int] = []
        for at, chunk in self._chunks(lo, hi, backward=rank < 0, having=value):
            if value not in chunk.values:
                continue
            matches = [
                at + offset
                for offset, element in enumerate(chunk.values)
                if element == value and lo <= at + offset < hi
            ]
            if rank < 0:
                matches.reverse()
            found += matches[skip:]
            skip -= min(skip, len(matches))
            if count and len(found) >= count:
                return found[:count]
        return found

    def insert(self, pivot: bytes, value: bytes, before: bool, log: ChangeLog) -> bool:
        """LINSERT; False if the pivot does not exist."""
        found = self.find(pivot, 1, 1, 0)
        if not found:
            return False
        self.insert_at(found[0] if before else found[0] + 1, value, log)
        return True

    def insert_at(self, i: int, value: bytes, log: ChangeLog) -> None:
        """Insert between elements i-1 and i; at an end this is a push."""
        if i == 0:
            self.push_left([value], log)
        elif i == self._length:
            self.push_right([value], log)
        else:
            log.intend(INSERT_AT, self.id, (i, value))
            left, right = self._gap(i)
            if right - left < 2:
                self._make_room(i, log)
                left, right = self._gap(i)
            pos = (left + right) // 2
            self._put(self._seek(pos), pos, value)
            self._record(log, pos, value, None)
            log.used_bytes += len(value) + ELEMENT_OVERHEAD
            self._settle(log)

    def remove(self, count: int, value: bytes, log: ChangeLog) -> int:
        """LREM: remove elements of this value. A positive count removes so many from the head, a
        negative one from the tail, 0 removes all of them. Returns how many were removed."""
        found = sorted(self.find(value, -1 if count < 0 else 1, abs(count), 0))
        if found:
            log.intend(REMOVE_AT, self.id, found)
        touched = at = 0
        # From the end, so that lower indexes stay right although starts are not updated.
        for i in reversed(found):
            if not touched or i < at:
                at, chunk = self._chunk(i)
                touched += 1
            pos = chunk.positions[i - at]
            chunk.delete(i - at, i - at + 1)
            self._record(log, pos, None, value)
        if touched == 1:
            k = bisect_right(self._starts, self._starts[0] + found[0]) - 1
            self._shift(k, -len(found))
            if not chunk.values:
                del self._nodes[k], self._starts[k]
        elif touched:
            self._nodes = [node for node in self._nodes if node.count]
            self._starts = starts_of(self._nodes, 0)
        self._length -= len(found)
        self._resize(-len(found) * (len(value) + ELEMENT_OVERHEAD), log)
        self._settle(log)
        return len(found)

    def remove_at(self, i: int, log: ChangeLog) -> None:
        """Remove an element. The index must be within the list."""
        at, chunk = self._chunk(i)
        self._record(log, chunk.positions[i - at], None, chunk.values[i - at])
        nbytes = self.nbytes
        self.apply(chunk.positions[i - at], None)
        log.used_bytes += self.nbytes - nbytes
        self._settle(log)

    # -- whole --------------------------------------------------------------------------------

    def copy(self, new_id: int, log: ChangeLog) -> "List":
        """See Collection. No undo, and no bytes are counted: the key of the copy does both."""
        new = List(new_id)
        if log.states_intents:
            log.intend(PUSH_RIGHT, new_id, self.range(0, -1))
        for at, chunk in self._chunks(0, self._length):
            twin = Chunk(at * STEP, chunk.values.copy())
            new._nodes.append(twin)
            new._starts.append(at)
            new.nbytes += nbytes_of(twin.values)
            new._pack(len(new._nodes) - 1 - ENDS)
            log.ops += row_ops(LIST_ITEMS, repeat(new_id), twin.positions, twin.values)
        new._length = self._length
        new._count_untold()
        return new

    def packable(self) -> list[Any] | None:
        """See packed_form.py: the position of the first element, and all elements. None if the
        positions do not follow each other on the grid."""
        if not 0 < self._length <= MOST_PACKED or len(self._nodes) != 1:
            return None
        chunk = self._nodes[0]
        if type(chunk) is not Chunk or chunk.explicit is not None:
            return None
        if max([len(value) for value in chunk.values]) > LONGEST_PACKED:
            return None
        return [chunk.first, *chunk.values]

    def fill_packed(self, flat: list[Any]) -> None:
        values = flat[1:]
        self._nodes.append(Chunk(flat[0], values))
        self._starts.append(0)
        self._length = len(values)
        self.nbytes = sum([len(value) + ELEMENT_OVERHEAD for value in values])

    # -- changing nodes -----------------------------------------------------------------------

    def _make_room(self, i: int, log: ChangeLog) -> None:
        """Spread the elements around i, in the smallest window with enough room."""
        width, wanted = WINDOW, WINDOW_GAP
        while True:
            lo, hi = i - width // 2, i + width // 2
            if lo <= 0 and hi >= self._length:
                self._renumber_all(log)
                return
            if lo <= 0:  # before the first element there is room: back to the grid
                end = grid_before(self._gap(hi)[1]) + STEP
                self._renumber(0, range(end - hi * STEP, end, STEP), log)
                return
            left = self._gap(lo)[0]
            if hi >= self._length:
                start = grid_after(left)
                self._renumber(lo, range(start, start + (self._length - lo) * STEP, STEP), log)
                return
            gap = (self._gap(hi)[1] - left) // (width + 1)
            if gap >= wanted:
                self._renumber(lo, range(left + gap, left + gap * (width + 1), gap), log)
                return
            width, wanted = width * 2, wanted * GAP_GROWTH
