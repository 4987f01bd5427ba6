"""`holdfast check`: whether a database file is sound. It only reads, and works while a server
writes.

There are two kinds of checks. SQL checks rules that hold for the tables at every moment. Python
checks rules that hold after the journal is applied to the tables. It does not use the code of
recovery, because a check should not share the mistakes of the code that it checks. For the same
reason it is one file, with its own rules for each type.
"""

from collections.abc import Iterator
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import msgspec

from holdfast.progress import Progress, unseen
from holdfast.store.change.ops import (
    KEYS,
    LIST_ITEMS,
    SPACES,
    STREAM_CONSUMERS,
    STREAM_PENDING,
    STRING_PARTS,
    STRINGS,
    RowOp,
)
from holdfast.store.change.runs import STEP, rows_in
from holdfast.store.file.journal import batches
from holdfast.store.file.list_blocks import LONGEST, PLACES, SPAN
from holdfast.store.file.mark import DamagedFileError
from holdfast.store.file.migrations import SCHEMA_VERSION
from holdfast.store.file.opening import ADDED_TABLES, ADDITIONS
from holdfast.store.file.reading import dropped_by_next_start, reading
from holdfast.store.file.tables import ROWS, Tables
from holdfast.store.file.watching import ticking, watching
from holdfast.store.recovery import node_of_file, replay
from holdfast.store.replicated.replicated_keyspace import ReplicatedKeyspace
from holdfast.store.replicated.survey import Survey
from holdfast.store.values.registry import COLLECTIONS

MOST_OF_A_KIND = 10  # sentences about the same thing

TYPES = ", ".join(f"'{name}'" for name in COLLECTIONS)

# Of a block: the number of its elements, and whether it is sound, that is, matches its sizes.
SIZES = "json_each(iif(json_valid(sizes), sizes, '[]'))"
COUNT = f"(SELECT count(value) FROM {SIZES})"
SOUND = f"""(json_valid(sizes) AND (
  SELECT count(*) > 0 AND first >= 0 AND first + count(*) <= {PLACES}
    AND total(value) = length(data) AND json_extract(sizes, '$[0]', '$[#-1]') NOT LIKE '%null%'
    AND min(type = 'null' OR type = 'integer' AND value BETWEEN 0 AND {LONGEST})
  FROM {SIZES}))"""

