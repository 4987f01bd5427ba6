"""What hashes and sets have in common: named elements in the order in which they came.

Every element is given an ordinal when it comes and keeps it until it goes; its row has it too, so
the order outlives eviction and restarts. What the elements are is in hashes.py and sets.py.
"""

import random
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, KeysView
from typing import Generic, TypeVar

from holdfast.store.ops import ChangeLog

# Bytes that an element costs beyond its name and value: a dict slot, objects, its place.
ELEMENT_OVERHEAD = 160

FIRST_ORDINAL = 1  # because cursor 0 means "from the beginning"
FEWEST_TO_CLOSE = 64  # places: fewer are not worth the trouble
ALWAYS_PLACED = 1024  # with so many elements places are kept, so that nobody waits for them

E = TypeVar("E")


class Places:
    """Names by ordinal, so that they can be found by place: what a dict cannot do.

    Who goes leaves a hole. Holes are closed when they are the most, so at least every second
    place has a name, and closing costs each that went a constant.
    """

    __slots__ = ("_holes", "_names", "_ordinals")

    def __init__(self, names: Iterable[bytes], ordinals: Iterable[int]) -> None:
        self._names: list[bytes | None] = list(names)
        self._ordinals = list(ordinals)
        self._holes = 0

    def append(self, name: bytes, ordinal: int) -> None:
        self._names.append(name)
        self._ordinals.append(ordinal)

    def remove(self, ordinal: int) -> None:
        self._names[bisect_left(self._ordinals, ordinal)] = None
        self._holes += 1
        if self._holes * 2 > len(self._names) >= FEWEST_TO_CLOSE:
            pairs = zip(self._names, self._ordinals, strict=True)
            self._ordinals = [ordinal for name, ordinal in pairs if name is not None]
            self._names = [name for name in self._names if name is not None]
            self._holes = 0

    def put_back(self, name: bytes, ordinal: int) -> bool:
        """Into the hole that it left, if that is still there."""
        at = bisect_left(self._ordinals, ordinal)
        if at == len(self._ordinals) or self._ordinals[at] != ordinal:
            return False
        self._names[at] = name
        self._holes -= 1
        return True

    def pick(self, rng: random.Random) -> bytes:
        """Any name, each as likely as the other. There must be one."""
        names, count = self._names, len(self._names)
        while True:
            name = names[int(rng.random() * count)]
            if name is not None:
                return name

    def after(self, cursor: int, limit: int) -> tuple[int, list[bytes]]:
        start = bisect_right(self._ordinals, cursor)
        end = start + limit
        names = [name for name in self._names[start:end] if name is not None]
        return (self._ordinals[end - 1] if end < len(self._ordinals) else 0), names


class Ordered(Generic[E]):
    """Elements by name. The dict is in order of ordinals, but for `_is_shuffled`."""

    __slots__ = ("_elements", "_is_shuffled", "_next", "_places", "id", "nbytes")

    def __init__(self, key_id: int) -> None:
        self.id = key_id
        self.nbytes = 0
        self._elements: dict[bytes, E] = {}
        self._next = FIRST_ORDINAL
        self._is_shuffled = False
        self._places: Places | None = None  # made when asked for, or when there are many

    def __len__(self) -> int:
        return len(self._elements)

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

    # -- for the types ------------------------------------------------------------------------

    def _ordinal(self, element: E) -> int:
        raise NotImplementedError

    def _size(self, name: bytes, element: E) -> int:
        raise NotImplementedError

    def _insert(self, name: bytes, element: E, log: ChangeLog | None) -> None:
        """An element that was not there. Its ordinal is `_next`, or it had one before."""
        self._elements[name] = element
        ordinal = self._ordinal(element)
        if ordinal >= self._next:
            self._next = ordinal + 1
            if self._places is not None:
                self._places.append(name, ordinal)
            elif len(self._elements) >= ALWAYS_PLACED and not self._is_shuffled:
                self._by_place()
        else:
            self._is_shuffled = True
            if self._places is not None and not self._places.put_back(name, ordinal):
                self._places = None
        nbytes = self._size(name, element)
        self.nbytes += nbytes
        if log is not None:
            log.used_bytes += nbytes

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
            names = sorted(elements, key=lambda name: self._ordinal(elements[name]))
            self._elements = {name: elements[name] for name in names}
            self._is_shuffled = False
        return self._elements

    def _by_place(self) -> Places:
        if self._places is None:
            elements = self._in_order()
            self._places = Places(elements, map(self._ordinal, elements.values()))
        return self._places
