"""Named cells, each with what was written to it and what was added: all types but lists, streams
and HyperLogLogs consist of them.

**Writes.** A cell keeps every write that no other write has seen, under its dot, and shows the
latest: by stamp, then the lower replica's. A write replaces the writes that its author saw, a
removal just takes them away; so whatever happened elsewhere meanwhile survives. One place for
the last write alone would not do: whether a removal still finds the write it saw would depend on
what came first.

**Totals.** Each replica has a running total of what it added to the cell, and a reset point: the
total up to which somebody who saw it has since overwritten or removed the cell. What counts is
the difference. Both only ever move on, so it does not matter how often they are told. A total
that is wholly reset is residue: it has to stay until everybody knows of the reset (`settle`).
"""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

from holdfast.crdt.dots import MAX_REPLICA, Author, Dot, Vector, covers, replica_of, seq_of
from holdfast.crdt.dots import dot_of as event
from holdfast.crdt.effects import ADD, CLEAR, MANY, REMOVE, WRITE, Change, Effect, frozen
from holdfast.crdt.numbers import Number, integer, negative, total
from holdfast.crdt.replicated import Replicated, Rows

Name = bytes | None  # None: the one cell of a value that has no more
Write = tuple[Dot, int, Any]  # dot, hlc, value
Reset = tuple[int, int, Number]  # replica, and the number and total it had come to


class Total(NamedTuple):
    """What one replica has added up to its event `seq`, and what of it does not count any more:
    all until event `reset_seq`, by reason of the event `reset_by` (0: known to everybody)."""

    seq: int
    amount: Number
    reset_seq: int
    reset_amount: Number
    reset_by: Dot

    @property
    def is_live(self) -> bool:
        return self.seq > self.reset_seq


