"""Consumer groups of a stream: which consumer got which entries and has not acknowledged them.

Values only: stream.py changes them and reports the rows.
"""

from collections.abc import Iterator
from typing import Any, Final

from holdfast.store.change.change_log import RewrittenRow
from holdfast.store.values.score_index import Ranking
from holdfast.store.values.stream_id import MAX_ID, from_row, to_row

RANGE_STEP = 100  # entries read at a time

GROUP_OVERHEAD: Final = 1000
CONSUMER_OVERHEAD: Final = 600
PENDING_OVERHEAD: Final = 400

PendingRow = tuple[bytes, int, int]  # consumer, delivered_at_ms, deliveries

# A returned entry (XNACK) is pending, but no consumer has it. Its row has an empty name, and a
# negative number instead of the time: its place among the returned entries of the group. Such
# numbers are below all times, so CLAIM takes returned entries first.
FIRST_RETURNED: Final = -(1 << 62)


def is_returned(row: PendingRow) -> bool:
    return row[1] < 0 and not row[0]


class Pending:
    """An entry that a consumer has. An entry without a consumer was returned."""

    __slots__ = ("consumer", "delivered_at_ms", "deliveries")

    def __init__(self, consumer: "Consumer | None", delivered_at_ms: int, deliveries: int) -> None:
        self.consumer = consumer
        self.delivered_at_ms = delivered_at_ms
        self.deliveries = deliveries

    @property
    def consumer_name(self) -> bytes:
        """The name of the consumer; empty if the entry was returned."""
        return b"" if self.consumer is None else self.consumer.name

    @property
    def last_delivery_ms(self) -> int:
        """The time of the last delivery; 0 if the entry was returned."""
        return 0 if self.consumer is None else self.delivered_at_ms

    def is_idle(self, min_idle_ms: int, now_ms: int) -> bool:
        """Whether so much time has passed since the delivery. Always true for a returned entry."""
        if not min_idle_ms or self.consumer is None:
            return True
        return now_ms - self.delivered_at_ms >= min_idle_ms

    @property
    def row(self) -> PendingRow:
        return self.consumer_name, self.delivered_at_ms, self.deliveries


class PendingEntries:
    """Pending entries by their ids in row form: these bytes sort like the ids.

    (Ids as numbers would be a bad hash key: Python's hash of one is about `8 * milliseconds +
    sequence`. Dozens of entries from a few milliseconds would share a hash, and a client could
    choose ids that all share one.) The order of ids and the order of times are built at their first
    use, and kept up to date from then on. So they cost nothing for clients that only read and
    acknowledge.
    """

    __slots__ = ("_by_row", "_by_time", "_order")

    def __init__(self) -> None:
        self._by_row: dict[bytes, Pending] = {}
        self._order: Ranking | None = None  # the ids are the scores
        self._by_time: Ranking | None = None  # the times are the scores, the ids the members

    def __len__(self) -> int:
        return len(self._by_row)

    def parts(self) -> list[Any]:
        """See Collection."""
        parts: list[Any] = [self._by_row]
        for order in (self._order, self._by_time):
            if order is not None:
                parts += order.parts()
        return parts

    def get(self, id_row: bytes) -> Pending | None:
        return self._by_row.get(id_row)

    def put(self, id_row: bytes, pending: Pending) -> None:
        """Add an entry that does not exist yet."""
        self._by_row[id_row] = pending
        if self._order is not None:
            self._order.add(id_row, b"")
        if self._by_time is not None:
            self._by_time.add(pending.delivered_at_ms, id_row)

    def pop(self, id_row: bytes) -> Pending | None:
        pending = self._by_row.pop(id_row, None)
        if pending is not None:
            if self._order is not None:
                self._order.remove(id_row, b"")
            if self._by_time is not None:
                self._by_time.remove(pending.delivered_at_ms, id_row)
        return pending

    def redeliver(
        self, id_row: bytes, pending: Pending, delivered_at_ms: int, deliveries: int
    ) -> None:
        """Change the time and the count of an entry that exists."""
        if self._by_time is not None:
            self._by_time.remove(pending.delivered_at_ms, id_row)
            self._by_time.add(delivered_at_ms, id_row)
        pending.delivered_at_ms, pending.deliveries = delivered_at_ms, deliveries

    def range(self, low: int = 0, high: int = MAX_ID) -> Iterator[tuple[int, Pending]]:
        """Ids and entries from low to high, both included. Nothing may be added or removed
        meanwhile."""
        order = self._ordered()
        start, stop = order.count_below(to_row(low)), order.count_up_to(to_row(high))
        for at in range(start, stop, RANGE_STEP):
            for id_row, _ in order.entries(at, min(at + RANGE_STEP, stop)):
                yield from_row(id_row), self._by_row[id_row]

    def oldest(self) -> Iterator[tuple[int, Pending]]:
        """Ids and entries: returned ones in the order of their return, then the others, beginning
        with the oldest delivery. Nothing may be added, removed or redelivered meanwhile."""
        order = self._by_time
        if order is None:
            pairs = sorted((one.delivered_at_ms, id_row) for id_row, one in self._by_row.items())
            order = Ranking([time for time, _ in pairs], [id_row for _, id_row in pairs])
            self._by_time = order
        for at in range(0, len(order), RANGE_STEP):
            for id_row in order.members(at, at + RANGE_STEP):
                yield from_row(id_row), self._by_row[id_row]

    def rows(self) -> list[bytes]:
        """The ids, in order."""
        return sorted(self._by_row)

    def items(self) -> Iterator[tuple[bytes, Pending]]:
        """The ids and entries, in order. Nothing may be added or removed meanwhile."""
        for id_row in self.rows():
            yield id_row, self._by_row[id_row]

    def ends(self) -> tuple[int, int]:
        """The lowest and the highest id. There must be an entry."""
        order = self._ordered()
        [(first, _)], [(last, _)] = order.entries(0, 1), order.entries(len(order) - 1, len(order))
        return from_row(first), from_row(last)

    def _ordered(self) -> Ranking:
        if self._order is None:
            self._order = Ranking(sorted(self._by_row), [b""] * len(self._by_row))
        return self._order


