"""Shared by the tests of lists: a change log, and the table that stored lists load from."""

import json
from collections.abc import Iterable

import apsw

from holdfast.store.change.change_log import ChangeLog
from holdfast.store.change.runs import STEP
from holdfast.store.change.undo import RowUndo
from holdfast.store.values.list import List
from holdfast.store.values.registry import revert

KEY_ID = 7


def roll_back(log: ChangeLog) -> None:
    assert log.undo is not None
    for step in reversed(log.undo):
        assert isinstance(step, RowUndo)
        revert(step, log)
    log.undo.clear()


def elements_in(connection: apsw.Connection) -> dict[tuple[int, int], bytes]:
    """By key and position, whether they share a row or have one of their own."""
    found: dict[tuple[int, int], bytes] = {}
    for key_id, pos, value in connection.execute("SELECT key_id, pos, value FROM redis_list_items"):
        found[key_id, pos] = value
    for key_id, pos, first, sizes, data in connection.execute("SELECT * FROM redis_list_blocks"):
        start = 0
        for place, size in enumerate(json.loads(sizes), first):
            if size is not None:
                assert (key_id, pos + place * STEP) not in found
                found[key_id, pos + place * STEP] = data[start : start + size]
                start += size
        assert start == len(data)
    return found


class Table:
    """The rows of one list in a real SQLite table; counts the rows loaded from it."""

    def __init__(self, rows: Iterable[tuple[int, bytes]] = ()) -> None:
        self.rows_loaded = 0
        self._execute = apsw.Connection(":memory:").execute
        self._execute("CREATE TABLE items (pos INTEGER PRIMARY KEY, value BLOB NOT NULL)")
        for pos, value in rows:
            self.write(pos, value)

    @classmethod
    def numbered(cls, count: int) -> "Table":
        """Elements b"0", b"1", … as RPUSH would have placed them."""
        self = cls()
        self._execute(
            "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < ?1 - 1)"
            " INSERT INTO items SELECT i * ?2, CAST(CAST(i AS TEXT) AS BLOB) FROM n",
            (count, STEP),
        )
        return self

    def write(self, pos: int, value: bytes | None) -> None:
        if value is None:
            self._execute("DELETE FROM items WHERE pos = ?", (pos,))
        else:
            self._execute("REPLACE INTO items VALUES (?, ?)", (pos, value))

    def load(
        self, from_pos: int, to_pos: int, limit: int, reverse: bool, skip: int
    ) -> list[tuple[int, bytes]]:
        rows = list(
            self._execute(
                "SELECT pos, value FROM items WHERE pos BETWEEN ? AND ?"
                f" ORDER BY pos {'DESC' if reverse else 'ASC'} LIMIT ? OFFSET ?",
                (from_pos, to_pos, limit, skip),
            )
        )
        self.rows_loaded += len(rows)
        return rows

    def open(self, log: ChangeLog) -> List:
        """The list of these rows, nothing of it loaded yet."""
        length, first, last, off_grid = next(
            self._execute(
                "SELECT count(*), coalesce(min(pos), 0), coalesce(max(pos), 0),"
                " coalesce(sum(pos % ? <> 0), 0) FROM items",
                (STEP,),
            )
        )

        def on_load(nbytes: int) -> None:
            log.used_bytes += nbytes

        return List.stored(
            KEY_ID, length, first, last, self.load, on_grid=not off_grid, on_load=on_load
        )