# For each query that must find no row: the meaning of a row that it finds. The queries hold at
# every moment, whether the journal is folded or not. (An older Holdfast does not keep sizes. Then
# the number of the last folded batch is not that of the sizes, and they are not checked.)
FORBIDDEN_ROWS = {
    "space {} has {} keys, but its size says {}": """
        SELECT s.space, (SELECT count(*) FROM redis_keys k WHERE k.space = s.space) AS there, keys
        FROM redis_space_sizes s WHERE keys <> there""",
    "space {} has keys, but no size": """
        SELECT DISTINCT space FROM redis_keys
        WHERE space NOT IN (SELECT space FROM redis_space_sizes)""",
    "key {} has {} elements, but its size says {}": """
        SELECT key_id,
          (SELECT count(*) FROM redis_hash_fields f WHERE f.key_id = s.key_id)
          + (SELECT count(*) FROM redis_set_members m WHERE m.key_id = s.key_id)
          + (SELECT count(*) FROM redis_zset_members z WHERE z.key_id = s.key_id) AS there, elements
        FROM redis_sizes s WHERE elements <> there AND (
          SELECT value FROM holdfast_meta WHERE name = 'sizes_lsn')
          IS (SELECT value FROM holdfast_meta WHERE name = 'folded_lsn')
        AND NOT EXISTS (SELECT 1 FROM journal)""",
    "block {1} of list {0} is damaged": f"""
        SELECT key_id, pos FROM redis_list_blocks WHERE pos & {SPAN - 1} OR NOT {SOUND}""",
    "element {1} of list {0} is there twice": f"""
        SELECT key_id, i.pos FROM redis_list_items i JOIN redis_list_blocks b USING (key_id)
        WHERE b.pos = i.pos & -{SPAN} AND i.pos IN
          (SELECT b.pos + (first + key) * {STEP} FROM {SIZES} WHERE value IS NOT NULL)""",
    "list {} has {} elements, but its length says {}": f"""
        SELECT m.key_id,
          (SELECT count(*) FROM redis_list_items i WHERE i.key_id = m.key_id) +
          (SELECT ifnull(sum({COUNT}), 0) FROM redis_list_blocks b WHERE b.key_id = m.key_id)
          AS there, length
        FROM redis_list_meta m WHERE length <> there""",
    "list {} has {} elements off the grid, but its meta row says {}": f"""
        SELECT m.key_id, (SELECT count(*) FROM redis_list_items i
          WHERE i.key_id = m.key_id AND (pos & {STEP - 1}) <> 0) AS there, off_grid
        FROM redis_list_meta m WHERE off_grid <> there""",
    "list {} has {} elements by themselves, but its meta row says {}": """
        SELECT m.key_id,
          (SELECT count(*) FROM redis_list_items i WHERE i.key_id = m.key_id) AS there, singles
        FROM redis_list_meta m WHERE singles <> there""",
    "list {} has elements, but no meta row": """
        SELECT key_id FROM
          (SELECT key_id FROM redis_list_items UNION SELECT key_id FROM redis_list_blocks)
        WHERE key_id NOT IN
          (SELECT key_id FROM redis_list_meta UNION ALL SELECT id FROM redis_graves)""",
    "elements of list {} belong to no key and no grave": """
        SELECT key_id FROM redis_list_meta
        WHERE key_id NOT IN (SELECT id FROM redis_keys UNION ALL SELECT id FROM redis_graves)""",
    "a name in space {} belongs to key {}, which does not have it": """
        SELECT n.space, n.id FROM redis_names n LEFT JOIN redis_keys k ON k.id = n.id
        WHERE k.id IS NULL OR k.space <> n.space OR CAST(k.name AS TEXT) <> n.name""",
    "string {} belongs to no key": """
        SELECT key_id FROM redis_strings WHERE key_id NOT IN (SELECT id FROM redis_keys)""",
    "key {} has type '{}', which is none": f"""
        SELECT id, type FROM redis_keys WHERE type NOT IN ('string', {TYPES})""",
} | {
    f"rows of {name} for key {{}} belong to no key and no grave": f"""
        SELECT DISTINCT key_id FROM {name}
        WHERE key_id NOT IN (SELECT id FROM redis_keys UNION ALL SELECT id FROM redis_graves)"""
    for name in (
        "redis_list_blocks",
        *(ROWS[table].name for kind in COLLECTIONS.values() for table in kind.tables),
    )
}

# For files from before there were blocks: no blocks, and each element has a row of its own.
WITHOUT_BLOCKS = """
    CREATE TEMP TABLE redis_list_blocks (key_id, pos, first, sizes, data);
    CREATE TEMP VIEW redis_list_meta AS
      SELECT key_id, length, off_grid, length AS singles FROM main.redis_list_meta"""
FIRST_WITH_BLOCKS = 4

# For files from before there was a table of names, when there was an index.
WITHOUT_NAMES = """
    CREATE TEMP VIEW redis_names AS
      SELECT space, CAST(name AS TEXT) AS name, id FROM main.redis_keys"""
FIRST_WITH_NAMES = 6

IS_THERE = f"""
    SELECT EXISTS (SELECT 1 FROM redis_list_items WHERE key_id = ?1 AND pos = ?2) OR EXISTS
      (SELECT 1 FROM redis_list_blocks WHERE key_id = ?1 AND pos = ?2 & -{SPAN} AND ?2 IN
        (SELECT pos + (first + key) * {STEP} FROM {SIZES} WHERE value IS NOT NULL))"""

KEYS_NAMED = "SELECT id FROM redis_names WHERE space = ?1 AND name = CAST(?2 AS TEXT)"
# The same by the older index of either kind.
KEYS_INDEXED = """
    SELECT id FROM redis_keys
    WHERE space = ?1 AND name = ?2 AND CAST(name AS TEXT) = CAST(?2 AS TEXT)"""
