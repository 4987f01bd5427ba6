"""One cell: what was written to it, and what every replica has added."""

from typing import Any, final

from holdfast.crdt.dots import MAX_REPLICA, REPLICA_BITS, Dot
from holdfast.crdt.numbers import Number, negative

Write = tuple[Dot, int, Any]  # dot, hlc, value
Reset = tuple[int, int, Number]  # replica, and the number and total it had come to

# What one replica has added up to its event `seq`, and what of it does not count any more: all
# until event `reset_seq`, by reason of the event `reset_by` (0: known to everybody). So these are
# seq, amount, reset_seq, reset_amount, reset_by.
Total = tuple[Any, ...]


@final
class Counter:
    """A Total that goes on: one object, because a counter that is counted on touches nothing else.
    `next` is that of another replica, in no order."""

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
    """The write that is shown (dot 0: there is none), those that it has not seen, lowest first,
    and each replica's total. There may be millions, so all is here that most of them have."""

    __slots__ = ("counter", "dot", "hlc", "others", "value")

    def __init__(self) -> None:
        self.dot: Dot = 0
        self.hlc = 0
        self.value: Any = None
        self.others: tuple[Write, ...] = ()
        self.counter: Counter | None = None  # the first

    @property
    def is_empty(self) -> bool:
        return not self.dot and self.counter is None

    @property
    def writes(self) -> tuple[Write, ...]:
        """In order: the one that is shown is last."""
        return (*self.others, (self.dot, self.hlc, self.value)) if self.dot else ()

    @property
    def dots(self) -> tuple[Dot, ...]:
        """Of its writes."""
        if not self.others:  # nearly always
            return (self.dot,) if self.dot else ()
        return tuple([dot for dot, _, _ in self.writes])

    def dots_of(self, replica: int, before: Dot) -> list[Dot]:
        """Of that replica's writes until then."""
        return [dot for dot in self.dots if dot & MAX_REPLICA == replica and dot < before]

    # -- totals -------------------------------------------------------------------------------

    @property
    def totals(self) -> list[tuple[int, Total]]:
        """By replica."""
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
        """None: it goes."""
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
        """What counts, to be summed."""
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
        """What somebody resets who has seen this."""
        if self.counter is None:
            return ()
        return tuple(
            [(replica, entry[0], entry[1]) for replica, entry in self.totals if is_live(entry)]
        )

    # -- the usual cases, in short ------------------------------------------------------------

    def only_counter(self, replica: int) -> Counter | None:
        """Of that replica, if it counts and nobody else has one."""
        counter = self.counter
        if counter is None or counter.next is not None or self.others:
            return None
        return counter if counter.replica == replica and counter.is_live else None

    def overwrite(self, seen: Dot, dot: Dot, hlc: int, value: Any) -> bool:
        """`integrate`, of a write that has seen the only one there is. False, and nothing has
        changed, where anything else is the case."""
        if self.dot != seen or not seen or self.others or self.counter is not None:
            return False
        self.dot = dot
        self.hlc = hlc
        self.value = value
        return True

    def overwrite_own(self, dot: Dot, hlc: int, value: Any) -> bool:
        """Likewise, of a write in place of an earlier one by the same replica."""
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
        """Likewise, of the next addition to the only total."""
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
    """The total of one, and the reset of whichever is further; of equal ones the lower event's."""
    if one[2] == other[2]:
        return (*one[:4], min(one[4], other[4]))
    return one if one[2] > other[2] else (*one[:2], *other[2:])
