"""Named cells. All types but lists and HyperLogLogs consist of them.

**Writes.** A cell keeps each write that no other write has seen, under its dot. It shows the latest
one: by stamp, then by the lower replica. A write replaces the writes that its author had seen, and
a removal removes them. So concurrent writes on other replicas survive. Keeping only the last write
would be wrong: whether a removal still finds the write that its author had seen would depend on the
order of arrival.

**Totals.** Each replica has a running total of its additions to the cell, and a reset point: the
total that a later write or removal has seen. The difference counts. Both numbers only grow, so they
may arrive any number of times. A total that is reset completely is residue: it stays until each
member has confirmed the reset (`settle`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from holdfast.crdt.cell import Cell, Total, Write, is_live, with_reset
from holdfast.crdt.dots import MAX_REPLICA, REPLICA_BITS, Author, Dot, Vector, covers
from holdfast.crdt.dots import dot_of as event
from holdfast.crdt.effects import ADD, CLEAR, MANY, REMOVE, WRITE, Effect, RowChange, frozen
from holdfast.crdt.exact_numbers import Number, integer, negative, total
from holdfast.crdt.replicated_value import ReplicatedValue, Rows

Name = bytes | None  # None: the only cell of its value
Resets = Iterable[Sequence[Any]]  # (replica, number, total), decoded or not


class Cells(ReplicatedValue):
    """Values that consist of cells. Rows: (name, dot) → (hlc, value), and (name, replica) → Total.
    The number tells which of the two it is, because a dot is never below 2^16. `_written` counts
    the cells that show a write."""

    __slots__ = ("_cells", "_has_totals", "_written")

    def __init__(self) -> None:
        self._cells: dict[Name, Cell] = {}
        self._written = 0
        self._has_totals = False  # stays True after the first total

    def __len__(self) -> int:
        return sum(1 for _ in self.names())

    def __bool__(self) -> bool:
        if self._written:
            return True
        return any(cell.is_added for _, cell in self._all())

    def precedence(self, name: Name, write: Write) -> Any:
        """The rank of a write: of writes that have not seen each other, the one with the highest
        rank is shown."""
        dot, hlc, _ = write
        return hlc, -(dot & MAX_REPLICA), dot

    # -- where the cells are ------------------------------------------------------------------

    def _find(self, name: Name) -> Cell | None:
        return self._cells.get(name)

    def _create(self, name: Name) -> Cell:
        cell = self._cells[name] = Cell()
        return cell

    def _discard(self, name: Name) -> None:
        del self._cells[name]

    def _all(self) -> Iterable[tuple[Name, Cell]]:
        return self._cells.items()

    # -- looking ------------------------------------------------------------------------------

    def __contains__(self, name: Name) -> bool:
        cell = self._find(name)
        return cell is not None and (cell.dot != 0 or cell.is_added)

    def names(self) -> Iterator[Name]:
        for name, cell in self._all():
            if cell.dot or cell.is_added:
                yield name

    def written(self, name: Name) -> Any:
        """The value of the write that is shown; None if there is none."""
        cell = self._find(name)
        return None if cell is None else cell.value

    def terms(self, name: Name) -> list[Number]:
        """The added amounts that count; see Cell."""
        cell = self._find(name)
        return [] if cell is None else cell.terms

    # -- changes, as effects ------------------------------------------------------------------

    def write(self, name: Name, value: Any, author: Author) -> Effect:
        dot = author.dot()
        cell = self._find(name)
        if cell is None:
            return (WRITE, name, dot, author.hlc, value, (), ())
        return (WRITE, name, dot, author.hlc, value, cell.dots, cell.resets)

    def remove(self, name: Name, author: Author) -> Effect:
        cell = self._find(name)
        if cell is None:
            return (REMOVE, name, (), (), 0)
        resets = cell.resets
        return (REMOVE, name, cell.dots, resets, author.dot() if resets else 0)

    def add(self, name: Name, amount: Number, author: Author) -> Effect:
        """Add to the value of the cell. A replica whose total is reset completely begins a new
        total: each replica that learns of it also knows the reset. A float is rounded as if it were
        added to the value that is shown, so that without a conflict the sum is the one that Redis
        would show."""
        cell = self._find(name)
        mine = None if cell is None else cell.total_of(author.replica)
        last: int = 0
        until_now: Number = 0
        if mine is not None and is_live(mine):
            last, until_now = mine[0], mine[1]
        now: Number
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
        all_resets = [(name, cell.resets) for name, cell in self._all() if cell.counter is not None]
        resets = tuple([(name, of_name) for name, of_name in all_resets if of_name])
        by = author.dot() if resets else 0
        return (CLEAR, author.observed(), resets, by)

    @property
    def has_totals(self) -> bool:
        return self._has_totals

    def counted(self) -> Iterator[tuple[Name, Cell]]:
        """The cells that have totals."""
        if self._has_totals:
            for name, cell in self._all():
                if cell.counter is not None:
                    yield name, cell

    def resets_within(self, vector: Vector, kind: str, points: Mapping[Any, Any]) -> Any:
        all_resets: list[tuple[Name, tuple[Any, ...]]] = []
        for name, cell in self.counted():
            resets: list[Any] = []
            for replica, seq, amount in cell.resets:
                if seq <= vector.get(replica, 0):
                    resets.append((replica, seq, amount))
                else:
                    last, until_then = points.get((kind, name, replica), (0, 0))
                    if last:
                        resets.append((replica, last, until_then))
            if resets:
                all_resets.append((name, tuple(resets)))
        return tuple(all_resets)

    # -- applying -----------------------------------------------------------------------------

    def integrate(self, effect: Effect) -> list[RowChange]:
        kind: int = effect[0]
        if kind == WRITE:
            name, dot, value, seen, resets = effect[1], effect[2], effect[4], effect[5], effect[6]
            if type(value) is list:
                value = frozen(value)  # a new tuple, because the value is kept
            if seen is None:
                cell = self._find(name)
                seen = [] if cell is None else cell.dots_of(dot & MAX_REPLICA, dot)
            changes = self._replace(name, seen, dot, effect[3], value)
            return changes + self._reset(name, resets, dot) if resets else changes
        if kind == REMOVE:
            _, name, seen, resets, by = effect
            return self._replace(name, seen, 0, 0, None) + self._reset(name, resets, by)
        if kind == ADD:
            return self._add(effect[1], effect[2], effect[3], effect[4], effect[5])
        if kind == MANY:
            return [change for part in effect[1] for change in self.integrate(part)]
        assert kind == CLEAR
        _, vector, all_resets, by = effect
        changes = []
        for name, cell in list(self._all()):
            seen = [dot for dot, _, _ in cell.writes if covers(vector, dot)]
            changes += self._replace(name, seen, 0, 0, None) if seen else []
        for name, resets in all_resets:
            changes += self._reset(name, resets, by)
        return changes

    def _replace(
        self, name: Name, seen: Sequence[Dot], dot: Dot, hlc: int, value: Any
    ) -> list[RowChange]:
        """Replace the seen writes by another one (dot 0: only remove them)."""
        cell = self._find(name)
        if cell is None or not cell.dot:
            if not dot:
                return []
            self._keep(name, [(dot, hlc, value)])
            return [((name, dot), (hlc, value), None)]
        if dot and not cell.others and cell.dot in seen:  # nearly always
            gone = ((name, cell.dot), None, (cell.hlc, cell.value))
            self._keep(name, [(dot, hlc, value)])
            return [gone, ((name, dot), (hlc, value), None)]
        changes: list[RowChange] = []
        kept: list[Write] = []
        for write in cell.writes:
            if write[0] in seen:
                changes.append(((name, write[0]), None, write[1:]))
            else:
                kept.append(write)
                if write[0] == dot:
                    dot = 0  # the write is there already
        if dot:
            kept.append((dot, hlc, value))
            changes.append(((name, dot), (hlc, value), None))
        if changes:
            self._keep(name, kept)
        return changes

    def conflict_of(self, effect: Effect) -> str:
        kind = effect[0]
        if kind == MANY:
            for each in effect[1]:
                if found := self.conflict_of(each):
                    return found
            return ""
        if kind != WRITE and kind != REMOVE:
            return super().conflict_of(effect)
        cell = self._find(effect[1])
        if cell is None or not cell.dot:
            return ""
        if kind == REMOVE:
            return "removals"
        return "writes" if cell.others else ""

    def _keep(self, name: Name, writes: list[Write]) -> None:
        """Set all writes of a cell. All changes of writes come through here."""
        cell = self._find(name)
        if writes:
            if len(writes) > 1:
                writes.sort(key=partial(self.precedence, name))
            if cell is None:
                cell = self._create(name)
            if not cell.dot:
                self._written += 1
            cell.dot, cell.hlc, cell.value = writes[-1]
            cell.others = tuple(writes[:-1]) if len(writes) > 1 else ()
        elif cell is not None and cell.dot:
            self._written -= 1
            cell.dot, cell.hlc, cell.value = 0, 0, None
            cell.others = ()
            if cell.is_empty:
                self._discard(name)

    def _reset(self, name: Name, resets: Resets, by: Dot) -> list[RowChange]:
        changes: list[RowChange] = []
        for replica, seq, amount in resets:
            cell = self._find(name)
            old = None if cell is None else cell.total_of(replica)
            # A missing total was reset before, and each member has confirmed that: see `settle`.
            if old is not None:
                new = with_reset(old, (old[0], old[1], seq, amount, by))
                changes += self._put_total(name, replica, new)
        return changes

    def _add(
        self, name: Name, dot: Dot, last: int, until_now: Number, now: Number
    ) -> list[RowChange]:
        replica, seq = dot & MAX_REPLICA, dot >> REPLICA_BITS
        cell = self._find(name)
        old = None if cell is None else cell.total_of(replica)
        if old is not None and old[0] >= seq:
            return []
        new: Total
        if not last:  # the author begins a new total: the old one is reset
            new = (seq, now, seq - 1, 0, 0)
        elif old is None:  # the total was reset completely, and forgotten here
            new = (seq, now, last, until_now, 0)
        else:
            new = (seq, now, old[2], old[3], old[4])
        return self._put_total(name, replica, new)

    def _put_total(self, name: Name, replica: int, new: Total | None) -> list[RowChange]:
        cell = self._find(name)
        old = None if cell is None else cell.total_of(replica)
        if new == old:
            return []
        if cell is None:
            cell = self._create(name)
        self._has_totals = True
        cell.put_total(replica, new)
        if cell.is_empty:
            self._discard(name)
        return [((name, replica), new, old)]

    @property
    def has_residue(self) -> bool:
        for _, cell in self._all():
            for _, entry in cell.totals:
                if not is_live(entry):
                    return True
        return False

    def settle(self, stable: Vector) -> list[RowChange]:
        """Forget totals whose reset each member has confirmed."""
        gone = [
            (name, replica)
            for name, cell in self._all()
            for replica, entry in cell.totals
            if not is_live(entry) and covers(stable, entry[4])
        ]
        return [change for name, replica in gone for change in self._put_total(name, replica, None)]

    def forget(self, name: Name) -> list[RowChange]:
        """Drop all writes to a cell, as if they had never existed. The caller must know that no
        effect will refer to them any more."""
        cell = self._find(name)
        return [] if cell is None else self._replace(name, cell.dots, 0, 0, None)

    # -- whole --------------------------------------------------------------------------------

    def rows(self) -> Iterator[tuple[tuple[Name, int], tuple[Any, ...]]]:
        for name, cell in self._all():
            for dot, hlc, value in cell.writes:
                yield (name, dot), (hlc, value)
            for replica, entry in cell.totals:
                yield (name, replica), entry

    def apply(self, sub: tuple[Name, int], row: tuple[Any, ...] | None) -> None:
        name, number = sub
        if number <= MAX_REPLICA:
            self._put_total(name, number, row)
            return
        cell = self._find(name)
        writes = [] if cell is None else [write for write in cell.writes if write[0] != number]
        if row is not None:
            writes.append((number, row[0], row[1]))
        self._keep(name, writes)

    def piece_of(self, sub: tuple[Name, int]) -> Name:
        """A piece is a whole cell."""
        return sub[0]

    def piece(self, place: Name) -> tuple[Any, ...] | None:
        cell = self._find(place)
        return None if cell is None or cell.is_empty else (cell.writes, cell.totals)

    def put_piece(self, place: Name, piece: tuple[Any, ...] | None) -> None:
        writes, totals = piece or ((), ())
        self._keep(place, list(writes))
        cell = self._find(place)
        for replica, _ in () if cell is None else cell.totals:
            self._put_total(place, replica, None)
        for replica, row in totals:
            self._put_total(place, replica, row)

    def merge(self, rows: Rows, seen: Vector, other_seen: Vector) -> list[RowChange]:
        """Merge another state. A total that one side has seen and does not have was settled there,
        so it is dropped."""
        theirs = dict(rows)
        settled_there = [
            (name, replica)
            for name, cell in self._all()
            for replica, entry in cell.totals
            if (name, replica) not in theirs and covers(other_seen, event(replica, entry[0]))
        ]
        mine = {(name, replica) for name, cell in self._all() for replica, _ in cell.totals}
        settled_here = [
            sub
            for sub, row in theirs.items()
            if sub[1] <= MAX_REPLICA and sub not in mine and covers(seen, event(sub[1], row[0]))
        ]
        for sub in settled_here:
            del theirs[sub]
        gone = [
            change
            for name, replica in settled_there
            for change in self._put_total(name, replica, None)
        ]
        return gone + super().merge(theirs.items(), seen, other_seen)

    def dot_of(self, sub: tuple[Name, int]) -> Dot:
        return 0 if sub[1] <= MAX_REPLICA else sub[1]

    def join(self, one: tuple[Any, ...], other: tuple[Any, ...]) -> Total:
        """The join of two totals. (Writes with the same dot are always equal.)"""
        return with_reset(one, other) if one[0] >= other[0] else with_reset(other, one)

    def facts(self) -> Rows:
        for sub, row in self.rows():
            if sub[1] > MAX_REPLICA:
                yield sub, row
            elif is_live(row):
                yield sub, (*row[:4], 0)

    def replicas(self) -> set[int]:
        return {sub[1] & MAX_REPLICA for sub, _ in self.facts()}
