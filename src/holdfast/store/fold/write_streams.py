"""How the fold writes the entries of streams: several to a row, see stream_blocks.py.

Pieces of new entries are joined to rows; the last row of the stream is filled first. For other
changes, the row that has the entries is read, changed and written again, as as many rows as needed.
To do this twice gives the same result, so a pass that was cut off can be repeated.
"""

from typing import Any, Final

import apsw

from holdfast.store.change.stream_blocks import (
    BYTES,
    ENTRIES,
    end_of_row,
    entries_of,
    join,
    merge,
    pack,
    packed,
    piece_of,
)
from holdfast.store.fold.pending_rows import Rows

READ_ROW: Final = (
    "SELECT rowid,id,entries FROM redis_stream_entries"
    " WHERE key_id=? AND id<=? ORDER BY id DESC LIMIT 1"
)
LAST_ROW: Final = (
    "SELECT rowid,id,entries FROM redis_stream_entries WHERE key_id=? ORDER BY id DESC LIMIT 1"
)
NEXT_ROW: Final = "SELECT id FROM redis_stream_entries WHERE key_id=? AND id>? ORDER BY id LIMIT 1"
ADD_ROW: Final = "INSERT INTO redis_stream_entries VALUES(?,?,?)"
CHANGE_ROW: Final = "UPDATE redis_stream_entries SET entries=?2 WHERE rowid=?1"
REMOVE_ROW: Final = "DELETE FROM redis_stream_entries WHERE rowid=?"


class StreamRows:
    def __init__(self, connection: apsw.Connection) -> None:
        self._execute = connection.cursor().execute  # else there would be a new cursor each time

    def write(self, rows: Rows) -> None:
        """Changes of entries, by stream and mostly in the order of their ids. Within a
        transaction, so that entries that move from row to row are never seen twice."""
        start = 0
        while start < len(rows.ids):
            if isinstance(rows.values[start], tuple):
                start = self._write_pieces(rows, start)
            else:
                start = self._write_run(rows, start)

    def _write_pieces(self, rows: Rows, start: int) -> int:
        """Write the pieces of one stream from `start` on. Returns the next row."""
        key_id: Any = rows.ids[start]
        end = start + 1
        while end < len(rows.ids) and rows.ids[end] == key_id and type(rows.values[end]) is tuple:
            end += 1
        row_id: Any = None
        first_id: bytes = rows.subs[start]
        pieces: list[bytes] = []
        count = nbytes = 0
        last = self._execute(LAST_ROW, (key_id,)).get
        if last is not None:
            row_id = last[0]
            ids, fields = packed(last[1], last[2])
            if ids[-1] >= first_id:  # they are there already
                self._write_single(rows.part(start, end))
                return end
            pieces = [piece_of(entry_id, fields[at]) for at, entry_id in enumerate(ids)]
            count, nbytes = len(ids), sum([len(piece) for piece in pieces])
        is_old = row_id is not None
        for at in range(start, end):
            piece: bytes = rows.values[at][0]
            more: int = rows.values[at][1]
            if count and (count + more > ENTRIES or nbytes + len(piece) > BYTES):
                if not is_old:
                    self._put(row_id, (key_id, first_id, join(count, pieces)))
                row_id = None
                first_id = rows.subs[at]
                pieces, count, nbytes = [], 0, 0
            is_old = False
            pieces.append(piece)
            count += more
            nbytes += len(piece)
        self._put(row_id, (key_id, first_id, join(count, pieces)))
        return end

    def _put(self, row_id: Any, row: tuple[Any, ...]) -> None:
        if row_id is None:
            self._execute(ADD_ROW, row)
        else:
            self._execute(CHANGE_ROW, (row_id, row[2]))

    def _write_single(self, pieces: Rows) -> None:
        rows = Rows([], [], [])
        for at, key_id in enumerate(pieces.ids):
            piece, count = pieces.values[at]
            for entry_id, fields in entries_of(count, piece):
                rows.ids.append(key_id)
                rows.subs.append(entry_id)
                rows.values.append(fields)
        self.write(rows)

    def _write_run(self, rows: Rows, start: int) -> int:
        """The changes that belong to the same row as the first one; returns where to go on."""
        key_id: Any = rows.ids[start]
        place = (key_id, rows.subs[start])
        row = self._execute(READ_ROW, place).get
        following: bytes | None = self._execute(NEXT_ROW, place).get
        end = _end_of_run(rows, start, following)
        ids: list[bytes] = []
        fields: list[bytes] = []
        row_id: Any = None
        old = b""
        if row is not None:
            row_id, first_id, old = row
            ids, fields = packed(first_id, old)
        ids, fields = merge(ids, fields, rows.subs[start:end], rows.values[start:end])
        if not ids and row_id is not None:
            self._execute(REMOVE_ROW, (row_id,))
        at = 0
        while at < len(ids):
            to = end_of_row(fields, at)
            entries = pack(ids[at:to], fields[at:to])
            if at or row_id is None:
                self._execute(ADD_ROW, (key_id, ids[at], entries))
            elif entries != old:
                self._execute(CHANGE_ROW, (row_id, entries))
            at = to
        return end


def _end_of_run(rows: Rows, start: int, following: bytes | None) -> int:
    ids, subs = rows.ids, rows.subs
    key_id = ids[start]
    end = start + 1
    last: bytes = subs[start]
    while end < len(ids) and ids[end] == key_id:
        entry_id: bytes = subs[end]
        if entry_id <= last or (following is not None and entry_id >= following):
            break
        last = entry_id
        end += 1
    return end
