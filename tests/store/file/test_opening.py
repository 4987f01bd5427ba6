"""Opening files: ours, older, newer, and not ours at all."""

import os
import time
from pathlib import Path

import apsw
import msgspec
import pytest

from holdfast.errors import StorageError, StoreInUseError
from holdfast.store.backup import backup
from holdfast.store.change.ops import LIST_ITEMS, STREAM_ENTRIES, STREAM_META, ZSET_MEMBERS
from holdfast.store.check import check_file
from holdfast.store.file import migrations, opening
from holdfast.store.file.migrations import SCHEMA_VERSION
from holdfast.store.file.opening import FileLock, open_database
from holdfast.store.store import FileStore, open_store
from holdfast.store.values.list import List
from holdfast.store.values.stream import Stream
from holdfast.store.values.stream_id import to_row
from holdfast.store.values.zset import ZSet
from tests.harness.in_process import InProcess
from tests.store.consistency import check_settled


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def pragma(path: Path, name: str) -> object:
    connection = apsw.Connection(str(path))
    value = connection.execute(f"PRAGMA {name}").get
    connection.close()
    return value


def make_store(path: Path) -> None:
    store = FileStore(path)
    store.keyspace.databases[0].set_string(b"k", b"v")
    store.close()


# -- versions -------------------------------------------------------------------------------------

MIGRATIONS = {
    SCHEMA_VERSION: "CREATE TABLE extra (n); INSERT INTO extra VALUES (1)",
    SCHEMA_VERSION + 1: "UPDATE extra SET n = n + 41",
}
NEWER = SCHEMA_VERSION + 2


