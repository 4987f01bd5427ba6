"""New keys for a file that nothing serves yet: straight into the tables, in columns.

An import and a replica that loads a snapshot write keys by the million, and a crash loses the whole
file anyway. So they need no key in memory, no journal and no pass of the fold. Streams take the
usual way: their state is in several tables.

Names are written at the end, sorted by SQLite. A slice of them would change all pages of the table
that earlier slices have written. Nothing here looks for a name that is there already: to ask for
each takes longer than to write it. `doubled_name` looks for such names at the end, all at once.
"""

from functools import cache
from itertools import chain
from operator import itemgetter
from typing import Any, Final

import apsw

from holdfast.store.change.fold_state import LARGE
from holdfast.store.change.runs import STEP
from holdfast.store.file.list_blocks import LONGEST, PLACES, pack, pack_whole, trim
from holdfast.store.file.tables import (
    STATEMENT_ROWS,
    put_columns,
    put_expiring_keys_sql,
    put_strings_sql,
)
from holdfast.store.fold.write_keys import COUNT_KEYS
from holdfast.store.values.insertion_order import FIRST_ORDINAL

OBJECT_BYTES: Final = 200  # that a key or an element takes here, besides its own bytes

# The columns of each table of collections.
COLUMNS: Final = {
    "redis_hash_fields": 5,
    "redis_set_members": 3,
    "redis_zset_members": 3,
    "redis_list_blocks": 5,
    "redis_list_items": 3,
    "redis_list_meta": 4,
    "redis_sizes": 2,
}
PUT_NAMES: Final = (
    "INSERT INTO redis_names SELECT ?1, CAST(name AS TEXT), id FROM redis_keys"
    " WHERE space = ?1 AND type <> 'stream' ORDER BY CAST(name AS TEXT)"
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
        self._rows: dict[str, list[tuple[Any, ...]]] = {table: [] for table in COLUMNS}
        self._written: set[int] = set()  # spaces whose names are to be written

    def adds(
        self,
        first_id: int,
        space: int,
        type_name: str,
        names: list[bytes],
        values: list[Any],
        times: list[int | None],
    ) -> bool:
        """Add keys of one type. `values` are as the content of `Plain`. False if the type takes the
        usual way."""
        if type_name == "stream":
            return False
        keys = self._of(space, type_name)
        keys.ids += range(first_id, first_id + len(names))
        keys.names += names
        keys.times += times
        self.nbytes += sum(map(len, names)) + OBJECT_BYTES * len(names)
        if type_name == "string":
            keys.values += values
            self.nbytes += sum(map(len, values))
        elif type_name == "list":
            for key_id, elements in enumerate(values, first_id):
                self._add_list(key_id, elements)
        else:
            for key_id, content in enumerate(values, first_id):
                self._add_named(type_name, key_id, content)
        return True

    def _add_named(self, type_name: str, key_id: int, content: list[Any]) -> None:
        """Add the rows of a hash, a set or a sorted set, in their order in the file."""
        rows: list[tuple[Any, ...]] = []
        nbytes, may_shrink = 0, False
        if type_name == "set":
            table = "redis_set_members"
            for ordinal, member in enumerate(content, FIRST_ORDINAL):
                rows.append((key_id, member, ordinal))
                nbytes += len(member)
        elif type_name == "hash":
            table = "redis_hash_fields"
            field: tuple[Any, ...]
            for ordinal, field in enumerate(content, FIRST_ORDINAL):
                rows.append((key_id, field[0], field[1], ordinal, field[2]))
                nbytes += len(field[0]) + len(field[1])
                if field[2] is not None:
                    may_shrink = True
        else:
            table = "redis_zset_members"
            scored: tuple[Any, ...]
            for scored in content:
                rows.append((key_id, scored[0], scored[1]))
                nbytes += len(scored[0])
        if len(rows) > 1:
            rows.sort(key=_name)
        if len(rows) >= LARGE and not may_shrink:
            self._rows["redis_sizes"].append((key_id, len(rows)))
        self._rows[table] += rows
        self.nbytes += nbytes + OBJECT_BYTES * len(rows)

    def _add_list(self, key_id: int, elements: list[bytes]) -> None:
        """Add the rows of a list, which begins at position 0."""
        blocks, items = self._rows["redis_list_blocks"], self._rows["redis_list_items"]
        singles = 0
        for start in range(0, len(elements), PLACES):
            part = elements[start : start + PLACES]
            block = start * STEP
            if max(map(len, part)) <= LONGEST:
                blocks.append((key_id, block, 0, *pack_whole(part)))
                continue
            places: list[bytes | None] = []
            for place, element in enumerate(part):
                if len(element) > LONGEST:
                    items.append((key_id, block + place * STEP, element))
                    places.append(None)
                    singles += 1
                else:
                    places.append(element)
            first = trim(0, places)
            if places:
                blocks.append((key_id, block, first, *pack(places)))
        self._rows["redis_list_meta"].append((key_id, len(elements), 0, singles))
        self.nbytes += sum(map(len, elements)) + OBJECT_BYTES * len(elements)

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
            for start in range(0, len(rows), STATEMENT_ROWS):
                part = rows[start : start + STATEMENT_ROWS]
                cursor.execute(_put_sql(table, len(part)), list(chain.from_iterable(part)))
            rows.clear()
        cursor.execute("COMMIT")
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


@cache
def _put_sql(table: str, rows: int) -> str:
    row = f"({','.join('?' * COLUMNS[table])})"
    return f"INSERT INTO {table} VALUES{','.join([row] * rows)}"


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
