"""The replicated list: unique elements at positions that never change.

A deleted element is removed at once. Effects arrive in causal order, so no effect names an element
that has not arrived yet, and deleted elements need not be remembered. Concurrent insertions are all
kept. A deletion removes the elements that its author has seen. Of two LSETs the one with the later
stamp wins; if the stamps are equal, that of the lower replica. A deletion wins over LSET.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final

from holdfast.crdt import positions
from holdfast.crdt.dots import Author, Dot, Vector, covers
from holdfast.crdt.effects import CLEAR, DELETE, INSERT, POP, PUSH, SET, TRIM, Effect, RowChange
from holdfast.crdt.replicated_value import ReplicatedValue
from holdfast.crdt.sequence import PositionSequence

Stamp = tuple[int, int]  # hlc and the negative replica: the greater stamp wins
Row = tuple[bytes, int, int]  # value; hlc and replica of the last LSET, or 0 and 0

# Elements of a run are one piece if their indexes differ only in the last five bits.
_FLOORS: Final = [bytes([byte & 0xE0]) for byte in range(256)]
_PIECE_END: Final = 0x1F


class ReplicatedList(ReplicatedValue):
    """A list. Rows: position → (value, hlc, replica). `_stamps` has elements that were changed by
    LSET."""

    __slots__ = ("_elements", "_stamps")

    def __init__(self) -> None:
        self._elements: PositionSequence[bytes] = PositionSequence()
        self._stamps: dict[bytes, Stamp] = {}

    def __len__(self) -> int:
        return len(self._elements)

    def __bool__(self) -> bool:
        return bool(self._elements)

    # -- looking ------------------------------------------------------------------------------

    def view(self) -> list[bytes]:
        return self.range(0, -1)

    def index(self, i: int) -> bytes | None:
        """LINDEX: a negative index counts from the end. None if it is out of range."""
        at = self._place(i)
        return None if at is None else self._elements.value_at(at)

    def range(self, start: int, stop: int) -> list[bytes]:
        """LRANGE: the elements from start to stop, both included. Negative indexes count from the
        end."""
        return self._elements.values(*self._slice(start, stop))

    def find(self, value: bytes, rank: int = 1) -> Iterator[int]:
        """LPOS: indexes of equal elements, from match number `rank` on. A negative rank counts from
        the end."""
        found = self._elements.indexes if rank > 0 else self._elements.indexes_backward
        for number, i in enumerate(found(value), start=1):
            if number >= abs(rank):
                yield i

    def rank(self, position: bytes) -> int:
        """How many elements are before this position: the index of its element."""
        return self._elements.rank(position)

    # -- changes, as effects ------------------------------------------------------------------

    def push_right(self, values: Collection[bytes], author: Author) -> Effect:
        first = positions.after(self._elements.last_key, author)
        author.seq += len(values) - 1
        return (PUSH, first, 1, tuple(values))

    def push_left(self, values: Collection[bytes], author: Author) -> Effect:
        """Push one after the other, so the last value becomes the first element."""
        first = positions.before(self._elements.first_key, author)
        author.seq += len(values) - 1
        return (PUSH, first, -1, tuple(values))

    def insert(self, i: int, value: bytes, author: Author) -> Effect:
        """LINSERT: insert between elements i-1 and i, of which one is the pivot."""
        elements = self._elements
        left = elements.key_at(i - 1) if i > 0 else b""
        right = elements.key_at(i) if i < len(elements) else b""
        return (INSERT, ((positions.between(left, right, author), value),))

    def set(self, i: int, value: bytes, author: Author) -> Effect | None:
        """LSET; None if the index is out of range. Its stamp is later than that of the LSET before,
        even if the clock of that LSET was ahead of ours."""
        at = self._place(i)
        if at is None:
            return None
        position = self._elements.key_at(at)
        seen = self._stamps.get(position)
        hlc = author.hlc if seen is None else max(author.hlc, seen[0] + 1)
        return (SET, position, value, hlc, author.replica)

    def delete(self, indexes: Iterable[int]) -> Effect:
        return (DELETE, tuple(map(self._elements.key_at, indexes)))

    def pop_left(self, count: int = 1) -> Effect:
        """The popped values are `range(0, count - 1)`."""
        if count == 1:
            first = self._elements.first_key
            return (DELETE, (first,) if first else ())
        return _removal(self._elements.keys(0, min(count, len(self))))

    def pop_right(self, count: int = 1) -> Effect:
        if count == 1:
            last = self._elements.last_key
            return (DELETE, (last,) if last else ())
        return _removal(self._elements.keys(max(len(self) - count, 0), len(self)))

    def remove(self, count: int, value: bytes) -> Effect:
        """LREM: a positive count removes from the head, a negative one from the tail, 0 removes all
        matches."""
        found = self.find(value, -1 if count < 0 else 1)
        limit = abs(count) or len(self)
        return self.delete([i for i, _ in zip(found, range(limit), strict=False)])

    def trim(self, start: int, stop: int, author: Author) -> Effect:
        """LTRIM: keep the elements that `range(start, stop)` would return."""
        first, end = self._slice(start, stop)
        if first >= end:
            return self.clear(author)
        key_at = self._elements.key_at
        return (TRIM, author.observed(), key_at(first), key_at(end - 1))

    def clear(self, author: Author) -> Effect:
        return (CLEAR, author.observed(), (), 0)

    # -- applying -----------------------------------------------------------------------------

    def integrate(self, effect: Effect) -> list[RowChange]:
        kind: int = effect[0]
        if kind == DELETE:
            return self._delete(effect[1])
        if kind == POP:
            return self._delete(self._run(effect[1], effect[2]))
        if kind == PUSH:
            return self._push(effect[1], effect[2], effect[3])
        if kind == INSERT:
            return self._insert(effect[1])
        if kind == SET:
            return self._set(effect[1], effect[2], effect[3], effect[4])
        if kind == TRIM:
            _, vector, first, last = effect
            return self._delete_covered(vector, first, last)
        assert kind == CLEAR
        return self._delete_covered(effect[1], b"", b"")

    def at_end(self, effect: Effect) -> list[bytes] | None:
        """`integrate`, in less time, for a push to the right end, or for a pop at either end that
        does not empty the list. Returns the positions. In all other cases None, and then nothing
        has changed."""
        elements = self._elements
        if effect[0] == PUSH and effect[2] == 1:
            keys = positions.run_of(effect[1], len(effect[3]), 1)
            return keys if elements.extend(keys, list(effect[3])) else None
        if effect[0] == POP and not self._stamps and effect[2] <= len(elements):
            keys = positions.run_of(effect[1], effect[2], 1)
            return None if elements.remove_run(keys) is None else keys
        return None

    def _run(self, first: bytes, count: int) -> Iterable[bytes]:
        """The positions of a run that may be here. Some may be deleted already. A count that is too
        large must not cost more than the number of elements."""
        if count <= len(self):
            return positions.run_of(first, count, 1)
        last = positions.moved(first, count - 1)
        size = len(first)
        return [
            key for key, _ in self._elements.items() if first <= key <= last and len(key) == size
        ]

    def is_left_of(self, position: bytes) -> bool:
        """Whether all elements are before this position."""
        return self._elements.last_key < position

    def _push(self, first: bytes, step: int, values: Collection[bytes]) -> list[RowChange]:
        elements = self._elements
        if len(values) == 1:
            (value,) = values
            return [(first, (value, 0, 0), None)] if elements.insert(first, value) else []
        keys = positions.run_of(first, len(values), step)
        if step > 0 and elements.extend(keys, list(values)):
            rows = zip(keys, values, strict=True)
            return [(key, (value, 0, 0), None) for key, value in rows]
        return self._insert(list(zip(keys, values, strict=True)))

    def _insert(self, rows: Collection[Any]) -> list[RowChange]:
        insert = self._elements.insert
        return [(row[0], (row[1], 0, 0), None) for row in rows if insert(row[0], row[1])]

    def _delete(self, keys: Iterable[bytes]) -> list[RowChange]:
        elements, stamps = self._elements, self._stamps
        changes: list[RowChange] = []
        for key in keys:
            value = elements.delete(key)
            if value is not None:
                stamp = stamps.pop(key, None) if stamps else None
                changes.append((key, None, (value, *_unpack(stamp)) if stamp else (value, 0, 0)))
        return changes

    def _delete_covered(self, vector: Vector, first: bytes, last: bytes) -> list[RowChange]:
        """Delete the elements that the author has seen outside first … last (b"" and b"": all of
        them)."""
        return self._delete(
            [
                key
                for key, _ in self._elements.items()
                if (key < first or key > last) and covers(vector, positions.dot_of(key))
            ]
        )

    def _set(self, key: bytes, value: bytes, hlc: int, replica: int) -> list[RowChange]:
        seen, stamp = self._stamps.get(key), (hlc, -replica)
        if seen is not None and seen >= stamp:
            return []
        old = self._elements.replace(key, value)
        if old is None:
            return []
        self._stamps[key] = stamp
        return [(key, (value, hlc, replica), (old, *_unpack(seen)))]

    # -- whole --------------------------------------------------------------------------------

    def rows(self) -> Iterator[tuple[bytes, Row]]:
        for key, value in self._elements.items():
            yield key, (value, *_unpack(self._stamps.get(key)))

    def apply(self, sub: bytes, row: Row | None) -> None:
        self._stamps.pop(sub, None)
        if row is None:
            self._elements.delete(sub)
            return
        value, hlc, replica = row
        if not self._elements.insert(sub, value):
            self._elements.replace(sub, value)
        if hlc:
            self._stamps[sub] = (hlc, -replica)

    def piece_of(self, sub: bytes) -> bytes:
        return sub[:-1] + _FLOORS[sub[-1]]

    def piece(self, place: bytes) -> tuple[Any, ...] | None:
        """Usually a run: the last byte of its first position, and the values. Otherwise for each
        element (last byte of its position, value), and its stamp if it has one."""
        stamps = self._stamps
        keys, values = self._between(place)
        if not keys:
            return None
        if not stamps and len(keys[0]) == len(place) and positions.is_run(keys):
            return (keys[0][-1], values)
        found = [
            (key[-1], value, *_unpack(stamps[key])) if key in stamps else (key[-1], value)
            for key, value in zip(keys, values, strict=True)
            if len(key) == len(place)
        ]
        return tuple(found) or None

    def put_piece(self, place: bytes, piece: tuple[Any, ...] | None) -> None:
        for key in self._between(place)[0]:
            if len(key) == len(place):
                self.apply(key, None)
        if piece and isinstance(piece[0], int):
            piece = tuple(enumerate(piece[1], piece[0]))
        for byte, value, *stamp in piece or ():
            hlc, replica = stamp or (0, 0)
            self.apply(place[:-1] + bytes((byte,)), (value, hlc, replica))

    def _between(self, place: bytes) -> tuple[list[bytes], list[bytes]]:
        """The positions and elements of a piece, and of the gaps between them."""
        last = place[:-1] + bytes((place[-1] | _PIECE_END,))
        return self._elements.between(place, last)

    def dot_of(self, sub: bytes) -> Dot:
        return positions.dot_of(sub)

    def join(self, one: Row, other: Row) -> Row:
        return max(one, other, key=lambda row: (row[1], -row[2]))

    # -- parts --------------------------------------------------------------------------------

    def _place(self, i: int) -> int | None:
        i += len(self) if i < 0 else 0
        return i if 0 <= i < len(self) else None

    def _slice(self, start: int, stop: int) -> tuple[int, int]:
        length = len(self)
        start = max(start + length, 0) if start < 0 else start
        stop = stop + length if stop < 0 else min(stop, length - 1)
        return (start, stop + 1) if start <= stop else (0, 0)


def _removal(keys: list[bytes]) -> Effect:
    if len(keys) > 1 and positions.is_run(keys):
        return (POP, keys[0], len(keys))
    return (DELETE, tuple(keys))


def pieces_of_run(keys: list[bytes]) -> set[bytes]:
    """`piece_of` for many positions with consecutive indexes."""
    some = keys[:: _PIECE_END + 1]
    some.append(keys[-1])
    return {key[:-1] + _FLOORS[key[-1]] for key in some}


def _unpack(stamp: Stamp | None) -> tuple[int, int]:
    return (0, 0) if stamp is None else (stamp[0], -stamp[1])