NAMED_ALIKE = """
    SELECT k.space, k.name, k.id
    FROM (SELECT space, name FROM redis_names GROUP BY space, name HAVING count(*) > 1) d
      CROSS JOIN redis_names n USING (space, name) JOIN redis_keys k ON k.id = n.id"""
INDEXED_ALIKE = """
    SELECT space, name, id FROM redis_keys JOIN (SELECT space, name FROM redis_keys
      GROUP BY space, CAST(name AS TEXT) HAVING count(*) > 1) USING (space, name)"""
WITHOUT_A_NAME = """
    SELECT id FROM redis_keys k WHERE NOT EXISTS (SELECT 1 FROM redis_names n
      WHERE n.space = k.space AND n.name = CAST(k.name AS TEXT) AND n.id = k.id)"""

_ROWS_OF_VALUES = {
    "string": "redis_strings",
    "list": "(SELECT key_id FROM redis_list_meta WHERE length > 0)",
    "hash": "redis_hash_fields",
    "set": "redis_set_members",
    "zset": "redis_zset_members",
    "stream": "redis_stream_meta",
}
WITHOUT_A_VALUE = "SELECT id, type, space FROM redis_keys WHERE " + " OR ".join(
    f"(type = '{kind}' AND NOT EXISTS (SELECT 1 FROM {rows} WHERE key_id = id))"
    for kind, rows in _ROWS_OF_VALUES.items()
)

IS_CONSUMER = """
    SELECT EXISTS (SELECT 1 FROM redis_stream_consumers
      WHERE key_id = ? AND group_name = ? AND name = ?)"""
ENTRIES_OF_CONSUMER = """
    SELECT id FROM redis_stream_pending
    WHERE key_id = ? AND group_name = ? AND consumer = ?
      AND (delivered_at_ms >= 0 OR consumer <> x'')"""
ENTRIES_WITHOUT_CONSUMER = """
    SELECT key_id, group_name, id, consumer FROM redis_stream_pending p
    WHERE (delivered_at_ms >= 0 OR consumer <> x'')
      AND NOT EXISTS (SELECT 1 FROM redis_stream_consumers c
        WHERE c.key_id = p.key_id AND c.group_name = p.group_name AND c.name = p.consumer)"""

_decode = msgspec.msgpack.Decoder(list[tuple[int, int, object, object]]).decode
_words = msgspec.msgpack.Decoder(list[bytes | tuple[bytes, ...]]).decode


class Findings(NamedTuple):
    """Sentences about a file."""

    problems: list[str]  # one for each error; none if the file is sound
    notes: list[str]  # parts that were not checked, and findings that do no harm


def check_file(path: Path) -> list[str]:
    """The problems without the notes. Raises StorageError as `check` does."""
    return check(path).problems


def check(path: Path, progress: Progress = unseen) -> Findings:
    """Look for problems. Raises StorageError if it is not a file of Holdfast, or cannot be read."""
    notes: list[str] = []
    try:
        with reading(path, notes.append) as connection:
            problems = _problems(connection, progress)
    except DamagedFileError as error:
        return Findings([str(error)], notes)
    if not problems and (count := dropped_by_next_start(path)):
        notes.append(f"the next start drops {count} frames of a write that was cut off")
    return Findings(problems, notes)


def _problems(connection: apsw.Connection, progress: Progress) -> list[str]:
    try:
        with watching(connection, "looking for damaged pages", progress):
            problems = [
                f"SQLite: {' '.join(line.split())}"
                for (line,) in connection.execute("PRAGMA integrity_check")
                if line != "ok"
            ]
        if problems:
            return problems
        if connection.execute("PRAGMA user_version").get < FIRST_WITH_BLOCKS:
            connection.execute(WITHOUT_BLOCKS)
        found = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")}
        if not found.issuperset(ADDED_TABLES):
            connection.execute(ADDITIONS.read_text().replace("CREATE TABLE", "CREATE TEMP TABLE"))
        if connection.execute("PRAGMA user_version").get < FIRST_WITH_NAMES:
            connection.execute(WITHOUT_NAMES)
        questions = _questions(connection)
        done = 0

        def report() -> None:
            progress("comparing the tables", done, len(questions), "questions")

        with ticking(connection, report):
            for question in questions:
                report()
                problems += question
                done += 1
            if not problems:
                problems += _replicated(connection)
    except apsw.Error as error:
        return [f"SQLite: {error}"]
    return problems


