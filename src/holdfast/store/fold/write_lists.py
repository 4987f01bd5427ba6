"""How the fold writes the elements of lists, and keeps redis_list_meta true.

Most elements go into blocks (list_blocks.py). A block of which every place is written, as in the
middle of a run of pushes or pops, is written without reading the row. Other blocks, at the ends of
runs, are read, changed and written again. Elements that have a row of their own are written and
removed in runs of positions one step apart. SQLite counts them: `changes()` tells how many rows
were new, or had been there, even if a pass that was cut off has written some of them already.
"""

from typing import Any, Final

import apsw

from holdfast.store.change.ops import RowOp, list_item
from holdfast.store.change.runs import STEP
from holdfast.store.file.list_blocks import (
    LONGEST,
    PLACES,
    SPAN,
    block_of,
    count,
    filled,
    pack,
    pack_whole,
    put,
    trim,
    unpack,
)

STEP_BITS: Final = STEP.bit_length() - 1
RUNS: Final = (32, 4, 1)  # rows to a statement: 32 in one statement cost half as much as in 32


def _insert(verb: str, rows: int, on_conflict: str = "") -> str:
    # No blanks: APSW looks at every letter to find out that it knows the statement.
    places = ",".join(f"(?1,?2+{row * STEP},?{row + 3})" for row in range(rows))
    return f"{verb} INTO redis_list_items VALUES{places}{on_conflict}"


# `OR IGNORE` cannot fail half way, so SQLite need not prepare to undo it: saves a tenth.
ADD: Final = {rows: _insert("INSERT OR IGNORE", rows) for rows in RUNS}
REPLACE: Final = {
    rows: _insert("INSERT", rows, "ON CONFLICT DO UPDATE SET value=excluded.value") for rows in RUNS
}
# Elements that were inserted between these stay: they are off the grid, or on another one.
REMOVE: Final = (
    "DELETE FROM redis_list_items"
    f" WHERE key_id = ?1 AND pos BETWEEN ?2 AND ?3 AND (pos - ?2) & {STEP - 1} = 0"
)

READ_SIZES: Final = "SELECT rowid,sizes FROM redis_list_blocks WHERE key_id=? AND pos=?"
READ_BLOCK: Final = "SELECT rowid,first,sizes,data FROM redis_list_blocks WHERE key_id=? AND pos=?"
ADD_BLOCK: Final = "INSERT OR IGNORE INTO redis_list_blocks VALUES(?,?,?,?,?)"
CHANGE_BLOCK: Final = "UPDATE redis_list_blocks SET first=?2,sizes=?3,data=?4 WHERE rowid=?1"
REMOVE_BLOCK: Final = "DELETE FROM redis_list_blocks WHERE rowid=?"

# (Joined with the first block it took four times as long as both do one after the other.)
READ_META: Final = "SELECT length,off_grid,singles FROM redis_list_meta WHERE key_id=?"
WRITE_META: Final = "REPLACE INTO redis_list_meta VALUES(?,?,?,?)"

# Of a dead list. Bindings: the key and how many.
EMPTY_BLOCKS: Final = (
    "DELETE FROM redis_list_blocks WHERE rowid IN"
    " (SELECT rowid FROM redis_list_blocks WHERE key_id = ? LIMIT ?)"
)


def end_of_block(positions: list[Any], end: int) -> int:
    """Where to end a slice of a list that would end here, so that a block is not written twice: at
    most a block further."""
    if 0 < end < len(positions):
        position: int = positions[end - 1]
        block = block_of(position)
        farthest = min(len(positions), end + PLACES)
        while end < farthest:
            position = positions[end]
            if position & -SPAN != block:
                break
            end += 1
    return end


