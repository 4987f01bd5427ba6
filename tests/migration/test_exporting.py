"""What an export writes, and what it refuses."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.clock import ManualClock
from holdfast.errors import StorageError
from holdfast.migration.errors import MigrationError
from holdfast.migration.exporting import ExportOptions, export_file
from holdfast.migration.importing import ImportOptions, import_file
from holdfast.migration.report import Report
from holdfast.migration.selection import Selection
from holdfast.store.rdb.file_writer import FORMATS
from holdfast.store.rdb.plain import Plain
from holdfast.store.rdb.records import Entry, Library, Sizes
from tests.harness import HoldfastServer
from tests.migration.conftest import WriteRdb, text
from tests.store.rdb.rdb_bytes import records_of

NOW_MS = 1_700_000_000_000
EXPIRING = Entry(0, b"h", Plain("hash", [(b"f", b"v", None), (b"g", b"w", NOW_MS + 5)]))


@pytest.fixture
def out(tmp_path: Path) -> Iterator[Path]:
    """The new file. After the test nothing lies beside it."""
    folder = tmp_path / "out"
    folder.mkdir()
    yield folder / "dump.rdb"
    assert sorted(os.listdir(folder)) in ([], ["dump.rdb"])


def filled(write_rdb: WriteRdb, *entries: Entry, libraries: tuple[bytes, ...] = ()) -> Path:
    source = write_rdb(entries, libraries, "source.rdb")
    db = source.with_name("app.db")
    import_file(source, db, ImportOptions(replaces=True), clock=ManualClock(NOW_MS))
    return db


def run(db: Path, out: Path, options: ExportOptions | None = None, now_ms: int = NOW_MS) -> Report:
    return export_file(db, out, options or ExportOptions(), clock=ManualClock(now_ms))


def entries(out: Path) -> list[Entry]:
    return [record for record in records_of(out.read_bytes()) if isinstance(record, Entry)]


def test_all_of_a_file(write_rdb: WriteRdb, out: Path) -> None:
    library = b"#!lua name=lib\nredis.register_function('f', function() return 1 end)"
    made = [
        text(b"s"),
        text(b"t", at_ms=NOW_MS + 1),
        Entry(3, b"l", Plain("list", [b"%d" % n for n in range(3000)])),
        Entry(3, b"set", Plain("set", [b"%d" % n for n in range(3000)])),
    ]
    report = run(filled(write_rdb, *made, libraries=(library,)), out)
    assert entries(out) == [
        *made[:2],
        *(e._replace(value=Plain(e.value.type, list(e.value.content))) for e in made[2:]),
    ]
    assert Library(library) in records_of(out.read_bytes())
    assert (report.key_count, report.libraries, report.databases) == (4, 1, {0, 3})
    assert out.stat().st_mode & 0o777 == 0o600


def test_expired_keys_and_fields_are_left_out(write_rdb: WriteRdb, out: Path) -> None:
    gone = Entry(0, b"gone", Plain("hash", [(b"f", b"v", NOW_MS + 5)]))
    db = filled(write_rdb, text(b"s", at_ms=NOW_MS + 5), EXPIRING, gone)
    run(db, out, now_ms=NOW_MS + 5)
    assert entries(out) == [Entry(0, b"h", Plain("hash", [(b"f", b"v", None)]))]


def test_fields_that_expire_need_a_format(write_rdb: WriteRdb, out: Path) -> None:
    db = filled(write_rdb, text(b"s"), EXPIRING)
    with pytest.raises(MigrationError, match="hash 'h' of database 0 has fields that expire"):
        run(db, out)
    assert not out.exists()
    for name in ("redis8", "valkey9"):
        run(db, out, ExportOptions(rdb_format=FORMATS[name], replaces=True))
        assert entries(out) == [text(b"s"), EXPIRING]
    report = run(db, out, ExportOptions(skips_unknown=True, replaces=True))
    assert entries(out) == [text(b"s")]
    assert report.unfit == 1


def test_patterns_and_databases(write_rdb: WriteRdb, out: Path) -> None:
    db = filled(write_rdb, text(b"user:1"), text(b"user:2", database=1), text(b"x", database=2))
    report = run(db, out, ExportOptions(Selection([b"user:*"], {1: 9})))
    assert [(e.database, e.name) for e in entries(out)] == [(0, b"user:1"), (9, b"user:2")]
    assert report.unmatched == 1
    with pytest.raises(MigrationError, match="databases 0 and 1 would both become database 0"):
        run(db, out, ExportOptions(Selection(databases={1: 0}), replaces=True))
    assert len(entries(out)) == 2, "the file of the first export is still there"


def test_a_file_is_replaced_only_if_asked(write_rdb: WriteRdb, out: Path) -> None:
    db = filled(write_rdb, text(b"k"))
    out.write_text("precious")
    with pytest.raises(MigrationError, match="exists; --replace replaces it"):
        run(db, out)
    assert out.read_text() == "precious"
    run(db, out, ExportOptions(replaces=True))
    assert entries(out) == [text(b"k")]


def test_a_file_that_is_no_database(tmp_path: Path, out: Path) -> None:
    other = tmp_path / "other"
    other.write_text("no database")
    with pytest.raises(StorageError, match="is not a SQLite database"):
        run(other, out)


@pytest.mark.source_only
def test_changes_that_only_the_journal_has(tmp_path: Path, out: Path) -> None:
    """A server is running, and has not folded its last changes."""
    with HoldfastServer(tmp_path / "server", "--fold-age-ms", "3600000") as server:
        client = server.client()
        for number in range(300):
            client.command("SET", f"k{number}", number)
        client.command("RPUSH", "list", *range(100))
        client.command("SAVE")
        client.command("SET", "k0", "changed")
        client.command("DEL", "k1")
        client.command("RENAME", "k2", "renamed")
        client.command("MOVE", "k3", 5)
        client.command("LPOP", "list")
        client.command("HSET", "new", "f", "v")
        client.command("SELECT", 7)
        client.command("SET", "flushed", 1)
        client.command("FLUSHDB")
        client.command("SET", "after", 1)
        run(Path(server.db), out)
        found = {(entry.database, entry.name): entry.value.content for entry in entries(out)}
    assert len(found) == 300 - 1 + 3
    assert found[0, b"k0"] == b"changed"
    assert (0, b"k1") not in found
    assert (0, b"k2") not in found
    assert found[0, b"renamed"] == b"2"
    assert found[5, b"k3"] == b"3"
    assert found[0, b"list"] == [b"%d" % n for n in range(1, 100)]
    assert found[0, b"new"] == [(b"f", b"v", None)]
    assert found[7, b"after"] == b"1"


@pytest.mark.source_only
def test_an_active_active_file_is_exported_as_clients_see_it(tmp_path: Path, out: Path) -> None:
    with HoldfastServer(tmp_path / "server", "--active-active", "--node-id", "1") as server:
        client = server.client()
        client.command("SET", "k", "v")
        client.command("SADD", "set", "a", "b")
        client.command("INCRBY", "counter", 5)
        run(Path(server.db), out)
        served = entries(out)
        assert server.terminate() == 0
    run(Path(server.db), out, ExportOptions(replaces=True))
    assert entries(out) == served
    assert {entry.name: entry.value.content for entry in served} == {
        b"k": b"v",
        b"set": [b"a", b"b"],
        b"counter": b"5",
    }


def test_keys_that_do_not_match_are_in_no_count(write_rdb: WriteRdb, out: Path) -> None:
    """A reader makes room for as many keys as the file announces."""
    db = filled(write_rdb, *(text(b"k%d" % number) for number in range(9)))
    run(db, out, ExportOptions(Selection([b"k3"])))
    announced = [record for record in records_of(out.read_bytes()) if isinstance(record, Sizes)]
    assert announced == []
    assert [entry.name for entry in entries(out)] == [b"k3"]
    run(db, out, ExportOptions(replaces=True))
    assert Sizes(0, 9, 0) in records_of(out.read_bytes())
