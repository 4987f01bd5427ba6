"""Reads a database file as records, as it is at one moment. It works while a server writes to the
file, and in a read-only folder. Nothing in the file is changed.

The journal is laid over the tables in memory, as a start does. A value that only the tables have is
read when its turn comes, and not kept.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import apsw

from holdfast.errors import StorageError
from holdfast.migration.small_collections import ROWS, SHORT, SmallCollections
from holdfast.progress import KEYS, Progress, unseen
from holdfast.store.file.journal import batches
from holdfast.store.file.migrations import SCHEMA_VERSION
from holdfast.store.file.reading import reading
from holdfast.store.file.tables import Tables
from holdfast.store.file.verify import LAST_LSN
from holdfast.store.memory.database import Database
from holdfast.store.memory.key import Key
from holdfast.store.memory.keyspace import Keyspace
from holdfast.store.memory.liveness import is_live
from holdfast.store.rdb.plain import Plain, plain_of
from holdfast.store.rdb.records import Entry, Keys, Library, Record, Sizes
from holdfast.store.recovery import node_of_file, replay
from holdfast.store.values.registry import Value

ROWS_AT_ONCE = 1000  # strings or elements

TYPE_COUNTS = """
SELECT d.db, k.type, count(*) FROM redis_keys k JOIN redis_databases d ON d.space = k.space
GROUP BY d.db, k.type
"""

# Name, id, type, expires_at_ms, the key if memory has it, and otherwise the value of a string if it
# is wanted.
Row = tuple[bytes, int, str, int | None, Key | None, bytes | None]
# As the tables have it: id, name, type, expires_at_ms, and the value of a string if it is wanted.
StoredRow = tuple[int, bytes, str, int | None, bytes | None]


@contextmanager
def database_content(
    path: Path,
    now_ms: int,
    note: Callable[[str], None] = lambda sentence: None,
    on_moment: Callable[[int], None] = lambda lsn: None,
) -> Iterator["DatabaseContent"]:
    """Raises StorageError. `note` gets a sentence for each part that could not be checked.
    `on_moment` gets the number of the last batch of the journal, as soon as it is known."""
    with reading(path, note) as connection:
        on_moment(int(connection.execute(LAST_LSN).get))
        _refuse_older(path, connection)
        tables = Tables(connection)
        keyspace = _keyspace(tables, node_of_file(connection))
        for _ in replay(keyspace, list(batches(connection))):
            pass
        keyspace.recovered(lambda key_id: False)
        keyspace.now_ms = now_ms
        yield DatabaseContent(keyspace, tables, connection)


def refuse_older(path: Path) -> None:
    """Raise StorageError if a server would convert the file first."""
    with reading(path) as connection:
        _refuse_older(path, connection)


def _refuse_older(path: Path, connection: apsw.Connection) -> None:
    version = int(connection.execute("PRAGMA user_version").get)
    if version < SCHEMA_VERSION:
        raise StorageError(
            f"{path} has schema version {version}: start a server on it once, which brings it"
            f" to version {SCHEMA_VERSION}"
        )


def _keyspace(tables: Tables, node: int) -> Keyspace:
    databases = 1 + max(tables.spaces_shown(), default=0)
    if not node:
        return Keyspace(tables, databases)
    from holdfast.store.replicated.replicated_keyspace import ReplicatedKeyspace

    return ReplicatedKeyspace(tables, databases, node)


class DatabaseContent:
    """A source, while the file is open."""

    is_live = False
    only_database: int | None = None
    place = ""

    def __init__(self, keyspace: Keyspace, tables: Tables, connection: apsw.Connection) -> None:
        self._keyspace = keyspace
        self._tables = tables
        self._connection = connection
        self._shown = [database for database in keyspace.databases if len(database)]

    @property
    def key_count(self) -> int:
        """About: keys that have expired are counted, too."""
        return sum(map(len, self._shown))

    def key_counts(self) -> dict[int, int]:
        """By database. About, likewise."""
        return {database.index: len(database) for database in self._shown}

    def type_counts(self) -> Iterator[tuple[int, str, int]]:
        """Database, type, and number of keys, of a file whose journal is empty. About, likewise."""
        yield from self._connection.execute(TYPE_COUNTS)

    @property
    def is_empty(self) -> bool:
        return not self._shown and not self._keyspace.libraries

    @property
    def position(self) -> bytes | None:
        """How far it follows another server, if it is the file of a replica."""
        return self._keyspace.replication_position

    def keep_expired(self) -> None:
        """Yield keys that have expired, too."""
        self._keyspace.now_ms = 0

    def records(
        self, progress: Progress = unseen, work: str = "exporting", *, joins_keys: bool = False
    ) -> Iterator[Record]:
        """`joins_keys`: there may be `Keys` among them."""
        for code in self.libraries():
            yield Library(code)
        done, total = 0, self.key_count
        for database in self._shown:
            # How many of them expire is not counted: the number is a hint, and counting takes long.
            yield Sizes(database.index, len(database), 0)
            rows = self._joined_rows if joins_keys else self._rows_with_strings
            for row in rows(database):
                done += len(row.names) if isinstance(row, Keys) else 1
                progress(work, done, total, KEYS)
                if isinstance(row, Keys):
                    yield row
                    continue
                plain = self._plain(row)
                if plain is not None:
                    yield Entry(database.index, row[0], plain, row[3])

    def libraries(self) -> list[bytes]:
        return list(self._keyspace.libraries.values())

    # -- single keys --------------------------------------------------------------------------

    def names(self, database: int) -> Iterator[list[bytes]]:
        """All names, in lists. Keys whose last field has expired may be among them."""
        names: list[bytes] = []
        for row in self._rows(self._keyspace.databases[database]):
            names.append(row[0])
            if len(names) == ROWS_AT_ONCE:
                yield names
                names = []
        if names:
            yield names

    def read(self, database: int, names: Sequence[bytes]) -> Iterator[Entry | None]:
        """Keys in the order of the names; None for a key that does not exist."""
        for name in names:
            row = self._row(database, name)
            plain = None if row is None else self._plain(row)
            yield None if row is None or plain is None else Entry(database, name, plain, row[3])

    def has(self, database: int, names: Sequence[bytes]) -> list[bool]:
        return [self._row(database, name) is not None for name in names]

    def _row(self, index: int, name: bytes) -> Row | None:
        if index >= len(self._keyspace.databases):
            return None
        database = self._keyspace.databases[index]
        key = database.space.keys.get(name)
        if key is not None:
            return self._if_living(key, database)
        row = self._keyspace.cold_rows.row(database.space, name)
        if row is None or not is_live(row[2], self._keyspace.now_ms):
            return None
        key_id, type_name, expires_at_ms = row
        return name, key_id, type_name, expires_at_ms, None, None

    # -- all keys -----------------------------------------------------------------------------

    def _rows(self, database: Database, *, with_strings: bool = False) -> Iterator[Row]:
        """The living keys of a database: from the tables, unless memory knows better."""
        for stored in self._stored_rows(database, with_strings=with_strings):
            row = self._newest(stored, database)
            if row is not None:
                yield row
        yield from self._changed_rows(database)

    def _rows_with_strings(self, database: Database) -> Iterator[Row]:
        return self._rows(database, with_strings=True)

    def _joined_rows(self, database: Database) -> Iterator[Row | Keys]:
        """The same rows. Small values that only the tables have are joined into columns."""
        changed_key, hot = self._keyspace.fold_state.changed_key, database.space.keys
        now_ms = self._keyspace.now_ms
        execute = self._connection.execute
        small = {type_name: SmallCollections(execute, type_name) for type_name in ROWS}
        joined, room = Keys(database.index, "", [], [], []), 0
        for stored in self._stored_rows(database, with_strings=True):
            key_id, name, type_name, expires_at_ms, text = stored
            value: Any = None
            if len(name) <= SHORT and name not in hot and changed_key(key_id) is None:
                if text is not None:
                    value = text if len(text) <= SHORT else None
                elif type_name in small:
                    value = small[type_name].content(key_id)
            if value is None:
                row = self._newest(stored, database)
                if row is None:
                    continue
                if joined.names:  # the order stays that of the ids
                    yield joined
                    joined = Keys(database.index, "", [], [], [])
                yield row
            elif is_live(expires_at_ms, now_ms):
                if room <= 0 or type_name != joined.type:
                    if joined.names:
                        yield joined
                    joined, room = Keys(database.index, type_name, [], [], []), ROWS_AT_ONCE
                joined.names.append(name)
                joined.values.append(value)
                joined.times.append(expires_at_ms)
                room -= 1 if text is not None else len(value)
        if joined.names:
            yield joined
        yield from self._changed_rows(database)

    def _stored_rows(self, database: Database, *, with_strings: bool) -> Iterator[StoredRow]:
        below_id = self._keyspace.fold_state.folded_below_id
        return self._tables.all_rows(database.space.id, below_id, with_strings=with_strings)

    def _newest(self, stored: StoredRow, database: Database) -> Row | None:
        """The current state of a row of the tables; None if nothing is to be yielded in its
        place."""
        key_id, name, type_name, expires_at_ms, text = stored
        if self._keyspace.fold_state.changed_key(key_id) is not None:
            return None  # it is one of `_changed_rows`
        key = database.space.keys.get(name)
        if key is not None and key.id == key_id:
            return self._if_living(key, database)
        if not is_live(expires_at_ms, self._keyspace.now_ms):
            return None
        return name, key_id, type_name, expires_at_ms, None, text

    def _changed_rows(self, database: Database) -> Iterator[Row]:
        state = self._keyspace.fold_state
        created = [key for key in state.created if isinstance(key, Key)]  # all are
        for key in chain(state.changed_keys(), created):
            row = self._if_living(key, database)
            if row is not None:
                yield row

    def _if_living(self, key: Key, database: Database) -> Row | None:
        is_here = key.space is database.space and key.is_attached
        if not is_here or not is_live(key.expires_at_ms, self._keyspace.now_ms):
            return None
        return key.name, key.id, key.type_name, key.expires_at_ms, key, None

    def _plain(self, row: Row) -> Plain | None:
        """None if all fields of a hash have expired."""
        _, key_id, type_name, _, key, text = row
        if text is not None:
            return Plain("string", text)
        value = self._stored_value(key_id, type_name) if key is None else key.value
        return self._living(plain_of(value))

    def _stored_value(self, key_id: int, type_name: str) -> Value:
        value, rest = self._tables.value(key_id, type_name, lambda nbytes: None)
        for _ in rest or ():
            pass
        return value

    def _living(self, plain: Plain) -> Plain | None:
        """Without fields whose time has come; None if none is left."""
        if plain.type != "hash":
            return plain
        now_ms = self._keyspace.now_ms
        fields = [field for field in plain.content if is_live(field[2], now_ms)]
        return Plain("hash", fields) if fields else None
