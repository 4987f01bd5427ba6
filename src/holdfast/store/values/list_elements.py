"""The elements of a list in order, found by index or by position, and loaded when they are needed.

This is the base of `List` (list.py): nothing here knows Redis or logs a change. Its nodes (chunks,
packed chunks and extents) are in list_chunks.py.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import accumulate
from operator import attrgetter
from typing import Any, Final, Self

from holdfast.store.change.runs import STEP
from holdfast.store.values import list_chunks
from holdfast.store.values.list_chunks import (
    ELEMENT_OVERHEAD,
    Chunk,
    Extent,
    Load,
    Node,
    Packed,
)

ENDS: Final = 2  # so many chunks at either end are not packed, because pushes and pops change them
LOOSE: Final = 16  # so many chunks in the middle may stay unpacked after a change

_first = attrgetter("first")


def _uncounted(nbytes: int) -> None:
    """For lists whose loaded bytes are not counted."""


def _no_rows(
    from_pos: int, to_pos: int, limit: int, reverse: bool, skip: int
) -> list[tuple[int, bytes]]:
    raise RuntimeError("a list that was never stored has nothing to load")


def starts_of(nodes: list[Node], first: int) -> list[int]:
    """The ordinal of the first element of each node; `first` is that of the first node."""
    return list(accumulate((node.count for node in nodes), initial=first))[:-1]


class Elements:
    """A sequence of bytes.

    `_nodes` are chunks, packed chunks and extents, in order. `_starts` has for each node the
    ordinal of its first element. Ordinals begin at any number: index 0 has the ordinal
    `_starts[0]`. So a push or pop at either end changes no ordinal but that of the first node, and
    a change in the middle shifts the side with fewer nodes.

    A chunk is packed when pushes have moved it away from its end. A change in the middle unpacks
    it, and notes it in `_loose`. It is packed again after many other chunks were noted there. Only
    `_settle` and pushes pack chunks, because no function may hold a chunk that is packed.
    """

    __slots__ = (
        "_chunk_size",
        "_length",
        "_load",
        "_loose",
        "_nodes",
        "_on_load",
        "_starts",
        "_untold_bytes",
        "id",
        "nbytes",
    )

    def __init__(self, key_id: int) -> None:
        self.id: Any = key_id  # if it were an int, compiled code would make one for each operation
        self._chunk_size = list_chunks.CHUNK
        self.nbytes = 0  # the bytes of elements in memory
        self._untold_bytes = 0  # the change of that number by packing, until `_settle` counts it
        self._length = 0
        self._nodes: list[Node] = []
        self._starts: list[int] = []
        self._load: Load = _no_rows
        self._on_load: Callable[[int], None] = _uncounted
        self._loose: list[Chunk] | None = None

    @classmethod
    def stored(
        cls,
        key_id: int,
        length: int,
        first_pos: int,
        last_pos: int,
        load: Load,
        *,
        on_grid: bool = False,
        on_load: Callable[[int], None] = _uncounted,
    ) -> Self:
        """A list whose rows are in the file, to be loaded when they are needed.

        `on_grid` promises that each position is a multiple of STEP. Without that promise an index
        is found by counting rows in the file from the nearer end, because length and ends are not
        enough: a list may have as many gaps as insertions. `on_load` is called with the number of
        bytes that each loading added to `nbytes`.
        """
        self = cls(key_id)
        self._load = load
        self._on_load = on_load
        if length:
            is_regular = on_grid and last_pos - first_pos == (length - 1) * STEP
            self._nodes.append(Extent(first_pos, last_pos, length, is_regular=is_regular))
            self._starts.append(0)
            self._length = length
        return self

    def __len__(self) -> int:
        return self._length

    def parts(self) -> list[Any]:
        return [self._nodes]

    def __iter__(self) -> Iterator[bytes]:
        for _, chunk in self._chunks(0, self._length):
            yield from chunk.values

    def rows(self) -> Iterator[tuple[int, bytes]]:
        """All elements with their positions."""
        for _, chunk in self._chunks(0, self._length):
            yield from zip(chunk.positions, chunk.values, strict=True)

    def apply(self, pos: int, value: bytes | None) -> None:
        """Apply one row operation that is logged already. Nothing changes if the row is in effect
        already."""
        k = self._seek(pos)
        chunk = self._nodes[k] if k >= 0 else None
        at, is_there = chunk.find(pos) if type(chunk) is Chunk else (0, False)
        if not is_there:
            if value is not None:
                self._put(k, pos, value)
            return
        assert type(chunk) is Chunk
        old = chunk.values[at]
        if value is not None:
            chunk.values[at] = value
            self.nbytes += len(value) - len(old)
            return
        chunk.delete(at, at + 1)
        self._shift(k, -1)
        if not chunk.values:
            del self._nodes[k], self._starts[k]
        self._length -= 1
        self.nbytes -= len(old) + ELEMENT_OVERHEAD

    def check(self) -> None:
        """Raise AssertionError if the parts contradict each other."""
        assert len(self._nodes) == len(self._starts)
        assert self._length == sum(node.count for node in self._nodes)
        nbytes = 0
        for k, node in enumerate(self._nodes):
            assert node.count > 0
            assert node.first <= node.last
            if k:
                assert self._nodes[k - 1].last < node.first
                assert self._starts[k] == self._starts[k - 1] + self._nodes[k - 1].count
            if isinstance(node, Extent):
                is_full = node.last - node.first == (node.count - 1) * STEP
                assert not node.is_regular or is_full
                continue
            if isinstance(node, Packed):
                nbytes -= node.saved_bytes
                node = node.chunk()
            positions = list(node.positions)
            assert node.count <= list_chunks.CHUNK
            assert node.first == positions[0]
            assert node.last == positions[-1]
            assert len(positions) == node.count
            assert positions == sorted(set(positions))
            assert node.explicit is not None or node.first % STEP == 0
            nbytes += sum(map(len, node.values)) + node.count * ELEMENT_OVERHEAD
        assert nbytes == self.nbytes + self._untold_bytes

    # -- finding nodes, loading them ----------------------------------------------------------

    def _chunk(self, i: int) -> tuple[int, Chunk]:
        """The chunk with element i, for changes, and the index of its first element. It is loaded
        or unpacked if necessary."""
        starts = self._starts
        base = starts[0]
        while True:
            k = bisect_right(starts, base + i) - 1
            node = self._nodes[k]
            if type(node) is Chunk:
                return starts[k] - base, node
            self._loosen(k, base + i - starts[k])

    def _node(self, i: int) -> tuple[int, Chunk | Packed]:
        """The same for reading: chunks in the middle stay packed, or are packed after loading."""
        starts = self._starts
        base = starts[0]
        while True:
            k = bisect_right(starts, base + i) - 1
            node = self._nodes[k]
            if type(node) is not Extent:
                return starts[k] - base, node
            self._open(k, base + i - starts[k])
            self._pack(bisect_right(starts, base + i) - 1)
            self._on_load(self._count_untold())

    def _chunks(
        self, lo: int, hi: int, *, backward: bool = False, having: bytes | None = None
    ) -> Iterator[tuple[int, Chunk]]:
        """The chunks with elements lo to hi-1, for reading, loaded one by one. If an element is
        given, only chunks that may have it."""
        while lo < hi:
            at, node = self._node(hi - 1 if backward else lo)
            if type(node) is Chunk:
                yield at, node
            elif having is None or node.may_have(having):
                yield at, node.read()
            if backward:
                hi = at
            else:
                lo = at + node.count

    def _seek(self, pos: int) -> int:
        """The last node that begins at or before pos (-1: none). It is a chunk if pos is within
        it."""
        nodes = self._nodes
        while True:
            # Recovery mostly replays pushes and pops, so try the ends first.
            if nodes and pos >= nodes[-1].first:
                k = len(nodes) - 1
            else:
                is_near_head = len(nodes) > 1 and pos < nodes[1].first
                k = bisect_right(nodes, pos, hi=1 if is_near_head else None, key=_first) - 1
            node = nodes[k] if k >= 0 else None
            if node is None or type(node) is Chunk or pos > node.last:
                return k
            self._loosen(k, node.offset_near(pos) if type(node) is Extent else 0)

    def _open(self, k: int, offset: int) -> None:
        """Load the chunk at `offset` of extent k."""
        extent = self._nodes[k]
        assert type(extent) is Extent
        parts = extent.open(offset, self._load)
        self._nodes[k : k + 1] = parts
        self._starts[k : k + 1] = starts_of(parts, self._starts[k])
        nbytes = sum(
            sum(map(len, part.values)) + part.count * ELEMENT_OVERHEAD
            for part in parts
            if type(part) is Chunk
        )
        self.nbytes += nbytes
        self._on_load(nbytes)

    # -- packing ------------------------------------------------------------------------------

    def _pack(self, k: int) -> None:
        """Pack node k if it is a chunk in the middle. No function may hold it for changes."""
        node = self._nodes[k] if k >= 0 else None
        if type(node) is Chunk and self._is_in_middle(k):
            packed = node.packed()
            if packed is not None:
                self._nodes[k] = packed
                self._untold_bytes -= packed.saved_bytes

    def _is_in_middle(self, k: int) -> bool:
        if ENDS <= k < len(self._nodes) - ENDS:
            return True
        before = self._starts[k] - self._starts[0]  # an extent may stand for many nodes
        behind = self._length - before - self._nodes[k].count
        return min(before, behind) >= ENDS * self._chunk_size

    def _loosen(self, k: int, offset: int) -> None:
        """Unpack chunk k, or load the chunk at `offset` of extent k, for a change."""
        node = self._nodes[k]
        if type(node) is Packed:
            self._nodes[k] = node.chunk()
            self._untold_bytes += node.saved_bytes
        else:
            self._open(k, offset)
            k += type(self._nodes[k]) is Extent
        chunk = self._nodes[k]
        if type(chunk) is Chunk and self._is_in_middle(k):
            self._note_loose(chunk)

    def _note_loose(self, chunk: Chunk) -> None:
        if self._loose is None:
            self._loose = []
        self._loose.append(chunk)

    def _count_untold(self) -> int:
        """Add the uncounted change to `nbytes`, and return it."""
        change = self._untold_bytes
        self.nbytes += change
        self._untold_bytes = 0
        return change

    def _tighten(self) -> None:
        """Pack the chunks in the middle that were changed, except the last few."""
        loose = self._loose
        if loose is None or len(loose) <= LOOSE:
            return
        for chunk in loose[:-LOOSE]:
            if chunk.values:
                k = bisect_right(self._nodes, chunk.first, key=_first) - 1
                if k >= 0 and self._nodes[k] is chunk:
                    self._pack(k)
        del loose[:-LOOSE]

    # -- changing nodes -----------------------------------------------------------------------

    def _put(self, k: int, pos: int, value: bytes) -> None:
        """Insert an element; k is the result of `_seek(pos)`."""
        nodes, starts = self._nodes, self._starts
        chunk = nodes[k] if k >= 0 else None
        at = 0
        if type(chunk) is Chunk:
            at = chunk.find(pos)[0]
        # before all nodes, or after an extent: the element goes to the next chunk, if there is one
        else:
            k += 1
            chunk = nodes[k] if k < len(nodes) else None
        if type(chunk) is Chunk and len(chunk.values) >= list_chunks.CHUNK:
            if 0 < at < len(chunk.values):
                half = len(chunk.values) // 2
                rest = chunk.split(half)
                nodes.insert(k + 1, rest)
                starts.insert(k + 1, starts[k] + half)
                self._note_loose(rest)
                self._put(self._seek(pos), pos, value)
                return
            k += at > 0
            chunk = None  # the chunk is full, but the element may go beside it
        if type(chunk) is not Chunk:
            chunk, at = Chunk(pos, []), 0
            start = starts[k] if k < len(nodes) else starts[0] + self._length if nodes else 0
            nodes.insert(k, chunk)
            starts.insert(k, start)
            if len(nodes) > 2 * ENDS:
                self._pack(ENDS if k == 0 else k - ENDS)  # for recovery, which pushes in this way
        chunk.insert(at, pos, value)
        self._shift(k, 1)
        self._length += 1
        self.nbytes += len(value) + ELEMENT_OVERHEAD

    def _shift(self, k: int, change: int) -> None:
        """Node k has got so many more elements: shift the ordinals on the shorter side."""
        starts = self._starts
        if k < len(starts) // 2:
            starts[: k + 1] = [start - change for start in starts[: k + 1]]
        else:
            starts[k + 1 :] = [start + change for start in starts[k + 1 :]]

    def _gap(self, i: int) -> tuple[int, int]:
        """The positions of elements i-1 and i, without loading a second chunk."""
        k = bisect_right(self._starts, self._starts[0] + i) - 1
        at = self._starts[0] + i - self._starts[k]
        node = self._nodes[k]
        if at == 0:
            return self._nodes[k - 1].last, node.first
        if type(node) is not Chunk:
            self._chunk(i)
            return self._gap(i)
        return node.positions[at - 1], node.positions[at]
