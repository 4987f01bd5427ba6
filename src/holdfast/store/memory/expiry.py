"""Which keys and hash fields in memory expire next. Cold ones are found by indexes in the file."""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from holdfast.store.values.hash import Hash

if TYPE_CHECKING:
    from holdfast.store.file.tables import Tables
    from holdfast.store.memory.database import Database
    from holdfast.store.memory.key import Key
    from holdfast.store.memory.keyspace import Keyspace


def _expires_at_ms(key: "Key") -> int | None:
    return key.expires_at_ms


def fields_scheduled_ms(key: "Key") -> int | None:
    return key.value.scheduled_ms if type(key.value) is Hash else None


FROM_THE_START = (0, 0)  # a time and a key's id
FIELDS_SHARE = 10  # to load a hash takes longer than to remove a key


class ExpiryHeap:
    """A heap with stale entries: a key whose time changed is pushed again, not moved."""

    __slots__ = ("_heap", "_pushes", "_sweep_at", "_time_ms")

    def __init__(self, time_ms: "Callable[[Key], int | None]" = _expires_at_ms) -> None:
        self._time_ms = time_ms
        self._heap: list[tuple[int, int, Key]] = []
        self._pushes = 0  # breaks ties, so that keys are never compared
        self._sweep_at = 10_000

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def first_ms(self) -> int:
        """The time of the first entry, which may be stale. There must be one."""
        return self._heap[0][0]

    def push(self, key: "Key") -> None:
        time_ms = self._time_ms(key)
        assert time_ms is not None
        self._pushes += 1
        heappush(self._heap, (time_ms, self._pushes, key))
        if len(self._heap) >= self._sweep_at:
            self._drop_stale()

    def keys(self, limit: int) -> list["Key"]:
        """Keys that have an expiry; some may be in it twice."""
        return [entry[2] for entry in self._heap[:limit] if self._is_current(entry)]

    def _drop_stale(self) -> None:
        """A key refreshed for ever must not leave an entry for each refresh. The heap doubled
        since the last sweep, which pays for this one."""
        self._heap = [entry for entry in self._heap if self._is_current(entry)]
        heapify(self._heap)
        self._sweep_at = max(10_000, 2 * len(self._heap))

    def pop_due(self, now_ms: int, limit: int) -> list["Key"]:
        """Up to `limit` keys whose time has come and whose expiry was not changed since."""
        due: list[Key] = []
        heap = self._heap
        while heap and heap[0][0] <= now_ms and len(due) < limit:
            entry = heappop(heap)
            if self._is_current(entry):
                due.append(entry[2])
        return due

    def _is_current(self, entry: tuple[int, int, "Key"]) -> bool:
        time_ms, _, key = entry
        return self._time_ms(key) == time_ms and key.is_attached


def expire_due(keyspace: "Keyspace", limit: int) -> int:
    """Remove keys and fields whose time has come, at most about `limit` of each kind; returns how
    many. There may be more if that is `limit`, or `is_searching`."""
    by_space = {database.space.id: database for database in keyspace.databases}
    count = 0
    for key in keyspace.expiring.pop_due(keyspace.horizon_ms, limit):
        database = by_space.get(key.space.id)
        if database is not None:
            database.expire(key)
            count += 1
    if keyspace.tables is not None and any(each.space.cold for each in by_space.values()):
        count += _expire_cold(keyspace, keyspace.tables, limit, by_space)
        _load_with_fields_due(keyspace, keyspace.tables, max(1, limit // FIELDS_SHARE), by_space)
    else:
        keyspace.expiry_cursor = keyspace.fields_cursor = FROM_THE_START
    return count + _expire_fields_due(keyspace, limit, by_space)


def is_searching(keyspace: "Keyspace") -> bool:
    """Whether the file was not yet searched to its end."""
    return (keyspace.expiry_cursor, keyspace.fields_cursor) != (FROM_THE_START, FROM_THE_START)


# Each search goes on where the last one ended: the file still has keys that expired and are not
# folded yet, and a search from the start would find only these.


def _expire_cold(
    keyspace: "Keyspace", tables: "Tables", limit: int, by_space: "dict[int, Database]"
) -> int:
    before = keyspace.expired
    rows = tables.due(keyspace.expiry_cursor, keyspace.horizon_ms, limit)
    for _, key_id, space_id, name in rows:
        database = by_space.get(space_id)
        if database is not None and not keyspace.fold_state.is_ahead_of_file(key_id):
            database.find(name)  # looking at an expired key removes it
    keyspace.expiry_cursor = rows[-1][:2] if len(rows) == limit else FROM_THE_START
    return keyspace.expired - before


def _load_with_fields_due(
    keyspace: "Keyspace", tables: "Tables", limit: int, by_space: "dict[int, Database]"
) -> None:
    """Load hashes with fields whose time has come. A loaded hash is watched, and
    `_expire_fields_due` removes these fields."""
    rows = tables.with_fields_due(keyspace.fields_cursor, keyspace.fields_horizon_ms, limit)
    for _, _, space_id, name in rows:
        database = by_space.get(space_id)
        if database is None or database.is_being_loaded(name):
            continue
        if name not in database.space.keys:
            keyspace.load(database.space, name)
    keyspace.fields_cursor = rows[-1][:2] if len(rows) == limit else FROM_THE_START


def _expire_fields_due(keyspace: "Keyspace", limit: int, by_space: "dict[int, Database]") -> int:
    horizon_ms, count = keyspace.fields_horizon_ms, 0
    while count < limit and (due := keyspace.expiring_fields.pop_due(horizon_ms, 1)):
        database = by_space.get(due[0].space.id)
        if database is not None:
            count += database.expire_fields(due[0], limit - count)
            keyspace.watch_fields(due[0], afresh=True)
    return count
