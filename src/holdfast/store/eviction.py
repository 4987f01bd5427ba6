"""Keeping memory below maxmemory by forgetting what the file has.

Memory is a cache: a forgotten key is loaded again on its next use. This never deletes data.
"""

import random
from typing import Protocol

from holdfast.store.keys import Key
from holdfast.store.keyspace import Keyspace

SAMPLES = 8  # of which the one not used for longest goes


class Cleanness(Protocol):
    def is_clean(self, key_id: int) -> bool: ...


class Eviction:
    """Approximate LRU by samples, as Redis does it.

    A dict cannot be sampled, so the candidates are a list of the keys in memory, drawn up when
    it is empty (10 ms for a million keys) and used up: what a draw looks at leaves it. Keys that
    came to memory since are the ones used last, so they are not missed.
    """

    def __init__(self, keyspace: Keyspace, fold: Cleanness, rng: random.Random) -> None:
        self._keyspace = keyspace
        self._fold = fold
        self._rng = rng
        self._candidates: list[Key] = []

    def step(self, max_bytes: int, limit: int) -> int:
        """Evict keys while memory is above `max_bytes`, looking at `limit` candidates at most.

        Returns how many went. None go while all that is in memory still waits for the fold.
        """
        keyspace = self._keyspace
        if keyspace.used_bytes <= max_bytes:
            self._candidates.clear()
            return 0
        count = 0
        shown = {database.space for database in keyspace.databases}
        for _ in range(limit):
            key = self._draw()
            if key is None or keyspace.used_bytes <= max_bytes:
                break
            if (
                key.is_attached
                and key.space in shown  # else a candidate from before FLUSHDB
                and self._fold.is_clean(key.id)
                and not keyspace.is_ahead_of_file(key.id)
            ):
                keyspace.evict(key)
                count += 1
        return count

    def _draw(self) -> Key | None:
        """The one of a few random candidates that was not used for longest; it is taken out."""
        candidates = self._candidates
        if not candidates:
            for database in self._keyspace.databases:
                candidates.extend(database.space.keys.values())
            if not candidates:
                return None
        sample = [self._rng.randrange(len(candidates)) for _ in range(SAMPLES)]
        oldest = min(sample, key=lambda at: candidates[at].accessed_s)
        key = candidates[oldest]
        candidates[oldest] = candidates[-1]
        candidates.pop()
        return key