def _questions(connection: apsw.Connection) -> list[Iterator[str]]:
    """The checks; each yields sentences about problems."""
    return [
        *(_rows(connection, sentence, query) for sentence, query in FORBIDDEN_ROWS.items()),
        _streams(connection),
        _with_journal(connection),
    ]


def _rows(connection: apsw.Connection, sentence: str, query: str) -> Iterator[str]:
    for row in connection.execute(f"{query} LIMIT {MOST_OF_A_KIND}"):
        yield sentence.format(*row)


def _streams(connection: apsw.Connection) -> Iterator[str]:
    """Check rows of entries, which SQL cannot take apart. They are read from the last one to the
    first, so that the id of the next row is known."""
    damaged = 0
    of, end = 0, b""
    for key_id, row_id, row in connection.execute(
        "SELECT * FROM redis_stream_entries ORDER BY key_id, id DESC"
    ):
        if not _is_sound(row_id, row, end if key_id == of else None):
            damaged += 1
            if damaged <= MOST_OF_A_KIND:
                yield f"row {row_id.hex()} of stream {key_id} is damaged"
        of, end = key_id, row_id


def _is_sound(row_id: bytes, row: bytes, end: bytes | None) -> bool:
    """Whether the row has entries in order, with ids from its own id on and below the id of the
    next row."""
    try:
        words = _words(row)
    except msgspec.MsgspecError:
        return False
    if not words or len(words) % 2:
        return False
    if all(type(word) is bytes for word in words):
        return len(row_id) == 16  # one entry: a row from before version 5
    ids, fields = words[::2], words[1::2]
    if not all(type(entry_id) is bytes and len(entry_id) == 16 for entry_id in ids):
        return False
    if not all(type(some) is tuple and some and len(some) % 2 == 0 for some in fields):
        return False
    bounds: list[Any] = ids if end is None else [*ids, end]
    return row_id <= bounds[0] and all(low < high for low, high in pairwise(bounds))


def _with_journal(connection: apsw.Connection) -> Iterator[str]:
    overlay = Overlay(connection)
    unreadable = list(overlay.read())
    yield from unreadable
    if not unreadable:
        yield from islice(overlay.keys_without_name(), MOST_OF_A_KIND)
        yield from overlay.duplicate_names()
        yield from overlay.shared_spaces()
        yield from overlay.missing_values()
        yield from islice(overlay.entries_without_consumer(), MOST_OF_A_KIND)


def _replicated(connection: apsw.Connection) -> Iterator[str]:
    """In a file of an active-active server, compare the data that clients would see after a start
    with the data that peers would get. This check uses the code of recovery, because that code
    decides both."""
    if connection.execute("PRAGMA user_version").get < SCHEMA_VERSION:
        return  # a start would bring its tables up to date first
    node = node_of_file(connection)
    if not node:
        return
    tables, unfolded = Tables(connection), list(batches(connection))
    keyspace = ReplicatedKeyspace(tables, 1 + max(tables.spaces_shown()), node)
    for _ in replay(keyspace, unfolded):
        pass
    keyspace.recovered(lambda key_id: False)
    if keyspace.stage.is_adopting:
        return  # was a standalone server's file, and not all of its data is replicated yet
    for difference in Survey(keyspace).finish().found[:MOST_OF_A_KIND]:
        yield str(difference)


