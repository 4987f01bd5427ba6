"""What an import writes, and what it leaves as it was."""

import os
import random
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import permutations
from pathlib import Path

import apsw
import pytest

from holdfast.clock import ManualClock
from holdfast.errors import StorageError
from holdfast.migration.database_content import database_content
from holdfast.migration.database_target import DatabaseTarget
from holdfast.migration.errors import MigrationError
from holdfast.migration.importing import ImportOptions, import_file
from holdfast.migration.report import Report
from holdfast.migration.selection import Selection
from holdfast.server.config.parameters import MOST_DATABASES
from holdfast.store.check import check_file
from holdfast.store.rdb.plain import Plain
from holdfast.store.rdb.primitives import string
from holdfast.store.rdb.records import Entry, Keys, Library
from holdfast.store.rdb.stream_codec import StreamData
from holdfast.store.store import FileStore
from tests.harness import HoldfastServer, wait_until
from tests.migration.conftest import WriteRdb, text
from tests.store.rdb.rdb_bytes import module_id, rdb

NOW_MS = 1_700_000_000_000
LIBRARY = b"#!lua name=lib\nredis.register_function('f', function() return 1 end)"
EVERYTHING = [
    text(b"s", b"text"),
    Entry(0, b"l", Plain("list", [b"a", b"b"]), NOW_MS + 1000),
    Entry(1, b"h", Plain("hash", [(b"f", b"v", None), (b"g", b"w", NOW_MS + 5)])),
    Entry(2, b"z", Plain("zset", [(b"m", 2.0), (b"n", 1.0)])),
    Entry(2, b"set", Plain("set", [b"1", b"x"])),
]


def run(source: Path, db: Path, options: ImportOptions | None = None) -> Report:
    return import_file(source, db, options or ImportOptions(), clock=ManualClock(NOW_MS))


def entries(db: Path, now_ms: int = NOW_MS) -> list[Entry]:
    with database_content(db, now_ms) as content:
        return [record for record in content.records() if isinstance(record, Entry)]


def names(db: Path) -> list[tuple[int, bytes]]:
    return [(entry.database, entry.name) for entry in entries(db)]


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Path]:
    """The database file. After the test nothing lies beside it."""
    folder = tmp_path / "data"
    folder.mkdir()
    yield folder / "app.db"
    assert sorted(os.listdir(folder)) in ([], ["app.db"])


def test_all_of_a_file(write_rdb: WriteRdb, db: Path) -> None:
    report = run(write_rdb(EVERYTHING, [LIBRARY]), db)
    assert entries(db) == EVERYTHING
    with database_content(db, NOW_MS) as content:
        assert next(content.records()) == Library(LIBRARY)
    assert (report.key_count, report.libraries, report.databases) == (5, 1, {0, 1, 2})
    assert db.stat().st_mode & 0o777 == 0o600


def test_keys_that_have_expired_are_left_out(write_rdb: WriteRdb, db: Path) -> None:
    report = run(write_rdb([text(b"dead", at_ms=NOW_MS), text(b"live", at_ms=NOW_MS + 1)]), db)
    assert names(db) == [(0, b"live")]
    assert report.expired == 1


def test_fields_that_have_expired_are_not_seen(write_rdb: WriteRdb, db: Path) -> None:
    fields = [(b"dead", b"1", NOW_MS), (b"live", b"2", NOW_MS + 1)]
    run(write_rdb([Entry(0, b"h", Plain("hash", fields))]), db)
    assert [entry.value.content for entry in entries(db)] == [fields[1:]]


def test_patterns_and_databases(write_rdb: WriteRdb, db: Path) -> None:
    source = write_rdb([text(b"user:1"), text(b"user:2", database=1), text(b"other"), text(b"x")])
    report = run(source, db, ImportOptions(Selection([b"user:*", b"x"], {0: 5})))
    assert names(db) == [(1, b"user:2"), (5, b"user:1"), (5, b"x")]
    assert report.unmatched == 1


def test_a_name_that_comes_twice_is_an_error(write_rdb: WriteRdb, db: Path) -> None:
    source = write_rdb([text(b"k"), text(b"k", database=1)])
    with pytest.raises(MigrationError, match="key 'k' comes twice for database 0"):
        run(source, db, ImportOptions(Selection(databases={1: 0})))
    assert not db.exists()
    with pytest.raises(MigrationError, match="comes twice"):
        run(write_rdb([text(b"k"), text(b"k")]), db)
    a_list = Entry(0, b"k", Plain("list", [b"element"]))
    stream = Entry(0, b"k", Plain("stream", StreamData([(1, (b"f", b"v"))], 1, 0, 1, [])))
    for records in (*permutations((text(b"k"), a_list, stream), 2), [a_list] * 2, [stream] * 2):
        with pytest.raises(MigrationError, match="key 'k' comes twice for database 0"):
            run(write_rdb(records), db)
        assert not db.exists()


