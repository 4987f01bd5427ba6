"""Which keys and hash fields in memory expire next. Cold ones are found by indexes in the file."""

from collections.abc import Callable
from heapq import heappop, heappush, heapreplace
from itertools import chain, islice
from typing import TYPE_CHECKING, Final

from holdfast.store.change.fold_state import NO_ID
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
SEARCH_AGAIN_MS: Final = 60_000  # until the file is searched from the start again
FIELDS_SHARE = 10  # to load a hash takes longer than to remove a key
LOOKS: Final = 2  # at so many entries for each key that may be found in one slice
ALL: Final = 1 << 60
FEWEST_TO_SWEEP: Final = 10_000  # entries; fewer are not swept
IDS_PER_SET: Final = 1000
MOVES_PER_PUSH: Final = 4  # enough to end a sweep before the next one is due

Entry = tuple[int, int, "Key"]  # the time, a number that no other entry has, the key


class ExpiryHeap:
    """Each key that expires has an entry whose time is that of the key, or earlier. So a key whose
    time becomes later needs no change here: its entry is moved when it is the first one. A key that
    is gone, or whose time becomes earlier, leaves its entry behind.

    If not `moves_later`, a key that gets another time is pushed again, and an entry with any other
    time is left behind.

    When the heap has doubled, it is swept: it becomes `_old`, and each push moves a few entries
    from its end to the new heap. (A heap without its last entry is a heap.) Entries that are not
    needed are dropped. To sweep all at once would hold up clients.

    `_moved` has the ids of the keys whose entries were moved. The ids are in many small sets,
    because a large one takes long to grow and to be freed. (Keys instead of ids would keep values
    in memory.) `_spent` are the sets of the last sweep; each push frees one of them."""

    __slots__ = (
        *("_heap", "_moved", "_moves_later", "_old", "_pushes", "_spent", "_sweep_at", "_time_ms"),
        "is_cut",
    )

    def __init__(
        self, time_ms: "Callable[[Key], int | None]" = _expires_at_ms, *, moves_later: bool = True
    ) -> None:
        self._time_ms = time_ms
        self._moves_later = moves_later
        self._heap: list[Entry] = []
        self._old: list[Entry] = []
        self._moved: list[set[int]] = []
        self._spent: list[set[int]] = []
        self._pushes = 0  # breaks ties, so that keys are never compared
        self._sweep_at = FEWEST_TO_SWEEP
        self.is_cut = False  # the last `pop_due` made all its looks, so more keys may be due

    def __len__(self) -> int:
        return len(self._heap) + len(self._old)

    @property
    def first_ms(self) -> int:
        """The time of the first key; later than all times if there is none."""
        while heap := self._first():
            if self._settle_first(heap):
                return heap[0][0]
        return ALL

    def push(self, key: "Key") -> None:
        time_ms = self._time_ms(key)
        assert time_ms is not None
        self._pushes += 1
        heappush(self._heap, (time_ms, self._pushes, key))
        if self._old:
            self._sweep_on()
        elif self._spent:
            self._spent.pop()
        elif len(self._heap) >= self._sweep_at:
            self._moved = [set() for _ in range(len(self._heap) // IDS_PER_SET + 1)]
            self._old, self._heap = self._heap, []

    def keys(self, limit: int) -> list["Key"]:
        """Keys that have an expiry; some may be in it twice. If there are more than `limit`, they
        are a sample: both heaps have their share in it, because `_old` has more keys that are
        gone."""
        heap, old = self._heap, self._old
        of_heap = limit * len(heap) // max(len(self), limit, 1)
        entries = chain(islice(heap, of_heap), islice(old, limit - of_heap))
        return [entry[2] for entry in entries if self._current_ms(entry[2]) is not None]

    def pop_due(self, now_ms: int, limit: int, looks: int = ALL) -> list["Key"]:
        """Up to `limit` keys whose time has come, after a look at so many entries. A key may be
        among them twice."""
        due: list[Key] = []
        while len(due) < limit and looks > 0:
            heap = self._first()
            if not heap or heap[0][0] > now_ms:
                break
            looks -= 1
            if self._settle_first(heap):
                due.append(heappop(heap)[2])
        self.is_cut = looks == 0
        return due

    def _first(self) -> list[Entry]:
        """The heap with the first entry. Empty if there is no entry."""
        heap, old = self._heap, self._old
        if not old:
            if self._moved:
                self._end_sweep()
            return heap
        return old if not heap or old[0] < heap[0] else heap

    def _settle_first(self, heap: list[Entry]) -> bool:
        """Whether the first entry has the time of its key. If not, it is moved or dropped."""
        first_ms, number, key = heap[0]
        time_ms = self._current_ms(key)
        if time_ms == first_ms:
            return True
        if self._moves_later and time_ms is not None and time_ms > first_ms:
            heapreplace(heap, (time_ms, number, key))
        else:
            heappop(heap)
        return False

    def _sweep_on(self) -> None:
        """Move some entries. An entry is dropped if it is later than its key, because an earlier
        one is there, too; or if an entry of the key was moved before."""
        old, moved = self._old, self._moved
        for _ in range(min(MOVES_PER_PUSH, len(old))):
            entry_ms, number, key = old.pop()
            time_ms = self._current_ms(key)
            if time_ms is None:  # this object is gone; another one may have its id
                continue
            key_id: int = key.id
            ids = moved[key_id % len(moved)]
            if key_id in ids:
                continue
            if entry_ms == time_ms or (self._moves_later and entry_ms < time_ms):
                ids.add(key_id)
                heappush(self._heap, (time_ms, number, key))
        if not old:
            self._end_sweep()

    def _end_sweep(self) -> None:
        self._spent, self._moved = self._moved, []
        self._sweep_at = max(FEWEST_TO_SWEEP, 2 * len(self._heap))

    def _current_ms(self, key: "Key") -> int | None:
        return self._time_ms(key) if key.is_attached else None


def expire_due(keyspace: "Keyspace", limit: int) -> int:
    """Remove keys and fields whose time has come, at most about `limit` of each kind; returns how
    many. There may be more if that is `limit`, or `is_searching`."""
    by_space = {database.space.id: database for database in keyspace.databases}
    count = 0
    for key in keyspace.expiring.pop_due(keyspace.horizon_ms, limit, LOOKS * limit):
        database = by_space.get(key.space.id)
        if database is not None and key.is_attached:  # it may be found twice
            database.expire(key)
            count += 1
    if keyspace.tables is not None and any(each.space.cold for each in by_space.values()):
        count += _expire_cold(keyspace, keyspace.tables, limit, by_space)
        _load_with_fields_due(keyspace, keyspace.tables, max(1, limit // FIELDS_SHARE), by_space)
    else:
        keyspace.is_search_over = True
        keyspace.expiry_cursor = keyspace.fields_cursor = FROM_THE_START
    return count + _expire_fields_due(keyspace, limit, by_space)


def is_searching(keyspace: "Keyspace") -> bool:
    """Whether not all keys and fields were found yet."""
    return (
        not keyspace.is_search_over
        or keyspace.fields_cursor != FROM_THE_START
        or keyspace.expiring.is_cut
    )


# Each search goes on where the last one ended: the file still has keys that expired and are not
# folded yet, and a search from the start would find only these.


def _expire_cold(
    keyspace: "Keyspace", tables: "Tables", limit: int, by_space: "dict[int, Database]"
) -> int:
    """Also when a search is over, the next one goes on behind it: keys whose time had come then are
    in memory, or gone. (Except a few: a key may leave memory in the tick in which it expires, and
    the clock may be set back. So sometimes a search begins at the start.)"""
    before, now_ms, horizon_ms = keyspace.expired, keyspace.now_ms, keyspace.horizon_ms
    if keyspace.is_search_over and not 0 <= now_ms - keyspace.searched_at_ms < SEARCH_AGAIN_MS:
        keyspace.expiry_cursor, keyspace.searched_at_ms = FROM_THE_START, now_ms
    rows = tables.due(keyspace.expiry_cursor, horizon_ms, limit)
    state = keyspace.fold_state
    ids = [key_id for _, key_id in rows if not state.is_ahead_of_file(key_id)]
    for _, space_id, name in tables.places(ids):
        database = by_space.get(space_id)
        if database is not None:
            database.find(name)  # looking at an expired key removes it
    keyspace.is_search_over = len(rows) < limit
    keyspace.expiry_cursor = (horizon_ms, NO_ID) if keyspace.is_search_over else rows[-1]
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
