"""Which keys in memory expire next. Cold keys are found by the index in the file."""

import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.store.keyspace import Key, Keyspace


class ExpiryHeap:
    """A heap with stale entries: a key whose expiry changed is pushed again, not moved."""

    __slots__ = ("_heap", "_pushes", "_sweep_at")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Key]] = []
        self._pushes = 0  # breaks ties, so that keys are never compared
        self._sweep_at = 10_000

    def __len__(self) -> int:
        return len(self._heap)

    def push(self, key: "Key") -> None:
        assert key.expires_at_ms is not None
        self._pushes += 1
        heapq.heappush(self._heap, (key.expires_at_ms, self._pushes, key))
        if len(self._heap) >= self._sweep_at:
            self._drop_stale()

    def keys(self, limit: int) -> list["Key"]:
        """Keys that have an expiry; some may be in it twice."""
        return [entry[2] for entry in self._heap[:limit] if _is_current(entry)]

    def _drop_stale(self) -> None:
        """A key refreshed for ever must not leave an entry for each refresh. The heap doubled
        since the last sweep, which pays for this one."""
        self._heap = [entry for entry in self._heap if _is_current(entry)]
        heapq.heapify(self._heap)
        self._sweep_at = max(10_000, 2 * len(self._heap))

    def pop_due(self, now_ms: int, limit: int) -> list["Key"]:
        """Up to `limit` keys whose time has come and whose expiry was not changed since."""
        due: list[Key] = []
        heap = self._heap
        while heap and heap[0][0] <= now_ms and len(due) < limit:
            entry = heapq.heappop(heap)
            if _is_current(entry):
                due.append(entry[2])
        return due


def _is_current(entry: tuple[int, int, "Key"]) -> bool:
    expires_at_ms, _, key = entry
    return key.expires_at_ms == expires_at_ms and key.is_attached


def expire_due(keyspace: "Keyspace", limit: int) -> int:
    """Remove keys whose time has come, at most about `limit`; returns how many."""
    now_ms = keyspace.now_ms
    by_space = {database.space.id: database for database in keyspace.databases}
    count = 0
    for key in keyspace.expiring.pop_due(now_ms, limit):
        database = by_space.get(key.space.id)
        if database is not None:
            database.expire(key)
            count += 1
    if keyspace.tables is not None and any(database.space.cold for database in by_space.values()):
        for space_id, name in keyspace.tables.due(now_ms, limit):
            database = by_space.get(space_id)
            # Looking at an expired key removes it.
            if database is not None and database.find(name) is None:
                count += 1
    return count
