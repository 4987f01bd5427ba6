"""The fold: it moves the changes of the journal into the tables, a slice at a time.

At every moment, the tables and the journal together are the state. The fold keeps the latest value
of each changed row. Of new keys, strings, and elements of hashes and sets it keeps at most their
names, because memory has the values. A pass takes the changes of all batches so far, writes them
sorted by key in transactions of about a millisecond, and only then deletes the batches. Operations
are absolute, so after a crash in the middle of a pass the pass is simply done again.

Graves, the rows of deleted keys, are emptied here, too: they take turns with the passes, in the
same slices.

It is one class because a pass is one sequence, and each slice goes on where the one before ended.

Measured (32-byte values): rows in arrival order cost 11 µs of CPU each, sorted ones 2 µs.
"""

from collections.abc import Generator, Iterator
from itertools import chain, islice
from typing import Any

import apsw

from holdfast.errors import StorageError, StoreBusyError
from holdfast.store.change.fold_state import NO_ID, PackedNames
from holdfast.store.change.ops import (
    CRDT_FACTS,
    CRDT_ROWS,
    KEYS,
    LIST_ITEMS,
    SPACES,
    STREAM_ENTRIES,
    STRINGS,
    Op,
)
from holdfast.store.file.journal import Journal
from holdfast.store.file.list_blocks import PLACES
from holdfast.store.file.tables import (
    ROWS,
    SOME_OF_SPACE,
    STATEMENT_ROWS,
    RowTable,
    put_columns,
    put_fields_sql,
    put_sql,
)
from holdfast.store.fold.collect import collect_elements, collect_new_keys
from holdfast.store.fold.delete_rows import RemovedRows
from holdfast.store.fold.new_packed import NewPackedKeys
from holdfast.store.fold.pending_rows import ChangedRows, Rows
from holdfast.store.fold.write_keys import KeyRows
from holdfast.store.fold.write_lists import EMPTY_BLOCKS, ListRows, end_of_block
from holdfast.store.fold.write_sizes import COUNTED, NOTE_FOLDED, SizeRows
from holdfast.store.fold.write_streams import StreamRows
from holdfast.store.memory.key import Key
from holdfast.store.memory.keyspace import Keyspace
from holdfast.store.memory.packing import pack_clean
from holdfast.store.values.registry import COLLECTIONS

SLICE_ROWS = 500
SLICE_BYTES = 256 * 1024
COLLECTED_ROWS = 500  # read from memory in one slice
PACKED_KEYS = 500  # packed in one slice
PASS_ROWS = 200_000  # a pass starts when so many rows have changed …
PASS_OPS = 1_000_000  # … or there are so many operations to recover, in about 2 s …
PASS_BYTES = 64 << 20  # … or this many bytes; or when the oldest change is old enough
PASS_TICKS = 100  # of `grow_older`, in which a pass is done also where clients leave no time
# For PASS_ROWS, an element of a list counts as so many rows, because its copy waits for the pass.
# A new key counts as 2 to 16 rows: the fewer keys there are, the fewer new ones may wait for the
# pass. They are an eighth of all keys, within these bounds. A new key that is gone again, such as
# a job that was done, takes little memory. It counts as 2 rows: a pass that comes later has fewer
# keys to write.
ELEMENT_ROWS = 4
NEW_KEY_ROWS = 2
FEW_NEW_KEY_ROWS = 16
SHARE_NEW = 8
FEWEST_OPS = 10_000  # smaller passes do not change `_slices_per_op`
SLICES_PER_OP = 0.005  # a guess for the first pass; later ones know it from the pass before
MOST_BY_SLICES = 0.95  # a pass is never taken for more complete by its number of slices
MOST_URGENT = 4  # times the usual number of slices at most, so that no turn takes long

# A collection's rows go later, in slices; a grave remembers them.
BURY = (
    "INSERT OR IGNORE INTO redis_graves"
    " SELECT id, type FROM redis_keys WHERE id = ? AND type <> 'string'"
)

