"""The log of changes: one record for each command, transaction or script, in the order in which
this replica applied them, its own and those of others.

A sender streams its log in that order, relaying all origins, and a receiver drops what its
vector covers. That alone makes delivery causal: whatever a record could depend on stands before
it in every log that has it. Nothing here sends or stores anything.
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
    """A record came before the one that its origin wrote before it: the link is broken."""


class Record(NamedTuple):
    """What one origin did at once. It used the numbers from `after` + 1 up to `seq`."""

    origin: int
    after: int
    seq: int
    hlc: int
    changes: Sequence[Any]  # (…, effect): which value is meant is the database's business

    @property
    def removals(self) -> int:
        return sum(is_removal(change[-1]) for change in self.changes)


class Logged(Protocol):
    """What the log has to know of a record, which may be kept in any form."""

    @property
    def origin(self) -> int: ...
    @property
    def seq(self) -> int: ...
    @property
    def removals(self) -> int: ...


R = TypeVar("R", bound=Logged)


def is_news(seen: Vector, record: Record) -> bool:
    """Whether to apply it: False if it was before. The order is checked, as all depends on it."""
    have = seen.get(record.origin, 0)
    if record.seq <= have:
        return False
    if record.after != have:
        raise GapError(f"record {record.seq} of replica {record.origin} does not follow {have}")
    return True


class Log(Generic[R]):
    """Records since the last cut; `base` is everything that was cut away. `start` is the number of
    the first that is left, by which a sender knows how far it got."""

    def __init__(self, base: Vector | None = None, start: int = 0) -> None:
        self.base: Vector = base or {}
        self.start = start
        self.removals = 0  # that not everybody has confirmed
        self._records: deque[R] = deque()

    def __len__(self) -> int:
        return len(self._records)

    def append(self, record: R) -> None:
        self._records.append(record)
        self.removals += record.removals

    def can_serve(self, seen: Vector) -> bool:
        """Whether one who has seen that can catch up from here; if not he needs a snapshot."""
        return includes(seen, self.base)

    def since(self, number: int) -> Iterator[R]:
        """From that one on; it must not have been cut. Nothing may be appended meanwhile."""
        return islice(self._records, number - self.start, None)

    def backwards(self) -> Iterator[R]:
        """From the last one. Nothing may be appended meanwhile."""
        return reversed(self._records)

    def at(self, number: int) -> R:
        """That one, by the number by which senders know how far they got."""
        return self._records[number - self.start]

    def replace(self, number: int, record: R) -> None:
        """The same record, kept in another form."""
        self._records[number - self.start] = record

    def unseen(self, seen: Vector) -> Iterator[R]:
        return (
            record
            for record in self._records
            if not covers(seen, dot_of(record.origin, record.seq))
        )

    def cut(self, stable: Vector) -> list[R]:
        """Forget what everybody has, from the front; returns those records."""
        gone: list[R] = []
        records = self._records
        while records and covers(stable, dot_of(records[0].origin, records[0].seq)):
            gone.append(self.pop())
        return gone

    def pop(self) -> R:
        """Forget the first record: a replica that lacks it needs a snapshot from now on."""
        record = self._records.popleft()
        self.base = join(self.base, {record.origin: record.seq})
        self.removals -= record.removals
        self.start += 1
        return record


class Confirmations:
    """What the other members have acknowledged.

    An acknowledgement counts once everything has arrived that its sender had written when he
    sent it, and all that he had of those who confirm nothing themselves, because they are gone.
    Otherwise something of theirs might still be on the way, older than what is confirmed, and
    what it refers to would have been forgotten too early.
    """

    def __init__(self, members: Iterable[int]) -> None:
        self._counted: dict[int, Vector] = {member: {} for member in members}
        self._waiting: dict[int, Vector] = {}

    def acknowledge(self, member: int, vector: Vector) -> None:
        if member in self._counted:
            self._waiting[member] = vector

    def confirmed(self, member: int) -> Vector:
        """What the member has said that it has."""
        return self._waiting.get(member) or self._counted.get(member, {})

    def admit(self, member: int) -> None:
        """From now on nothing is stable that this one has not got."""
        self._counted.setdefault(member, {})

    def forget(self, member: int) -> None:
        """It was removed: nobody waits for it any more."""
        self._counted.pop(member, None)
        self._waiting.pop(member, None)

    def start_over(self) -> None:
        """What was said before does not count any more."""
        self._counted = {member: {} for member in self._counted}
        self._waiting.clear()

    def stable(self, seen: Vector) -> Vector:
        """What every member has, as far as this replica, which has seen so much, can know."""
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
    """With lists in place of tuples: to make tuples of them would take five times as long."""
    return Record(*_decode(data))
