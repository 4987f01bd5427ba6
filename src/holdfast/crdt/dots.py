"""Who wrote what: dots, version vectors, and the author of a change.

A dot names one event of one replica: the replica's running number and its id, in one integer.
Numbers start at 1 and ids are below 2^16, so a dot is never below 2^16. A version vector says up
to which number each replica has been heard.
"""

from collections.abc import Iterable
from typing import Final

Dot = int
Vector = dict[int, int]  # replica: number of its last event; those not heard of are missing

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
    """What either has seen."""
    return one | {replica: max(seq, one.get(replica, 0)) for replica, seq in other.items()}


def meet(vectors: Iterable[Vector]) -> Vector:
    """What all have seen; there must be one."""
    first, *others = vectors
    common = {
        replica: min([seq, *(other.get(replica, 0) for other in others)])
        for replica, seq in first.items()
    }
    return {replica: seq for replica, seq in common.items() if seq}


def includes(one: Vector, other: Vector) -> bool:
    """Whether one has seen everything that the other has."""
    return all(one.get(replica, 0) >= seq for replica, seq in other.items())


class Author:
    """Whoever makes a change: one command, transaction or script of one replica.

    `hlc` stamps all that it writes. `seen` is the replica's own vector, which does not know of
    the dots given out meanwhile; `observed` does.
    """

    __slots__ = ("hlc", "replica", "seen", "seq")

    def __init__(self, replica: int, hlc: int, seen: Vector) -> None:
        self.replica = replica
        self.hlc = hlc
        self.seen = seen
        self.seq = seen.get(replica, 0)

    def dot(self) -> Dot:
        """The next one."""
        self.seq += 1
        return self.seq << REPLICA_BITS | self.replica

    def observed(self) -> Vector:
        """Everything that the change can have looked at, its own earlier parts included."""
        return {**self.seen, self.replica: self.seq}
