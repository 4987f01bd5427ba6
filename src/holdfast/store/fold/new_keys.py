"""New keys for a file that nothing serves yet: straight into the tables, in columns.

An import and a replica that loads a snapshot write keys by the million, and a crash loses the whole
file anyway. So strings, hashes, sets and sorted sets need no key in memory, no journal and no pass
of the fold. Lists and streams take the usual way: several of their elements share a row.

Names are written at the end, sorted by SQLite. A slice of them would change all pages of the table
that earlier slices have written. Nothing here looks for a name that is there already: to ask for
each takes longer than to write it. `doubled_name` looks for such names at the end, all at once.
"""

from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import apsw

from holdfast.store.change.fold_state import LARGE
from holdfast.store.change.ops import HASH_FIELDS, SET_MEMBERS, ZSET_MEMBERS
from holdfast.store.file.tables import put_columns, put_expiring_keys_sql, put_strings_sql
from holdfast.store.fold.write_keys import COUNT_KEYS
from holdfast.store.values.insertion_order import FIRST_ORDINAL

if TYPE_CHECKING:
    from holdfast.store.rdb.plain import Plain

OBJECT_BYTES: Final = 200  # that a key or an element takes here, besides its own bytes

TABLES: Final = {"hash": HASH_FIELDS, "set": SET_MEMBERS, "zset": ZSET_MEMBERS}
PUT_ROWS: Final = {
    HASH_FIELDS: "INSERT INTO redis_hash_fields VALUES (?, ?, ?, ?, ?)",
    SET_MEMBERS: "INSERT INTO redis_set_members VALUES (?, ?, ?)",
    ZSET_MEMBERS: "INSERT INTO redis_zset_members VALUES (?, ?, ?)",
}
PUT_SIZE: Final = "INSERT INTO redis_sizes VALUES (?, ?)"
PUT_NAMES: Final = (
    "INSERT INTO redis_names SELECT ?1, CAST(name AS TEXT), id FROM redis_keys"
    " WHERE space = ?1 AND type IN ('string', 'hash', 'set', 'zset') ORDER BY CAST(name AS TEXT)"
)
DOUBLED_NAME: Final = (
    "SELECT space, CAST(name AS BLOB) FROM redis_names GROUP BY space, name"
    " HAVING count(*) > 1 LIMIT 1"
)


class NewKeys:
    """`nbytes` is an estimate of the memory that they take. The file had no keys before. Ids come
    in order, and are above those of all keys that were written before."""

    def __init__(self) -> None:
        self.nbytes = 0
        self._keys: dict[tuple[int, str], _Keys] = {}  # to be written: by space and type
        self._rows: dict[int, list[tuple[Any, ...]]] = {table: [] for table in PUT_ROWS}
        self._sizes: list[tuple[int, int]] = []  # of large collections
        self._written: set[int] = set()  # spaces whose names are to be written

    def add_strings(
        self,
        first_id: int,
        space: int,
        names: list[bytes],
        values: list[bytes],
        times: list[int | None],
    ) -> None:
        keys = self._of(space, "string")
        keys.ids += range(first_id, first_id + len(names))
        keys.names += names
        keys.times += times
        keys.values += values
        self.nbytes += sum(map(len, names)) + sum(map(len, values)) + OBJECT_BYTES * len(names)

    def add(self, key_id: int, space: int, name: bytes, time: int | None, plain: "Plain") -> bool:
        """False if its type takes the usual way."""
        table = TABLES.get(plain.type)
        if table is None:
            return False
        keys = self._of(space, plain.type)
        keys.ids.append(key_id)
        keys.names.append(name)
        keys.times.append(time)
        rows = _rows(key_id, plain)
        self._rows[table] += rows
        may_shrink = plain.type == "hash" and any(
            at_ms is not None for _, _, at_ms in plain.content
        )
        if len(rows) >= LARGE and not may_shrink:
            self._sizes.append((key_id, len(rows)))
        nbytes = len(name) + OBJECT_BYTES * (1 + len(rows))
        for row in rows:
            nbytes += len(row[1])
        if table == HASH_FIELDS:
            for row in rows:
                nbytes += len(row[2])
        self.nbytes += nbytes
        return True

    def _of(self, space: int, type_name: str) -> "_Keys":
        keys = self._keys.get((space, type_name))
        if keys is None:
            keys = self._keys[space, type_name] = _Keys()
        return keys

    def write(self, connection: apsw.Connection) -> None:
        """Write them to the tables in one transaction, without their names, and forget them. After
        an error, only to close the connection makes sense: the transaction may still be open."""
        if not self._keys:
            return
        cursor = connection.cursor()
        cursor.execute("BEGIN")
        for (space, type_name), keys in self._keys.items():
            cursor.execute(COUNT_KEYS, (space, len(keys.ids)))
            keys.write(space, type_name, cursor.execute)
            self._written.add(space)
        for table, rows in self._rows.items():
            cursor.executemany(PUT_ROWS[table], rows)
            rows.clear()
        cursor.executemany(PUT_SIZE, self._sizes)
        cursor.execute("COMMIT")
        self._sizes.clear()
        self.nbytes, self._keys = 0, {}

    def write_names(self, connection: apsw.Connection) -> None:
        """Write the names of all that were written, in one transaction. SQLite sorts them in files,
        because in memory they would take 70 bytes and more each."""
        connection.execute("PRAGMA temp_store = FILE")
        with connection:
            for space in sorted(self._written):
                connection.execute(PUT_NAMES, (space,))
        connection.execute("PRAGMA temp_store = MEMORY")
        self._written.clear()


def _rows(key_id: int, plain: "Plain") -> list[tuple[Any, ...]]:
    """The rows of a collection, in their order in the file."""
    content = plain.content
    rows: list[tuple[Any, ...]]
    if plain.type == "hash":
        fields = enumerate(content, FIRST_ORDINAL)
        rows = [(key_id, name, text, ordinal, at_ms) for ordinal, (name, text, at_ms) in fields]
    elif plain.type == "set":
        members = enumerate(content, FIRST_ORDINAL)
        rows = [(key_id, member, ordinal) for ordinal, member in members]
    else:
        rows = [(key_id, member, score) for member, score in content]
    if len(rows) > 1:
        rows.sort(key=_name)
    return rows


_name: Final = itemgetter(1)


class _Keys:
    """Keys of one space and type. Strings have `values`, too."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.names: list[bytes] = []
        self.times: list[int | None] = []
        self.values: list[bytes] = []

    def write(self, space: int, type_name: str, execute: Any) -> None:
        ids, names, values, times = self.ids, self.names, self.values, self.times
        columns: list[list[Any]] = [ids, names, times]
        put_columns(execute, put_expiring_keys_sql, [space, type_name], columns)
        if values:
            put_columns(execute, put_strings_sql, [], [ids, values])


def doubled_name(connection: apsw.Connection) -> tuple[int, bytes] | None:
    """The space and the name of two keys with the same name, if there are such."""
    found: tuple[int, bytes] | None = connection.execute(DOUBLED_NAME).get
    return found
