"""Consumer groups of a stream: who was given which entry and has not acknowledged it.

Values only: how they change is in streams.py, which reports the rows.
"""

from collections.abc import Iterator
from typing import Any, Final

from holdfast.store.ops import Rewritten
from holdfast.store.ranking import Ranking
from holdfast.store.stream_ids import to_row

RANGE_STEP = 100  # entries looked up at a time

GROUP_OVERHEAD: Final = 1000
CONSUMER_OVERHEAD: Final = 600
PENDING_OVERHEAD: Final = 400

PendingRow = tuple[bytes, int, int]  # consumer, delivered_at_ms, deliveries


class Pending:
    """An entry that a consumer has."""

    __slots__ = ("consumer", "delivered_at_ms", "deliveries")

    def __init__(self, consumer: "Consumer", delivered_at_ms: int, deliveries: int) -> None:
        self.consumer = consumer
        self.delivered_at_ms = delivered_at_ms
        self.deliveries = deliveries

    @property
    def row(self) -> PendingRow:
        return self.consumer.name, self.delivered_at_ms, self.deliveries


class PendingEntries:
    """By id. The order of the ids is made when it is first asked for, and kept from then on: who
    only reads and acknowledges does not pay for it."""

    __slots__ = ("_by_id", "_order")

    def __init__(self) -> None:
        self._by_id: dict[int, Pending] = {}
        self._order: Ranking | None = None  # the ids are the scores

    def __len__(self) -> int:
        return len(self._by_id)

    def parts(self) -> list[Any]:
        """See Collection."""
        return [self._by_id] if self._order is None else [self._by_id, *self._order.parts()]

    def get(self, entry_id: int) -> Pending | None:
        return self._by_id.get(entry_id)

    def put(self, entry_id: int, pending: Pending) -> None:
        """One that is not there."""
        self._by_id[entry_id] = pending
        if self._order is not None:
            self._order.add(entry_id, b"")

    def pop(self, entry_id: int) -> Pending | None:
        pending = self._by_id.pop(entry_id, None)
        if pending is not None and self._order is not None:
            self._order.remove(entry_id, b"")
        return pending

    def range(self, low: int, high: int) -> Iterator[tuple[int, Pending]]:
        """Both included. Nothing may be added or removed meanwhile."""
        order = self._ordered()
        start, stop = order.count_below(low), order.count_up_to(high)
        for at in range(start, stop, RANGE_STEP):
            for entry_id, _ in order.entries(at, min(at + RANGE_STEP, stop)):
                yield entry_id, self._by_id[entry_id]

    def ids(self) -> list[int]:
        """In order."""
        return sorted(self._by_id)

    def ends(self) -> tuple[int, int]:
        """The lowest and the highest id; there must be one."""
        order = self._ordered()
        [(first, _)], [(last, _)] = order.entries(0, 1), order.entries(len(order) - 1, len(order))
        return first, last

    def _ordered(self) -> Ranking:
        if self._order is None:
            self._order = Ranking(sorted(self._by_id), [b""] * len(self._by_id))
        return self._order


class Consumer:
    __slots__ = ("name", "pending", "seen_at_ms")

    def __init__(self, name: bytes, seen_at_ms: int) -> None:
        self.name = name
        self.seen_at_ms = seen_at_ms
        self.pending = PendingEntries()


class Group:
    """`entries_read` is None when it is not known how many entries the group has passed."""

    __slots__ = ("consumers", "entries_read", "last_id", "name", "pending", "position_row")

    def __init__(self, name: bytes, last_id: int, entries_read: int | None) -> None:
        self.name = name
        self.last_id = last_id
        self.entries_read = entries_read
        self.consumers: dict[bytes, Consumer] = {}
        self.pending = PendingEntries()
        self.position_row = Rewritten()

    @property
    def row(self) -> tuple[bytes, int | None]:
        return to_row(self.last_id), self.entries_read

    @property
    def nbytes(self) -> int:
        """Counted."""
        consumers = sum(len(name) + CONSUMER_OVERHEAD for name in self.consumers)
        return GROUP_OVERHEAD + len(self.name) + consumers + PENDING_OVERHEAD * len(self.pending)

    def by_name(self) -> list[Consumer]:
        return [self.consumers[name] for name in sorted(self.consumers)]

    # -- changing -----------------------------------------------------------------------------

    def put_pending(self, entry_id: int, row: PendingRow | None) -> int:
        """The change in bytes. What says that it belongs to somebody unknown is not believed:
        a fold was interrupted, and the journal will tell."""
        old = self.pending.get(entry_id)
        if old is not None and row is not None and row[0] == old.consumer.name:
            old.delivered_at_ms, old.deliveries = row[1:]
            return 0
        if old is not None:
            self.pending.pop(entry_id)
            old.consumer.pending.pop(entry_id)
        change = 0 if old is None else -PENDING_OVERHEAD
        consumer = None if row is None else self.consumers.get(row[0])
        if row is not None and consumer is not None:
            self.add_pending(entry_id, consumer, row[1], row[2])
            change += PENDING_OVERHEAD
        return change

    def add_pending(
        self, entry_id: int, consumer: Consumer, delivered_at_ms: int, deliveries: int = 1
    ) -> None:
        """Of an entry that nobody has."""
        pending = Pending(consumer, delivered_at_ms, deliveries)
        self.pending.put(entry_id, pending)
        consumer.pending.put(entry_id, pending)

    def put_consumer(self, name: bytes, seen_at_ms: int | None) -> int:
        """The change in bytes."""
        consumer = self.consumers.get(name)
        if seen_at_ms is None:
            if consumer is None:
                return 0
            freed = sum(self.put_pending(entry_id, None) for entry_id in consumer.pending.ids())
            del self.consumers[name]
            return freed - len(name) - CONSUMER_OVERHEAD
        if consumer is not None:
            consumer.seen_at_ms = seen_at_ms
            return 0
        self.consumers[name] = Consumer(name, seen_at_ms)
        return len(name) + CONSUMER_OVERHEAD
