"""What other programs read: one view for each type, found by key through an index."""

import logging
import random
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from holdfast.store.check import check_file
from holdfast.store.file import opening
from holdfast.store.store import FileStore
from tests.harness.in_process import InProcess, Peer

VIEWS: tuple[str, ...] = (
    "keys",
    "strings",
    "lists",
    "hashes",
    "sets",
    "zsets",
    "streams",
    "stream_groups",
)
VIEWS += ("stream_consumers", "stream_pending")
LARGEST = 2**64 - 1


class Written:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.store = FileStore(path)
        self.setting = InProcess({"appendfsync": "no"}, self.store)
        self.peer: Peer = self.setting.peer()

    def read(self, sql: str) -> list[tuple[Any, ...]]:
        self.store.fold()
        with closing(sqlite3.connect(f"file:{self.path}?mode=ro", uri=True)) as connection:
            return connection.execute(sql).fetchall()


@pytest.fixture
def written(tmp_path: Path) -> Iterator[Written]:
    written = Written(tmp_path / "a.db")
    yield written
    written.store.close()


def fill(peer: Peer) -> None:
    for command in (
        ("SET", "x", "hällo"),
        ("SELECT", "3"),
        ("SET", "x", "of another database"),
        ("SELECT", "0"),
        ("RPUSH", "list", *map(str, range(70)), "l" * 3000, "last"),
        ("HSET", "hash", "f", "v"),
        ("SADD", "set", "m"),
        ("ZADD", "zset", "1.5", "m"),
        ("XADD", "stream", "1-1", "f", "v", "f", "again", "empty", ""),
        ("XADD", "stream", f"{LARGEST}-{LARGEST}", "large", "x" * 70_000),
        ("XGROUP", "CREATE", "stream", "g", "0"),
        ("XREADGROUP", "GROUP", "g", "c", "COUNT", "1", "STREAMS", "stream", ">"),
    ):
        assert not peer.command(*command).startswith(b"-"), command


@pytest.mark.parametrize("where", ["key = 'x'", "db = 0 AND key = 'x'"])
@pytest.mark.parametrize("view", VIEWS)
def test_a_key_is_found_by_its_name(written: Written, view: str, where: str) -> None:
    fill(written.peer)
    plan = [
        row[3] for row in written.read(f"EXPLAIN QUERY PLAN SELECT * FROM {view} WHERE {where}")
    ]
    searches = [step for step in plan if step.startswith("SEARCH k ")]
    assert searches, plan
    for step in searches:
        assert "PRIMARY KEY (space=? AND name=?)" in step, plan
    # The databases are few, and so are the elements of one row.
    scans = [step for step in plan if step.startswith("SCAN")]
    few: tuple[str, ...] = (
        "SCAN d",
        "SCAN s VIRTUAL",
        "SCAN p VIRTUAL",
        "SCAN n VIRTUAL",
        "SCAN f VIRTUAL",
    )
    few += ("SCAN walk", "SCAN start", "SCAN CONSTANT ROW", "SCAN (subquery", "SCAN holdfast_bytes")
    few += ("SCAN lists", "SCAN 2 CONSTANT")
    assert all(step.startswith(few) for step in scans), plan
    assert not any("AUTOMATIC" in step for step in plan), plan


def test_every_type_has_its_view(written: Written) -> None:
    fill(written.peer)
    read = written.read
    assert read("SELECT db, value FROM strings WHERE key = 'x' ORDER BY db") == [
        (0, "hällo"),
        (3, "of another database"),
    ]
    elements = [*map(str, range(70)), "l" * 3000, "last"]
    assert read("SELECT * FROM lists WHERE key = 'list'") == [
        (0, "list", index, element) for index, element in enumerate(elements)
    ]
    assert read("SELECT field, value FROM hashes WHERE db = 0") == [("f", "v")]
    assert read("SELECT member FROM sets") == [("m",)]
    assert read("SELECT member, score FROM zsets") == [("m", 1.5)]
    assert read("SELECT * FROM streams WHERE key = 'stream'") == [
        (0, "stream", "1-1", "f", "v"),
        (0, "stream", "1-1", "f", "again"),
        (0, "stream", "1-1", "empty", ""),
        (0, "stream", f"{LARGEST}-{LARGEST}", "large", "x" * 70_000),
    ]
    assert read("SELECT * FROM stream_groups") == [(0, "stream", "g", "1-1", 1)]
    assert read('SELECT key, "group", consumer FROM stream_consumers') == [("stream", "g", "c")]
    assert read('SELECT "group", id, consumer, deliveries FROM stream_pending') == [
        ("g", "1-1", "c", 1)
    ]
    types = {kind for (kind,) in read("SELECT DISTINCT type FROM keys")}
    assert types == {"string", "list", "hash", "set", "zset", "stream"}