@pytest.fixture
def doubled(tmp_path: Path) -> DatabaseTarget:
    """With two strings of the same name."""
    target = DatabaseTarget(tmp_path / "doubled.db", 1, ManualClock(NOW_MS))
    target.put(text(b"k"), 0)
    target.put(text(b"k"), 0)
    return target


def test_a_name_that_comes_twice_leaves_no_file_open(doubled: DatabaseTarget) -> None:
    with pytest.raises(MigrationError, match="comes twice"):
        doubled.close()
    FileStore(doubled.store.path).abandon()  # which raises if the file is open already


def test_a_name_that_came_twice_is_noticed_before_a_key_is_removed(doubled: DatabaseTarget) -> None:
    with pytest.raises(MigrationError, match="comes twice"):
        doubled.remove(b"k", 0)
    doubled.abandon()


def test_all_ways_of_new_keys_leave_the_same_file(tmp_path: Path, rng: random.Random) -> None:
    """Straight into the tables, one by one and many at once; and by journal and fold."""
    written = list(some_entries(rng))
    found = []
    for way in ("straight", "in columns", "usual"):
        path = tmp_path / f"{way}.db"
        target = DatabaseTarget(path, 2, ManualClock(NOW_MS))
        if way == "usual":
            target.finish()
        for at, entry in enumerate(written):
            name, value = entry.name, entry.value
            keys = Keys(entry.database, value.type, [name], [value.content], [entry.expires_at_ms])
            if way != "in columns" or not target.puts_keys(keys, entry.database):
                target.put(entry, entry.database)
            if at % 40 == 0:
                target.fold()
        target.close()
        assert check_file(path) == []
        with closing(sqlite3.connect(path)) as file:
            sizes = file.execute("SELECT elements FROM redis_sizes ORDER BY elements").fetchall()
            counts = file.execute("SELECT * FROM redis_space_sizes ORDER BY space").fetchall()
        found.append((entries(path), sizes, counts))
    assert found[0] == found[1] == found[2]
    assert len(found[0][1]) == 3
    assert sorted(entry.name for entry in found[0][0]) == sorted(each.name for each in written)


def some_entries(rng: random.Random) -> Iterator[Entry]:
    for number in range(300):
        count = rng.choice([1, 3, 30])
        words = list({rng.randbytes(rng.randrange(12)): None for _ in range(count)})
        yield from entries_of(number, words, rng)
    yield from entries_of(300, [b"%d" % rng.randrange(1 << 60) for _ in range(1500)], rng)


def entries_of(number: int, words: list[bytes], rng: random.Random) -> Iterator[Entry]:
    times = [None, None, NOW_MS + 10**9]
    scores = [0.0, -1.5, float("inf"), float("-inf"), 1e300]
    fields = [(word, rng.randbytes(3), None) for word in words]
    for kind, content in (
        ("list", words),
        ("list", [word * rng.choice([1, 1, 60]) for word in words]),
        ("list", [b"x" * 1000] * rng.choice([1, 40])),
        ("set", words),
        ("hash", fields),
        ("hash", [(*field[:2], rng.choice(times)) for field in fields[:20]]),
        ("zset", [(word, rng.choice(scores)) for word in words]),
    ):
        name = b"%s:%d:%d" % (kind.encode(), number, rng.randrange(1 << 60))
        yield Entry(number % 2, name, Plain(kind, content), rng.choice(times))


def test_names_are_sorted_without_all_of_them_in_memory(db: Path) -> None:
    target = DatabaseTarget(db, 1, ManualClock(NOW_MS))
    for start in range(0, 400_000, 1000):
        names = [b"name:%056d" % (n * 7919 % 400_000) for n in range(start, start + 1000)]
        assert target.puts_keys(Keys(0, "string", names, [b"v"] * 1000, [None] * 1000), 0)
    target.fold()
    apsw.memory_high_water(True)
    before = apsw.memory_used()
    target.finish()
    assert apsw.memory_high_water() - before < 20 << 20
    target.close()


def _small_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))


def test_a_full_disk_is_one_sentence(write_rdb: WriteRdb, db: Path) -> None:
    source = write_rdb([text(b"%d" % n, b"x" * 1000) for n in range(3000)])
    argv = [sys.executable, "-B", "-m", "holdfast", "import", str(source), "--db", str(db)]
    result = subprocess.run(argv, capture_output=True, text=True, preexec_fn=_small_files)
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1] == "holdfast: cannot write the tables: disk I/O error"
    assert "Traceback" not in result.stderr


# -- a file that exists -----------------------------------------------------------------------


