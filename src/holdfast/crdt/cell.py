"""One cell: what was written to it, and what every replica has added."""

from typing import Any

from holdfast.crdt.dots import Dot
from holdfast.crdt.numbers import Number

Write = tuple[Dot, int, Any]  # dot, hlc, value
Reset = tuple[int, int, Number]  # replica, and the number and total it had come to

# What one replica has added up to its event `seq`, and what of it does not count any more: all
# until event `reset_seq`, by reason of the event `reset_by` (0: known to everybody). So these are
# seq, amount, reset_seq, reset_amount, reset_by.
Total = tuple[Any, ...]


class Cell:
    """The write that is shown (dot 0: there is none), those that it has not seen, lowest first,
    and each replica's total. There may be millions, so all is here that most of them have."""

    __slots__ = ("dot", "hlc", "others", "totals", "value")

    def __init__(self) -> None:
        self.dot: Dot = 0
        self.hlc = 0
        self.value: Any = None
        self.others: tuple[Write, ...] = ()
        self.totals: tuple[tuple[int, Total], ...] = ()

    @property
    def writes(self) -> tuple[Write, ...]:
        """In order: the one that is shown is last."""
        return (*self.others, (self.dot, self.hlc, self.value)) if self.dot else ()

    def total_of(self, replica: int) -> Total | None:
        for each, entry in self.totals:
            if each == replica:
                return entry
        return None

    @property
    def is_added(self) -> bool:
        return any(is_live(entry) for _, entry in self.totals)

    @property
    def dots(self) -> tuple[Dot, ...]:
        """Of its writes."""
        if not self.others:  # nearly always
            return (self.dot,) if self.dot else ()
        return tuple([dot for dot, _, _ in self.writes])

    @property
    def resets(self) -> tuple[Reset, ...]:
        """What somebody resets who has seen this."""
        if not self.totals:
            return ()
        return tuple(
            [(replica, entry[0], entry[1]) for replica, entry in self.totals if is_live(entry)]
        )


def is_live(entry: Total) -> bool:
    seq: int = entry[0]
    reset_seq: int = entry[2]
    return seq > reset_seq


def with_reset(one: Total, other: Total) -> Total:
    """The total of one, and the reset of whichever is further; of equal ones the lower event's."""
    if one[2] == other[2]:
        return (*one[:4], min(one[4], other[4]))
    return one if one[2] > other[2] else (*one[:2], *other[2:])