class ListRows:
    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._execute = connection.cursor().execute  # else there would be a new cursor each time
        self._key_id: Any = 0  # the list that is being written, and its row of redis_list_meta
        self._length = 0
        self._off_grid = 0
        self._singles = 0

    def write(self, ops: list[RowOp]) -> None:
        """Operations on elements, by key and position. Within a transaction, so that no list is
        ever seen with another length than it has."""
        start, total = 0, len(ops)
        while start < total:
            key_id: int = ops[start][1]
            self._key_id = ops[start][1]
            meta = self._execute(READ_META, (self._key_id,)).get or (0, 0, 0)
            self._length, self._off_grid, self._singles = meta
            while start < total and ops[start][1] == key_id:
                position: int = ops[start][2]
                block = next_position = block_of(position)
                gone = apart = 0
                is_whole = True
                end = start
                while end < total:
                    op = ops[end]
                    of: int = op[1]
                    at: int = op[2]
                    if of != key_id or at & -SPAN != block:
                        break
                    if at != next_position:
                        is_whole = False
                    next_position += STEP
                    if at & (STEP - 1):
                        apart += 1
                    elif op[3] is None:
                        gone += 1
                    elif len(op[3]) > LONGEST:
                        apart += 1
                    end += 1
                some = ops[start:end]
                if apart or self._singles:
                    self._change_block(block, self._write_apart(some))
                elif not is_whole or end - start < PLACES or 0 < gone < PLACES:
                    self._change_block(block, some)
                elif gone:
                    self._remove_block(block)
                else:
                    self._put_block(block, some)
                start = end
            now = (self._length, self._off_grid, self._singles)
            if now != meta:
                self._execute(WRITE_META, (self._key_id, *now))

    def _put_block(self, block: int, ops: list[RowOp]) -> None:
        """Write all 32 elements of a block; `ops` are in order."""
        values: list[bytes] = [op[3] for op in ops]
        self._execute(ADD_BLOCK, (self._key_id, block, 0, *pack_whole(values)))
        if self._connection.changes():
            self._length += PLACES
        else:
            self._change_block(block, ops)

    def _remove_block(self, block: int) -> None:
        # (`DELETE … RETURNING` makes a table for what it returns, and takes twice as long.)
        found = self._execute(READ_SIZES, (self._key_id, block)).get
        if found is not None:
            row_id, sizes = found
            self._length -= count(sizes)
            self._execute(REMOVE_BLOCK, (row_id,))

    def _change_block(self, block: int, ops: list[RowOp]) -> None:
        """Change some places of a block, or write a whole block that may exist already."""
        if not ops:
            return
        row_id: Any = None
        first = 0
        values: list[bytes | None] = []
        if self._length > self._singles:  # else no block has anything
            row = self._execute(READ_BLOCK, (self._key_id, block)).get
            if row is not None:
                row_id, first, sizes, data = row
                values = unpack(sizes, data)
        before = filled(values)
        for op in ops:
            at: int = op[2]
            first = put(first, values, (at - block) >> STEP_BITS, op[3])
        first = trim(first, values)
        self._length += filled(values) - before
        if not values:
            if row_id is not None:
                self._execute(REMOVE_BLOCK, (row_id,))
        elif row_id is None:
            self._execute(ADD_BLOCK, (self._key_id, block, first, *pack(values)))
        else:
            self._execute(CHANGE_BLOCK, (row_id, first, *pack(values)))

    # -- rows of their own --------------------------------------------------------------------

    def _write_apart(self, ops: list[RowOp]) -> list[RowOp]:
        """Write the elements that have a row of their own, and remove such rows of the others.
        Returns the operations that remain for the block."""
        rest: list[RowOp] = []
        start = 0
        while start < len(ops):
            position: int = ops[start][2]
            is_put = _belongs_apart(ops[start])
            values: list[bytes] = []
            end, next_position = start, position
            while end < len(ops):
                op = ops[end]
                at: int = op[2]
                if at != next_position or _belongs_apart(op) is not is_put:
                    break
                if is_put:
                    values.append(op[3])
                    op = list_item(op[1], at, None)
                if position % STEP == 0:
                    rest.append(op)
                next_position += STEP
                end += 1
            added = self._put(position, values) if is_put else -self._remove(position, end - start)
            self._length += added
            self._singles += added
            if position % STEP:
                self._off_grid += added
            start = end
        return rest

    def _put(self, position: int, values: list[bytes]) -> int:
        """Write these elements. Returns how many of them are new."""
        added = start = 0
        for rows in RUNS:
            while len(values) - start >= rows:
                run = (self._key_id, position + start * STEP, *values[start : start + rows])
                self._execute(ADD[rows], run)
                new = self._connection.changes()
                if new < rows:
                    self._execute(REPLACE[rows], run)
                added += new
                start += rows
        return added

    def _remove(self, position: int, rows: int) -> int:
        """Remove these elements. Returns how many of them were there."""
        if self._singles == 0:
            return 0
        self._execute(REMOVE, (self._key_id, position, position + (rows - 1) * STEP))
        return self._connection.changes()


def _belongs_apart(op: RowOp) -> bool:
    at: int = op[2]
    return op[3] is not None and (at % STEP != 0 or len(op[3]) > LONGEST)