def test_keys_of_the_file_are_not_touched_without_a_word(write_rdb: WriteRdb, db: Path) -> None:
    run(write_rdb([text(b"old"), text(b"both", b"old")]), db)
    before = db.read_bytes()
    source = write_rdb([text(b"new"), text(b"both", b"new")])
    for dry_run in (True, False):
        with pytest.raises(MigrationError, match="has 2 keys: --merge adds"):
            run(source, db, ImportOptions(dry_run=dry_run))
    assert db.read_bytes() == before
    run(source, db, ImportOptions(merges=True))
    values = {entry.name: entry.value.content for entry in entries(db)}
    assert values == {b"old": b"x", b"both": b"new", b"new": b"x"}
    run(write_rdb([text(b"only")]), db, ImportOptions(replaces=True))
    assert names(db) == [(0, b"only")]


def test_as_many_databases_as_a_file_has(write_rdb: WriteRdb, db: Path) -> None:
    last = MOST_DATABASES - 1
    run(write_rdb([text(b"k", database=last)]), db, ImportOptions(databases=MOST_DATABASES))
    assert names(db) == [(last, b"k")]


def test_a_file_without_keys_counts_as_new(write_rdb: WriteRdb, db: Path) -> None:
    FileStore(db).close()
    run(write_rdb([text(b"k")]), db)
    db.write_bytes(b"")
    run(write_rdb([text(b"k")]), db)
    assert names(db) == [(0, b"k")]


def test_libraries_are_merged_by_name(write_rdb: WriteRdb, db: Path) -> None:
    run(write_rdb([], [LIBRARY]), db)
    newer = LIBRARY.replace(b"return 1", b"return 2")
    run(write_rdb([text(b"k")], [newer]), db, ImportOptions(merges=True))
    with database_content(db, NOW_MS) as content:
        assert next(content.records()) == Library(newer)


def test_a_file_of_an_older_version_is_not_converted(write_rdb: WriteRdb, db: Path) -> None:
    run(write_rdb([text(b"old")]), db)
    with closing(apsw.Connection(str(db))) as connection:
        connection.execute("PRAGMA user_version = 3")
        connection.execute("PRAGMA journal_mode = DELETE")
    before = db.read_bytes()
    with pytest.raises(StorageError, match="has schema version 3: start a server on it once"):
        run(write_rdb([text(b"new")]), db, ImportOptions(merges=True))
    assert db.read_bytes() == before
    run(write_rdb([text(b"new")]), db, ImportOptions(replaces=True))
    assert names(db) == [(0, b"new")]


@pytest.mark.parametrize("options", [ImportOptions(merges=True), ImportOptions(replaces=True)])
def test_an_older_file_that_a_killed_server_left_is_not_converted(
    write_rdb: WriteRdb, db: Path, tmp_path: Path, options: ImportOptions
) -> None:
    run(write_rdb([text(b"old")]), db)
    left = tmp_path / "left" / "app.db"
    left.parent.mkdir()
    with closing(apsw.Connection(str(db))) as connection:
        connection.execute("PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0")
        connection.execute("PRAGMA user_version = 5")
        for end in ("", "-wal"):  # as a process leaves them that was killed
            shutil.copy(f"{db}{end}", f"{left}{end}")
    assert left.with_name("app.db-wal").stat().st_size
    with pytest.raises(StorageError, match="has schema version 5: start a server on it once"):
        run(write_rdb([text(b"new")]), left, options)
    with closing(apsw.Connection(str(left))) as connection:
        assert connection.execute("PRAGMA user_version").get == 5


def test_a_file_of_another_program_is_refused(write_rdb: WriteRdb, db: Path) -> None:
    source = write_rdb([text(b"k")])
    db.write_bytes(b"precious")
    with pytest.raises(StorageError, match="is not a SQLite database"):
        run(source, db, ImportOptions(replaces=True))
    assert db.read_bytes() == b"precious"


@pytest.mark.source_only
def test_a_file_that_is_served_is_refused(write_rdb: WriteRdb, tmp_path: Path) -> None:
    source = write_rdb([text(b"k")])
    with HoldfastServer(tmp_path / "server") as server:
        for dry_run in (True, False):
            with pytest.raises(StorageError, match=f"is already open by process {server.pid}"):
                run(source, Path(server.db), ImportOptions(replaces=True, dry_run=dry_run))


@pytest.mark.source_only
def test_a_file_that_a_killed_server_left(write_rdb: WriteRdb, tmp_path: Path) -> None:
    """Its WAL has keys. They are merged, and the WAL is not laid over the new file."""
    with HoldfastServer(tmp_path / "server") as server:
        client = server.client()
        for number in range(100):
            client.command("SET", f"old:{number}", number)
        server.kill()
    db = Path(server.db)
    assert db.with_name("holdfast.db-wal").stat().st_size > 0
    run(write_rdb([text(b"new")]), db, ImportOptions(merges=True))
    assert len(names(db)) == 101
    run(write_rdb([text(b"new")]), db, ImportOptions(replaces=True))
    assert names(db) == [(0, b"new")]


