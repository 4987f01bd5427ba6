"""Renamed keys that a walk over all keys would miss.

A walk goes by id, and a key keeps its id for life. RENAME may give the name of a newer key to an
old key. A walk that is between the two ids has passed the old key already, under its former name.
So it would never meet this name, although the name existed all the time. It finds the name here.

Memory only: a cursor that outlives the server can miss such a name.
"""

from bisect import bisect_right, insort
from operator import itemgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.store.memory.key import Space

_id = itemgetter(0)


class Renamed:
    __slots__ = ("_drop_at", "_places")

    def __init__(self) -> None:
        self._places: list[tuple[int, bytes, Space]] = []  # by id of the key that was replaced
        self._drop_at = 1000

    def add(self, replaced_id: int, name: bytes, space: "Space") -> None:
        insort(self._places, (replaced_id, name, space), key=_id)
        if len(self._places) >= self._drop_at:
            self._drop_old()

    def between(self, after_id: int, last_id: int, space: "Space") -> list[bytes]:
        """Names that a walk from one id to another would miss; maybe not all of them exist."""
        places = self._places
        if not places:
            return []
        lo = bisect_right(places, after_id, key=_id)
        hi = bisect_right(places, last_id, key=_id)
        return [name for _, name, of_space in places[lo:hi] if of_space is space]

    def _drop_old(self) -> None:
        """Keep only the last place of each name, and none of a name that is gone. Names that are
        not in memory may be in the file, so they stay."""
        last = {(space.id, name): (at, name, space) for at, name, space in self._places}
        self._places = sorted(
            (place for place in last.values() if place[2].cold or place[1] in place[2].keys),
            key=_id,
        )
        self._drop_at = max(1000, 2 * len(self._places))
