"""What hashes and sets have in common: named elements in the order in which they came.

Every element is given an ordinal when it comes and keeps it until it goes; its row has it too, so
the order outlives eviction and restarts. What the elements are is in hashes.py and sets.py.
"""

import random
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, KeysView, Sequence
from typing import Any, Final, Generic, TypeVar

from holdfast.store.ops import ChangeLog

# Bytes that an element costs beyond its name and value: a dict slot, objects, its place.
ELEMENT_OVERHEAD: Final = 160

FIRST_ORDINAL = 1  # because cursor 0 means "from the beginning"
CHUNK = 512  # places; closing the holes of so many takes 20 µs
ALWAYS_PLACED = 1024  # with so many elements places are kept, so that nobody waits for them

E = TypeVar("E")


class Chunk:
    """Some neighbours. None where one has gone: a hole."""

    __slots__ = ("holes", "names", "ordinals")

    def __init__(self, names: list[bytes | None], ordinals: list[int]) -> None:
        self.names = names
        self.ordinals = ordinals
        self.holes = 0

    def close_holes(self) -> None:
        pairs = zip(self.names, self.ordinals, strict=True)
        self.ordinals = [ordinal for name, ordinal in pairs if name is not None]
        self.names = [name for name in self.names if name is not None]
        self.holes = 0


class Places:
    """Names by ordinal, so that they can be found by place: what a dict cannot do.

    Who goes leaves a hole. The holes of a chunk are closed when they are the most of it, and it is
    joined with the next if both fit into one. So no change touches more than two chunks, and at
    least every third or so of all places has a name.
    """

    __slots__ = ("_firsts", "chunks")

    def __init__(self, names: Sequence[bytes], ordinals: Sequence[int]) -> None:
        starts = range(0, len(names), CHUNK)
        self.chunks = [
            Chunk([*names[at : at + CHUNK]], [*ordinals[at : at + CHUNK]]) for at in starts
        ]
        self._firsts = [ordinals[at] for at in starts]  # no chunk has lower ones than its first

    def append(self, name: bytes, ordinal: int) -> None:
        chunks = self.chunks
        if not chunks or len(chunks[-1].names) >= CHUNK:
            chunks.append(Chunk([], []))
            self._firsts.append(ordinal)
        chunks[-1].names.append(name)
        chunks[-1].ordinals.append(ordinal)

    def remove(self, ordinal: int) -> None:
        at = bisect_right(self._firsts, ordinal) - 1
        chunk = self.chunks[at]
        chunk.names[bisect_left(chunk.ordinals, ordinal)] = None
        chunk.holes += 1
        if chunk.holes * 2 > len(chunk.names):
            chunk.close_holes()
            self._join(at)
            self._join(at - 1)

    def _join(self, at: int) -> None:
        """A chunk with the next one, if both fit into one."""
        chunks = self.chunks
        if 0 <= at < len(chunks) - 1:
            chunk, after = chunks[at : at + 2]
            if len(chunk.names) + len(after.names) <= CHUNK:
                chunk.names += after.names
                chunk.ordinals += after.ordinals
                chunk.holes += after.holes
                del chunks[at + 1], self._firsts[at + 1]

    def put_back(self, name: bytes, ordinal: int) -> None:
        """Where it was."""
        k = max(0, bisect_right(self._firsts, ordinal) - 1)
        if not self.chunks:
            self.append(name, ordinal)
            return
        chunk = self.chunks[k]
        at = bisect_left(chunk.ordinals, ordinal)
        if at < len(chunk.ordinals) and chunk.ordinals[at] == ordinal:
            chunk.names[at] = name
            chunk.holes -= 1
            return
        chunk.names.insert(at, name)
        chunk.ordinals.insert(at, ordinal)
        self._firsts[k] = min(self._firsts[k], ordinal)
        if len(chunk.names) > CHUNK:
            half = CHUNK // 2
            chunk.close_holes()
            new = Chunk(chunk.names[half:], chunk.ordinals[half:])
            del chunk.names[half:], chunk.ordinals[half:]
            if new.names:
                self.chunks.insert(k + 1, new)
                self._firsts.insert(k + 1, new.ordinals[0])

    def pick(self, rng: random.Random) -> bytes:
        """Any name, each as likely as the other. There must be one."""
        chunks = self.chunks
        size = CHUNK if len(chunks) > 1 else len(chunks[0].names)  # as if all had as many places
        while True:
            at, place = divmod(int(rng.random() * len(chunks) * size), size)
            names = chunks[at].names
            if place < len(names) and (name := names[place]) is not None:
                return name

    def after(self, cursor: int, limit: int) -> tuple[int, list[bytes]]:
        names: list[bytes] = []
        chunks = self.chunks
        at = max(0, bisect_right(self._firsts, cursor) - 1)
        while at < len(chunks):
            chunk = chunks[at]
            start = bisect_right(chunk.ordinals, cursor)
            found = chunk.names[start : start + limit]
            names += [name for name in found if name is not None]
            limit -= len(found)
            if not limit:
                is_end = at == len(chunks) - 1 and start + len(found) == len(chunk.names)
                return (0 if is_end else chunk.ordinals[start + len(found) - 1]), names
            at += 1
        return 0, names


