"""How the fold writes keys: redis_keys, redis_names, and the sizes of spaces.

The names of a pass are written last, in their own order. Names come in any order, and slices that
wrote them as they come would change about one page of the table for each: 8 µs of CPU for a key. In
their own order, neighbours share a page: 2.4 µs.
"""

from collections.abc import Callable, Generator
from typing import Any

import apsw

from holdfast.store.file.tables import (
    DELETE_NAME,
    STATEMENT_ROWS,
    places_sql,
    put_columns,
    put_expiring_keys_sql,
    put_keys_sql,
    put_names_sql,
)
from holdfast.store.fold.pending_rows import Rows
from holdfast.store.fold.sorted_names import SortedNames

COUNT_KEYS = (
    "INSERT INTO redis_space_sizes VALUES (?1, ?2) ON CONFLICT DO UPDATE SET keys = keys + ?2"
)


class KeyRows:
    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._execute = connection.cursor().execute  # else there would be a new cursor each time
        self._names: dict[int, SortedNames] = {}  # to be written, by space
        # Whether redis_names may lack names of keys that redis_keys has: a pass was cut off, here
        # or before the start. The next pass writes the same keys again.
        self._may_lack_names = True

    def begin_pass(self) -> None:
        if self._names:  # the pass before failed; this one notes them again
            self._names, self._may_lack_names = {}, True

    def end_pass(self) -> None:
        self._may_lack_names = False

    def write_new(
        self, space: int, type_name: str, ids: list[int], names: list[bytes], times: list[int]
    ) -> None:
        """Keys of one space and type that the tables never had. `times`: when they expire; empty if
        they do not."""
        self._execute(COUNT_KEYS, (space, len(ids)))
        common = [space, type_name]
        if times:
            put_columns(self._execute, put_expiring_keys_sql, common, [ids, names, times])
        else:
            put_columns(self._execute, put_keys_sql, common, [ids, names])
        self._note_names(space, names, ids)

    def note_moves(self, rows: Rows) -> None:
        """Note the spaces that keys come to or leave, and the names that they get or lose. The
        tables tell where the keys are now, so the result is also right when a pass that was cut off
        is repeated."""
        ids = rows.ids + rows.ids[-1:] * (-len(rows.ids) % STATEMENT_ROWS)
        places: dict[int, tuple[int, bytes]] = {}
        for start in range(0, len(ids), STATEMENT_ROWS):
            some = ids[start : start + STATEMENT_ROWS]
            for key_id, space, name in self._connection.execute(places_sql(STATEMENT_ROWS), some):
                places[key_id] = (space, name)
        sizes: dict[int, int] = {}
        lost: list[tuple[int, bytes, int]] = []
        for key_id, row in zip(rows.ids, rows.values, strict=True):
            old = places.get(key_id)
            new = None if row is None else (row[0], row[1])
            if old != new and old is not None:
                sizes[old[0]] = sizes.get(old[0], 0) - 1
                lost.append((old[0], old[1], key_id))
            if new is not None and (old != new or self._may_lack_names):
                self._note_names(new[0], [new[1]], [key_id])
                if old != new:
                    sizes[new[0]] = sizes.get(new[0], 0) + 1
        self._connection.executemany(DELETE_NAME, lost)
        self._connection.executemany(COUNT_KEYS, sizes.items())

    def _note_names(self, space: int, names: list[bytes], ids: list[int]) -> None:
        """Names of keys whose rows are written now."""
        noted = self._names.get(space)
        if noted is None:
            noted = self._names[space] = SortedNames()
        noted.add(names, ids)

    def write_names(self, most_rows: Callable[[], int], most_bytes: int) -> Generator[int]:
        """Write the names that were noted, in slices. Yields how many were written. `most_rows` is
        asked before each slice. (A name may have two keys until the next pass, because some rows
        are as old as their batch and others as new as memory.)"""
        for space, noted in self._names.items():
            for names, ids in noted.take():
                yield 0
                start = 0
                while start < len(names):
                    some = names[start : start + most_rows()]
                    if sum([len(name) for name in some]) > most_bytes:
                        some = _first(some, most_bytes)
                    end = start + len(some)
                    with self._connection:
                        columns: list[list[Any]] = [some, ids[start:end]]
                        put_columns(self._execute, put_names_sql, [space], columns)
                    yield len(some)
                    start = end
        self._names = {}


def _first(names: list[bytes], most_bytes: int) -> list[bytes]:
    """The first ones, up to so many bytes and one more."""
    count = nbytes = 0
    while count < len(names) and nbytes < most_bytes:
        nbytes += len(names[count])
        count += 1
    return names[:count]
