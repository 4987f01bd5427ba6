"""Consumer groups of a stream: which consumer was given which entry and has not acknowledged it.

Values only: stream.py changes them and reports the rows.
"""

from collections.abc import Iterator
from typing import Any, Final

from holdfast.store.change.change_log import RewrittenRow
from holdfast.store.values.score_index import Ranking
from holdfast.store.values.stream_id import MAX_ID, from_row, to_row

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
    """Pending entries by the row form of their ids: these bytes compare as the ids do.

    (The ids as numbers would not do: Python's hash of one is about `8 * milliseconds + sequence`.
    Dozens of entries from a few milliseconds would share a hash, and a client could choose ids that
    all share one.) The order of the ids is made when it is first needed, and kept from then on. It
    costs nothing for clients that only read and acknowledge.
    """

    __slots__ = ("_by_row", "_order")

    def __init__(self) -> None:
        self._by_row: dict[bytes, Pending] = {}
        self._order: Ranking | None = None  # the ids are the scores

    def __len__(self) -> int:
        return len(self._by_row)

    def parts(self) -> list[Any]:
        """See Collection."""
        return [self._by_row] if self._order is None else [self._by_row, *self._order.parts()]

    def get(self, id_row: bytes) -> Pending | None:
        return self._by_row.get(id_row)

    def put(self, id_row: bytes, pending: Pending) -> None:
        """Add an entry that does not exist yet."""
        self._by_row[id_row] = pending
        if self._order is not None:
            self._order.add(id_row, b"")

    def pop(self, id_row: bytes) -> Pending | None:
        pending = self._by_row.pop(id_row, None)
        if pending is not None and self._order is not None:
            self._order.remove(id_row, b"")
        return pending

    def range(self, low: int = 0, high: int = MAX_ID) -> Iterator[tuple[int, Pending]]:
        """Ids and entries, both ends included. Nothing may be added or removed meanwhile."""
        order = self._ordered()
        start, stop = order.count_below(to_row(low)), order.count_up_to(to_row(high))
        for at in range(start, stop, RANGE_STEP):
            for id_row, _ in order.entries(at, min(at + RANGE_STEP, stop)):
                yield from_row(id_row), self._by_row[id_row]

    def rows(self) -> list[bytes]:
        """The ids, in order."""
        return sorted(self._by_row)

    def items(self) -> Iterator[tuple[bytes, Pending]]:
        """The ids and entries, in order. Nothing may be added or removed meanwhile."""
        for id_row in self.rows():
            yield id_row, self._by_row[id_row]

    def ends(self) -> tuple[int, int]:
        """The lowest and the highest id; there must be one."""
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
    """`entries_read` is None when it is not known how many entries the group has passed."""

    __slots__ = ("consumers", "entries_read", "last_id", "name", "pending", "position_row")

    def __init__(self, name: bytes, last_id: int, entries_read: int | None) -> None:
        self.name = name
        self.last_id = last_id
        self.entries_read = entries_read
        self.consumers: dict[bytes, Consumer] = {}
        self.pending = PendingEntries()
        self.position_row = RewrittenRow()

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

    def put_pending(self, id_row: bytes, row: PendingRow | None) -> int:
        """Apply a row. Returns the change in bytes. A row of an unknown consumer is ignored: a fold
        was interrupted, and the journal has the right rows."""
        old = self.pending.get(id_row)
        if old is not None and row is not None and row[0] == old.consumer.name:
            old.delivered_at_ms, old.deliveries = row[1:]
            return 0
        if old is not None:
            self.pending.pop(id_row)
            old.consumer.pending.pop(id_row)
        change = 0 if old is None else -PENDING_OVERHEAD
        consumer = None if row is None else self.consumers.get(row[0])
        if row is not None and consumer is not None:
            self.add_pending(id_row, consumer, row[1], row[2])
            change += PENDING_OVERHEAD
        return change

    def add_pending(
        self, id_row: bytes, consumer: Consumer, delivered_at_ms: int, deliveries: int = 1
    ) -> None:
        """Add an entry that no consumer has."""
        pending = Pending(consumer, delivered_at_ms, deliveries)
        self.pending.put(id_row, pending)
        consumer.pending.put(id_row, pending)

    def put_consumer(self, name: bytes, seen_at_ms: int | None) -> int:
        """The change in bytes."""
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