class Consumer:
    __slots__ = ("name", "pending", "seen_at_ms")

    def __init__(self, name: bytes, seen_at_ms: int) -> None:
        self.name = name
        self.seen_at_ms = seen_at_ms
        self.pending = PendingEntries()


class Group:
    """A consumer group. `entries_read` is None if it is unknown how many entries the group has
    passed. `returned` counts the pending entries without a consumer. No returned entry has a higher
    number than `last_returned`."""

    __slots__ = (
        *("consumers", "entries_read", "last_id", "last_returned", "name", "pending"),
        *("position_row", "returned"),
    )

    def __init__(self, name: bytes, last_id: int, entries_read: int | None) -> None:
        self.name = name
        self.last_id = last_id
        self.entries_read = entries_read
        self.consumers: dict[bytes, Consumer] = {}
        self.pending = PendingEntries()
        self.returned = 0
        self.last_returned = FIRST_RETURNED
        self.position_row = RewrittenRow()

    @property
    def row(self) -> tuple[bytes, int | None]:
        return to_row(self.last_id), self.entries_read

    @property
    def nbytes(self) -> int:
        """The size in memory, for `maxmemory`."""
        consumers = sum(len(name) + CONSUMER_OVERHEAD for name in self.consumers)
        return GROUP_OVERHEAD + len(self.name) + consumers + PENDING_OVERHEAD * len(self.pending)

    def by_name(self) -> list[Consumer]:
        return [self.consumers[name] for name in sorted(self.consumers)]

    # -- changing -----------------------------------------------------------------------------

    def put_pending(self, id_row: bytes, row: PendingRow | None) -> int:
        """Apply a row. Returns the change in bytes. The row of an unknown consumer is ignored: a
        fold was interrupted, and the journal has the right rows."""
        old = self.pending.get(id_row)
        if old is not None:
            holder = old.consumer
            if (
                row is not None
                and holder is not None
                and row[0] == holder.name
                and not is_returned(row)
            ):
                self.pending.redeliver(id_row, old, row[1], row[2])
                return 0
            self.pending.pop(id_row)
            if holder is None:
                self.returned -= 1
            else:
                holder.pending.pop(id_row)
        change = 0 if old is None else -PENDING_OVERHEAD
        if row is None:
            return change
        if is_returned(row):
            self.returned += 1
            self.last_returned = max(self.last_returned, row[1])
            self.pending.put(id_row, Pending(None, row[1], row[2]))
            return change + PENDING_OVERHEAD
        consumer = self.consumers.get(row[0])
        if consumer is not None:
            self.add_pending(id_row, consumer, row[1], row[2])
            change += PENDING_OVERHEAD
        return change

    def add_pending(
        self, id_row: bytes, consumer: Consumer, delivered_at_ms: int, deliveries: int = 1
    ) -> None:
        """Add an entry that no consumer has yet."""
        pending = Pending(consumer, delivered_at_ms, deliveries)
        self.pending.put(id_row, pending)
        consumer.pending.put(id_row, pending)

    def put_consumer(self, name: bytes, seen_at_ms: int | None) -> int:
        """Apply the row of a consumer. Returns the change in bytes."""
        consumer = self.consumers.get(name)
        if seen_at_ms is None:
            if consumer is None:
                return 0
            freed = sum(self.put_pending(id_row, None) for id_row in consumer.pending.rows())
            del self.consumers[name]
            return freed - len(name) - CONSUMER_OVERHEAD
        if consumer is not None:
            consumer.seen_at_ms = seen_at_ms
            return 0
        self.consumers[name] = Consumer(name, seen_at_ms)
        return len(name) + CONSUMER_OVERHEAD