# -- what does not fit ------------------------------------------------------------------------


def with_module(*more: bytes) -> bytes:
    value = b"\x07" + string(b"vectors") + module_id("vectorset") + b"\x02\x05\x00"
    return rdb(b"\x00" + string(b"a") + string(b"1"), value, *more)


def test_a_type_of_a_module_stops_or_is_skipped(tmp_path: Path, db: Path) -> None:
    source = tmp_path / "dump.rdb"
    source.write_bytes(with_module(b"\x00" + string(b"b") + string(b"2")))
    sentence = (
        "key 'vectors' of database 0 is of the type vectorset of a module, which Holdfast does not"
        " have"
    )
    with pytest.raises(MigrationError) as raised:
        run(source, db)
    assert str(raised.value).startswith(f"{sentence}; --skip-unknown imports the rest")
    assert not db.exists()
    report = run(source, db, ImportOptions(dry_run=True))
    assert (report.sentences, report.unfit, report.key_count) == ([sentence], 1, 2)
    assert not db.exists()
    assert run(source, db, ImportOptions(skips_unknown=True)).sentences == [sentence]
    assert names(db) == [(0, b"a"), (0, b"b")]


@pytest.mark.parametrize(
    ("made", "libraries", "sentence"),
    [
        ([text(b"k", database=16)], [], "key 'k' belongs to database 16, and the file has 16"),
        ([], [b"#!lua name=l\nnonsense("], "the library '#!lua name=l' cannot be loaded: ERR "),
        ([], [b"#!js name=l\n"], "cannot be loaded: ERR Engine 'js' not found"),
    ],
)
def test_what_does_not_fit_is_named(
    write_rdb: WriteRdb, db: Path, made: Sequence[Entry], libraries: Sequence[bytes], sentence: str
) -> None:
    source = write_rdb([text(b"fits"), *made], libraries)
    with pytest.raises(MigrationError) as raised:
        run(source, db)
    assert sentence in str(raised.value)
    [found] = run(source, db, ImportOptions(dry_run=True)).sentences
    assert sentence in found
    assert not db.exists()
    run(source, db, ImportOptions(skips_unknown=True))
    assert names(db) == [(0, b"fits")]


def test_more_databases(write_rdb: WriteRdb, db: Path) -> None:
    run(write_rdb([text(b"k", database=40)]), db, ImportOptions(databases=41))
    assert names(db) == [(40, b"k")]


# -- damage and interruption ------------------------------------------------------------------


def test_a_damaged_file_changes_nothing(write_rdb: WriteRdb, db: Path, tmp_path: Path) -> None:
    run(write_rdb([text(b"old")]), db)
    before = db.read_bytes()
    whole = write_rdb(EVERYTHING, [LIBRARY]).read_bytes()
    damaged = tmp_path / "damaged.rdb"
    for data, sentence in (
        (whole[:-20], "damaged at byte"),
        (whole[:-1] + b"\0", "its checksum is wrong"),
        (whole + b"more", ", and more follows"),
        (b"nothing", "is not an RDB file"),
        (b"", "is not an RDB file"),
    ):
        damaged.write_bytes(data)
        with pytest.raises(MigrationError) as raised:
            run(damaged, db, ImportOptions(merges=True))
        assert sentence in str(raised.value)
        assert db.read_bytes() == before


@pytest.mark.source_only
def test_a_killed_import_leaves_the_old_data(tmp_path: Path, write_rdb: WriteRdb) -> None:
    """SIGKILL in the middle leaves a file beside, which the next import removes."""
    db = tmp_path / "app.db"
    run(write_rdb([text(b"old")]), db)
    before = db.read_bytes()
    source = tmp_path / "pipe"
    os.mkfifo(source)
    argv = [sys.executable, "-m", "holdfast", "import", str(source), "--db", str(db), "--replace"]
    with subprocess.Popen(argv, stderr=subprocess.PIPE) as process:
        data = write_rdb([text(b"new:%d" % number) for number in range(1000)]).read_bytes()
        with source.open("wb") as pipe:
            pipe.write(data[:-100])
            pipe.flush()
            partial = tmp_path / ".app.db.importing"
            wait_until(partial.exists, "the import has begun")
            process.send_signal(signal.SIGKILL)
    assert db.read_bytes() == before
    run(write_rdb([text(b"new")]), db, ImportOptions(replaces=True))
    assert names(db) == [(0, b"new")]
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".app")] == []
