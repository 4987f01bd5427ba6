"""The idempotent ids of a stream: which message of which producer became which entry.

A producer that does not know whether its message arrived sends it again, with the same id, and gets
the existing entry. An id is forgotten after some time, or when its producer has sent too many newer
ones. Values only: stream.py keeps them, stream_producers.py changes them and reports the rows.
"""

from hashlib import blake2b
from operator import itemgetter
from typing import Any, Final

from holdfast.store.change.change_log import RewrittenRow
from holdfast.store.values.stream_entries import Fields
from holdfast.store.values.stream_id import from_row, id_of, to_row

DURATION_S, MAXSIZE = 100, 100  # Redis's defaults of stream-idmp-…
LONGEST_S, LARGEST = 86_400, 10_000

IDEMPOTENCE_OVERHEAD: Final = 500
PRODUCER_OVERHEAD: Final = 350
IID_OVERHEAD: Final = 200

SettingsRow = tuple[int, int, int, int]  # duration_s, maxsize, added, duplicates

_entry_id = itemgetter(1)


def iid_of(fields: Fields) -> bytes:
    """The id of a message with IDMPAUTO, computed from the fields in any order. (Redis has another
    function, so only Redis finds an id that Redis computed.)"""
    pairs = []
    for at in range(0, len(fields), 2):
        name = fields[at]
        pair = len(name).to_bytes(8, "big") + name + fields[at + 1]
        pairs.append(blake2b(pair, digest_size=16).digest())
    return blake2b(b"".join(sorted(pairs)), digest_size=16).digest()


class Producer:
    """The ids of one producer, each with its entry; the oldest entry first."""

    __slots__ = ("_ids", "_is_sorted", "_last_id")

    def __init__(self) -> None:
        self._ids: dict[bytes, int] = {}
        self._is_sorted = True  # rows of the file may come in another order
        self._last_id = 0

    def __len__(self) -> int:
        return len(self._ids)

    def get(self, iid: bytes) -> int | None:
        return self._ids.get(iid)

    def put(self, iid: bytes, entry_id: int) -> None:
        self._ids.pop(iid, None)  # so that the id moves to the end
        self._ids[iid] = entry_id
        self._is_sorted = self._is_sorted and entry_id > self._last_id
        self._last_id = max(self._last_id, entry_id)

    def pop(self, iid: bytes) -> int | None:
        return self._ids.pop(iid, None)

    def items(self) -> dict[bytes, int]:
        if not self._is_sorted:
            self._ids = dict(sorted(self._ids.items(), key=_entry_id))
            self._is_sorted = True
        return self._ids

    def oldest(self, count: int) -> list[tuple[bytes, int]]:
        found: list[tuple[bytes, int]] = []
        for item in self.items().items():
            if len(found) == count:
                break
            found.append(item)
        return found


class IdempotentIds:
    """The idempotent ids of all producers. `added` and `duplicates` count all messages that ever
    came with an id: new ones, and repeated ones."""

    __slots__ = ("added", "duplicates", "duration_s", "maxsize", "producers", "settings_row")

    def __init__(self, row: SettingsRow = (DURATION_S, MAXSIZE, 0, 0)) -> None:
        self.set(row)
        self.producers: dict[bytes, Producer] = {}
        self.settings_row = RewrittenRow()

    def set(self, row: SettingsRow) -> None:
        self.duration_s, self.maxsize, self.added, self.duplicates = row

    @property
    def row(self) -> SettingsRow:
        return self.duration_s, self.maxsize, self.added, self.duplicates

    @property
    def nbytes(self) -> int:
        """The size in memory, for `maxmemory`."""
        names = sum(len(name) + PRODUCER_OVERHEAD for name in self.producers)
        iids = sum(
            len(iid) + IID_OVERHEAD for each in self.producers.values() for iid in each.items()
        )
        return IDEMPOTENCE_OVERHEAD + names + iids

    def parts(self) -> list[Any]:
        """See Collection."""
        return [self.producers]

    # -- looking ------------------------------------------------------------------------------

    def first_kept(self, now_ms: int) -> int:
        """The lowest id of an entry whose idempotent id is not forgotten yet."""
        return id_of(max(now_ms - self.duration_s * 1000 + 1, 0), 0)

    def find(self, producer: bytes, iid: bytes, now_ms: int) -> int | None:
        """The entry for this id, if the id is known."""
        of_producer = self.producers.get(producer)
        entry_id = None if of_producer is None else of_producer.get(iid)
        return None if entry_id is None or entry_id < self.first_kept(now_ms) else entry_id

    def tracked(self, now_ms: int) -> tuple[int, int]:
        """How many producers have ids that are not forgotten, and the number of these ids."""
        first = self.first_kept(now_ms)
        counts = [
            sum(entry_id >= first for entry_id in each.items().values())
            for each in self.producers.values()
        ]
        return sum(count > 0 for count in counts), sum(counts)

    def rows(self) -> list[tuple[tuple[bytes, bytes], bytes]]:
        """All ids, as `sub` and `value` of row operations."""
        return [
            ((name, iid), to_row(entry_id))
            for name, each in self.producers.items()
            for iid, entry_id in each.items().items()
        ]

    # -- changing -----------------------------------------------------------------------------

    def put(self, sub: tuple[bytes, bytes], row: bytes | None) -> int:
        """Apply a row. Returns the change in bytes."""
        name, iid = sub
        producer = self.producers.get(name)
        if row is None:
            if producer is None or producer.pop(iid) is None:
                return 0
            freed = len(iid) + IID_OVERHEAD
            if not len(producer):
                del self.producers[name]
                freed += len(name) + PRODUCER_OVERHEAD
            return -freed
        added = 0
        if producer is None:
            producer = self.producers[name] = Producer()
            added = len(name) + PRODUCER_OVERHEAD
        if producer.get(iid) is None:
            added += len(iid) + IID_OVERHEAD
        producer.put(iid, from_row(row))
        return added
