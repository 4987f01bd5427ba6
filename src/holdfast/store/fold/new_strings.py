"""New strings for a file that nothing serves yet: straight into the tables, in columns.

An import and a replica that loads a snapshot write keys by the million, and a crash loses the whole
file anyway. So these strings need no key in memory, no journal and no pass of the fold. Keys of
other types take the usual way.

Nothing here looks for a name that is there already: to ask for each takes longer than to write it.
`doubled_name` looks for such names at the end, all at once.
"""

from typing import Any, Final

import apsw

from holdfast.store.change.ops import STRINGS
from holdfast.store.file.tables import STATEMENT_ROWS, put_keys_sql, put_sql
from holdfast.store.fold.write_keys import COUNT_KEYS

OBJECT_BYTES: Final = 200  # that a string takes here, besides its own bytes and its name

PUT_NAMES: Final = (
    "INSERT INTO redis_names SELECT space, CAST(name AS TEXT), id FROM redis_keys"
    " WHERE id >= ? AND type = 'string' ORDER BY space, CAST(name AS TEXT)"
)
DOUBLED_NAME: Final = (
    "SELECT space, CAST(name AS BLOB) FROM redis_names GROUP BY space, name"
    " HAVING count(*) > 1 LIMIT 1"
)


class NewStrings:
    """`nbytes` is about the memory that they take."""

    def __init__(self) -> None:
        self.nbytes = 0
        self._first_id = 0
        self._spaces: dict[int, _Columns] = {}

    def add(
        self, key_id: int, space: int, name: bytes, value: bytes, expires_at_ms: int | None
    ) -> None:
        """Ids come in order, and are above those of all strings that were written before."""
        columns = self._spaces.get(space)
        if columns is None:
            columns = self._spaces[space] = _Columns()
        if not self.nbytes:
            self._first_id = key_id
        columns.ids.append(key_id)
        columns.names.append(name)
        columns.values.append(value)
        columns.times.append(expires_at_ms)
        self.nbytes += len(name) + len(value) + OBJECT_BYTES

    def write(self, connection: apsw.Connection) -> None:
        """Write them to the tables in one transaction, and forget them. After an error, only to
        close the connection makes sense: the transaction may still be open."""
        if not self.nbytes:
            return
        execute = connection.cursor().execute
        execute("BEGIN")
        for space, columns in self._spaces.items():
            execute(COUNT_KEYS, (space, len(columns.ids)))
            columns.write(space, execute)
        execute(PUT_NAMES, (self._first_id,))
        execute("COMMIT")
        self.nbytes, self._spaces = 0, {}


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
