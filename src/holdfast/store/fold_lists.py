"""How the fold writes the elements of lists, and keeps what redis_list_meta says of them.

Elements that were pushed or popped one after the other have positions one step apart. Such a run
is written by one statement, removed by one statement, and counted by SQLite: `changes()` tells how
many of its rows were new, or had been there, whatever a pass that was cut off has done already. (A
trigger that counted took as long as writing a row, and four times as long as removing it.)
"""

from typing import Final

import apsw

from holdfast.store.chunks import STEP
from holdfast.store.ops import Op

RUNS: Final = (50, 5, 1)  # rows to a statement: fifty cost half of what they cost one by one


def _insert(verb: str, rows: int, on_conflict: str = "") -> str:
    # No blanks: APSW looks at every letter to find out that it knows the statement.
    places = ",".join(f"(?1,?2+{row * STEP},?{row + 3})" for row in range(rows))
    return f"{verb} INTO redis_list_items VALUES{places}{on_conflict}"


# What cannot fail half way need not be prepared to be undone: saves a tenth.
ADD: Final = {rows: _insert("INSERT OR IGNORE", rows) for rows in RUNS}
REPLACE: Final = {
    rows: _insert("INSERT", rows, "ON CONFLICT DO UPDATE SET value=excluded.value") for rows in RUNS
}

# Not what was inserted between: that is off the grid, or on another one.
REMOVE: Final = (
    "DELETE FROM redis_list_items"
    f" WHERE key_id = ?1 AND pos BETWEEN ?2 AND ?3 AND (pos - ?2) & {STEP - 1} = 0"
)
COUNT: Final = (
    "INSERT INTO redis_list_meta VALUES (?1, ?2, ?3)"
    " ON CONFLICT DO UPDATE SET length = length + ?2, off_grid = off_grid + ?3"
)


class ListRows:
    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._execute = connection.cursor().execute  # else there would be a new cursor each time

    def write(self, ops: list[Op]) -> None:
        """Operations on elements, by key and position. Within a transaction, so that no list is
        ever seen with another length than it has."""
        counts: list[tuple[int, int, int]] = []
        length = off_grid = 0
        start, count = 0, len(ops)
        while start < count:
            first = ops[start]
            key_id: int = first[1]
            position: int = first[2]
            is_gone = first[3] is None
            is_last_of_key = True
            end, next_position = start, position
            while (end := end + 1) < count:
                op = ops[end]
                of: int = op[1]
                if of != key_id:
                    break
                at: int = op[2]
                next_position += STEP
                if at != next_position or (op[3] is None) is not is_gone:
                    is_last_of_key = False
                    break
            if is_gone:
                change = -self._remove(key_id, position, end - start)
            else:
                change = self._put(key_id, position, [op[3] for op in ops[start:end]])
            length += change
            if position % STEP:
                off_grid += change
            if is_last_of_key:
                if length or off_grid:
                    counts.append((key_id, length, off_grid))
                length = off_grid = 0
            start = end
        self._connection.executemany(COUNT, counts)

    def _put(self, key_id: int, position: int, values: list[bytes]) -> int:
        """How many of these elements are new."""
        added = start = 0
        for rows in RUNS:
            while len(values) - start >= rows:
                run = (key_id, position + start * STEP, *values[start : start + rows])
                self._execute(ADD[rows], run)
                new = self._connection.changes()
                if new < rows:
                    self._execute(REPLACE[rows], run)
                added += new
                start += rows
        return added

    def _remove(self, key_id: int, position: int, count: int) -> int:
        """How many of them were there."""
        self._execute(REMOVE, (key_id, position, position + (count - 1) * STEP))
        return self._connection.changes()
