"""New strings for a file that nothing serves yet: straight into the tables, in columns.

An import and a replica that loads a snapshot write keys by the million, and a crash loses the whole
file anyway. So these strings need no key in memory, no journal and no pass of the fold. Keys of
other types take the usual way.

Names are written at the end, sorted by SQLite. A slice of them would change all pages of the table
that earlier slices have written. Nothing here looks for a name that is there already: to ask for
each takes longer than to write it. `doubled_name` looks for such names at the end, all at once.
"""

from typing import Any, Final

import apsw

from holdfast.store.change.ops import STRINGS
from holdfast.store.file.tables import STATEMENT_ROWS, put_keys_sql, put_sql
from holdfast.store.fold.write_keys import COUNT_KEYS

OBJECT_BYTES: Final = 200  # that a string takes here, besides its own bytes and its name

PUT_NAMES: Final = (
    "INSERT INTO redis_names SELECT ?1, CAST(name AS TEXT), id FROM redis_keys"
    " WHERE space = ?1 AND type = 'string' ORDER BY CAST(name AS TEXT)"
)
DOUBLED_NAME: Final = (
    "SELECT space, CAST(name AS BLOB) FROM redis_names GROUP BY space, name"
    " HAVING count(*) > 1 LIMIT 1"
)


class NewStrings:
    """`nbytes` is an estimate of the memory that they take. The file had no keys before."""

    def __init__(self) -> None:
        self.nbytes = 0
        self._spaces: dict[int, _Columns] = {}  # to be written
        self._written: set[int] = set()  # spaces whose names are to be written

    def add(
        self,
        first_id: int,
        space: int,
        names: list[bytes],
        values: list[bytes],
        times: list[int | None],
    ) -> None:
        """Ids come in order, and are above those of all strings that were written before."""
        columns = self._spaces.get(space)
        if columns is None:
            columns = self._spaces[space] = _Columns()
        columns.ids += range(first_id, first_id + len(names))
        columns.names += names
        columns.values += values
        columns.times += times
        self.nbytes += sum(map(len, names)) + sum(map(len, values)) + OBJECT_BYTES * len(names)

    def write(self, connection: apsw.Connection) -> None:
        """Write them to the tables in one transaction, without their names, and forget them. After
        an error, only to close the connection makes sense: the transaction may still be open."""
        if not self._spaces:
            return
        execute = connection.cursor().execute
        execute("BEGIN")
        for space, columns in self._spaces.items():
            execute(COUNT_KEYS, (space, len(columns.ids)))
            columns.write(space, execute)
        execute("COMMIT")
        self._written |= self._spaces.keys()
        self.nbytes, self._spaces = 0, {}

    def write_names(self, connection: apsw.Connection) -> None:
        """Write the names of all that were written, in one transaction. SQLite sorts them in files,
        because in memory they would take 70 bytes and more each."""
        connection.execute("PRAGMA temp_store = FILE")
        with connection:
            for space in sorted(self._written):
                connection.execute(PUT_NAMES, (space,))
        connection.execute("PRAGMA temp_store = MEMORY")
        self._written.clear()


class _Columns:
    """Strings of one space."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.names: list[bytes] = []
        self.values: list[bytes] = []
        self.times: list[int | None] = []

    def write(self, space: int, execute: Any) -> None:
        ids, names, values, times = self.ids, self.names, self.values, self.times
        start, count = 0, len(ids)
        while start < count:
            size = STATEMENT_ROWS if count - start >= STATEMENT_ROWS else 1
            end = start + size
            some_ids = ids[start:end]
            bindings: list[Any] = [space, "string"]
            bindings += some_ids
            bindings += names[start:end]
            bindings += times[start:end]
            execute(put_keys_sql(size, True), bindings)
            bindings = list(some_ids)
            bindings += values[start:end]
            execute(put_sql(STRINGS, size, False), bindings)
            start = end


def doubled_name(connection: apsw.Connection) -> tuple[int, bytes] | None:
    """The space and the name of two keys with the same name, if there are such."""
    found: tuple[int, bytes] | None = connection.execute(DOUBLED_NAME).get
    return found
