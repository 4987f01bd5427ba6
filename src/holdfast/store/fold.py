"""The fold: what is in the journal moves into the tables, a slice at a time.

State = tables + journal at every moment. Of each row that changed the last operation is kept.
A pass takes those of all batches so far, writes them sorted by key in transactions of about a
millisecond, and only then deletes the batches. Operations are absolute, so a crash anywhere in
a pass costs nothing but doing it again.

Measured (32-byte values): rows in arrival order cost 11 µs of CPU each, sorted ones 2 µs.
"""

from collections import defaultdict
from collections.abc import Generator, Iterable, Sequence
from heapq import merge
from itertools import chain, groupby, islice
from typing import Any

import apsw

from holdfast.errors import StorageError
from holdfast.store.journal import Journal
from holdfast.store.keyspace import Keyspace
from holdfast.store.ops import KEYS, SPACES, STRINGS, Op
from holdfast.store.tables import ROWS, put_sql
from holdfast.store.types import COLLECTIONS

SLICE_ROWS = 500
KEY_ROW_COST = 4  # a new key's row, with its place in the index of names, takes 8 µs
STATEMENT_ROWS = 50
SLICE_BYTES = 256 * 1024
SORTED_ROWS = 2000  # put into buckets, or freed, in about the time of a slice
PASS_OPS = 200_000  # a pass starts at this many operations …
PASS_BYTES = 32 << 20  # … or this many bytes, or when the server is idle

# Rows are sorted bucket by bucket, because one sort of 100k rows takes 0.1–0.2 s.
BUCKETS_LOG2 = 12
SUB_BUCKET_SHIFT = 31  # 2,048 neighbouring elements of a list
LARGEST_SORT = 2048  # rows; more are sorted in runs of this many and merged

# For each table, the last operation of each row by its place: the key id, or that and the sub key.
Rows = list[dict[Any, Op]]
Buckets = defaultdict[tuple[int, int, int], list[Any]]  # of places

# A collection's rows go later, in slices; a grave remembers them.
BURY = (
    "INSERT OR IGNORE INTO redis_graves"
    " SELECT id, type FROM redis_keys WHERE id = ? AND type <> 'string'"
)