GRAVES = 50  # emptied in one slice, if they have few rows
SOME_GRAVES = "SELECT id, kind FROM redis_graves LIMIT ?"
REPLICATED = "replicated "  # the kind of a grave; the number of the database follows
BURY_REPLICATED = (
    "INSERT OR IGNORE INTO redis_graves SELECT ?1, ?2 || ?3"
    " WHERE EXISTS (SELECT 1 FROM crdt_keys WHERE db = ?3 AND id < ?1)"
)
FLUSHED_KEYS = "SELECT id FROM crdt_keys WHERE db = ? AND id > ? AND id < ? ORDER BY id LIMIT ?"


class Fold:
    def __init__(self, connection: apsw.Connection, journal: Journal, keyspace: Keyspace) -> None:
        self._connection = connection
        self._journal = journal
        self.keyspace = keyspace
        self._execute = connection.cursor().execute  # else there would be a new cursor each time
        self._lists = ListRows(connection)
        self._streams = StreamRows(connection)
        self._removed = RemovedRows(connection)
        self._sizes = SizeRows(connection)
        # New keys that were removed before the last pass could write them. Changes of them that
        # came while that pass ran are part of the next pass, which must not write them either.
        self._dead_before: set[int] = set()
        self._keys = KeyRows(connection)
        self._rows = ChangedRows()
        self._rows_in_pass = ChangedRows()  # of the running pass; the tables have some of them
        self._batches: list[tuple[int, int]] = []  # lsn, bytes
        self._pass: Generator[None] | None = None
        self._buried: dict[int, int] = {}  # by database: replica keys below that id have a grave
        self._emptied: dict[int, int] = {}  # by such a grave: the last key that was taken from it
        # Whether the pass reads rows or keys from memory. Meanwhile memory must have no change that
        # the journal lacks.
        self._is_collecting = False
        self._pending_since_s: float | None = None  # batches that no pass has taken
        self._pass_since_s: float | None = None  # batches of the running pass
        self._is_next_aged = False  # a pass is due, because of the age of a batch
        self._share_by_age = 0.0  # of the pass, which should be done by now
        self.slices = 0
        self.parts_of_slice = 1  # more while clients with short requests wait
        self.pending_ops = 0  # not yet taken by a pass
        self.pending_bytes = 0
        self._pass_ops = 0
        self._pass_done_ops = 0
        self._ops_per_row = 0.0
        self._pass_slices = 0.0  # of the running pass, so far
        self._slices_per_op = SLICES_PER_OP
        self._new_key_rows = FEW_NEW_KEY_ROWS
        first = connection.execute("SELECT min(lsn) FROM journal").get
        self.folded_lsn = journal.lsn if first is None else first - 1
        # Until recovery is complete, rows of all keys are taken from operations, because memory
        # does not have keys that were flushed.
        self._first_unwritten_id = NO_ID

    def recovered(self) -> None:
        """All batches of the journal are added. No row of an id from the next one on was ever
        written, and memory has all keys with such ids."""
        self._first_unwritten_id = self.keyspace.next_id
        self.keyspace.fold_state.begin_creating(self.keyspace.next_id)

    def add(self, lsn: int, ops: list[Op], nbytes: int, count: int) -> None:
        """Add a batch that took this number of operations; records may stand for many."""
        # At once, while they are in the processor's caches: later it would take twice as long.
        created_from_id = self.keyspace.fold_state.whole_from_id
        self._rows.add(ops, without=STRINGS, created_from_id=created_from_id)
        self._batches.append((lsn, nbytes))
        self.pending_ops += count
        self.pending_bytes += nbytes

    def is_clean(self, key_id: int) -> bool:
        """Whether the tables have all of this key, so that memory may forget it."""
        return not (self._rows.concern(key_id) or self._rows_in_pass.concern(key_id))

    @property
    def is_idle(self) -> bool:
        return self._pass is None and not self._batches

    # -- age ----------------------------------------------------------------------------------

    def grow_older(self, now_s: float, most_s: float) -> None:
        """Called ten times a second. A pass is due when a batch is `most_s` old.

        The time is read here and not for each batch, so a batch may be a tick older than noted. A
        pass gets its share by ticks and not by time, so that a process that was stopped does not
        have to catch up.
        """
        if self._pending_since_s is None and self._batches:
            self._pending_since_s = now_s
        since_s = self._pending_since_s
        self._is_next_aged = since_s is not None and now_s - since_s >= most_s
        if self._pass is not None:
            self._share_by_age += 1 / PASS_TICKS

    def age_s(self, now_s: float) -> float:
        """The age of the oldest change that the tables lack; 0 if there is none."""
        since_s = self._pending_since_s if self._pass_since_s is None else self._pass_since_s
        return 0.0 if since_s is None else now_s - since_s

    @property
    def is_due(self) -> bool:
        """Whether a server that has time should fold: a pass runs, or is due by age; or nothing is
        pending, and there may be graves."""
        return self._pass is not None or self._is_next_aged or not self._batches

    @property
    def is_behind(self) -> bool:
        """Whether a slice is due now, under load: the pass should end as the next one begins, and
        after `PASS_TICKS`."""
        if self._pass is None and self._is_next_aged:
            return True
        share = max(self._share_of_next_pass, self._share_by_age)
        if self._pass is None or not self._pass_ops:  # or the pass has nothing but graves
            return share >= 1
        return self._done_share < share

    @property
    def _done_share(self) -> float:
        """About how much of the running pass is done. Half of its slices write no rows: they
        collect rows, sort them, delete batches. So slices are counted, too. By rows alone the pass
        would seem to stand still, and turns would be full of such slices."""
        by_rows: float = self._pass_done_ops / self._pass_ops
        by_slices: float = self._pass_slices / (self._slices_per_op * self._pass_ops)
        if by_slices > MOST_BY_SLICES:
            by_slices = MOST_BY_SLICES
        return max(by_rows, by_slices)

    @property
    def urgency(self) -> int:
        """The factor for the usual number of slices. New keys, and the dead rows of a database that
        was flushed, are more work than the number of their operations shows."""
        if self._pass is None:
            return 1
        share = max(self._share_of_next_pass, self._share_by_age)
        return min(1 + int(share), MOST_URGENT)

    @property
    def _share_of_next_pass(self) -> float:
        """How urgent the next pass is; from 1 on it is due."""
        keyspace = self.keyspace
        rows_so_far = self._rows
        count = rows_so_far.count + (ELEMENT_ROWS - 1) * rows_so_far.elements
        count += keyspace.fold_state.dirty_values
        new_keys = keyspace.next_id - self._first_unwritten_id
        if new_keys > 0:
            new_rows = self._new_key_rows * new_keys
            if new_rows > PASS_ROWS // 4 and self._new_key_rows > NEW_KEY_ROWS:
                living = self._living_keys()
                if living < new_keys:
                    gone = new_keys - living
                    new_rows = self._new_key_rows * living + NEW_KEY_ROWS * gone
            count += new_rows
        rows = count / PASS_ROWS
        ops, nbytes = self.pending_ops / PASS_OPS, self.pending_bytes / PASS_BYTES
        share = max(rows, ops)
        return max(share, nbytes)  # (of three, compiled, it would make objects)

    @property
    def ops_of_pass(self) -> tuple[int, int]:
        """About how many operations of the running pass are done, and how many it has."""
        return min(self._pass_done_ops, self._pass_ops), self._pass_ops

    @property
    def may_step(self) -> bool:
        """Whether `step` may do something.

        No pass begins while a batch is open. The changes of that batch are in no journal yet, so
        the pass would not write them, but the keyspace would count them as written. No slice reads
        memory while a batch is open: it would write changes that no journal has.
        """
        return not self.keyspace.open_ops or (self._pass is not None and not self._is_collecting)

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
            self.slices += 1
            self._pass_slices += 1 / self.parts_of_slice
            next(self._pass)
        except StopIteration:
            self._pass = None
        except apsw.BusyError:
            self._pass = None
            raise StoreBusyError("another program holds the database file locked") from None
        except Exception as error:  # also of a bug: the journal has it all, and nothing is lost
            self._pass = None
            raise StorageError(f"cannot write the tables: {error}") from error
        return True

    def run(self) -> None:
        """Fold everything now: SAVE, and a clean shutdown. No batch may be open."""
        assert not self.keyspace.open_ops
        while self.step():
            pass

    # -- one pass -----------------------------------------------------------------------------

    def _run_pass(self) -> Generator[None]:
        batches, self._batches = self._batches, []
        rows = self._rows_in_pass = self._rows
        self._rows = ChangedRows()
        self._pass_ops, self._pass_done_ops, self._pass_slices = self.pending_ops, 0, 0.0
        self.pending_ops = self.pending_bytes = 0
        self._pass_since_s, self._pending_since_s = self._pending_since_s, None
        self._is_next_aged, self._share_by_age = False, 0.0
        keyspace = self.keyspace
        first_new_id, self._first_unwritten_id = self._first_unwritten_id, keyspace.next_id
        self._weigh_new_keys()
        keyspace.begin_fold()
        self._keys.begin_pass()
        new = NewPackedKeys(self._connection, self._keys, keyspace, first_new_id, self._slice_rows)
        try:
            never_lived = yield from self._collect(rows, first_new_id, new)
            shown = self._spaces_shown(rows)
            dead = yield from rows.dead(first_new_id, shown)
            dead |= never_lived
            dead |= self._dead_before
            # (Of a packed key: its row, that of its string or field, and its name.)
            self._ops_per_row = self._pass_ops / (rows.count + rows.new_keys + 3 * new.count or 1)
            yield from self._write(rows, dead, first_new_id)
            yield from self._write_packed(new, shown, never_lived, first_new_id)
            for count in self._keys.write_names(self._slice_rows, SLICE_BYTES):
                self._pass_done_ops += int(count * self._ops_per_row)
                yield
            if rows.has(SPACES):
                self._bury_spaces()
            if rows.has(CRDT_FACTS):
                self._bury_replicated()
            yield from self._delete_batches(batches)
        except Exception:
            # The journal still has these batches: the next pass does it all again.
            keyspace.abort_fold()
            self._batches = batches + self._batches
            rows.forget_taken()
            rows.overlay(self._rows)
            self._rows, self._rows_in_pass = rows, ChangedRows()
            self.pending_ops += self._pass_ops
            self.pending_bytes += sum(nbytes for _, nbytes in batches)
            if self._pass_since_s is not None:
                self._pending_since_s, self._pass_since_s = self._pass_since_s, None
            raise
        self._dead_before = never_lived
        if self._pass_ops >= FEWEST_OPS:
            self._slices_per_op = self._pass_slices / self._pass_ops
        state = keyspace.fold_state
        created = state.created_in_pass() + list(state.revived_in_pass.values())
        keyspace.end_fold()
        self._keys.end_pass()
        self._pass_since_s = None
        self._rows_in_pass = ChangedRows()
        row_count = rows.count
        yield from rows.free()
        if keyspace.may_pack and keyspace.loads_rows_alone:
            new_keys = len(created)
            yield from self._pack(created)
            keyspace.tidy(new_keys)
        keyspace.freeing.note_done(row_count)
        yield from self._write_sizes()
        yield from self._empty_graves(row_count // SLICE_ROWS)

    def _weigh_new_keys(self) -> None:
        """Decide as how many rows a new key counts.

        New keys are packed at the end of their pass, and until then each is several objects. The
        process keeps the memory of the largest number of objects that it ever had. So if there are
        few keys, a pass takes few new ones. This costs little, because the names of a small table
        share pages.
        """
        if not (self.keyspace.may_pack and self.keyspace.loads_rows_alone):
            self._new_key_rows = NEW_KEY_ROWS
            return
        rows = PASS_ROWS * SHARE_NEW // max(self._living_keys(), 1)
        self._new_key_rows = min(max(rows, NEW_KEY_ROWS), FEW_NEW_KEY_ROWS)

    def _living_keys(self) -> int:
        return sum([len(database) for database in self.keyspace.databases])

    def _write_sizes(self) -> Generator[None]:
        """If nothing has changed since the pass began, memory has as many elements as the
        tables."""
        large = self.keyspace.fold_state.large
        if not self.keyspace.loads_rows_alone:
            large.clear()  # nothing asks for sizes
        while large and not self._batches and not self.keyspace.open_ops:
            some = [large.popitem()[1] for _ in range(min(len(large), SLICE_ROWS))]
            self._sizes.write(some)
            yield

    def _pack(self, created: list[Key | PackedNames]) -> Generator[None]:
        """Pack the small ones of the keys that the pass has written. (They go from the list at
        once, and so from memory. So do the names of those that were packed already.)"""
        self._is_collecting = True
        try:
            yield  # a batch may be open now, and not in the next step
            while created:
                keys: list[Key] = []
                count = 0
                while created and count < PACKED_KEYS:
                    entry = created.pop()
                    if isinstance(entry, Key):
                        keys.append(entry)
                        count += 1
                    else:
                        count += len(entry.names)
                if keys:
                    changed = [rows for rows in self._rows.tables if rows]
                    pack_clean(self.keyspace, keys, changed)
                yield
        finally:
            self._is_collecting = False

    def _collect(
        self, rows: ChangedRows, first_new_id: int, new: NewPackedKeys
    ) -> Generator[None, None, set[int]]:
        """Rows that are in memory only. They are as new as any that the batches have. Returns the
        ids of new keys that the tables must not have."""
        self._is_collecting = True
        state = self.keyspace.fold_state
        try:
            unwritten: Iterator[Op] = self.keyspace.unwritten_rows()
            while some := list(islice(unwritten, COLLECTED_ROWS)):
                rows.add(some)
                yield
            yield from collect_elements(state, rows)
            shown = self._spaces_shown(rows)
            keys = yield from new.begin(rows)
            return (yield from self._collect_keys(keys, rows, first_new_id, shown))
        finally:
            self._is_collecting = False

    def _collect_keys(
        self, keys: list[Key], rows: ChangedRows, first_new_id: int, shown: set[int] | None
    ) -> Generator[None, None, set[int]]:
        shows = self.keyspace.shows
        return (yield from collect_new_keys(keys, rows, first_new_id, shown, shows))

    def _write_packed(
        self, new: NewPackedKeys, shown: set[int] | None, never_lived: set[int], first_new_id: int
    ) -> Generator[None]:
        """Write the keys that were packed when they were made. Each slice reads what it writes.
        Some of the keys were revived since the pass began; they are written as other keys are. (No
        operation of this pass concerns them.)"""
        if not new.count:
            return
        self._is_collecting = True
        try:
            yield  # a batch may be open now, and not in the next step
            for written in new.write(shown, never_lived):
                self._pass_done_ops += int(written * self._ops_per_row)
                yield
            rows = ChangedRows()
            dead = yield from self._collect_keys(new.revived, rows, first_new_id, shown)
            never_lived |= dead
            yield from self._write(rows, dead, first_new_id)
        finally:
            self._is_collecting = False

    def _write(self, rows: ChangedRows, dead: set[int], first_new_id: int) -> Generator[None]:
        """Write the rows, sorted. Dead keys lose everything, or were never in the tables."""
        never_written = {key_id for key_id in dead if key_id >= first_new_id}
        parts: list[tuple[int, Rows]] = []  # of the slice, by table
        slice_rows = slice_bytes = 0
        most_rows, most_bytes = self._slice_rows(), SLICE_BYTES  # (globals would be looked up)
        for table in ROWS:
            for some in rows.in_order(table, never_written if table == KEYS else dead):
                values = some.values
                start, count = 0, len(values)
                if not count:
                    yield
                while start < count:
                    end = start
                    while end < count and slice_rows < most_rows and slice_bytes < most_bytes:
                        value = values[end]
                        if isinstance(value, tuple):
                            value = value[0]  # of a field; what other rows have is not large
                        if isinstance(value, bytes):
                            slice_bytes += len(value)
                        slice_rows += 1
                        end += 1
                    if table == LIST_ITEMS:
                        end = end_of_block(some.subs, end)
                    part = some.part(start, end)
                    if parts and parts[-1][0] == table and parts[-1][1].is_of_one_kind_with(part):
                        parts[-1][1].extend(part)
                    else:
                        parts.append((table, part))
                    start = end
                    if slice_rows >= most_rows or slice_bytes >= most_bytes:
                        self._write_slice(parts)
                        written = sum([len(part.ids) for _, part in parts])
                        self._pass_done_ops += int(written * self._ops_per_row)
                        parts, slice_rows, slice_bytes = [], 0, 0
                        yield
                        most_rows = self._slice_rows()
        if parts:
            self._write_slice(parts)
            yield

    def _slice_rows(self) -> int:
        return SLICE_ROWS // self.parts_of_slice or 1

    def _write_slice(self, parts: list[tuple[int, Rows]]) -> None:
        with self._connection:
            for table, rows in parts:
                if table == LIST_ITEMS:
                    self._lists.write(rows.ops(table))
                elif table == STREAM_ENTRIES:
                    self._streams.write(rows)
                else:
                    self._write_rows(table, rows)

    def _write_rows(self, table: int, rows: Rows) -> None:
        if rows.kind is not None:
            self._keys.write_new(*rows.kind, rows.ids, rows.values, rows.subs)
            return
        if rows.ordinals is not None:
            self._sizes.touch(rows.ids)
            columns = [rows.ids, rows.subs, rows.values, rows.ordinals]
            put_columns(self._execute, put_fields_sql, [], columns)
            return
        if table == KEYS:
            self._keys.note_moves(rows)
        there, gone = rows.by_fate()
        if table in COUNTED:
            self._sizes.touch(rows.ids)
        self._put(table, there)
        if table == KEYS:
            self._sizes.touch(gone.ids)
            places = [(key_id,) for key_id in gone.ids]
            self._connection.executemany(BURY, places)
            self._removed.write(STRINGS, gone)
        self._removed.write(table, gone)

    def _put(self, table: int, rows: Rows) -> None:
        """Many rows to a statement, which saves a quarter of their time, and more if they are of
        one key; then the rest."""
        has_subs, has_columns = len(ROWS[table].sub), len(ROWS[table].values)
        start, count = 0, len(rows.ids)
        while start < count:
            size = STATEMENT_ROWS if count - start >= STATEMENT_ROWS else 1
            end = start + size
            bindings: list[Any] = list(rows.ids[start:end])
            of_one_key = has_subs > 0 and rows.ids[start] == rows.ids[end - 1]
            if of_one_key:
                del bindings[1:]
            subs, values = rows.subs[start:end], rows.values[start:end]
            bindings += subs if has_subs <= 1 else chain.from_iterable(subs)
            bindings += values if has_columns == 1 else chain.from_iterable(values)
            self._execute(put_sql(table, size, of_one_key), bindings)
            start = end

    def _delete_batches(self, batches: list[tuple[int, int]]) -> Generator[None]:
        """Delete batches from the journal and from the list, so that both have the same batches."""
        while batches:
            nbytes = count = 0
            while count < len(batches) and nbytes < SLICE_BYTES:
                lsn, size = batches[count]
                nbytes += size
                count += 1
            with self._connection:
                self._execute("DELETE FROM journal WHERE lsn <= ?", (lsn,))
                self._execute(NOTE_FOLDED, (lsn,))  # numbers go on where they were
            self.folded_lsn = lsn
            del batches[:count]
            yield

    # -- graves -------------------------------------------------------------------------------

    @property
    def _has_graves(self) -> bool:
        return bool(self._connection.execute("SELECT EXISTS (SELECT 1 FROM redis_graves)").get)

    def _bury_spaces(self) -> None:
        """(A space that came after the pass began may have keys already. The next pass shows it or
        buries it.)"""
        self._connection.execute(
            "INSERT OR IGNORE INTO redis_graves SELECT space, 'space' FROM redis_space_sizes"
            " WHERE space < ? AND space NOT IN (SELECT space FROM redis_databases)",
            (self.keyspace.fold_state.pass_below_id,),
        )

    def _bury_replicated(self) -> None:
        """Make graves for flushed keys of an active-active server: one for each database, with the
        id below which its keys were flushed."""
        assert self.keyspace.tables is not None
        for database, first_id in self.keyspace.tables.crdt_flushed().items():
            if self._buried.get(database) != first_id:
                self._buried[database] = first_id
                self._connection.execute(BURY_REPLICATED, (first_id, REPLICATED, database))

    def _spaces_shown(self, rows: ChangedRows) -> set[int] | None:
        """The spaces that databases have after the pass; None if the pass does not change them."""
        if not rows.has(SPACES):
            return None
        assert self.keyspace.tables is not None
        return {*(self.keyspace.tables.spaces_shown() | rows.tables[SPACES]).values()}

    def _empty_graves(self, slices: int) -> Generator[None]:
        """Empty graves: this number of slices, and more until the next pass is due. A client that
        fills a database and flushes it again and again makes as many dead rows as living ones, and
        neither kind may pile up."""
        connection = self._connection
        while slices > 0 or not (self._is_next_aged or self._share_of_next_pass >= 1):
            slices -= 1
            graves = list(connection.execute(SOME_GRAVES, (GRAVES,)))
            if not graves:
                return
            with connection:
                self._empty_some(graves)
            yield

    def _empty_some(self, graves: list[tuple[int, str]]) -> None:
        """The first grave, and more if they have few rows: a transaction for each small collection
        would take several times as long."""
        rows_left = SLICE_ROWS
        empty: list[tuple[int]] = []
        for grave_id, kind in graves:
            if kind == "space" or kind.startswith(REPLICATED):
                if rows_left < SLICE_ROWS:
                    break
                if kind == "space":
                    self._empty_space(grave_id)
                else:
                    self._empty_replicated(grave_id, int(kind.removeprefix(REPLICATED)))
                return
            before = self._connection.total_changes()
            if self._empty_key(grave_id, kind):
                empty.append((grave_id,))
            rows_left -= self._connection.total_changes() - before + 1
            if rows_left <= 0:
                break
        self._connection.executemany("DELETE FROM redis_graves WHERE id = ?", empty)

    def _empty_key(self, key_id: int, type_name: str) -> bool:
        """Delete some rows of a dead collection. Returns whether no row is left. The length of a
        list is deleted with its first elements, so that it need not be counted down."""
        connection, is_empty = self._connection, True
        if type_name == "list":
            connection.execute("DELETE FROM redis_list_meta WHERE key_id = ?", (key_id,))
            blocks = SLICE_ROWS // PLACES + 1
            connection.execute(EMPTY_BLOCKS, (key_id, blocks))
            is_empty = connection.changes() < blocks
        for table in COLLECTIONS[type_name].tables:
            is_empty = self._delete_some(ROWS[table], key_id) and is_empty
        return is_empty

    def _delete_some(self, table: RowTable, key_id: int) -> bool:
        """Delete rows as a range: it takes a third of the time that single rows take. Returns
        whether it was all rows of the key."""
        place: tuple[Any, ...] | None = None
        if table.sub:
            place = next(self._connection.execute(table.next_place, (key_id, SLICE_ROWS)), None)
        sql = table.delete_of_key(up_to_place=place is not None)
        self._connection.execute(sql, (key_id, *(place or ())))
        return place is None

    def _empty_replicated(self, first_id: int, database: int) -> None:
        connection, rows_left = self._connection, SLICE_ROWS
        after = self._emptied.get(first_id, 0)  # keys with lower ids belong to other databases
        keys = list(connection.execute(FLUSHED_KEYS, (database, after, first_id, SLICE_ROWS)))
        for (key_id,) in keys:
            before = connection.total_changes()
            self._delete_some(ROWS[CRDT_ROWS], key_id)
            gone = connection.total_changes() - before
            rows_left -= gone + 1
            if gone < SLICE_ROWS:
                connection.execute("DELETE FROM crdt_keys WHERE id = ?", (key_id,))
                self._emptied[first_id] = key_id
            if rows_left <= 0:
                return
        connection.execute("DELETE FROM redis_graves WHERE id = ?", (first_id,))
        self._emptied.pop(first_id, None)

    def _empty_space(self, space: int) -> None:
        connection = self._connection
        keys = list(connection.execute(SOME_OF_SPACE, (space, SLICE_ROWS)))
        if keys:
            self._write_slice(
                [(KEYS, Rows([key_id for (key_id,) in keys], [], [None] * len(keys)))]
            )
            return
        connection.execute("DELETE FROM redis_space_sizes WHERE space = ?", (space,))
        connection.execute("DELETE FROM redis_graves WHERE id = ?", (space,))
