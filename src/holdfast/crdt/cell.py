"""A cell: the writes in it, and the total that each replica has added."""

from typing import Any, final

from holdfast.crdt.dots import MAX_REPLICA, REPLICA_BITS, Dot
from holdfast.crdt.exact_numbers import Number, negative

Write = tuple[Dot, int, Any]  # dot, hlc, value
# replica, number and total of the last addition that the author had seen
Reset = tuple[int, int, Number]

# seq, amount, reset_seq, reset_amount, reset_by: with its events up to `seq` the replica has added
# `amount`. Its additions up to the event `reset_seq`, which add up to `reset_amount`, do not count
# any more, because of the event `reset_by` (0: each member has confirmed that event).
Total = tuple[Any, ...]


@final
class Counter:
    """A Total as one object, so that an addition changes no other object. `next` is the Counter of
    another replica; the chain has no order."""

    __slots__ = ("amount", "next", "replica", "reset_amount", "reset_by", "reset_seq", "seq")

    def __init__(self, replica: int, total: Total, following: "Counter | None") -> None:
        self.replica = replica
        self.next = following
        self.put(total)

    def put(self, total: Total) -> None:
        self.seq: int = total[0]
        self.amount: Any = total[1]
        self.reset_seq: int = total[2]
        self.reset_amount: Any = total[3]
        self.reset_by: int = total[4]

    @property
    def total(self) -> Total:
        return (self.seq, self.amount, self.reset_seq, self.reset_amount, self.reset_by)

    @property
    def is_live(self) -> bool:
        return self.seq > self.reset_seq


@final
class Cell:
    """A cell. `dot`, `hlc` and `value` are the write that is shown (dot 0: there is none). `others`
    are writes that the shown one has not seen, lowest first. There may be millions of cells, so
    most of them are a single object."""

    __slots__ = ("counter", "dot", "hlc", "others", "value")

    def __init__(self) -> None:
        self.dot: Dot = 0
        self.hlc = 0
        self.value: Any = None
        self.others: tuple[Write, ...] = ()
        self.counter: Counter | None = None  # the first of a chain

    @property
    def is_empty(self) -> bool:
        return not self.dot and self.counter is None

    @property
    def writes(self) -> tuple[Write, ...]:
        """All writes in order; the last one is shown."""
        return (*self.others, (self.dot, self.hlc, self.value)) if self.dot else ()

    @property
    def dots(self) -> tuple[Dot, ...]:
        """The dots of its writes."""
        if not self.others:  # nearly always
            return (self.dot,) if self.dot else ()
        return tuple([dot for dot, _, _ in self.writes])

    def dots_of(self, replica: int, before: Dot) -> list[Dot]:
        """The dots of writes that this replica made before that event."""
        return [dot for dot in self.dots if dot & MAX_REPLICA == replica and dot < before]

    # -- totals -------------------------------------------------------------------------------

    @property
    def totals(self) -> list[tuple[int, Total]]:
        """The totals, with their replicas."""
        totals: list[tuple[int, Total]] = []
        counter = self.counter
        while counter is not None:
            totals.append((counter.replica, counter.total))
            counter = counter.next
        return totals

    def counter_of(self, replica: int) -> Counter | None:
        counter = self.counter
        while counter is not None and counter.replica != replica:
            counter = counter.next
        return counter

    def total_of(self, replica: int) -> Total | None:
        counter = self.counter_of(replica)
        return None if counter is None else counter.total

    def put_total(self, replica: int, total: Total | None) -> None:
        """Set the total of a replica; None removes it."""
        counter = self.counter_of(replica)
        if total is None:
            kept = [pair for pair in self.totals if pair[0] != replica]
            self.counter = None
            for each, entry in kept:
                self.counter = Counter(each, entry, self.counter)
        elif counter is None:
            self.counter = Counter(replica, total, self.counter)
        else:
            counter.put(total)

    @property
    def is_added(self) -> bool:
        return any(is_live(entry) for _, entry in self.totals)

    @property
    def terms(self) -> list[Number]:
        """The amounts that count; their sum is the amount that was added."""
        terms: list[Number] = []
        counter = self.counter
        while counter is not None:
            if counter.is_live:
                terms.append(counter.amount)
                if counter.reset_amount:
                    terms.append(negative(counter.reset_amount))
            counter = counter.next
        return terms

    @property
    def resets(self) -> tuple[Reset, ...]:
        """The resets for a change whose author has seen this cell."""
        if self.counter is None:
            return ()
        return tuple(
            [(replica, entry[0], entry[1]) for replica, entry in self.totals if is_live(entry)]
        )

    # -- short ways for the usual cases -------------------------------------------------------

    def only_counter(self, replica: int) -> Counter | None:
        """The counter of that replica, if it counts and is the only one."""
        counter = self.counter
        if counter is None or counter.next is not None or self.others:
            return None
        return counter if counter.replica == replica and counter.is_live else None

    def overwrite(self, seen: Dot, dot: Dot, hlc: int, value: Any) -> bool:
        """`integrate` for a write that has seen the only write of the cell. In all other cases
        False, and then nothing has changed."""
        if self.dot != seen or not seen or self.others or self.counter is not None:
            return False
        self.dot = dot
        self.hlc = hlc
        self.value = value
        return True

    def overwrite_own(self, dot: Dot, hlc: int, value: Any) -> bool:
        """The same for a write over an earlier one of the same replica."""
        seen = self.dot
        if not seen or seen >= dot or (seen ^ dot) & MAX_REPLICA:
            return False
        if self.others or self.counter is not None:
            return False
        self.dot = dot
        self.hlc = hlc
        self.value = value
        return True

    def count(self, dot: Dot, last: int, now: Any) -> bool:
        """The same for the next addition to the only total."""
        counter = self.only_counter(dot & MAX_REPLICA)
        if counter is None or counter.seq != last:
            return False
        counter.seq = dot >> REPLICA_BITS
        counter.amount = now
        return True


def is_live(entry: Total) -> bool:
    seq: int = entry[0]
    reset_seq: int = entry[2]
    return seq > reset_seq


def with_reset(one: Total, other: Total) -> Total:
    """The total of `one`, with the later reset of the two totals. Of equal resets, the one with the
    lower event."""
    if one[2] == other[2]:
        return (*one[:4], min(one[4], other[4]))
    return one if one[2] > other[2] else (*one[:2], *other[2:])
