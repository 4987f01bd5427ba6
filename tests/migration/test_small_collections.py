"""Small collections come in columns: the same values as one by one."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from holdfast.migration.database_content import DatabaseContent, database_content
from holdfast.migration.small_collections import MOST, MOST_SKIPPED, SHORT, SmallCollections
from holdfast.store.file.list_blocks import LONGEST
from holdfast.store.rdb.records import Entry, Keys
from tests.harness import HoldfastServer

NOW_MS = 1_700_000_000_000
TABLES = """
CREATE TABLE redis_hash_fields (key_id, field, value, ordinal, expires_at_ms,
  PRIMARY KEY (key_id, field)) WITHOUT ROWID;
CREATE TABLE redis_set_members (key_id, member, ordinal,
  PRIMARY KEY (key_id, member)) WITHOUT ROWID;
CREATE TABLE redis_zset_members (key_id, member, score REAL,
  PRIMARY KEY (key_id, member)) WITHOUT ROWID;
"""


def entries(content: DatabaseContent, *, joins_keys: bool) -> tuple[list[Entry], set[str]]:
    """All entries, and the types of those that came in columns."""
    found: list[Entry] = []
    joined: set[str] = set()
    for record in content.records(joins_keys=joins_keys):
        if isinstance(record, Keys):
            found += record.entries()
            joined.add(record.type)
        elif isinstance(record, Entry):
            found.append(record)
    return found, joined


@pytest.mark.source_only
def test_values_in_columns_are_those_of_single_keys(tmp_path: Path) -> None:
    with HoldfastServer(tmp_path / "server", "--fold-age-ms", "3600000") as server:
        client = server.client()
        for number, size in enumerate((1, 2, 5, MOST, MOST + 1, 1, 2, 3)):
            for database in (number % 3, 0):
                client.command("SELECT", database)
                names = [b"%d" % (n * 7919 % 1000) for n in range(size)]
                for each in names:
                    client.command("HSET", f"hash:{number}", each, b"value")
                    client.command("SADD", f"set:{number}", each)
                    client.command("ZADD", f"zset:{number}", int(each) % 3, each)
                client.command("RPUSH", f"list:{number}", *names)
                client.command("LPUSH", f"list:{number}", "before")
                client.command("LINSERT", f"list:{number}", "BEFORE", names[0], f"off{number}")
                client.command("RPUSH", f"queue:{number}", *names)
                client.command("LREM", f"queue:{number}", 1, names[len(names) // 2])
                client.command("LPUSH", f"queue:{number}", "before")
                client.command("SET", f"string:{number}", number)
        for size in (SHORT, SHORT + 1):
            client.command("HSET", f"long name:{size}", "f", "v", b"n" * size, "v")
            client.command("HSET", f"long value:{size}", "f", b"v" * size, "g", "w")
            client.command("SADD", f"long member:{size}", "a", b"m" * size)
            client.command("ZADD", f"long scored:{size}", 1, "a", 2, b"m" * size)
            client.command("RPUSH", f"long element:{size}", "a", b"e" * size, "b")
            client.command("RPUSH", f"longest in a block:{size}", "a", b"e" * LONGEST, "b")
            client.command("HSET", b"k" * size, "f", "v")
        client.command("HSET", "expiring", "f", "v", "g", "w")
        client.command("HPEXPIREAT", "expiring", NOW_MS * 2, "FIELDS", 1, "f")
        client.command("PEXPIREAT", "hash:0", NOW_MS * 2)
        client.command("SAVE")
        client.command("HSET", "hash:5", "changed", 1)
        client.command("DEL", "set:6")
        client.command("RENAME", "zset:7", "renamed")
        client.command("ZADD", "new", 1, "m")
        with database_content(Path(server.db), NOW_MS) as content:
            single, none = entries(content, joins_keys=False)
            columns, joined = entries(content, joins_keys=True)
    assert columns == single
    assert len(single) > 80
    assert (none, joined) == (set(), {"string", "list", "hash", "set", "zset"})


@pytest.fixture
def tables() -> Iterator[apsw.Connection]:
    connection = apsw.Connection(":memory:")
    list(connection.execute(TABLES))
    yield connection
    connection.close()


class Statements:
    """Counts the statements of a connection."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self.count = 0

    def __call__(self, *args: Any) -> Iterator[Any]:
        self.count += 1
        return self._connection.execute(*args)


def test_one_statement_reads_neighbours_and_another_begins_behind_a_gap(
    tables: apsw.Connection,
) -> None:
    ids = [1, 2, 3, *range(10, 10 + MOST_SKIPPED), 100, 101, *range(200, 202 + MOST_SKIPPED), 300]
    tables.executemany(
        "INSERT INTO redis_set_members VALUES (?, ?, 1)", [(key_id, b"m") for key_id in ids]
    )
    execute = Statements(tables)
    sets = SmallCollections(execute, "set")
    counts = []
    for key_id in (1, 3, 100, 101, 300, 300, 2, 5, 400, 400):
        is_there = key_id in ids
        assert sets.content(key_id) == ([b"m"] if is_there else None)
        counts.append(execute.count)
    # Key 3 is one row away, key 100 as many as may be skipped, key 300 more. Keys that do not come
    # in order need a statement each; so does the last one, because it was asked for before.
    assert counts == [1, 1, 1, 1, 2, 3, 4, 4, 5, 6]


def test_the_order_is_that_of_the_value(tables: apsw.Connection) -> None:
    tables.executemany(
        "INSERT INTO redis_hash_fields VALUES (7, ?, ?, ?, NULL)",
        [(b"a", b"1", 9), (b"b", b"2", 4)],
    )
    tables.executemany("INSERT INTO redis_set_members VALUES (7, ?, ?)", [(b"a", 9), (b"b", 4)])
    tables.executemany(
        "INSERT INTO redis_zset_members VALUES (7, ?, ?)", [(b"a", 1), (b"b", 1), (b"c", -2.5)]
    )
    found = [SmallCollections(tables.execute, name).content(7) for name in ("hash", "set", "zset")]
    assert found == [
        [(b"b", b"2", None), (b"a", b"1", None)],
        [b"b", b"a"],
        [(b"b", 1.0), (b"a", 1.0), (b"c", -2.5)],
    ]


def test_a_large_collection_is_passed_over_with_one_statement(tables: apsw.Connection) -> None:
    rows = [(1, b"%06d" % n, 1) for n in range(10_000)] + [(2, b"m", 1)]
    tables.executemany("INSERT INTO redis_set_members VALUES (?, ?, ?)", rows)
    execute = Statements(tables)
    sets = SmallCollections(execute, "set")
    assert sets.content(1) is None
    assert sets.content(2) == [b"m"]
    assert execute.count == 2
