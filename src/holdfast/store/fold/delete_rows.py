"""How the fold removes rows. If the table has no other rows between them, it removes a range. If
the table has none of them, it does nothing.

(Elements of lists and entries of streams share rows: write_lists.py and write_streams.py remove
those.)
"""

from bisect import bisect_left
from typing import Any

import apsw

from holdfast.store.file.tables import NUL, ROWS, STATEMENT_ROWS, delete_sql, names_sql, range_sql
from holdfast.store.fold.pending_rows import Rows

FEWEST_IN_RANGE = 8  # rows that are worth removing as a range
NAMES_AT_ONCE = 128  # names in one query, once smaller queries found only removed rows
LONGEST_NAME = 256  # bytes; longer names are removed one by one


class RemovedRows:
    def __init__(self, connection: apsw.Connection) -> None:
        self._execute = connection.cursor().execute  # else there would be a new cursor each time

    def write(self, table: int, rows: Rows) -> None:
        """Remove rows: neighbours as a range, which costs a third; other rows many to a statement,
        except rows that are found by several columns."""
        ids, subs = rows.ids, rows.subs
        has_subs = len(ROWS[table].sub)
        start, count = 0, len(ids)
        while start < count:
            bindings: list[Any]
            end, is_any = start + FEWEST_IN_RANGE, True
            if not has_subs or end > count or ids[start] != ids[end - 1]:
                end = start  # too few
            elif isinstance(subs[start], bytes):
                end, is_any = self._end_of_names(table, ids, subs, start)
            else:
                end = self._end_of_range(table, rows, start)
            if not is_any:
                pass  # rows that came and went between two passes are not in the table
            elif end - start >= FEWEST_IN_RANGE:
                bindings = [ids[start]]
                for sub in (subs[start], subs[end - 1]):
                    bindings += sub if has_subs > 1 else (sub,)
                self._execute(range_sql(table)[1], bindings)
            else:
                end = start + STATEMENT_ROWS
                if has_subs > 1 or end > count or (has_subs and ids[start] != ids[end - 1]):
                    end = start + 1
                bindings = ids[start : start + 1 if has_subs else end]
                bindings += subs[start] if has_subs > 1 else subs[start:end]
                self._execute(delete_sql(table, end - start), bindings)
            start = end

    def _end_of_range(self, table: int, rows: Rows, start: int) -> int:
        """The end of the longest range from `start` in which the table has only these rows."""
        ids, subs = rows.ids, rows.subs
        key_id: Any = ids[start]
        end, count = start, len(ids)
        is_tuple = len(ROWS[table].sub) > 1
        place = (key_id, *subs[start]) if is_tuple else (key_id, subs[start])
        for found in self._execute(range_sql(table)[0], place):
            if (found if is_tuple else found[0]) != subs[end]:
                break
            end += 1
            if end == count or ids[end] != key_id:
                break
        return end

    def _end_of_names(
        self, table: int, ids: list[int], subs: list[bytes], start: int
    ) -> tuple[int, bool]:
        """The same for names, and whether the table has any of these rows. It need not have all of
        the names. Each query asks for twice as many names as the one before. It begins with the
        last name of that one, because the table may have other rows between that name and the
        next."""
        key_id = ids[start]
        look, is_any = FEWEST_IN_RANGE, False
        while len(subs[start]) <= LONGEST_NAME:
            end, most = start + 1, min(start + look, len(ids))
            # Rows of one key need not all be in order: see RowsOfKey.
            while end < most and ids[end] == key_id and subs[end - 1] < subs[end]:
                end += 1
            names = subs[start:end]
            try:
                [(found, joined)] = self._execute(
                    names_sql(table, look + 1), (key_id, names[0], names[-1])
                )
            except apsw.TooBigError:  # others are long
                break
            is_any = is_any or found > 0
            count = _before_others(names, found, joined or b"")
            if count < look:
                return start + count, is_any
            start = end - 1
            look = min(2 * look, NAMES_AT_ONCE)
        return start, True


def _before_others(names: list[bytes], found: int, joined: bytes) -> int:
    """How many of the names stand before the first name found that is not one of them. `found` may
    be fewer than the table has: then they are the first ones."""
    if not found:
        return len(names)
    if joined.count(NUL) != found - 1:  # a part of one of them
        return 0
    if found == len(names) and joined == NUL.join(names):
        return found
    rows = joined.split(NUL)
    if rows[0] > rows[-1]:  # never true, unless SQLite is told to sort otherwise
        return 0
    ours = {*names}
    others = [row for row in rows if row not in ours]
    return bisect_left(names, min(others)) if others else len(names)