class Cells(Replicated):
    """Its rows: (name, dot) → (hlc, value), and (name, replica) → a Total. Which of the two it is
    shows in the number: a dot is never below 2^16. Writes of a cell are in order, the one shown
    is last."""

    __slots__ = ("_totals", "_writes")

    def __init__(self) -> None:
        self._writes: dict[Name, tuple[Write, ...]] = {}
        self._totals: dict[Name, dict[int, Total]] = {}

    def __len__(self) -> int:
        return sum(1 for _ in self.names())

    def __bool__(self) -> bool:
        return bool(self._writes) or any(map(self._is_added, self._totals))

    def precedence(self, name: Name, write: Write) -> Any:
        """Of the writes to a cell that have not seen each other, the greatest is shown."""
        dot, hlc, _ = write
        return hlc, -replica_of(dot), dot

    # -- looking ------------------------------------------------------------------------------

    def __contains__(self, name: Name) -> bool:
        return name in self._writes or (name in self._totals and self._is_added(name))

    def names(self) -> Iterator[Name]:
        yield from self._writes
        for name in self._totals:
            if name not in self._writes and self._is_added(name):
                yield name

    def written(self, name: Name) -> Any:
        """The write that is shown; None when there is none."""
        writes = self._writes.get(name)
        return None if writes is None else writes[-1][2]

    def added(self, name: Name) -> Number | None:
        """The sum of what counts; None when nothing was added since the last reset."""
        if name not in self._totals:
            return None
        terms = self.terms(name)
        return total(terms) if terms else None

    def terms(self, name: Name) -> list[Number]:
        """What counts, to be summed."""
        terms: list[Number] = []
        totals = self._totals.get(name)
        if totals is not None:
            for seq, amount, reset_seq, reset_amount, _ in totals.values():
                if seq > reset_seq:
                    terms.append(amount)
                    if reset_amount:
                        terms.append(negative(reset_amount))
        return terms

    def _is_added(self, name: Name) -> bool:
        return True in [entry.is_live for entry in self._totals[name].values()]

    # -- changes, as effects ------------------------------------------------------------------

    def write(self, name: Name, value: Any, author: Author) -> Effect:
        dot = author.dot()
        return (WRITE, name, dot, author.hlc, value, self._dots(name), self._resets(name))

    def remove(self, name: Name, author: Author) -> Effect:
        resets = self._resets(name)
        return (REMOVE, name, self._dots(name), resets, author.dot() if resets else 0)

    def add(self, name: Name, amount: Number, author: Author) -> Effect:
        """Add to what the cell holds. Who was wholly reset begins a new total: whoever gets to
        know of it knows of the reset too. Floats are rounded as one would who adds to the value
        that is shown, so that nobody can tell before there is a conflict."""
        mine = self._totals.get(name, {}).get(author.replica)
        last, until_now = (mine.seq, mine.amount) if mine and mine.is_live else (0, 0)
        if isinstance(amount, float):
            terms: list[Any] = [self.written(name) or 0.0, *self.terms(name)]
            shown = float(total(terms)) + amount
            now = total([shown, until_now, *map(negative, terms)])
        elif isinstance(amount, int) and isinstance(until_now, int):
            now = integer(until_now + amount)
        else:
            now = total([until_now, amount])
        return (ADD, name, author.dot(), last, until_now, now)

    def clear(self, author: Author) -> Effect:
        resets = tuple((name, self._resets(name)) for name in self._totals)
        resets = tuple((name, of_name) for name, of_name in resets if of_name)
        by = author.dot() if resets else 0
        return (CLEAR, author.observed(), resets, by)

    def _dots(self, name: Name) -> tuple[Dot, ...]:
        writes = self._writes.get(name, ())
        if len(writes) == 1:  # nearly always
            return (writes[0][0],)
        return tuple([dot for dot, _, _ in writes])

    def _resets(self, name: Name) -> tuple[Reset, ...]:
        totals = self._totals.get(name)
        if totals is None:
            return ()
        return tuple(
            [
                (replica, entry.seq, entry.amount)
                for replica, entry in totals.items()
                if entry.is_live
            ]
        )

    # -- applying -----------------------------------------------------------------------------

    def integrate(self, effect: Effect) -> list[Change]:
        kind = effect[0]
        if kind == WRITE:
            _, name, dot, hlc, value, seen, resets = effect
            if type(value) is list:
                value = frozen(value)  # it stays
            changes = self._replace(name, seen, (dot, hlc, value))
            return changes + self._reset(name, resets, dot) if resets else changes
        if kind == REMOVE:
            _, name, seen, resets, by = effect
            return self._replace(name, seen, None) + self._reset(name, resets, by)
        if kind == ADD:
            return self._add(*effect[1:])
        if kind == MANY:
            return [change for part in effect[1] for change in self.integrate(part)]
        assert kind == CLEAR
        _, vector, all_resets, by = effect
        changes = []
        for name, writes in list(self._writes.items()):
            seen = [dot for dot, _, _ in writes if covers(vector, dot)]
            changes += self._replace(name, seen, None) if seen else []
        for name, resets in all_resets:
            changes += self._reset(name, resets, by)
        return changes

    def _replace(self, name: Name, seen: Iterable[Dot], new: Write | None) -> list[Change]:
        old = self._writes.get(name)
        if old is None:
            if new is None:
                return []
            self._keep(name, [new])
            return [((name, new[0]), new[1:], None)]
        if new is not None and len(old) == 1 and old[0][0] in seen:  # nearly always
            self._keep(name, [new])
            replaced = old[0]
            return [
                ((name, replaced[0]), None, replaced[1:]),
                ((name, new[0]), new[1:], None),
            ]
        changes: list[Change] = []
        kept: list[Write] = []
        for write in old:
            if write[0] in seen:
                changes.append(((name, write[0]), None, write[1:]))
            elif new is None or write[0] != new[0]:
                kept.append(write)
            else:
                new = None  # it is there already
                kept.append(write)
        if new is not None:
            kept.append(new)
            changes.append(((name, new[0]), new[1:], None))
        if changes:
            self._keep(name, kept)
        return changes

    def _keep(self, name: Name, writes: list[Write]) -> None:
        if writes:
            if len(writes) > 1:
                writes.sort(key=partial(self.precedence, name))
            self._writes[name] = tuple(writes)
        else:
            self._writes.pop(name, None)

    def _reset(self, name: Name, resets: Iterable[Reset], by: Dot) -> list[Change]:
        changes: list[Change] = []
        for replica, seq, amount in resets:
            old = self._totals.get(name, {}).get(replica)
            # Who has no total any more has forgotten a reset that everybody knows.
            if old is not None:
                new = _with_reset(old, Total(old.seq, old.amount, seq, amount, by))
                changes += self._put_total(name, replica, new)
        return changes

    def _add(self, name: Name, dot: Dot, last: int, until_now: Number, now: Number) -> list[Change]:
        replica, seq = replica_of(dot), seq_of(dot)
        old = self._totals.get(name, {}).get(replica)
        if old is not None and old.seq >= seq:
            return []
        if not last:  # the author's total begins here, and what was before is reset
            new = Total(seq, now, seq - 1, 0, 0)
        else:  # a total that was forgotten here had been wholly reset
            old = old or Total(last, until_now, last, until_now, 0)
            new = Total(seq, now, old.reset_seq, old.reset_amount, old.reset_by)
        return self._put_total(name, replica, new)

    def _put_total(self, name: Name, replica: int, new: Total | None) -> list[Change]:
        totals = self._totals.setdefault(name, {})
        old = totals.get(replica)
        if new is not None:
            totals[replica] = new
        elif old is not None:
            del totals[replica]
        if not totals:
            del self._totals[name]
        return [] if new == old else [((name, replica), new, old)]

    @property
    def has_residue(self) -> bool:
        totals = self._totals.values()
        return any(not entry.is_live for of_name in totals for entry in of_name.values())

    def settle(self, stable: Vector) -> list[Change]:
        """Forget residue whose reset everybody has seen."""
        gone = [
            (name, replica)
            for name, totals in self._totals.items()
            for replica, entry in totals.items()
            if not entry.is_live and covers(stable, entry.reset_by)
        ]
        return [change for place in gone for change in self._put_total(*place, None)]

    # -- whole --------------------------------------------------------------------------------

    def rows(self) -> Iterator[tuple[tuple[Name, int], tuple[Any, ...]]]:
        for name, writes in self._writes.items():
            for dot, hlc, value in writes:
                yield (name, dot), (hlc, value)
        for name, totals in self._totals.items():
            for replica, entry in totals.items():
                yield (name, replica), entry

    def apply(self, sub: tuple[Name, int], row: tuple[Any, ...] | None) -> None:
        name, number = sub
        if number <= MAX_REPLICA:
            self._put_total(name, number, None if row is None else Total(*row))
            return
        writes = [write for write in self._writes.get(name, ()) if write[0] != number]
        if row is not None:
            writes.append((number, row[0], row[1]))
        self._keep(name, writes)

    def piece_of(self, sub: tuple[Name, int]) -> Name:
        """Of each cell all that there is."""
        return sub[0]

    def piece(self, place: Name) -> tuple[Any, ...] | None:
        writes, totals = self._writes.get(place), self._totals.get(place)
        if writes is None and totals is None:
            return None
        return writes or (), tuple((totals or {}).items())

    def put_piece(self, place: Name, piece: tuple[Any, ...] | None) -> None:
        writes, totals = piece or ((), ())
        self._keep(place, list(writes))
        self._totals.pop(place, None)
        for replica, row in totals:
            self._put_total(place, replica, Total(*row))

    def merge(self, rows: Rows, seen: Vector, other_seen: Vector) -> list[Change]:
        """A total that one has seen and has not is one that it has settled, so it is reset."""
        theirs = dict(rows)
        settled_there = [
            (name, replica)
            for name, totals in self._totals.items()
            for replica, entry in totals.items()
            if (name, replica) not in theirs and covers(other_seen, event(replica, entry.seq))
        ]
        settled_here = [
            (name, number)
            for (name, number), row in theirs.items()
            if number <= MAX_REPLICA
            and number not in self._totals.get(name, ())
            and covers(seen, event(number, row[0]))
        ]
        for sub in settled_here:
            del theirs[sub]
        gone = [change for sub in settled_there for change in self._put_total(*sub, None)]
        return gone + super().merge(theirs.items(), seen, other_seen)

    def dot_of(self, sub: tuple[Name, int]) -> Dot:
        return 0 if sub[1] <= MAX_REPLICA else sub[1]

    def join(self, one: tuple[Any, ...], other: tuple[Any, ...]) -> Total:
        """Totals only: writes are never different."""
        newer, older = (one, other) if one[0] >= other[0] else (other, one)
        return _with_reset(Total(*newer), Total(*older))

    def facts(self) -> Rows:
        for sub, row in self.rows():
            if not isinstance(row, Total):
                yield sub, row
            elif row.is_live:
                yield sub, row._replace(reset_by=0)

    def replicas(self) -> set[int]:
        return {number & MAX_REPLICA for (_, number), _ in self.facts()}


def _with_reset(one: Total, other: Total) -> Total:
    """The total of one, and the reset of whichever is further; of equal ones the lower event's."""
    if one.reset_seq == other.reset_seq:
        return one._replace(reset_by=min(one.reset_by, other.reset_by))
    if one.reset_seq > other.reset_seq:
        return one
    return one._replace(
        reset_seq=other.reset_seq, reset_amount=other.reset_amount, reset_by=other.reset_by
    )
