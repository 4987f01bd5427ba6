"""Names of events: dots, version vectors, and the author of a change.

A dot names one event of one replica. It is one integer: the running number of the event, and the
number of the replica in its last 16 bits. Events are numbered from 1, so a dot is never below 2^16.
A version vector has for each replica the number of its last event that the owner of the vector has
seen.
"""

from collections.abc import Iterable
from typing import Final

Dot = int
Vector = dict[int, int]  # by replica: the number of its last event; no entry for an unknown one

REPLICA_BITS: Final = 16
MAX_REPLICA: Final = (1 << REPLICA_BITS) - 1


def dot_of(replica: int, seq: int) -> Dot:
    return seq << REPLICA_BITS | replica


def replica_of(dot: Dot) -> int:
    return dot & MAX_REPLICA


def seq_of(dot: Dot) -> int:
    return dot >> REPLICA_BITS


def covers(vector: Vector, dot: Dot) -> bool:
    return dot >> REPLICA_BITS <= vector.get(dot & MAX_REPLICA, 0)


def join(one: Vector, other: Vector) -> Vector:
    """The events that at least one of the two has seen."""
    return one | {replica: max(seq, one.get(replica, 0)) for replica, seq in other.items()}


def meet(vectors: Iterable[Vector]) -> Vector:
    """The events that all have seen. There must be at least one vector."""
    first, *others = vectors
    common = {
        replica: min([seq, *(other.get(replica, 0) for other in others)])
        for replica, seq in first.items()
    }
    return {replica: seq for replica, seq in common.items() if seq}


def includes(one: Vector, other: Vector) -> bool:
    """Whether `one` has seen all events that `other` has."""
    return all(one.get(replica, 0) >= seq for replica, seq in other.items())


class Author:
    """Makes the dots and stamps of one record.

    `hlc` is the stamp of all its writes. `seen` is the vector of the replica without the dots that
    were made here; `observed` also has these.
    """

    __slots__ = ("hlc", "replica", "seen", "seq")

    def __init__(self, replica: int, hlc: int, seen: Vector) -> None:
        self.replica = replica
        self.hlc = hlc
        self.seen = seen
        self.seq = seen.get(replica, 0)

    def dot(self) -> Dot:
        """The dot of the next event."""
        self.seq += 1
        return self.seq << REPLICA_BITS | self.replica

    def observed(self) -> Vector:
        """The events that the next change can have seen, including earlier changes of the same
        record."""
        return {**self.seen, self.replica: self.seq}
