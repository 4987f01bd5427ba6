"""Lists in the file: their first and last position, and their elements as they are needed.

The format of a row is in list_blocks.py; the fold writes rows in write_lists.py.
"""

from collections.abc import Callable
from functools import partial

import apsw

from holdfast.store.change.runs import STEP
from holdfast.store.file import list_blocks
from holdfast.store.values.list import List

# Where a list begins and ends, by itself and in its blocks.
LIST_ENDS = f"""
    SELECT length, off_grid, singles,
      CASE WHEN singles THEN (SELECT min(pos) FROM redis_list_items WHERE key_id = ?1) END,
      CASE WHEN singles THEN (SELECT max(pos) FROM redis_list_items WHERE key_id = ?1) END,
      (SELECT pos + first * {STEP} FROM redis_list_blocks
       WHERE key_id = ?1 ORDER BY pos LIMIT 1),
      (SELECT pos + (first + json_array_length(sizes) - 1) * {STEP} FROM redis_list_blocks
       WHERE key_id = ?1 ORDER BY pos DESC LIMIT 1)
    FROM redis_list_meta WHERE key_id = ?1"""


def _list_sql(columns: str, alone: str, order: str) -> str:
    """Blocks with a place between two positions, and elements with their own rows there, if this
    list has such elements."""
    sql = (
        f"SELECT pos, pos + first * {STEP}, {columns} FROM redis_list_blocks"
        f" WHERE key_id = ?1 AND pos > ?2 - {list_blocks.SPAN} AND pos <= ?3"
    )
    if alone:
        sql += (
            f" UNION ALL SELECT pos, pos, {alone} FROM redis_list_items"
            " WHERE key_id = ?1 AND pos BETWEEN ?2 AND ?3"
        )
    return f"{sql} ORDER BY pos {order}"


# By whether there are such, and by direction.
LIST_ROWS = [
    [_list_sql("sizes, data", alone, order) for order in ("ASC", "DESC")]
    for alone in ("", "NULL, value")
]
LIST_SIZES = [
    [_list_sql("sizes", alone, order) for order in ("ASC", "DESC")] for alone in ("", "NULL")
]


class StoredLists:
    def __init__(self, connection: apsw.Connection) -> None:
        self._execute = connection.execute

    def value(self, key_id: int, on_load: Callable[[int], None]) -> List:
        meta = self._execute(LIST_ENDS, (key_id,)).get
        if meta is None or not meta[0]:
            return List(key_id)
        length, off_grid, singles, *ends = meta
        positions = [pos for pos in ends if pos is not None]
        # Elements that are not loaded are not changed either, so these numbers stay true.
        load = partial(self._load, key_id, singles > 0)
        first, last = min(positions), max(positions)
        return List.stored(
            key_id, length, first, last, load, on_grid=off_grid == 0, on_load=on_load
        )

    def _load(
        self,
        key_id: int,
        has_singles: bool,
        from_pos: int,
        to_pos: int,
        limit: int,
        reverse: bool,
        skip: int,
    ) -> list[tuple[int, bytes]]:
        if skip:
            sql = LIST_SIZES[has_singles][reverse]
            from_pos, to_pos, skip = self._skip(sql, key_id, from_pos, to_pos, reverse, skip)
        found: list[tuple[int, bytes]] = []
        last_block: int | None = None
        is_sorted = not reverse
        sql = LIST_ROWS[has_singles][reverse]
        for pos, first, sizes, data in self._execute(sql, (key_id, from_pos, to_pos)):
            block = list_blocks.block_of(pos)
            if block != last_block:
                if len(found) >= skip + limit:
                    break
                last_block = block
            if sizes is None:
                found.append((pos, data))
                is_sorted = False  # it may lie between the places of a block
            else:
                found += list_blocks.elements(first, sizes, data, from_pos, to_pos)
        if not is_sorted:
            found.sort(reverse=reverse)
        return found[skip : skip + limit]

    def _skip(
        self, sql: str, key_id: int, from_pos: int, to_pos: int, reverse: bool, skip: int
    ) -> tuple[int, int, int]:
        """The same range without whole blocks that need not be read, and the number still to
        skip."""
        last_block = from_pos
        in_block = 0
        for pos, first, sizes in self._execute(sql, (key_id, from_pos, to_pos)):
            block = list_blocks.block_of(pos)
            if block != last_block:
                if skip < in_block:
                    break
                skip -= in_block
                last_block, in_block = block, 0
            in_block += (
                1 if sizes is None else list_blocks.count_between(first, sizes, from_pos, to_pos)
            )
        if reverse:
            return from_pos, min(to_pos, last_block + list_blocks.SPAN - 1), skip
        return max(from_pos, last_block), to_pos, skip
