"""Writes records into a database file that is not served yet.

Memory keeps a slice of the records: each slice is committed, folded into the tables, and forgotten.
Nothing is synced before the end, because the file has no name until then. Most keys of a file that
was empty take a shorter way: see new_keys.py.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from holdfast.clock import Clock
from holdfast.errors import CommandError, StorageError
from holdfast.migration.errors import MigrationError, UnfitError
from holdfast.store.fold.new_keys import NewKeys
from holdfast.store.rdb.file_reader import printable
from holdfast.store.rdb.plain import FILLERS, Plain
from holdfast.store.rdb.records import Entry, Keys
from holdfast.store.store import FileStore, Store

# Bytes of values in memory before they are folded; and pages of the WAL before it is emptied.
SLICE_BYTES = 32 << 20
NEW_BYTES = 64 << 20  # likewise of new keys
CHECKPOINT_PAGES = 16384

NAMES_AT_ONCE = 1000

LARGEST_STRING = 512 << 20  # the largest that a client could send


class DatabaseTarget:
    def __init__(self, path: Path, databases: int, clock: Clock) -> None:
        """Raises StorageError. Keys have expired or live by this clock."""
        self.store = FileStore(path, databases, keeps_copy=False)
        self.clock = clock
        self._keyspace = self.store.keyspace
        self._keyspace.now_ms = clock.now_ms()
        self._first_id = self._keyspace.next_id  # of a key that this import creates
        was_empty = not any(map(len, self._keyspace.databases))
        self._new = NewKeys() if was_empty else None

    def put(self, entry: Entry, database: int) -> None:
        """Create a key; an older key of that name goes. Raises MigrationError."""
        keyspace = self._keyspace
        refuse_unfit(entry, database, len(keyspace.databases))
        db = keyspace.databases[database]
        value = entry.value
        if self._puts_new(
            db.space.id, value.type, [entry.name], [value.content], [entry.expires_at_ms]
        ):
            return
        old = db.find_row(entry.name)
        if old is not None:
            if old.id >= self._first_id:
                raise _comes_twice(entry.name, database)
            db.remove(old)
        if value.type == "string":
            key = db.create(entry.name, value.content, entry.expires_at_ms)
        else:
            kind, fill = FILLERS[value.type]
            key, collection = db.create_as(entry.name, kind)
            fill(collection, value.content, keyspace)
            keyspace.watch_fields(key)
            if entry.expires_at_ms is not None:
                db.set_expiry(key, entry.expires_at_ms)
        if keyspace.used_bytes >= SLICE_BYTES:
            self.fold()

    def puts_keys(self, keys: Keys, database: int) -> bool:
        """`put` for many. False if they have to be put one by one: the file had keys before, or not
        all of them fit, or their type has no short way."""
        databases = self._keyspace.databases
        if database >= len(databases):
            return False
        # The collections are small: see `Reader.keys`.
        if keys.type == "string" and max(map(len, keys.values)) > LARGEST_STRING:
            return False
        space = databases[database].space.id
        return self._puts_new(space, keys.type, keys.names, keys.values, keys.times)

    def _puts_new(
        self,
        space: int,
        type_name: str,
        names: list[bytes],
        values: list[Any],
        times: list[int | None],
    ) -> bool:
        new, first_id = self._new, self._keyspace.next_id
        if new is None or not new.adds(first_id, space, type_name, names, values, times):
            return False
        self._keyspace.next_id += len(names)
        if new.nbytes >= NEW_BYTES:
            self.fold()
        return True

    def remove(self, name: bytes, database: int) -> str | None:
        """Remove a key that this import has created. Returns its type, or None if there is none."""
        keyspace = self._keyspace
        if self._new is not None:
            # From now on names come again and again, so each has to be looked for.
            self.finish()
        db = keyspace.databases[database] if database < len(keyspace.databases) else None
        old = None if db is None else db.find_row(name)
        if db is None or old is None or old.id < self._first_id:
            return None
        type_name = old.type_name
        db.remove(old)
        return type_name

    def names(self, database: int) -> Iterator[list[bytes]]:
        """The names of all keys that this import has created, in lists."""
        self.fold()
        space, tables = self._keyspace.databases[database].space, self._keyspace.tables
        assert tables is not None
        after_id = self._first_id - 1
        while rows := tables.rows_after(after_id, self._keyspace.next_id, NAMES_AT_ONCE):
            after_id = rows[-1][0]
            yield [name for _, space_id, name, _, _ in rows if space_id == space.id]

    def fold(self, *, is_last: bool = False) -> None:
        """Move all that memory has into the tables, and remove it from memory."""
        store = self.store
        try:
            store.commit()
            store.fold()
            if self._new is not None:
                store.write_new(self._new, is_last=is_last)
            if store.wal_pages >= CHECKPOINT_PAGES:
                store.sync_and_checkpoint()
            store.reload()
        except OSError as error:
            raise StorageError(f"cannot write {store.path}: {error.strerror}") from None
        while self._keyspace.freeing.step():
            pass

    def finish(self) -> None:
        """From now on, all keys take the usual way. Raises MigrationError if two keys have the
        same name."""
        self.fold(is_last=True)
        doubled = None if self._new is None else self.store.doubled_name()
        self._new = None
        if doubled is not None:
            space, name = doubled
            databases = [db.index for db in self._keyspace.databases if db.space.id == space]
            raise _comes_twice(name, databases[0])

    def close(self) -> None:
        """Leave a file that is complete, or raise MigrationError or StorageError. In both cases the
        file is closed."""
        try:
            self.finish()
        except BaseException:
            self.abandon()
            raise
        self.store.close()

    def abandon(self) -> None:
        self.store.abandon()


def _comes_twice(name: bytes, database: int) -> MigrationError:
    return MigrationError(f"key {printable(name)} comes twice for database {database}")


def load_library(code: bytes, store: Store, clock: Clock) -> None:
    """Load a library of functions, in the place of an older one of that name. Raises UnfitError."""
    # Its Lua has to run once, so this takes an engine. Few files have libraries.
    from holdfast import all_commands as all_commands
    from holdfast.server.core.engine import Engine

    try:
        Engine(store, clock=clock).scripts.functions.load(code, replace=True)
    except CommandError as error:
        name = printable(code.partition(b"\n")[0])
        raise UnfitError(f"the library {name} cannot be loaded: {error}") from None


def refuse_unfit(entry: Entry, database: int, databases: int) -> None:
    """Raise UnfitError if a file of so many databases has no place for a key."""
    if database >= databases:
        raise UnfitError(
            f"key {printable(entry.name)} belongs to database {database}, and the file has"
            f" {databases}: see --databases and --db-map"
        )
    if _longest(entry) > LARGEST_STRING:
        raise UnfitError(
            f"key {printable(entry.name)} of database {entry.database} has a string of more than"
            " 512 MB"
        )


def _longest(entry: Entry) -> int:
    """The size of the longest string of a key."""
    value: Plain = entry.value
    if value.type == "string":
        return len(value.content)
    if value.type in ("list", "set"):
        return max(map(len, value.content))
    if value.type == "zset":
        return max(len(member) for member, _ in value.content)
    if value.type == "hash":
        return max(max(len(name), len(text)) for name, text, _ in value.content)
    return max((len(part) for _, fields in value.content.entries for part in fields), default=0)
