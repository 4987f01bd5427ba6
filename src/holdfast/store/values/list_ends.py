"""The ends of a list: pushes and pops, and how they are reported."""

from collections.abc import Sequence
from typing import Final

from holdfast.store.change.change_log import ChangeLog
from holdfast.store.change.intents import POP_LEFT, POP_RIGHT, PUSH_LEFT, PUSH_RIGHT
from holdfast.store.change.ops import LIST_ITEMS, list_item
from holdfast.store.change.runs import STEP
from holdfast.store.change.undo import RowUndo
from holdfast.store.values.list_chunks import ELEMENT_OVERHEAD, Chunk, grid_after, grid_before
from holdfast.store.values.list_elements import ENDS, Elements

# Positions have 64 bits. A list that was pushed so far at one end gets new positions.
FARTHEST = 1 << 62

# If so many elements or more are pushed or popped together, they become one operation.
MANY: Final = 8


class ListEnds(Elements):
    """RPUSH takes the next position on the grid after the last one, LPUSH the one before the first.
    An empty list starts at 0 again."""

    __slots__ = ()

    # -- the ends -----------------------------------------------------------------------------

    def push_left(self, values: Sequence[bytes], log: ChangeLog) -> None:
        """Push one after the other, so the last value becomes the first element."""
        starts = self._starts
        nbytes = 0
        chunk = self._nodes[0] if self._length else None
        pushed = values if isinstance(values, list) else list(values)
        for value in pushed:
            if type(chunk) is not Chunk or len(chunk.values) >= self._chunk_size:
                chunk = self._grow_left(log)
            if chunk.explicit is None:
                # A new chunk is empty, and its first position is one step too high.
                chunk.first = pos = chunk.first - STEP
            else:
                chunk.first = pos = grid_before(chunk.first)
                chunk.explicit.insert(0, pos)
            chunk.values.insert(0, value)
            starts[0] = starts[0] - 1  # with -= compiled code subtracts objects
            self._length += 1
            nbytes += len(value) + ELEMENT_OVERHEAD
            self._tell(log, PUSH_LEFT, pos, value, None, -STEP)
        self.nbytes += nbytes
        log.used_bytes += nbytes

    def push_right(self, values: Sequence[bytes], log: ChangeLog) -> None:
        pushed = values if isinstance(values, list) else list(values)
        if len(pushed) >= MANY and self._may_run(log):
            self._push_run(pushed, log)
            return
        nbytes = 0
        chunk = self._nodes[-1] if self._length else None
        for value in pushed:
            if type(chunk) is not Chunk or len(chunk.values) >= self._chunk_size:
                chunk = self._grow_right(log)
            if chunk.explicit is None:
                pos = chunk.first + len(chunk.values) * STEP
            else:
                pos = grid_after(chunk.explicit[-1])
                chunk.explicit.append(pos)
            chunk.values.append(value)
            self._length += 1
            nbytes += len(value) + ELEMENT_OVERHEAD
            self._tell(log, PUSH_RIGHT, pos, value, None, STEP)
        self.nbytes += nbytes
        log.used_bytes += nbytes

    def _push_run(self, pushed: list[bytes], log: ChangeLog) -> None:
        """Push many to the right, one chunk at a time."""
        start = 0
        chunk = self._nodes[-1] if self._length else None
        while start < len(pushed):
            if (
                type(chunk) is not Chunk
                or chunk.explicit is not None
                or len(chunk.values) >= self._chunk_size
            ):
                chunk = self._grow_right(log)
            pos = chunk.first + len(chunk.values) * STEP
            some = pushed[start : start + self._chunk_size - len(chunk.values)]
            chunk.values += some
            self._length += len(some)
            log.add_elements(self.id, pos, some)
            self._resize(nbytes_of(some), log)
            start += len(some)

    def pop_left_one(self, log: ChangeLog) -> bytes:
        """Pop the first element. The list must not be empty."""
        chunk = self._nodes[0]
        if type(chunk) is not Chunk:
            chunk = self._end_chunk(0, log)
        pos = chunk.first
        value = chunk.values.pop(0)
        self._starts[0] += 1
        if chunk.explicit is None:
            chunk.first = pos + STEP
        else:
            del chunk.explicit[0]
            if chunk.values:
                chunk.first = chunk.explicit[0]
        if not chunk.values:
            del self._nodes[0], self._starts[0]
        self._popped(pos, value, POP_LEFT, log, STEP)
        return value

    def pop_right_one(self, log: ChangeLog) -> bytes:
        """Pop the last element. The list must not be empty."""
        chunk = self._nodes[-1]
        if type(chunk) is not Chunk:
            chunk = self._end_chunk(self._length - 1, log)
        value = chunk.values.pop()
        if chunk.explicit is None:
            pos = chunk.first + len(chunk.values) * STEP
        else:
            pos = chunk.explicit.pop()
        if not chunk.values:
            del self._nodes[-1], self._starts[-1]
        self._popped(pos, value, POP_RIGHT, log, -STEP)
        return value

    def _popped(self, pos: int, value: bytes, where: int, log: ChangeLog, step: int) -> None:
        self._length -= 1
        nbytes = len(value) + ELEMENT_OVERHEAD
        self.nbytes -= nbytes
        log.used_bytes -= nbytes
        self._tell(log, where, pos, None, value, step)

    def pop_left(self, count: int, log: ChangeLog) -> list[bytes]:
        """Pop up to `count` elements, in order."""
        count = min(count, self._length)
        if count >= MANY and self._may_run(log):
            return self._pop_run(count, log)
        return [self.pop_left_one(log) for _ in range(count)]

    def _pop_run(self, count: int, log: ChangeLog) -> list[bytes]:
        """Pop many from the left, one chunk at a time."""
        popped: list[bytes] = []
        while len(popped) < count:
            chunk = self._nodes[0]
            if type(chunk) is not Chunk:
                chunk = self._end_chunk(0, log)
            if chunk.explicit is not None:
                popped.append(self.pop_left_one(log))
                continue
            some = chunk.values[: count - len(popped)]
            log.remove_elements(self.id, chunk.first, len(some))
            if len(some) == len(chunk.values):
                del self._nodes[0], self._starts[0]
            else:
                del chunk.values[: len(some)]
                chunk.first += len(some) * STEP
                self._starts[0] += len(some)
            self._length -= len(some)
            self._resize(-nbytes_of(some), log)
            popped += some
        return popped

    def pop_right(self, count: int, log: ChangeLog) -> list[bytes]:
        return [self.pop_right_one(log) for _ in range(min(count, self._length))]

    def trim(self, start: int, stop: int, log: ChangeLog) -> None:
        """LTRIM: keep the elements that `range(start, stop)` would return."""
        start, end = self._slice(start, stop)
        for _ in range(self._length - end):
            self.pop_right_one(log)
        for _ in range(min(start, self._length)):
            self.pop_left_one(log)

    # -- parts --------------------------------------------------------------------------------

    def _slice(self, start: int, stop: int) -> tuple[int, int]:
        """The half-open range within the list for Redis's two inclusive indexes."""
        length = self._length
        start = max(start + length, 0) if start < 0 else start
        stop = stop + length if stop < 0 else min(stop, length - 1)
        return (start, stop + 1) if start <= stop else (0, 0)

    # -- changing nodes -----------------------------------------------------------------------

    def _grow_left(self, log: ChangeLog) -> Chunk:
        """The chunk for a `push_left`, which takes the position before the first one of the
        chunk."""
        if self._length and self._nodes[0].first < -FARTHEST:
            self._renumber_all(log)
        first = grid_before(self._nodes[0].first) if self._length else 0
        chunk = Chunk(first + STEP, [])
        self._nodes.insert(0, chunk)
        self._starts.insert(0, self._starts[0] if self._length else 0)
        if len(self._nodes) > 2 * ENDS:
            self._pack(ENDS)
        self._settle(log)
        return chunk

    def _grow_right(self, log: ChangeLog) -> Chunk:
        if self._length and self._nodes[-1].last > FARTHEST:
            self._renumber_all(log)
        chunk = Chunk(grid_after(self._nodes[-1].last) if self._length else 0, [])
        self._starts.append(self._starts[0] + self._length if self._length else 0)
        self._nodes.append(chunk)
        if len(self._nodes) > 2 * ENDS:
            self._pack(len(self._nodes) - 1 - ENDS)
        self._settle(log)
        return chunk

    def _end_chunk(self, i: int, log: ChangeLog) -> Chunk:
        """The chunk with the first or last element, for changes."""
        chunk = self._chunk(i)[1]
        self._settle(log)
        return chunk

    def _renumber_all(self, log: ChangeLog) -> None:
        first = -(self._length // 2) * STEP
        self._renumber(0, range(first, first + self._length * STEP, STEP), log)

    def _renumber(self, lo: int, positions: Sequence[int], log: ChangeLog) -> None:
        """Give new positions to the elements from lo on."""
        rows: list[tuple[int, bytes]] = []
        i = lo
        while i < lo + len(positions):
            at, chunk = self._chunk(i)
            i = at + len(chunk.values)
            offset = max(lo - at, 0)
            new = positions[at + offset - lo : at + len(chunk.values) - lo]
            stop = offset + len(new)
            old = chunk.positions[offset:stop]
            # Remove all old rows before writing new ones, because the new position of one element
            # may be the old position of another.
            for pos, value in zip(old, chunk.values[offset:stop], strict=True):
                self._record(log, pos, None, value)
            rows += zip(new, chunk.values[offset:stop], strict=True)
            chunk.renumber(offset, new)
        for pos, value in rows:
            self._record(log, pos, value, None)

    # -- telling ------------------------------------------------------------------------------

    def _may_run(self, log: ChangeLog) -> bool:
        """Whether many elements may be reported as one operation. Not in a script, because each
        must be undone; and not if intents are stated, because they describe each change."""
        return log.undo is None and not log.states_intents

    def _tell(
        self,
        log: ChangeLog,
        where: int,
        pos: int,
        new: bytes | None,
        old: bytes | None,
        step: int,
    ) -> None:
        """Report one element that was pushed or popped at an end. The next one is a `step` further
        on."""
        if log.states_intents:
            log.intend_at_end(where, self.id, pos, new)
        else:
            log.add_at_end(self, self.id, pos, new, step)
        if log.undo is not None:
            log.undo.append(RowUndo(LIST_ITEMS, self, pos, old))

    def _record(self, log: ChangeLog, pos: int, new: bytes | None, old: bytes | None) -> None:
        log.ops.append(list_item(self.id, pos, new))
        if log.undo is not None:
            log.undo.append(RowUndo(LIST_ITEMS, self, pos, old))

    def _settle(self, log: ChangeLog) -> None:
        """End a change that may have packed or unpacked chunks."""
        self._tighten()
        if self._untold_bytes:
            log.used_bytes += self._count_untold()

    def _resize(self, change: int, log: ChangeLog) -> None:
        self.nbytes += change
        log.used_bytes += change


def nbytes_of(values: list[bytes]) -> int:
    nbytes = len(values) * ELEMENT_OVERHEAD
    for value in values:  # a loop, because compiled code calls `len` slowly in a `sum`
        nbytes += len(value)
    return nbytes
