"""The tables of the file: how each row operation is written, and how cold values are read.

The schema is schema.sql. Most statements on its tables are here. The modules of store/fold,
cold_lists.py, opening.py, migrations.py, check.py, database_content.py and small_collections.py
have some of their own. The file is long because the tables of statements and the reader of cold
values use the same columns.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from functools import cache
from typing import Any, Final, NamedTuple

import apsw
import msgspec

from holdfast.store.change.ops import (
    CRDT_FACTS,
    CRDT_KEYS,
    CRDT_LOG,
    CRDT_ROWS,
    FIRST_ID,
    HASH_FIELDS,
    KEYS,
    LIST_ITEMS,
    POSITION,
    REPLICATION,
    SCRIPTS,
    SET_MEMBERS,
    SPACES,
    STREAM_CONSUMERS,
    STREAM_ENTRIES,
    STREAM_GROUPS,
    STREAM_IDEMPOTENCE,
    STREAM_IIDS,
    STREAM_META,
    STREAM_PENDING,
    STRINGS,
    ZSET_MEMBERS,
)
from holdfast.store.change.stream_blocks import ENTRIES, HEAD_BYTES, entry_count, unpack
from holdfast.store.file.cold_lists import StoredLists
from holdfast.store.values.registry import COLLECTIONS, Collection, CollectionType, Value
from holdfast.store.values.stream import Stream

NUL: Final = b"\0"
FLUSHED_IDS: Final = b"flushed"  # the fact: ids below which replicated keys are dead, by database
_decode_row = msgspec.msgpack.Decoder().decode
_decode_flushed = msgspec.msgpack.Decoder(dict[int, int]).decode
STATEMENT_ROWS: Final = 50  # of many that are written, removed or asked for

# The rows of a collection that one slice loads, in about half a millisecond. A command loads one
# slice itself.
SLICE_ROWS: Final = 500
SLICE_BLOCKS: Final = SLICE_ROWS // ENTRIES + 1  # rows of streams
SLICE_BYTES: Final = 256 * 1024


class RowTable(NamedTuple):
    """Where the row operations of one table go. Columns in the order of the schema."""

    name: str
    key: str = "key_id"
    sub: tuple[str, ...] = ()  # one: the operation's `sub`; more: it is a tuple
    values: tuple[str, ...] = ("value",)  # likewise for `value`

    def put(self, rows: int, *, of_one_key: bool) -> str:
        """Bindings: the keys, or one, then what is in `sub`, then what is in `values`.

        `ON CONFLICT DO UPDATE` rather than REPLACE, which removes a row and makes it anew, in
        the indexes as well.
        """
        subs_at = 1 + (1 if of_one_key else rows)
        values_at = subs_at + rows * len(self.sub)
        groups = [
            [f"?{1 if of_one_key else 1 + row}"]
            + [f"?{subs_at + row * len(self.sub) + at}" for at in range(len(self.sub))]
            + [f"?{values_at + row * len(self.values) + at}" for at in range(len(self.values))]
            for row in range(rows)
        ]
        # No blanks: APSW looks at every letter to find out that it knows the statement.
        values = ",".join(f"({','.join(group)})" for group in groups)
        sets = ",".join(f"{column}=excluded.{column}" for column in self.values)
        return f"INSERT INTO {self.name} VALUES{values}ON CONFLICT DO UPDATE SET {sets}"

    def delete(self, rows: int) -> str:
        """Several, if a place in the table is one column: of one key, or keys. Bindings: the key
        and what is in `sub`; or the keys."""
        *fixed, last = (self.key, *self.sub)
        where = [f"{column}=?" for column in fixed] + [f"{last} IN({','.join('?' * rows)})"]
        return f"DELETE FROM {self.name} WHERE {' AND '.join(where)}"

    def select(self, *, behind_place: bool) -> str:
        """The rows of a key, by place, without the key. Bindings: the key, and what is in `sub`."""
        columns, order = ",".join((*self.sub, *self.values)), ",".join((self.key, *self.sub))
        where = f"{self.key}=?"
        if behind_place:
            where += f" AND({','.join(self.sub)})>({','.join('?' * len(self.sub))})"
        return f"SELECT {columns} FROM {self.name} WHERE {where} ORDER BY {order}"

    @property
    def places_from(self) -> str:
        """Which rows a key has from a place on. Bindings: the key, and what is in `sub`."""
        sub = ",".join(self.sub)
        places = ",".join("?" * len(self.sub))
        return (
            f"SELECT {sub} FROM {self.name} WHERE {self.key}=? AND({sub})>=({places})ORDER BY {sub}"
        )

    def names_between(self, most: int) -> str:
        """How many rows a key has from a name to another, and their names, joined by `NUL`: to
        return a row for each takes longer. Bindings: the key and the names.

        No ORDER BY: they come in the order of their place, and with it SQLite 3.54 prepares the
        statement anew each time."""
        [sub] = self.sub
        rows = f"SELECT {sub} FROM {self.name} WHERE {self.key}=? AND {sub}>=? AND {sub}<=?"
        joined = f"CAST(group_concat({sub},X'00')AS BLOB)"
        return f"SELECT count(*),{joined}FROM({rows} LIMIT {most})"

    @property
    def delete_range(self) -> str:
        """Bindings: the key, and what is in `sub` of the first and the last row."""
        sub, places = ",".join(self.sub), ",".join("?" * len(self.sub))
        bounds = f"({sub})>=({places})AND({sub})<=({places})"
        return f"DELETE FROM {self.name} WHERE {self.key}=? AND{bounds}"

    @property
    def next_place(self) -> str:
        """The place behind the first rows of a key. Bindings: the key and how many."""
        sub = ", ".join(self.sub)
        return f"SELECT {sub} FROM {self.name} WHERE {self.key} = ? ORDER BY {sub} LIMIT 1 OFFSET ?"

    def delete_of_key(self, *, up_to_place: bool) -> str:
        """All rows of a key, or those before a place. Bindings: the key, and what is in `sub`."""
        delete = f"DELETE FROM {self.name} WHERE {self.key} = ?"
        if up_to_place:
            delete += f" AND ({', '.join(self.sub)}) < ({', '.join('?' * len(self.sub))})"
        return delete


ROWS: dict[int, RowTable] = {
    SPACES: RowTable("redis_databases", key="db", values=("space",)),
    KEYS: RowTable("redis_keys", key="id", values=("space", "name", "type", "expires_at_ms")),
    STRINGS: RowTable("redis_strings"),
    LIST_ITEMS: RowTable("redis_list_items", sub=("pos",)),
    HASH_FIELDS: RowTable(
        "redis_hash_fields", sub=("field",), values=("value", "ordinal", "expires_at_ms")
    ),
    SET_MEMBERS: RowTable("redis_set_members", sub=("member",), values=("ordinal",)),
    ZSET_MEMBERS: RowTable("redis_zset_members", sub=("member",), values=("score",)),
    STREAM_META: RowTable(
        "redis_stream_meta", values=("last_id", "max_deleted_id", "entries_added")
    ),
    STREAM_ENTRIES: RowTable("redis_stream_entries", sub=("id",), values=("entries",)),
    STREAM_GROUPS: RowTable(
        "redis_stream_groups", sub=("name",), values=("last_id", "entries_read")
    ),
    STREAM_CONSUMERS: RowTable(
        "redis_stream_consumers",
        sub=("group_name", "name"),
        values=("seen_at_ms",),
    ),
    STREAM_PENDING: RowTable(
        "redis_stream_pending",
        sub=("group_name", "id"),
        values=("consumer", "delivered_at_ms", "deliveries"),
    ),
    CRDT_KEYS: RowTable("crdt_keys", key="id", values=("db", "name")),
    CRDT_ROWS: RowTable("crdt_rows", sub=("kind", "sub"), values=("row",)),
    CRDT_LOG: RowTable("crdt_log", key="part", sub=("lsn",), values=("record",)),
    CRDT_FACTS: RowTable("crdt_facts", key="part", sub=("name",)),
    REPLICATION: RowTable("holdfast_replication", key="part", sub=("name",)),
    SCRIPTS: RowTable("redis_scripts", key="kind", sub=("name",), values=("body",)),
    STREAM_IDEMPOTENCE: RowTable(
        "redis_stream_idempotence", values=("duration_s", "maxsize", "added", "duplicates")
    ),
    STREAM_IIDS: RowTable("redis_stream_iids", sub=("producer", "iid"), values=("entry_id",)),
}


SIZES: Final = {
    "string": "SELECT length(value) FROM redis_strings WHERE key_id = ?",
    "list": "SELECT length FROM redis_list_meta WHERE key_id = ?",
    "set": "SELECT count(*) FROM redis_set_members WHERE key_id = ?",
    "zset": "SELECT count(*) FROM redis_zset_members WHERE key_id = ?",
}
HASH_SIZE: Final = (
    "SELECT count(*), count(*) FILTER (WHERE expires_at_ms IS NULL OR expires_at_ms > ?2),"
    " count(expires_at_ms) FROM redis_hash_fields WHERE key_id = ?1"
)
COUNTED_TYPES: Final = ("hash", "set", "zset")
KNOWN_SIZE: Final = "SELECT elements FROM redis_sizes WHERE key_id = ?"  # if it is large
STREAM_HEADS: Final = (
    f"SELECT substr(entries, 1, {HEAD_BYTES}) FROM redis_stream_entries WHERE key_id = ?"
)


@cache
def put_sql(table: int, rows: int, of_one_key: bool) -> str:
    return ROWS[table].put(rows, of_one_key=of_one_key)


@cache
def delete_sql(table: int, rows: int) -> str:
    return ROWS[table].delete(rows)


@cache
def range_sql(table: int) -> tuple[str, str]:
    """How to read the places from one on, and how to delete rows up to another."""
    return ROWS[table].places_from, ROWS[table].delete_range


@cache
def names_sql(table: int, most: int) -> str:
    return ROWS[table].names_between(most)


@cache
def select_sql(table: int, behind_place: bool) -> str:
    return ROWS[table].select(behind_place=behind_place)


@cache
def places_sql(rows: int) -> str:
    """`id`, space and name of each of `rows` keys that exists."""
    return f"SELECT id,space,name FROM redis_keys WHERE id IN({','.join('?' * rows)})"


def put_columns(
    execute: Callable[[str, list[Any]], object],
    statement: Callable[[int], str],
    common: list[Any],
    columns: list[list[Any]],
) -> None:
    """Write rows that are columns, `STATEMENT_ROWS` to a statement, then the rest. `statement`
    gives the statement for a number of rows. Its bindings are what all rows have in `common`, and
    then the columns."""
    start, count = 0, len(columns[0])
    while start < count:
        size = STATEMENT_ROWS if count - start >= STATEMENT_ROWS else 1
        bindings = list(common)
        for column in columns:
            bindings += column[start : start + size]
        execute(statement(size), bindings)
        start += size


@cache
def put_strings_sql(rows: int) -> str:
    """Bindings: the ids of the keys, the strings."""
    return ROWS[STRINGS].put(rows, of_one_key=False)


@cache
def put_keys_sql(rows: int) -> str:
    """Keys of one space and type that do not expire. Bindings: the space, the type, the ids, the
    names."""
    return _put_keys_sql(rows, do_expire=False)


@cache
def put_expiring_keys_sql(rows: int) -> str:
    """The same with expiry: after the names come the times."""
    return _put_keys_sql(rows, do_expire=True)


def _put_keys_sql(rows: int, *, do_expire: bool) -> str:
    times_at = 3 + 2 * rows
    values = ",".join(
        f"(?{3 + row},?1,?{3 + rows + row},?2,{f'?{times_at + row}' if do_expire else 'NULL'})"
        for row in range(rows)
    )
    columns = ROWS[KEYS].values
    sets = ",".join(f"{column}=excluded.{column}" for column in columns)
    return f"INSERT INTO redis_keys VALUES{values}ON CONFLICT DO UPDATE SET {sets}"


@cache
def put_fields_sql(rows: int) -> str:
    """Fields that do not expire. Bindings: the ids of their keys, the names, the values, the
    ordinals."""
    table = ROWS[HASH_FIELDS]
    values = ",".join(
        f"(?{row},?{rows + row},?{2 * rows + row},?{3 * rows + row},NULL)"
        for row in range(1, rows + 1)
    )
    sets = ",".join(f"{column}=excluded.{column}" for column in table.values)
    return f"INSERT INTO {table.name} VALUES{values}ON CONFLICT DO UPDATE SET {sets}"


@cache
def put_names_sql(rows: int) -> str:
    """Names of one space. Bindings: the space, the names, the ids of their keys."""
    values = ",".join(f"(?1,CAST(?{2 + row} AS TEXT),?{2 + rows + row})" for row in range(rows))
    return f"INSERT OR IGNORE INTO redis_names VALUES{values}"


# Bindings: the space, the name and the id of the key.
DELETE_NAME: Final = "DELETE FROM redis_names WHERE space=? AND name=CAST(? AS TEXT)AND id=?"

# Some keys of a space. Bindings: the space and how many.
SOME_OF_SPACE: Final = "SELECT id FROM redis_names WHERE space = ? LIMIT ?"


class Tables:
    """Reads the tables: folded changes only, not those that are still in the journal."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._execute = connection.execute
        self._lists = StoredLists(connection)

    def next_id(self) -> int:
        """Above every id of a key or space that the tables mention."""
        highest = self._execute(
            "SELECT max(coalesce((SELECT max(id) FROM redis_keys), 0),"
            " coalesce((SELECT max(id) FROM crdt_keys), 0),"
            " coalesce((SELECT max(space) FROM redis_databases), 0),"
            " coalesce((SELECT max(id) FROM redis_graves), 0))"
        ).get
        return max(FIRST_ID, int(highest) + 1, *(1 + each for each in self.crdt_flushed().values()))

    def space_shown(self, database: int) -> int:
        return int(self._execute("SELECT space FROM redis_databases WHERE db = ?", (database,)).get)

    def spaces_shown(self) -> dict[int, int]:
        """The space of each database, also of databases that this server does not open."""
        return dict(self._execute("SELECT db, space FROM redis_databases"))

    def size_of_space(self, space: int) -> int:
        size = self._execute("SELECT keys FROM redis_space_sizes WHERE space = ?", (space,)).get
        return int(size or 0)

    def rows_named(self, space: int, name: bytes) -> list[tuple[int, str, int | None]]:
        """`(id, type, expires_at_ms)`; more than one row only while a fold is under way."""
        return list(
            self._execute(
                "SELECT k.id, type, expires_at_ms"
                " FROM redis_names n CROSS JOIN redis_keys k ON k.id = n.id"
                " WHERE n.space = ? AND n.name = CAST(? AS TEXT)",
                (space, name),
            )
        )

    def row(self, key_id: int) -> tuple[int, bytes, str, int | None] | None:
        """`(space, name, type, expires_at_ms)` of one key."""
        for row in self._execute(
            "SELECT space, name, type, expires_at_ms FROM redis_keys WHERE id = ?", (key_id,)
        ):
            return row  # type: ignore[no-any-return]
        return None

    def rows_after(
        self, key_id: int, below_id: int, limit: int
    ) -> list[tuple[int, int, bytes, str, int | None]]:
        """`(id, space, name, type, expires_at_ms)` with `key_id < id < below_id`, by id."""
        return list(
            self._execute(
                "SELECT id, space, name, type, expires_at_ms FROM redis_keys"
                " WHERE id > ? AND id < ? ORDER BY id LIMIT ?",
                (key_id, below_id, limit),
            )
        )

    def all_rows(
        self, space: int, below_id: int, *, with_strings: bool
    ) -> Iterator[tuple[int, bytes, str, int | None, bytes | None]]:
        """`(id, name, type, expires_at_ms, value)` with `id < below_id`, by id. The value is None,
        unless it is a string and wanted. The statement stays open, so this is for files that are
        only read."""
        value, join = "NULL", ""
        if with_strings:
            value, join = "value", "LEFT JOIN redis_strings ON key_id = id"
        return self._execute(
            f"SELECT id, name, type, expires_at_ms, {value} FROM redis_keys {join}"
            " WHERE space = ? AND id < ? ORDER BY id",
            (space, below_id),
        )

    def due(self, after: tuple[int, int], now_ms: int, limit: int) -> list[tuple[int, int]]:
        """`(expires_at_ms, id)` of keys whose time has come, in that order: the index has both."""
        return list(
            self._execute(
                "SELECT expires_at_ms, id FROM redis_keys"
                " WHERE (expires_at_ms, id) > (?, ?) AND expires_at_ms <= ?"
                " ORDER BY expires_at_ms, id LIMIT ?",
                (*after, now_ms, limit),
            )
        )

    def places(self, ids: list[int]) -> list[tuple[int, int, bytes]]:
        """`(id, space, name)` of those keys that the tables have."""
        found: list[tuple[int, int, bytes]] = []
        for start in range(0, len(ids), STATEMENT_ROWS):
            some = ids[start : start + STATEMENT_ROWS]
            some += some[-1:] * (STATEMENT_ROWS - len(some))
            found += self._execute(places_sql(STATEMENT_ROWS), some)
        return found

    def with_fields_due(
        self, after: tuple[int, int], now_ms: int, limit: int
    ) -> list[tuple[int, int, int, bytes]]:
        """`(expires_at_ms, id, space, name)` of hashes that have fields whose time has come."""
        return list(
            self._execute(
                "SELECT DISTINCT f.expires_at_ms, f.key_id, space, name"
                " FROM redis_hash_fields f JOIN redis_keys k ON k.id = f.key_id"
                " WHERE (f.expires_at_ms, f.key_id) > (?, ?) AND f.expires_at_ms <= ?"
                " ORDER BY f.expires_at_ms, f.key_id LIMIT ?",
                (*after, now_ms, limit),
            )
        )

    def expiring(self, limit: int) -> list[tuple[int, int]]:
        """`(id, space)` of keys that have an expiry."""
        return list(
            self._execute(
                "SELECT id, space FROM redis_keys WHERE expires_at_ms IS NOT NULL LIMIT ?",
                (limit,),
            )
        )

    def crdt_keys(self) -> Iterator[tuple[int, tuple[int, bytes]]]:
        """`id` and `(db, name)` of all replicated keys."""
        for key_id, database, name in self._execute("SELECT id, db, name FROM crdt_keys"):
            yield key_id, (database, name)

    def crdt_rows(self, key_id: int) -> Iterator[tuple[tuple[int, bytes], bytes]]:
        """The rows of one replicated key in order, each with `(kind, sub)`."""
        return self._rows(CRDT_ROWS, key_id)

    def crdt_log(self) -> Iterator[tuple[int, int]]:
        """`part` and `lsn` of all that there are."""
        return self._execute("SELECT part, lsn FROM crdt_log ORDER BY part, lsn")

    def crdt_record(self, lsn: int, part: int) -> bytes:
        """That part of a record, which must be there."""
        sql = "SELECT record FROM crdt_log WHERE part = ? AND lsn = ?"
        record: bytes = next(self._execute(sql, (part, lsn)))[0]
        return record

    def crdt_record_bytes(self, lsn: int) -> int:
        """The size of a record's first part, and of all parts but the last."""
        sql = "SELECT length(record) FROM crdt_log WHERE part = 0 AND lsn = ?"
        size: int = next(self._execute(sql, (lsn,)))[0]
        return size

    def crdt_facts(self) -> dict[bytes, bytes]:
        return dict(self._rows(CRDT_FACTS, 0))

    def crdt_counted(self, database: int, kinds: list[int]) -> list[tuple[int, bytes]]:
        """`id` and name of the replicated keys of a database that have counters. A row is a pair of
        writes and totals, and most have no totals: these end with an empty list, and hardly ever
        have a byte that a list of five begins with."""
        rows = self._execute(
            "SELECT k.id, k.name, r.row FROM crdt_keys k JOIN crdt_rows r ON r.key_id = k.id"
            f" WHERE k.db = ? AND r.kind IN ({','.join(map(str, kinds))})"
            " AND (substr(r.row, -1) <> x'90' OR instr(r.row, x'95'))",
            (database,),
        )
        found = {key_id: name for key_id, name, row in rows if _decode_row(row)[1]}
        return list(found.items())

    def crdt_flushed(self) -> dict[int, int]:
        """For each database, the id below which replicated keys were flushed."""
        query = "SELECT value FROM crdt_facts WHERE part = 0 AND name = ?"
        fact: bytes | None = self._execute(query, (FLUSHED_IDS,)).get
        return {} if fact is None else _decode_flushed(fact)

    def replication_position(self) -> bytes | None:
        """The position of this server in the stream of its primary; see
        server/replica/position.py."""
        try:
            return dict(self._rows(REPLICATION, 0)).get(POSITION)
        except apsw.SQLError:
            return None  # a file of an older Holdfast, which is only read

    def scripts(self, kind: int) -> dict[bytes, bytes]:
        """Bodies by name."""
        return dict(self._rows(SCRIPTS, kind))

    def value(
        self, key_id: int, type_name: str, on_load: Callable[[int], None]
    ) -> tuple[Value, Iterator[None] | None]:
        """The value of a cold key. Of a large collection it has the first slice; the iterator
        loads the others, one at each step. A list comes without its elements, which it loads as
        needed; `on_load` is told how many bytes each such loading brought into memory.

        Empty when its rows are missing: recovery asks for keys that a fold left half written.
        """
        if type_name == "string":
            value = self._execute("SELECT value FROM redis_strings WHERE key_id = ?", (key_id,)).get
            return value or b"", None
        if type_name == "list":
            return self._lists.value(key_id, on_load), None
        collection = COLLECTIONS[type_name].cls(key_id)
        slices = self._slices(collection, key_id, COLLECTIONS[type_name])
        for _ in slices:
            return collection, slices
        return collection, None

    def _slices(self, collection: Collection, key_id: int, kind: CollectionType) -> Generator[None]:
        """Load the rows of a collection. Between two slices no statement is open: the fold may
        write, and a checkpoint may empty the WAL. No row of the key changes meanwhile, because it
        is cold."""
        for table, apply in kind.apply.items():
            rows, is_more = self._slice(table, key_id, None)
            while True:
                if kind.fill is not None:
                    kind.fill(collection, rows)
                elif isinstance(collection, Stream) and table == STREAM_ENTRIES:
                    for row_id, entries in rows:
                        collection.load(unpack(row_id, entries))
                else:
                    for sub, value in _as_ops(table, rows):
                        apply(collection, sub, value)
                if not is_more:
                    break
                yield
                rows, is_more = self._slice(table, key_id, rows[-1])

    def _slice(
        self, table: int, key_id: int, last: tuple[Any, ...] | None
    ) -> tuple[list[tuple[Any, ...]], bool]:
        """Some rows of a key, behind the last one of the slice before, and whether there may be
        more. Few, if they are large."""
        rows: list[tuple[Any, ...]] = []
        most = SLICE_BLOCKS if table == STREAM_ENTRIES else SLICE_ROWS
        has_value = table in (HASH_FIELDS, STREAM_ENTRIES)  # of any size; a name is in all of them
        nbytes = 0
        for row in self._select(table, key_id, last):
            rows.append(row)
            if isinstance(row[0], bytes):
                nbytes += len(row[0])
            if has_value:
                nbytes += len(row[1])
            if len(rows) == most or nbytes >= SLICE_BYTES:
                return rows, True
        return rows, False

    def has_living_field(self, key_id: int, now_ms: int) -> bool:
        query = (
            "SELECT EXISTS (SELECT 1 FROM redis_hash_fields WHERE key_id = ?"
            " AND (expires_at_ms IS NULL OR expires_at_ms > ?))"
        )
        return bool(self._execute(query, (key_id, now_ms)).get)

    def size(self, key_id: int, type_name: str, now_ms: int) -> tuple[int, bool]:
        """How many elements a key has, or bytes of a string; and whether it stays so while no
        row changes, which is not so when fields expire."""
        if type_name in COUNTED_TYPES:
            elements: int | None = self._execute(KNOWN_SIZE, (key_id,)).get
            if elements is not None:
                return elements, True
        if type_name == "hash":
            size, living, expiring = self._execute(HASH_SIZE, (key_id, now_ms)).get
            return (size, True) if not expiring else (living, False)
        if type_name == "stream":
            heads = self._execute(STREAM_HEADS, (key_id,))
            return sum([entry_count(head) for (head,) in heads]), True
        return int(self._execute(SIZES[type_name], (key_id,)).get or 0), True

    def _select(
        self, table: int, key_id: int, last: tuple[Any, ...] | None = None
    ) -> Iterator[tuple[Any, ...]]:
        """The rows of a key as they are in the table, by place, without the key; all, or those
        behind the last one that was read."""
        if last is None:
            return self._execute(select_sql(table, False), (key_id,))
        return self._execute(select_sql(table, True), (key_id, *last[: len(ROWS[table].sub)]))

    def _rows(self, table: int, key_id: int) -> Iterator[tuple[Any, Any]]:
        """The rows of a key, as `sub` and `value` of row operations."""
        return _as_ops(table, self._select(table, key_id))


def _as_ops(table: int, rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, Any]]:
    """Rows as `sub` and `value` of row operations."""
    subs = len(ROWS[table].sub)
    for row in rows:
        sub, value = row[:subs], row[subs:]
        yield (
            (sub if subs > 1 else sub[0] if subs else None),
            (value[0] if len(value) == 1 else value),
        )
