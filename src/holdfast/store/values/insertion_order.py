"""The common part of hashes and sets: named elements in the order in which they were added.

An element gets an ordinal when it is added, and keeps it until it is removed. Its row has the
ordinal, too, so the order survives eviction and restarts. The elements themselves are in hash.py
and set.py.
"""

import random
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Generator, Iterable, Iterator, KeysView, Sequence
from typing import Any, Final, Generic, TypeVar

from holdfast.store.change.change_log import ChangeLog
from holdfast.store.values.score_index import Ranking

# Bytes that an element takes in addition to its name and value: a dict slot, objects, its place.
ELEMENT_OVERHEAD: Final = 160

FIRST_ORDINAL: Final = 1  # because cursor 0 means "from the beginning"
CHUNK: Final = 512  # places; closing the holes of a chunk takes 20 µs
# from so many elements on, places are kept up to date, because building them takes long
ALWAYS_PLACED: Final = 1024
SETTLED: Final = 500  # elements in a slice of `settle`, about 0.3 ms
MOST_WHOLE: Final = 128  # of a new collection up to this size the fold needs no notes

# shared by all collections without changes: an empty list takes 56 bytes
NO_NAMES: Final[list[bytes]] = []

E = TypeVar("E")


class PlacesChunk:
    """Some neighbours. A None stands for an element that was removed: a hole."""

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
    """Names by ordinal, so that they can be found by place. (A dict cannot do that.)

    A removed element leaves a hole. The holes of a chunk are closed when they are more than half of
    it, and the chunk is joined with its neighbours if both fit into one. So no change touches more
    than three chunks, and at least about a third of all places have a name.
    """

    __slots__ = ("_firsts", "chunks")

    def __init__(self, names: Sequence[bytes], ordinals: Sequence[int]) -> None:
        starts = range(0, len(names), CHUNK)
        self.chunks = [
            PlacesChunk([*names[at : at + CHUNK]], [*ordinals[at : at + CHUNK]]) for at in starts
        ]
        # a chunk may begin with a higher ordinal, but with no lower one
        self._firsts = [ordinals[at] for at in starts]

    def append(self, name: bytes, ordinal: Any) -> None:
        """(The ordinal is an int. It is passed as an object, so that compiled code keeps the one
        that the element has, and makes no other.)"""
        chunks = self.chunks
        chunk = chunks[-1] if chunks else None
        if chunk is None or len(chunk.names) >= CHUNK:
            chunk = PlacesChunk([], [])
            chunks.append(chunk)
            self._firsts.append(ordinal)
        chunk.names.append(name)
        chunk.ordinals.append(ordinal)

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
        """Join a chunk with the next one, if both fit into one."""
        chunks = self.chunks
        if 0 <= at < len(chunks) - 1:
            chunk, after = chunks[at : at + 2]
            if len(chunk.names) + len(after.names) <= CHUNK:
                chunk.names += after.names
                chunk.ordinals += after.ordinals
                chunk.holes += after.holes
                del chunks[at + 1], self._firsts[at + 1]

    def put_back(self, name: bytes, ordinal: int) -> None:
        """Add a name whose ordinal is not the highest one, because a failed script had removed
        it."""
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
            new = PlacesChunk(chunk.names[half:], chunk.ordinals[half:])
            del chunk.names[half:], chunk.ordinals[half:]
            if new.names:
                self.chunks.insert(k + 1, new)
                self._firsts.insert(k + 1, new.ordinals[0])

    def pick(self, rng: random.Random) -> bytes:
        """A random name; all have the same probability. There must be one."""
        chunks = self.chunks
        # treat all chunks as if they had the same number of places
        size = CHUNK if len(chunks) > 1 else len(chunks[0].names)
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
    """Elements by name. The dict is in order of ordinals, unless `_is_shuffled`. `_dirty_names` are
    the elements noted for the pass of the fold with the number `dirty_in_fold` (see FoldState). A
    small collection of a new key has no such notes if `is_read_whole`: the fold reads all of it."""

    table = -1  # the table of its rows

    __slots__ = (
        "_dirty_names",
        "_elements",
        "_is_shuffled",
        "_next",
        "_places",
        "dirty_in_fold",
        "id",
        "is_read_whole",
        "nbytes",
    )

    def __init__(self, key_id: int) -> None:
        self.id: Any = key_id  # as in Elements
        self.nbytes = 0
        self._elements: dict[bytes, E] = {}
        self._next = FIRST_ORDINAL
        self._is_shuffled = False
        # built at the first use, or when there are many elements
        self._places: Places | None = None
        self.dirty_in_fold = 0
        self.is_read_whole = False
        self._dirty_names = NO_NAMES

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
        """The names, in the order in which they were added."""
        return self._in_order().keys()

    # -- by place -----------------------------------------------------------------------------

    def pick(self, rng: random.Random) -> bytes:
        """A random name; there must be one. Takes constant time if there are many names."""
        return self._by_place().pick(rng)

    def choices(self, count: int, rng: random.Random) -> list[bytes]:
        """So many random names; a name may come twice. There must be one."""
        if count < len(self) // 4:  # then finding each name by its place is faster
            pick = self._by_place().pick
            return [pick(rng) for _ in range(count)]
        return rng.choices(list(self.names), k=count)

    def sample(self, count: int, rng: random.Random) -> Iterable[bytes]:
        """So many random names, each at most once. If there are no more names than that: all of
        them, in order."""
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
        """Names, and the cursor to continue with, 0 at the end.

        The cursor is the last ordinal that was looked at, and there is no other state. An element
        never changes its ordinal, and a call returns all elements between the old cursor and the
        new one. So an element that exists from the first call to the last is returned by exactly
        one call, even if others are added (at the end) or removed meanwhile.
        """
        return self._by_place().after(cursor, limit)

    # -- for journal and fold -----------------------------------------------------------------

    def rows(self, names: list[bytes]) -> list[Any]:
        """The values of the rows of these elements; None for elements that are gone."""
        raise NotImplementedError

    def add_columns(self, names: list[bytes], values: list[Any], ordinals: list[int]) -> int:
        """Append the rows of all elements to these columns, in the order of rows in the file.
        Returns the number of rows; 0 if rows of this collection have more columns. (The values of a
        set are its ordinals.)"""
        raise NotImplementedError

    def sorted_names(self) -> list[bytes]:
        """The names in the order of rows in the file."""
        names = list(self._elements)
        if len(names) > 1:
            names.sort()
        return names

    def _note(self, name: bytes, log: ChangeLog) -> None:
        """Note an element for the next pass of the fold: this is its first change since the last
        pass began, or the element is new."""
        state = log.fold_state
        state.dirty_element_count += 1
        if self.dirty_in_fold != state.next_fold:
            if self.id >= state.whole_from_id:
                if len(self._elements) <= MOST_WHOLE:
                    self.is_read_whole = True
                    return
                names = list(self._elements) if self.is_read_whole else [name]
                self.is_read_whole = False
            else:
                # (`is_read_whole` stays: the running pass may not have read it yet.)
                names = [name]
            self.dirty_in_fold = state.next_fold
            self._dirty_names = names
            state.dirty_elements.append((self, names))
            return
        self._dirty_names.append(name)

    def forget_notes(self) -> None:
        self.dirty_in_fold = 0
        self._dirty_names.clear()

    def forget_list(self, noted: list[bytes]) -> None:
        """The running pass has taken these notes. Drop the list, so that a collection without
        changes keeps none."""
        if self._dirty_names is noted:
            self._dirty_names = NO_NAMES

    # -- for the types ------------------------------------------------------------------------

    def _ordinal(self, element: E) -> int:
        raise NotImplementedError

    def _size(self, name: bytes, element: E) -> int:
        raise NotImplementedError

    def _insert(
        self, name: bytes, element: E, ordinal: Any, nbytes: int, log: ChangeLog | None
    ) -> None:
        """Add an element that does not exist. Its ordinal is `_next`; when a removal is undone, it
        is the old one. (It is passed as an object: see `Places.append`.)"""
        self._elements[name] = element
        number: int = ordinal
        if number >= self._next:
            self._next = number + 1
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

    def _filled(self, highest: int, nbytes: int) -> None:
        """Note that rows of the file were added to the elements, in any order. They are sorted when
        their order is first needed: this halves the time of loading."""
        self._next = max(self._next, highest + 1)
        self._is_shuffled = True
        self.nbytes += nbytes

    def settle(self) -> Generator[None]:
        """Build the places of a large collection that was loaded, one slice at a time. (Ordinals
        are far below 2^53, so they are exact as scores.)"""
        order = Ranking(array("d"), [])
        number = 0
        for name, element in self._elements.items():
            order.add(float(self._ordinal(element)), name)
            number += 1
            if number % SETTLED == 0:
                yield
        places = Places([], [])
        for start in range(0, number, SETTLED):
            for ordinal, name in order.entries(start, start + SETTLED):
                places.append(name, int(ordinal))
            yield
        self._places = places

    def _delete(self, name: bytes, log: ChangeLog | None) -> E | None:
        element = self._elements.pop(name, None)
        if element is not None:
            if self._places is not None:
                self._places.remove(self._ordinal(element))
            self._resize(-self._size(name, element), log)
            if log is not None and len(self._elements) >= log.fold_state.large_from:
                log.fold_state.large[self.id] = self
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
        """The names in order, and their ordinals."""
        elements = self._elements
        # few elements were removed: each ordinal gets a slot, and nothing is compared
        if self._next < 8 * len(elements):
            slots: list[bytes | None] = [None] * self._next
            for name, element in elements.items():
                slots[self._ordinal(element)] = name
            names = [name for name in slots if name is not None]
            # all ordinals differ. A broken fold may leave equal ones
            if len(names) == len(elements):
                return names, [at for at, name in enumerate(slots) if name is not None]
        names = sorted(elements, key=lambda name: self._ordinal(elements[name]))
        return names, [self._ordinal(elements[name]) for name in names]

    def _by_place(self) -> Places:
        if self._places is None:
            self._places = Places(*self._sorted())  # this does not need the order of the dict
        return self._places