def test_a_file_of_an_older_version_is_migrated_step_by_step(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    make_store(path)
    connection = open_database(path, version=NEWER, migrations=MIGRATIONS)
    assert connection.execute("PRAGMA user_version").get == NEWER
    assert connection.execute("SELECT n FROM extra").get == 42
    assert connection.execute("SELECT value FROM redis_strings").get == b"v"
    connection.close()
    # … once.
    open_database(path, version=NEWER, migrations=MIGRATIONS).close()
    assert pragma(path, "user_version") == NEWER


def definitions(path: Path) -> set[tuple[str, str, str]]:
    """Of all tables, indexes, triggers and views."""
    connection = apsw.Connection(str(path))
    found = set(connection.execute("SELECT type, name, sql FROM sqlite_master"))
    connection.close()
    return found


def make_old(path: Path, version: int) -> None:
    """A sorted set, a list and a stream in the tables, an element more of each in the journal, and
    a list that is dead, some of which is gone already."""
    connection = apsw.Connection(str(path))
    connection.execute(f"PRAGMA application_id = {opening.APPLICATION_ID}")
    connection.execute(Path(__file__).with_name("schema-1.sql").read_text())
    for step in range(1, version):
        connection.execute(migrations.MIGRATIONS[step])
    connection.execute(f"PRAGMA user_version = {version}")
    connection.execute("INSERT INTO redis_keys VALUES (1024, 0, CAST('z' AS BLOB), 'zset', NULL)")
    connection.executemany(
        "INSERT INTO redis_zset_members VALUES (1024, ?, ?)",
        [(b"%d" % number, float(number % 3)) for number in range(9)],
    )
    connection.execute("INSERT INTO redis_keys VALUES (1025, 0, CAST('l' AS BLOB), 'list', NULL)")
    connection.execute("INSERT INTO redis_graves VALUES (1026, 'list')")
    with connection:
        connection.executemany(
            "INSERT INTO redis_list_items VALUES (?, ?, ?)",
            [(id, place << 19, b"%d" % place) for id in (1025, 1026) for place in range(900)],
        )
        if version > 2:  # before, triggers counted
            singles = ", 900" if version > 3 else ""
            connection.execute(f"INSERT INTO redis_list_meta VALUES (1025, 900, 450{singles})")
            connection.execute("INSERT INTO redis_space_sizes VALUES (0, 3)")
    connection.execute("INSERT INTO redis_keys VALUES (1027, 0, CAST('s' AS BLOB), 'stream', NULL)")
    meta = (1027, to_row(99), to_row(0), 99)
    connection.execute("INSERT INTO redis_stream_meta VALUES (?, ?, ?, ?)", meta)
    connection.executemany(
        "INSERT INTO redis_stream_entries VALUES (1027, ?, ?)",
        [(to_row(number), msgspec.msgpack.encode(entry(number))) for number in range(1, 100)],
    )
    connection.execute("DELETE FROM redis_list_items WHERE key_id = 1026 AND pos < 100")
    batch = msgspec.msgpack.encode(
        [
            (ZSET_MEMBERS, 1024, b"more", 1.5),
            (LIST_ITEMS, 1025, 900 << 19, b"900"),
            (LIST_ITEMS, 1025, 0, None),
            (STREAM_ENTRIES, 1027, to_row(100), msgspec.msgpack.encode(entry(100))),
            (STREAM_ENTRIES, 1027, to_row(1), None),
            (STREAM_META, 1027, None, (to_row(100), bytes(16), 100)),
        ]
    )
    connection.execute("INSERT INTO journal VALUES (1, ?)", (batch,))
    connection.close()


def entry(number: int) -> tuple[bytes, ...]:
    return (b"number", b"%d" % number)


def _use_the_stream(path: Path, ids: list[int]) -> None:
    """Old rows are read, changed and joined with new ones."""
    for turn in range(3):
        store = FileStore(path)
        stream = store.keyspace.databases[0].read_as(b"s", Stream)
        assert stream is not None
        assert list(stream.range(0)) == [(number, entry(number)) for number in ids]
        for number in ids[turn::7]:
            assert stream.delete(number, store.keyspace)
            ids.remove(number)
        stream.trim(10, store.keyspace)
        del ids[:10]
        new = stream.last_id + 1
        stream.add(new, entry(new), store.keyspace)
        ids.append(new)
        store.close()
        check_settled(path)
        assert check_file(path) == []


def _use_the_list(path: Path, expected: list[bytes]) -> None:
    """Until none of it is as the old version has left it."""
    for turn in range(12):
        store = FileStore(path)
        elements = store.keyspace.databases[0].read_as(b"l", List)
        assert elements is not None
        i = len(expected) // 2 + turn
        assert elements.index(i) == expected[i]
        log = store.keyspace
        elements.set(i, b"new", log)
        expected[i] = b"new"
        elements.pop_left(90, log)
        del expected[:90]
        elements.pop_right(20, log)
        del expected[-20:]
        elements.push_left([b"left"] * 10, log)
        expected[:0] = [b"left"] * 10
        elements.push_right([b"right"] * 50, log)
        expected += [b"right"] * 50
        store.close()
        check_settled(path)
        assert check_file(path) == []
        store = FileStore(path)
        elements = store.keyspace.databases[0].read_as(b"l", List)
        assert elements is not None
        assert list(elements) == expected
        store.abandon()
    connection = apsw.Connection(str(path))
    assert connection.execute("SELECT count(*) FROM redis_list_items").get == 0
    connection.close()


@pytest.mark.parametrize("version", range(1, SCHEMA_VERSION))
def test_a_file_of_an_old_version_becomes_what_a_new_one_is(tmp_path: Path, version: int) -> None:
    old, new = tmp_path / "old.db", tmp_path / "new.db"
    make_old(old, version)
    assert check_file(old) == []  # a program that only reads accepts it as it is
    assert pragma(old, "user_version") == version
    store = FileStore(old)
    scores = store.keyspace.databases[0].read_as(b"z", ZSet)
    assert scores is not None
    assert scores.members(0, 99) == [b"0", b"3", b"6", b"1", b"4", b"7", b"more", b"2", b"5", b"8"]
    elements = store.keyspace.databases[0].read_as(b"l", List)
    assert elements is not None
    assert list(elements) == [b"%d" % place for place in range(1, 901)]
    store.close()
    check_settled(old)
    _use_the_list(old, [b"%d" % place for place in range(1, 901)])
    _use_the_stream(old, [*range(2, 101)])
    make_store(new)
    assert definitions(old) == definitions(new)
    assert pragma(old, "user_version") == SCHEMA_VERSION
    assert check_file(old) == []


def test_a_file_is_copied_before_it_is_migrated(tmp_path: Path) -> None:
    path, copy = tmp_path / "old.db", tmp_path / "old.db-version-3"
    make_old(path, 3)
    FileStore(path).abandon()
    assert pragma(path, "user_version") == SCHEMA_VERSION
    assert pragma(copy, "user_version") == 3
    assert check_file(copy) == []
    copy.unlink()
    FileStore(path).close()  # and not again
    assert os.listdir(tmp_path) == ["old.db"]


def test_a_file_is_migrated_without_a_copy_when_asked_to(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    make_old(path, 3)
    FileStore(path, keeps_copy=False).close()
    assert os.listdir(tmp_path) == ["old.db"]


def test_a_file_that_cannot_be_copied_is_not_migrated(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    make_old(path, 3)
    (tmp_path / "old.db-version-3").mkdir()
    with pytest.raises(StorageError, match="--no-backup"):
        FileStore(path)
    assert pragma(path, "user_version") == 3


def test_a_migration_that_fails_leaves_the_old_version(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    make_store(path)
    broken = MIGRATIONS | {SCHEMA_VERSION + 1: "UPDATE no_such_table SET n = 1"}
    with pytest.raises(StorageError, match="no_such_table"):
        open_database(path, version=NEWER, migrations=broken)
    assert pragma(path, "user_version") == SCHEMA_VERSION
    store = FileStore(path)  # which knows nothing of `extra`
    assert store.keyspace.databases[0].read_string(b"k") == b"v"
    store.close()


def use_idempotent_ids(path: Path, *names: str) -> None:
    store = FileStore(path)
    peer = InProcess({"appendfsync": "no"}, store).peer()
    for name in names:
        assert peer.command("XADD", name, "IDMP", "p", "1", "*", "a", "b").startswith(b"$")
    store.close()


def test_a_file_gets_the_tables_that_came_later(tmp_path: Path) -> None:
    path, new = tmp_path / "x.db", tmp_path / "new.db"
    make_store(path)
    make_store(new)
    connection = apsw.Connection(str(path))
    for table in opening.ADDED_TABLES:
        connection.execute(f"DROP TABLE {table}")
    connection.close()
    assert check_file(path) == []
    use_idempotent_ids(path, "s")
    assert definitions(path) == definitions(new)
    assert check_file(path) == []


def test_ids_of_streams_that_an_older_holdfast_deleted_go(tmp_path: Path) -> None:
    """It opens the file, because the version is the same, and knows nothing of these tables."""
    path = tmp_path / "x.db"
    use_idempotent_ids(path, "kept", "deleted")
    connection = apsw.Connection(str(path))
    connection.execute("DELETE FROM redis_keys WHERE name = CAST('deleted' AS BLOB)")
    connection.execute("DELETE FROM redis_names WHERE name = 'deleted'")
    for table in ("redis_stream_meta", "redis_stream_entries"):
        connection.execute(f"DELETE FROM {table} WHERE key_id NOT IN (SELECT id FROM redis_keys)")
    connection.execute("UPDATE redis_space_sizes SET keys = 1")
    connection.close()
    tables = [name for name in opening.ADDED_TABLES if name.startswith("redis_stream")]
    assert len(check_file(path)) == len(tables)
    FileStore(path).close()
    assert check_file(path) == []
    connection = apsw.Connection(str(path))
    assert connection.execute("SELECT count(*) FROM redis_stream_iids").get == 1
    connection.close()


def test_a_newer_file_is_refused_and_untouched(tmp_path: Path) -> None:
    path = tmp_path / "new.db"
    make_store(path)
    open_database(path, version=NEWER, migrations=MIGRATIONS).close()
    before = contents(tmp_path)
    with pytest.raises(StorageError, match="newer one wrote it"):
        FileStore(path)
    assert contents(tmp_path) == before


def test_a_newer_version_that_is_only_in_the_wal_is_refused_too(tmp_path: Path) -> None:
    path = tmp_path / "new.db"
    make_store(path)
    connection = open_database(path, version=NEWER, migrations=MIGRATIONS)
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)  # as if killed
    connection.close()
    file_bytes, wal_bytes = path.read_bytes(), (tmp_path / "new.db-wal").read_bytes()
    with pytest.raises(StorageError, match="newer one wrote it"):
        FileStore(path)
    assert path.read_bytes() == file_bytes
    assert (tmp_path / "new.db-wal").read_bytes() == wal_bytes


# -- not ours -------------------------------------------------------------------------------------


def make_foreign(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE t (a); INSERT INTO t VALUES (1)")
    connection.close()


def make_foreign_with_wal(path: Path) -> None:
    """As a program leaves it that was killed: opening it carelessly would change the file."""
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA journal_mode = WAL; CREATE TABLE t (a); INSERT INTO t VALUES (1)")
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    connection.close()


def make_text(path: Path) -> None:
    path.write_bytes(b"dear diary " * 100)


def make_short(path: Path) -> None:
    path.write_bytes(b"SQLite format 3\0")


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (make_foreign, "not one of Holdfast's"),
        (make_foreign_with_wal, "not one of Holdfast's"),
        (make_text, "is not a SQLite database"),
        (make_short, "is not a SQLite database"),
        (Path.mkdir, "Is a directory"),
    ],
)
def test_what_is_not_ours_is_refused_and_untouched(
    tmp_path: Path, make: object, complaint: str
) -> None:
    path = tmp_path / "other.db"
    make(path)  # type: ignore[operator]
    before = {name: path.stat().st_mtime_ns for name in os.listdir(tmp_path)}
    old = path.read_bytes() if path.is_file() else b""
    with pytest.raises(StorageError, match=complaint) as caught:
        FileStore(path)
    assert str(path) in str(caught.value)
    assert {name: path.stat().st_mtime_ns for name in os.listdir(tmp_path)} == before
    assert (path.read_bytes() if path.is_file() else b"") == old


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="No such file or directory"):
        FileStore(tmp_path / "nowhere" / "x.db")


def test_an_empty_file_is_a_new_one(tmp_path: Path) -> None:
    path = tmp_path / "empty.db"
    path.touch()
    make_store(path)
    assert pragma(path, "application_id") == opening.APPLICATION_ID


def test_our_id_is_in_the_file_itself_before_anything_else(tmp_path: Path) -> None:
    """A server killed right after its first start must find its own file again."""
    path = tmp_path / "new.db"
    connection = open_database(path)
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    connection.close()
    opening.look(path)
    make_store(path)


# -- the lock -------------------------------------------------------------------------------------


def test_one_engine_per_file(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    store = FileStore(path)
    with pytest.raises(StoreInUseError, match=f"already open by process {os.getpid()}"):
        FileStore(path)
    store.close()
    FileStore(path).close()


def test_a_server_waits_for_a_program_that_reads_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that wrote a snapshot for a replica may outlive its server for a moment."""
    path = tmp_path / "x.db"
    reader = FileLock(path)
    monkeypatch.setattr(time, "sleep", lambda _: reader.release())
    FileStore(path).close()


def test_a_lock_file_that_a_killed_server_left_does_not_lock(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    (tmp_path / "x.db-lock").write_text("12345\n")
    FileLock(path).release()
    assert os.listdir(tmp_path) == []


def test_a_clean_close_leaves_one_file(tmp_path: Path) -> None:
    make_store(tmp_path / "x.db")
    assert os.listdir(tmp_path) == ["x.db"]


def test_abandoning_leaves_what_was_committed(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    store = FileStore(path)
    database = store.keyspace.databases[0]
    database.set_string(b"kept", b"1")
    store.commit()
    database.set_string(b"lost", b"2")
    store.abandon()
    store = FileStore(path)
    assert store.recovered_ops > 0
    assert store.keyspace.databases[0].read_string(b"kept") == b"1"
    assert store.keyspace.databases[0].read_string(b"lost") is None
    store.close()


def test_a_file_has_one_lock_whatever_it_is_called(tmp_path: Path) -> None:
    make_store(tmp_path / "real.db")
    (tmp_path / "link.db").symlink_to("real.db")
    (tmp_path / "folder").symlink_to(tmp_path)
    store = open_store(str(tmp_path / "link.db"))
    try:
        assert store.keyspace.databases[0].read_string(b"k") == b"v"
        for name in ("real.db", "link.db", "folder/real.db"):
            with pytest.raises(StoreInUseError):
                open_store(str(tmp_path / name))
    finally:
        store.close()
    assert check_file(tmp_path / "link.db") == []
    assert (tmp_path / "link.db").is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "link.db", "real.db"]


# -- staying in its place -------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["", "-wal"])
@pytest.mark.parametrize("is_replaced", [False, True], ids=["removed", "replaced"])
def test_a_file_that_is_taken_away_is_missed(
    tmp_path: Path, suffix: str, is_replaced: bool
) -> None:
    store = FileStore(tmp_path / "x.db")
    store.check_in_place()
    taken = tmp_path / f"x.db{suffix}"
    taken.rename(tmp_path / "elsewhere")
    if is_replaced:
        taken.write_bytes(b"")
    with pytest.raises(StorageError, match=f"{taken.name} was removed or replaced"):
        store.check_in_place()
    store.abandon()


def test_a_huge_batch_leaves_no_huge_wal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "KEPT_WAL_BYTES", 100_000)
    store = FileStore(tmp_path / "x.db")
    wal = tmp_path / "x.db-wal"
    database = store.keyspace.databases[0]
    database.set_string(b"huge", bytes(1_000_000))
    store.commit()
    store.fold()
    assert wal.stat().st_size > 1_000_000
    store.checkpoint()
    for number in range(2):
        database.set_string(b"small", b"%d" % number)
        store.commit()
    assert wal.stat().st_size <= 100_000
    store.close()


def test_a_name_that_is_not_utf8_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="its name is not UTF-8"):
        open_database(tmp_path / os.fsdecode(b"n\xff.db"))


def test_new_files_can_be_read_by_their_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    before = os.umask(0o022)
    try:
        store = FileStore(path)
        store.keyspace.databases[0].set_string(b"k", b"v")
        store.commit()
        store.fold()
        backup(path, tmp_path / "b.db")
        modes = {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()}
        store.close()
    finally:
        os.umask(before)
    assert {"a.db", "a.db-wal", "a.db-shm", "a.db-mark", "b.db"} <= modes.keys()
    assert set(modes.values()) == {0o600}, modes


def test_the_mode_of_a_file_that_is_there_stays(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    FileStore(path).close()
    path.chmod(0o640)
    store = FileStore(path)
    assert path.stat().st_mode & 0o777 == 0o640
    assert path.with_name("a.db-wal").stat().st_mode & 0o777 == 0o640
    store.close()