class Ordered(Generic[E]):
    """Elements by name. The dict is in order of ordinals, but for `_is_shuffled`. `changed_in` says
    before which fold some were noted last, in `_changed` (see ChangeLog)."""

    table = -1  # that its rows are in

    __slots__ = (
        "_changed",
        "_elements",
        "_is_shuffled",
        "_next",
        "_places",
        "changed_in",
        "id",
        "nbytes",
    )

    def __init__(self, key_id: int) -> None:
        self.id: Any = key_id  # as in Elements
        self.nbytes = 0
        self._elements: dict[bytes, E] = {}
        self._next = FIRST_ORDINAL
        self._is_shuffled = False
        self._places: Places | None = None  # made when asked for, or when there are many
        self.changed_in = 0
        self._changed: list[bytes] = []

    def __len__(self) -> int:
        return len(self._elements)

    def parts(self) -> list[Any]:
        places = self._places
        return [self._elements] if places is None else [self._elements, places.chunks]

    def __contains__(self, name: bytes) -> bool:
        return name in self._elements

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.names)

    @property
    def names(self) -> KeysView[bytes]:
        """In the order in which they came."""
        return self._in_order().keys()

    # -- by place -----------------------------------------------------------------------------

    def pick(self, rng: random.Random) -> bytes:
        """Any name; there must be one. In constant time when there are many."""
        return self._by_place().pick(rng)

    def choices(self, count: int, rng: random.Random) -> list[bytes]:
        """So many names, each chosen from all; there must be one."""
        if count < len(self) // 4:  # it is quicker to look each of them up
            pick = self._by_place().pick
            return [pick(rng) for _ in range(count)]
        return rng.choices(list(self.names), k=count)

    def sample(self, count: int, rng: random.Random) -> Iterable[bytes]:
        """So many names, none twice; all in order when there are no more."""
        if count >= len(self):
            return self.names
        if count * 2 > len(self):
            return rng.sample(list(self.names), count)
        picked: dict[bytes, None] = {}
        pick = self._by_place().pick
        while len(picked) < count:
            picked[pick(rng)] = None
        return picked

    def scan(self, cursor: int, limit: int) -> tuple[int, list[bytes]]:
        """Names and the cursor to go on with, 0 at the end.

        The cursor is the last ordinal that was looked at, and nothing else is remembered. An
        element never changes its ordinal, and a call returns whoever has one between the old
        cursor and the new, so who is there from the first call to the last is returned by
        exactly one of them, whatever else comes (at the end) or goes meanwhile.
        """
        return self._by_place().after(cursor, limit)

    # -- for journal and fold -----------------------------------------------------------------

    def rows(self, names: list[bytes]) -> list[Any]:
        """What the rows of these elements have; None of those that are gone."""
        raise NotImplementedError

    def _run(self, table: int, log: ChangeLog) -> list[Any]:
        """To which an element is added: see FIELD_RUNS and MEMBER_RUNS."""
        ops = log.ops
        if ops and ops[-1] is log.run_op and log.run_of is self:
            log.recorded += 1
        else:
            log.begin_run(table, self.id, self, [])
        return log.run

    def _note(self, name: bytes, log: ChangeLog) -> None:
        """It changed, and was not noted since the last fold began; or it was, and has come anew."""
        if self.changed_in != log.next_fold:
            self.changed_in = log.next_fold
            self._changed = []
            log.changed_elements.append((self, self._changed))
        self._changed.append(name)
        log.changed_element_count += 1

    def forget_notes(self) -> None:
        self.changed_in = 0
        self._changed.clear()

    # -- for the types ------------------------------------------------------------------------

    def _ordinal(self, element: E) -> int:
        raise NotImplementedError

    def _size(self, name: bytes, element: E) -> int:
        raise NotImplementedError

    def _insert(
        self, name: bytes, element: E, ordinal: int, nbytes: int, log: ChangeLog | None
    ) -> None:
        """An element that was not there. Its ordinal is `_next`, or it had one before."""
        self._elements[name] = element
        if ordinal >= self._next:
            self._next = ordinal + 1
            if self._places is not None:
                self._places.append(name, ordinal)
            elif len(self._elements) >= ALWAYS_PLACED and not self._is_shuffled:
                self._by_place()
        else:
            self._is_shuffled = True
            if self._places is not None:
                self._places.put_back(name, ordinal)
        self.nbytes += nbytes
        if log is not None:
            log.used_bytes += nbytes

    def _fill(self, elements: dict[bytes, E], highest: int, nbytes: int) -> None:
        """All elements at once, in any order: loading. There was none before. Half of the time is
        gained by whoever does not ask for their order."""
        self._elements = elements
        self._next = highest + 1
        self._is_shuffled = True
        self.nbytes = nbytes

    def _delete(self, name: bytes, log: ChangeLog | None) -> E | None:
        element = self._elements.pop(name, None)
        if element is not None:
            if self._places is not None:
                self._places.remove(self._ordinal(element))
            self._resize(-self._size(name, element), log)
        return element

    def _resize(self, nbytes: int, log: ChangeLog | None) -> None:
        self.nbytes += nbytes
        if log is not None:
            log.used_bytes += nbytes

    def _in_order(self) -> dict[bytes, E]:
        if self._is_shuffled:
            elements = self._elements
            self._elements = {name: elements[name] for name in self._sorted()[0]}
            self._is_shuffled = False
        return self._elements

    def _sorted(self) -> tuple[list[bytes], list[int]]:
        """The names, and their ordinals, by which they are ordered."""
        elements = self._elements
        if self._next < 8 * len(elements):  # few have gone: each has a slot, nothing is compared
            slots: list[bytes | None] = [None] * self._next
            for name, element in elements.items():
                slots[self._ordinal(element)] = name
            names = [name for name in slots if name is not None]
            if len(names) == len(elements):  # and none has another's, which a broken fold may leave
                return names, [at for at, name in enumerate(slots) if name is not None]
        names = sorted(elements, key=lambda name: self._ordinal(elements[name]))
        return names, [self._ordinal(elements[name]) for name in names]

    def _by_place(self) -> Places:
        if self._places is None:
            self._places = Places(*self._sorted())  # the dict need not be in order for that
        return self._places