class Fold:
    def __init__(self, connection: apsw.Connection, journal: Journal, keyspace: Keyspace) -> None:
        self._connection = connection
        self._journal = journal
        self.keyspace = keyspace
        self._rows = _no_rows()
        self._batches: list[tuple[int, int]] = []  # lsn, bytes
        self._pass: Generator[None] | None = None
        self.pending_ops = 0  # not yet taken by a pass
        self.pending_bytes = 0
        self._pass_ops = 0
        self._pass_done_ops = 0
        first = connection.execute("SELECT min(lsn) FROM journal").get
        self.folded_lsn = journal.lsn if first is None else first - 1
        self._touched: set[int] = set()
        self._touched_in_pass: set[int] = set()
        # No row of an id from here on was ever written. Recovery, which may find a pass half
        # done, sets this anew.
        self.first_unwritten_id = keyspace.next_id

    def add(self, lsn: int, ops: list[Op], nbytes: int) -> None:
        # At once, while they are in the processor's caches: later it would take twice as long.
        rows = self._rows
        for op in ops:
            table, key_id, sub, _ = op
            rows[table][key_id if sub is None else (key_id, sub)] = op
        self._batches.append((lsn, nbytes))
        self.pending_ops += len(ops)
        self.pending_bytes += nbytes
        self._touched.update([op[1] for op in ops])

    def is_clean(self, key_id: int) -> bool:
        """Whether the tables have all of this key, so that memory may forget it."""
        return key_id not in self._touched and key_id not in self._touched_in_pass

    @property
    def is_idle(self) -> bool:
        return self._pass is None and not self._batches

    @property
    def is_behind(self) -> bool:
        """Whether a slice is due now, under load: the pass should end as the next one begins."""
        share = max(self.pending_ops / PASS_OPS, self.pending_bytes / PASS_BYTES)
        if self._pass is None:
            return share >= 1
        return self._pass_done_ops < share * self._pass_ops

    @property
    def may_step(self) -> bool:
        """Whether no batch is open in which a pass would have to begin: what it changed is in no
        journal yet, so the pass would not write it, but the keyspace would take it for written.
        """
        return self._pass is not None or not self.keyspace.ops

    def step(self) -> bool:
        """One slice, about a millisecond. False when there is nothing left to do.

        Does nothing unless `may_step`.
        """
        if not self.may_step:
            return True
        try:
            if self._pass is None:
                if not self._batches and not self._has_graves:
                    return False
                self._pass = self._run_pass()
            next(self._pass)
        except StopIteration:
            self._pass = None
        except apsw.Error as error:
            self._pass = None
            raise StorageError(f"cannot write the tables: {error}") from error
        return True

    def run(self) -> None:
        """Fold everything now: SAVE, and a clean shutdown. No batch may be open."""
        assert not self.keyspace.ops
        while self.step():
            pass

    # -- one pass -----------------------------------------------------------------------------

    def _run_pass(self) -> Generator[None]:
        batches, self._batches = self._batches, []
        rows, self._rows = self._rows, _no_rows()
        self._pass_ops, self._pass_done_ops = self.pending_ops, 0
        self.pending_ops = self.pending_bytes = 0
        self._touched_in_pass, self._touched = self._touched, set()
        keyspace = self.keyspace
        first_new_id, self.first_unwritten_id = self.first_unwritten_id, keyspace.next_id
        keyspace.begin_fold()
        try:
            buckets: Buckets = defaultdict(list)
            yield from self._sort(rows, buckets)
            yield from self._write(rows, buckets, first_new_id)
            if rows[SPACES]:
                self._bury_spaces()
            yield from self._delete_batches(batches)
        except apsw.Error:
            # What the journal still has, we must have too: the next pass does it all again.
            keyspace.abort_fold()
            self._batches = batches + self._batches
            self._rows = [older | newer for older, newer in zip(rows, self._rows, strict=True)]
            self.pending_ops += self._pass_ops
            self.pending_bytes += sum(nbytes for _, nbytes in batches)
            self._touched |= self._touched_in_pass
            raise
        keyspace.end_fold()
        self._touched_in_pass = set()
        yield from _free(rows)
        yield from self._empty_graves()

    def _sort(self, rows: Rows, buckets: Buckets) -> Generator[None]:
        """The places of rows into buckets that are small enough to be sorted."""
        shift = max(8, self.keyspace.next_id.bit_length() - BUCKETS_LOG2)
        for table, of_table in enumerate(rows):
            places = iter(of_table)
            while some := list(islice(places, SORTED_ROWS)):
                for place in some:
                    if type(place) is int:
                        buckets[table, place >> shift, 0].append(place)
                    else:
                        key_id, sub = place
                        part = sub >> SUB_BUCKET_SHIFT if type(sub) is int else 0
                        buckets[table, key_id >> shift, part].append(place)
                yield

    def _write(self, rows: Rows, buckets: Buckets, first_new_id: int) -> Generator[None]:
        """Write the rows, sorted. Dead keys lose everything, or were never in the tables."""
        dead = {key_id for key_id, op in rows[KEYS].items() if op[3] is None}
        slice_ops: list[Op] = []
        slice_cost = slice_bytes = 0
        share = self._pass_ops / (sum(map(len, rows)) or 1)
        for bucket in sorted(buckets):
            of_table = rows[bucket[0]]
            for place in _in_order(buckets.pop(bucket)):
                op = of_table[place]
                table, key_id, _, value = op
                if key_id in dead and (table != KEYS or key_id >= first_new_id):
                    continue
                slice_ops.append(op)
                slice_cost += KEY_ROW_COST if table == KEYS else 1
                if type(value) is bytes:
                    slice_bytes += len(value)
                if slice_cost >= SLICE_ROWS or slice_bytes >= SLICE_BYTES:
                    self._write_slice(slice_ops)
                    self._pass_done_ops += int(len(slice_ops) * share)
                    slice_ops, slice_cost, slice_bytes = [], 0, 0
                    yield
        if slice_ops:
            self._write_slice(slice_ops)
            yield

    def _write_slice(self, ops: list[Op]) -> None:
        connection = self._connection
        with connection:
            for (table, is_gone), group in groupby(ops, key=_table_and_gone):
                rows, same = ROWS[table], list(group)
                if not is_gone:
                    self._put(table, rows.bindings(same))
                    continue
                places = rows.places(same)
                if table == KEYS:
                    connection.executemany(BURY, places)
                    connection.executemany(ROWS[STRINGS].delete, places)
                connection.executemany(rows.delete, places)

    def _put(self, table: int, bindings: Sequence[Sequence[object]]) -> None:
        """Many rows to a statement, which saves a quarter of their time, then the rest."""
        connection = self._connection
        whole = len(bindings) // STATEMENT_ROWS * STATEMENT_ROWS
        for start in range(0, whole, STATEMENT_ROWS):
            values = tuple(chain.from_iterable(bindings[start : start + STATEMENT_ROWS]))
            connection.execute(put_sql(table, STATEMENT_ROWS), values)
        connection.executemany(put_sql(table, 1), bindings[whole:])

    def _delete_batches(self, batches: list[tuple[int, int]]) -> Generator[None]:
        """In the journal and in the list, which thereby has what the journal has."""
        while batches:
            nbytes = count = 0
            while count < len(batches) and nbytes < SLICE_BYTES:
                lsn, size = batches[count]
                nbytes += size
                count += 1
            self._connection.execute("DELETE FROM journal WHERE lsn <= ?", (lsn,))
            self.folded_lsn = lsn
            del batches[:count]
            yield

    # -- graves -------------------------------------------------------------------------------

    @property
    def _has_graves(self) -> bool:
        return bool(self._connection.execute("SELECT EXISTS (SELECT 1 FROM redis_graves)").get)

    def _bury_spaces(self) -> None:
        self._connection.execute(
            "INSERT OR IGNORE INTO redis_graves SELECT space, 'space' FROM redis_space_sizes"
            " WHERE space NOT IN (SELECT space FROM redis_databases)"
        )

    def _empty_graves(self) -> Generator[None]:
        connection = self._connection
        while True:
            grave = connection.execute("SELECT id, kind FROM redis_graves LIMIT 1").get
            if grave is None:
                return
            with connection:
                if grave[1] == "space":
                    self._empty_space(grave[0])
                else:
                    self._empty_key(*grave)
            yield

    def _empty_key(self, key_id: int, type_name: str) -> None:
        """Some of what a dead collection has left, and its grave once there is nothing."""
        connection = self._connection
        before = connection.total_changes()
        for table in COLLECTIONS[type_name].tables:
            connection.execute(ROWS[table].delete_some, (key_id, key_id, SLICE_ROWS))
        if connection.total_changes() == before:
            connection.execute("DELETE FROM redis_graves WHERE id = ?", (key_id,))

    def _empty_space(self, space: int) -> None:
        connection = self._connection
        keys = list(
            connection.execute(
                "SELECT id FROM redis_keys WHERE space = ? LIMIT ?", (space, SLICE_ROWS)
            )
        )
        if keys:
            self._write_slice([(KEYS, key_id, None, None) for (key_id,) in keys])
            return
        connection.execute("DELETE FROM redis_space_sizes WHERE space = ?", (space,))
        connection.execute("DELETE FROM redis_graves WHERE id = ?", (space,))


def _table_and_gone(op: Op) -> tuple[int, bool]:
    return op[0], op[3] is None


def _no_rows() -> Rows:
    return [{} for _ in ROWS]


def _free(rows: Rows) -> Generator[None]:
    """To free 100k rows at once takes 10 ms."""
    for of_table in rows:
        while of_table:
            for _ in range(min(len(of_table), SORTED_ROWS)):
                of_table.popitem()
            yield


def _in_order(places: list[Any]) -> Iterable[Any]:
    if len(places) <= LARGEST_SORT:
        return sorted(places)
    runs = range(0, len(places), LARGEST_SORT)
    return merge(*[sorted(places[start : start + LARGEST_SORT]) for start in runs])