class Overlay:
    """The rows that the journal adds, replaces and removes."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._execute = connection.execute
        version: int = self._execute("PRAGMA user_version").get
        self._has_names = version >= FIRST_WITH_NAMES
        self._spaces: dict[int, int] = dict(self._execute("SELECT db, space FROM redis_databases"))
        self._keys: dict[int, tuple[int, bytes, str] | None] = {}
        self._strings: dict[int, bool] = {}
        # by list: for a position, whether an element is there
        self._items: dict[int, dict[int, bool]] = {}
        # By key of another type: for a table and sub key, whether a row is there.
        self._elements: dict[int, dict[tuple[int, object], bool]] = {}
        # By stream, group and id of an entry: the consumer that holds it. (A returned entry is held
        # by no consumer: its time is negative, its consumer's name empty.)
        self._holders: dict[tuple[int, bytes, bytes], bytes | None] = {}

    def read(self) -> Iterator[str]:
        for lsn, batch in self._execute("SELECT lsn, batch FROM journal ORDER BY lsn"):
            try:
                for op in _decode(batch):
                    for table, key_id, sub, value in rows_in(RowOp(op)):
                        self._apply(table, key_id, sub, value)
            except (msgspec.DecodeError, TypeError, ValueError, IndexError) as error:
                yield f"batch {lsn} of the journal cannot be read: {error}"

    def _apply(self, table: int, key_id: int, sub: object, value: object) -> None:
        is_there = value is not None
        if table == KEYS:
            row = None
            if is_there:
                space, name, kind, _ = _fields(value, (int, bytes, str, int | None))
                row = (space, name, kind)
            self._keys[key_id] = row
        elif table == SPACES:
            (self._spaces[key_id],) = _fields([value], (int,))
        elif table == STRINGS:
            _fields([key_id, value], (int, bytes | None))
            self._strings[key_id] = is_there
        elif table == STRING_PARTS:
            offset, _ = _fields([sub, value], (int, bytes))
            if offset < 0:
                raise ValueError(f"a part of string {key_id} is at {offset}")
        elif table == LIST_ITEMS:
            position, _ = _fields([sub, value], (int, bytes | None))
            self._items.setdefault(key_id, {})[position] = is_there
        elif table in ROWS:
            self._elements.setdefault(key_id, {})[table, _hashable(sub)] = is_there
            if table == STREAM_PENDING:
                group, entry_id = _fields(sub, (bytes, bytes))
                holder = None
                if is_there:
                    consumer, delivered_at_ms, _ = _fields(value, (bytes, int, int))
                    holder = consumer if consumer or delivered_at_ms >= 0 else None
                self._holders[key_id, group, entry_id] = holder
        else:
            raise ValueError(f"there is no table {table}")

    # -- questions ----------------------------------------------------------------------------

    def _shown(self, space: int) -> bool:
        return space in self._spaces.values()

    def keys_without_name(self) -> Iterator[str]:
        """Keys that no client finds. Keys in the journal are skipped, because their names are
        written last."""
        if self._has_names:
            for (key_id,) in self._execute(WITHOUT_A_NAME):
                if key_id not in self._keys:
                    yield f"key {key_id} is not in the table of names"

    def duplicate_names(self) -> Iterator[str]:
        owners: dict[tuple[int, bytes], list[int]] = {}
        for key_id, row in self._keys.items():
            if row is not None:
                owners.setdefault(row[:2], []).append(key_id)
        in_tables = self._execute(NAMED_ALIKE if self._has_names else INDEXED_ALIKE)
        named = KEYS_NAMED if self._has_names else KEYS_INDEXED
        found: dict[tuple[int, bytes], set[int]] = {}
        for space, name, key_id in in_tables:
            if key_id not in self._keys:
                found.setdefault((space, name), set()).add(key_id)
        for (space, name), ids in owners.items():
            rows = self._execute(named, (space, name))
            others = {key_id for (key_id,) in rows if key_id not in self._keys}
            found.setdefault((space, name), set()).update(ids, others)
        for (space, name), together in found.items():
            if len(together) > 1 and self._shown(space):
                keys = ", ".join(map(str, sorted(together)))
                yield f"keys {keys} have the same name {name!r} in space {space}"

    def shared_spaces(self) -> Iterator[str]:
        seen: dict[int, int] = {}
        for database, space in self._spaces.items():
            if space in seen:
                yield f"databases {seen[space]} and {database} both show space {space}"
            seen[space] = database

    def missing_values(self) -> Iterator[str]:
        without = self._execute(WITHOUT_A_VALUE)
        suspects = {key_id: row for key_id, *row in without if key_id not in self._keys}
        suspects |= {key_id: [row[2], row[0]] for key_id, row in self._keys.items() if row}
        for key_id in self._items:
            row = self._execute("SELECT type, space FROM redis_keys WHERE id = ?", (key_id,)).get
            if row is not None and key_id not in self._keys:
                suspects[key_id] = [*row]
        shown = {*self._spaces.values()}  # flushed keys may be incomplete
        for key_id, (kind, space) in suspects.items():
            if space in shown and not self._has_value(key_id, kind):
                yield f"{kind} key {key_id} has no value"

    def entries_without_consumer(self) -> Iterator[str]:
        """Entries that no client sees until a consumer of that name is created, which then holds
        them."""
        holders = {
            (key_id, group, entry_id): consumer
            for key_id, group, entry_id, consumer in self._execute(ENTRIES_WITHOUT_CONSUMER)
        }
        for key_id, changed in self._elements.items():
            for (table, place), is_there in changed.items():
                if table == STREAM_CONSUMERS and not is_there and isinstance(place, tuple):
                    rows = self._execute(ENTRIES_OF_CONSUMER, (key_id, *place))
                    holders |= {(key_id, place[0], entry_id): place[1] for (entry_id,) in rows}
        for (key_id, group, entry_id), consumer in (holders | self._holders).items():
            if consumer is not None and not self._is_consumer(key_id, group, consumer):
                yield (
                    f"entry {entry_id.hex()} of stream {key_id} is pending for {consumer!r},"
                    f" which is no consumer of group {group!r}"
                )

    def _is_consumer(self, key_id: int, group: bytes, name: bytes) -> bool:
        """Whether the consumer exists. True also for streams that are deleted or flushed, because
        their rows are deleted with them."""
        if key_id in self._keys:
            row = self._keys[key_id]
            space = None if row is None else row[0]
        else:
            space = self._execute("SELECT space FROM redis_keys WHERE id = ?", (key_id,)).get
        if space is None or not self._shown(space):
            return True
        changed = self._elements.get(key_id, {}).get((STREAM_CONSUMERS, (group, name)))
        if changed is not None:
            return changed
        return bool(self._execute(IS_CONSUMER, (key_id, group, name)).get)

    def _has_value(self, key_id: int, kind: str) -> bool:
        if kind == "string":
            if key_id in self._strings:
                return self._strings[key_id]
            query = "SELECT EXISTS (SELECT 1 FROM redis_strings WHERE key_id = ?)"
            return bool(self._execute(query, (key_id,)).get)
        if kind != "list":
            return self._has_elements(key_id, kind)
        items = self._items.get(key_id, {})
        if any(items.values()):
            return True
        length = self._execute("SELECT length FROM redis_list_meta WHERE key_id = ?", (key_id,)).get
        gone = sum(self._execute(IS_THERE, (key_id, position)).get for position in items)
        return bool((length or 0) > gone)

    def _has_elements(self, key_id: int, kind: str) -> bool:
        """Whether the collection has rows. A stream may be empty, but has its meta row."""
        changed = self._elements.get(key_id, {})
        if any(changed.values()):
            return True
        gone = dict.fromkeys(COLLECTIONS[kind].tables, 0)
        for table, sub in changed:
            rows = ROWS[table]
            place = () if sub is None else sub if isinstance(sub, tuple) else (sub,)
            where = " AND ".join(f"{column} = ?" for column in (rows.key, *rows.sub))
            query = f"SELECT EXISTS (SELECT 1 FROM {rows.name} WHERE {where})"
            gone[table] += self._execute(query, (key_id, *place)).get
        return any(
            self._execute(
                f"SELECT count(*) FROM {ROWS[table].name} WHERE key_id = ?", (key_id,)
            ).get
            > count
            for table, count in gone.items()
        )


def _hashable(sub: object) -> object:
    return tuple(sub) if isinstance(sub, list) else sub


def _fields(values: object, types: tuple[Any, ...]) -> tuple[Any, ...]:
    """The values, if they have these types. Raises TypeError or ValueError otherwise."""
    if not isinstance(values, list | tuple) or len(values) != len(types):
        raise ValueError("an operation has the wrong shape")
    for value, kind in zip(values, types, strict=True):
        if not isinstance(value, kind):
            raise ValueError(f"{value!r} is in the wrong place")
    return tuple(values)
