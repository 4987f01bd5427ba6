"""The log of changes: records of all replicas, in the order in which this replica applied them.

A record has the changes of one replica between two seals of its batch, mostly in one turn of its
event loop.

A sender sends its log in that order, including records of other replicas. A receiver drops records
that its vector covers. That is enough to make delivery causal: each record was applied after all
records on which it depends, so in each log it comes after them. Nothing here sends or stores
anything.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from holdfast.crdt.dots import Vector, covers, dot_of, includes, join, meet
from holdfast.crdt.effects import is_removal
from holdfast.errors import HoldfastError


class GapError(HoldfastError):
    """A record arrived before the previous record of the same origin: the link is broken."""


class Record(NamedTuple):
    """The changes that one replica, the origin, made together. Its events have the numbers `after`
    + 1 to `seq`."""

    origin: int
    after: int
    seq: int
    hlc: int
    changes: Sequence[Any]  # (…, effect); the part before the effect belongs to the store

    @property
    def removals(self) -> int:
        return sum(is_removal(change[-1]) for change in self.changes)


class Logged(Protocol):
    """The parts of a record that the log needs. The log can keep records in any form that has
    these."""

    @property
    def origin(self) -> int: ...
    @property
    def seq(self) -> int: ...
    @property
    def removals(self) -> int: ...


R = TypeVar("R", bound=Logged)


def is_news(seen: Vector, record: Record) -> bool:
    """Whether the record has to be applied; False if it was applied before. Raises GapError if it
    does not follow the last record of its origin, because all values depend on that order."""
    have = seen.get(record.origin, 0)
    if record.seq <= have:
        return False
    if record.after != have:
        raise GapError(f"record {record.seq} of replica {record.origin} does not follow {have}")
    return True


class CausalLog(Generic[R]):
    """The log. Records have consecutive numbers, and `start` is the number of the first one in the
    log. `base` is a vector of all events in earlier records, which were cut."""

    def __init__(self, base: Vector | None = None, start: int = 0) -> None:
        self.base: Vector = base or {}
        self.start = start
        self.removals = 0  # effects in the log that remove something
        self.merges = 0  # snapshots that were merged since the file was read
        self._records: deque[R] = deque()

    def __len__(self) -> int:
        return len(self._records)

    def append(self, record: R) -> None:
        self._records.append(record)
        self.removals += record.removals

    def can_serve(self, seen: Vector) -> bool:
        """Whether a replica that has seen these events can catch up from this log. Otherwise it
        needs a snapshot."""
        return includes(seen, self.base)

    def since(self, number: int) -> Iterator[R]:
        """The records from that number on, which must be in the log. Nothing may be appended
        meanwhile."""
        return islice(self._records, number - self.start, None)

    def backwards(self) -> Iterator[R]:
        """The records from the last to the first. Nothing may be appended meanwhile."""
        return reversed(self._records)

    def at(self, number: int) -> R:
        """The record with that number."""
        return self._records[number - self.start]

    def replace(self, number: int, record: R) -> None:
        """Replace a record by the same record in another form."""
        self._records[number - self.start] = record

    def unseen(self, seen: Vector) -> Iterator[R]:
        return (
            record
            for record in self._records
            if not covers(seen, dot_of(record.origin, record.seq))
        )

    def cut(self, stable: Vector) -> list[R]:
        """Drop the first records, as long as `stable` covers them. Returns them."""
        gone: list[R] = []
        records = self._records
        while records and covers(stable, dot_of(records[0].origin, records[0].seq)):
            gone.append(self.pop())
        return gone

    def merged(self, seen: Vector) -> None:
        """Note that a snapshot was merged, whose author had seen these events. No record has the
        changes of the snapshot, and later records may depend on them."""
        self.base = join(self.base, seen)
        self.merges += 1

    def pop(self) -> R:
        """Drop the first record. A replica that lacks it needs a snapshot from now on."""
        record = self._records.popleft()
        self.base = join(self.base, {record.origin: record.seq})
        self.removals -= record.removals
        self.start += 1
        return record


class Confirmations:
    """The events that the other members have acknowledged.

    An acknowledgement counts only when two kinds of events have arrived here: all events that its
    sender had written when it was sent, and all events that its sender had of former members.
    Otherwise such an event could still be on its way. It may refer to data that the confirmed
    events removed, and that data would be forgotten too early.
    """

    def __init__(self, members: Iterable[int]) -> None:
        self._counted: dict[int, Vector] = {member: {} for member in members}
        self._waiting: dict[int, Vector] = {}

    def acknowledge(self, member: int, vector: Vector) -> None:
        if member in self._counted:
            self._waiting[member] = vector

    def confirmed(self, member: int) -> Vector:
        """The last vector that the member has acknowledged."""
        return self._waiting.get(member) or self._counted.get(member, {})

    def admit(self, member: int) -> None:
        """Wait for this member: from now on nothing is stable that it has not confirmed."""
        self._counted.setdefault(member, {})

    def forget(self, member: int) -> None:
        """Drop the confirmations of a removed member."""
        self._counted.pop(member, None)
        self._waiting.pop(member, None)

    def start_over(self) -> None:
        """Drop all acknowledgements so far."""
        self._counted = {member: {} for member in self._counted}
        self._waiting.clear()

    def stable(self, seen: Vector) -> Vector:
        """The events that each member has confirmed. `seen` are the events that this replica has
        seen."""
        others = self._counted
        for member, vector in list(self._waiting.items()):
            if all(
                seq <= seen.get(each, 0)
                for each, seq in vector.items()
                if each == member or each not in others
            ):
                self._counted[member] = self._waiting.pop(member)
        return meet([seen, *self._counted.values()])


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder().decode


def encode(record: Record) -> bytes:
    return _encode(record)


def decode(data: bytes) -> Record:
    """The record, with lists in place of tuples, because making tuples would take five times as
    long."""
    return Record(*_decode(data))