def test_streams_show_all_entries_of_any_length(written: Written, rng: random.Random) -> None:
    expected = []
    for number in range(300):
        fields = [
            (f"f{rng.randrange(5)}", "v" * rng.choice((0, 1, 15, 16, 200, 255, 256, 3000)))
            for _ in range(rng.choice((1, 1, 2, 8, 40)))
        ]
        written.peer.command(
            "XADD", "s", f"{number + 1}-{number}", *(w for pair in fields for w in pair)
        )
        if rng.random() < 0.2:
            written.store.fold()
        if rng.random() < 0.2:
            written.peer.command("XDEL", "s", f"{number + 1}-{number}")
        else:
            expected += [(f"{number + 1}-{number}", *pair) for pair in fields]
    assert written.read("SELECT id, field, value FROM streams") == expected


def test_a_row_with_one_entry_from_before_they_shared_rows(written: Written) -> None:
    written.peer.command("XADD", "s", "5-6", "field", "value", "sixteen bytes 16", "v")
    written.store.fold()
    old = bytes.fromhex("94") + b"".join(
        b"\xc4" + bytes([len(word)]) + word
        for word in (b"field", b"value", b"sixteen bytes 16", b"v")
    )
    with closing(apsw.Connection(str(written.path))) as connection:
        connection.execute("UPDATE redis_stream_entries SET entries = ?", (old,))
    assert written.read("SELECT id, field, value FROM streams") == [
        ("5-6", "field", "value"),
        ("5-6", "sixteen bytes 16", "v"),
    ]


def test_names_that_are_not_text_stay_visible(written: Written) -> None:
    names = [b"\xff", b"\xff\xfe", b"a\0b", b"a\0c", b"a", b"\xc3", b"\xc3\xa4", b""]
    for number, name in enumerate(names):
        written.peer.command("SET", name, number)
    assert sorted(written.read("SELECT hex(key), value FROM strings")) == sorted(
        (name.hex().upper(), str(number)) for number, name in enumerate(names)
    )
    assert written.read("SELECT value FROM strings WHERE key = CAST(x'fffe' AS TEXT)") == [("1",)]
    written.store.close()
    written.store = FileStore(written.path)
    peer = InProcess({"appendfsync": "no"}, written.store).peer()
    for number, name in enumerate(names):
        assert peer.command("GET", name) == b"$1\r\n%d\r\n" % number
    assert peer.command("GET", b"\xfe") == b"$-1\r\n"


def test_the_sqlite3_of_the_system_reads_all_views(written: Written) -> None:
    program = shutil.which("sqlite3")
    if program is None:
        pytest.skip("sqlite3 is not installed")
    fill(written.peer)
    written.store.fold()
    for view in VIEWS:
        sql = f"SELECT count(*) FROM {view} WHERE db = 0"
        argv = [program, "-readonly", str(written.path), sql]
        result = subprocess.run(argv, capture_output=True, text=True)
        assert int(result.stdout) > 0, result.stderr


# -- files of before ------------------------------------------------------------------------------


def as_before(path: Path) -> None:
    """A file with older views."""
    written = Written(path)
    fill(written.peer)
    written.store.close()
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("""
            DELETE FROM holdfast_meta WHERE name = 'views';
            DROP VIEW streams;
            DROP VIEW strings;
            CREATE VIEW strings AS SELECT 'old' AS key""")


def schema(path: Path) -> set[tuple[str, str]]:
    with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
        return {*connection.execute("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL")}


def test_a_file_of_before_gets_views_without_a_new_version(tmp_path: Path) -> None:
    as_before(tmp_path / "old.db")
    assert check_file(tmp_path / "old.db") == [], "to look at it needs no views"
    FileStore(tmp_path / "old.db").close()
    FileStore(tmp_path / "new.db").close()
    assert schema(tmp_path / "old.db") == schema(tmp_path / "new.db")
    assert check_file(tmp_path / "old.db") == []
    assert not list(tmp_path.glob("*-version-*"))


def test_views_that_are_up_to_date_are_not_written_again(tmp_path: Path) -> None:
    FileStore(tmp_path / "a.db").close()
    with closing(apsw.Connection(str(tmp_path / "a.db"))) as connection:
        before = connection.execute("PRAGMA schema_version").get
    FileStore(tmp_path / "a.db").close()
    with closing(apsw.Connection(str(tmp_path / "a.db"))) as connection:
        assert connection.execute("PRAGMA schema_version").get == before


def test_a_table_with_the_name_of_a_view_is_left_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    as_before(tmp_path / "a.db")
    with closing(apsw.Connection(str(tmp_path / "a.db"))) as connection:
        connection.execute("CREATE TABLE streams (mine); INSERT INTO streams VALUES (1)")
    with caplog.at_level(logging.WARNING, "holdfast"):
        FileStore(tmp_path / "a.db").close()
    assert "stay as they are" in caplog.text
    with closing(apsw.Connection(str(tmp_path / "a.db"))) as connection:
        assert connection.execute("SELECT mine FROM streams").get == 1


def test_every_view_is_documented() -> None:
    text = (Path(__file__).parents[3] / "docs/guide-server.md").read_text()
    section = text.partition("## Read it with SQLite")[2].partition("\n## ")[0]
    assert all(f"`{view}`" in section for view in VIEWS)
    assert all(f"VIEW {view} AS" in opening.VIEWS.read_text() for view in VIEWS)
