"""A copy is one moment of the original, also while a client writes, and its tables have it all."""

import os
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from holdfast.errors import StorageError
from holdfast.progress import BYTES
from holdfast.store.backup import backup
from holdfast.store.check import check_file
from holdfast.store.file import copying
from holdfast.store.file.migrations import SCHEMA_VERSION
from holdfast.store.memory import scanning
from holdfast.store.store import FileStore


def strings(path: Path) -> dict[bytes, bytes]:
    store = FileStore(path)
    database = store.keyspace.databases[0]
    names = list(scanning.names(store.keyspace, database.space))
    found = {name: database.read_string(name) or b"" for name in names}
    store.abandon()
    return found


def put(store: FileStore, first: int, count: int) -> None:
    for number in range(first, first + count):
        store.keyspace.databases[0].set_string(b"k%d" % number, b"x" * 500)
        store.commit()


def test_a_copy_of_a_file_at_rest(tmp_path: Path) -> None:
    source, dest = tmp_path / "x.db", tmp_path / "y.db"
    store = FileStore(source)
    put(store, 0, 100)
    store.close()
    backup(source, dest)
    assert check_file(dest) == []
    assert strings(dest) == strings(source)


def test_a_copy_of_a_file_that_is_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commits between the steps, none of which may get in or start the copy anew."""
    monkeypatch.setattr(copying, "STEP_PAGES", 3)
    source, dest = tmp_path / "x.db", tmp_path / "y.db"
    store = FileStore(source)
    put(store, 0, 200)
    store.fold()
    put(store, 200, 50)  # these are in the journal only
    steps: list[tuple[int, int]] = []

    def progress(work: str, done: int, total: int, unit: str) -> None:
        if work == "copying":
            assert unit == BYTES
            put(store, 1000 + len(steps), 1)
            store.fold_step()
            steps.append((done, total))

    backup(source, dest, progress=progress)
    assert len(steps) > 10
    assert [done for done, _ in steps] == sorted({done for done, _ in steps})
    assert steps[-1][0] == steps[-1][1]
    assert check_file(dest) == []
    assert sorted(strings(dest)) == sorted(b"k%d" % number for number in range(250))
    assert len(store.keyspace.databases[0]) == 250 + len(steps)
    store.close()
    assert check_file(source) == []


def test_nothing_is_left_of_a_copy_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "x.db"
    FileStore(source).close()
    (tmp_path / "folder").mkdir()

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match="No space left on device"):
        backup(source, tmp_path / "folder" / "y.db")
    assert os.listdir(tmp_path / "folder") == []


def test_what_is_not_ours_is_not_copied(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("hello")
    with pytest.raises(StorageError, match="not a SQLite database"):
        backup(tmp_path / "x", tmp_path / "y")
    assert os.listdir(tmp_path) == ["x"]


# -- the fold -------------------------------------------------------------------------------------


def ask(path: Path, query: str) -> object:
    with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
        return connection.execute(query).get


def contents(folder: Path) -> dict[str, bytes]:
    """Of all files but shared memory, where readers note their locks."""
    files = (path for path in folder.iterdir() if not path.name.endswith("-shm"))
    return {path.name: path.read_bytes() for path in files}


def killed(path: Path, node: int = 0) -> None:
    """A file whose tables have 100 keys, and whose journal alone has 50 more and a removal."""
    store = FileStore(path, node=node)
    put(store, 0, 100)
    store.fold()
    put(store, 100, 50)
    key = store.keyspace.databases[0].find(b"k0")
    assert key is not None
    store.keyspace.databases[0].remove(key)
    store.commit()
    store.sync()
    store.abandon()


def test_the_views_of_a_copy_have_what_only_the_journal_had(tmp_path: Path) -> None:
    source, dest = tmp_path / "x.db", tmp_path / "y.db"
    killed(source)
    before = contents(tmp_path)
    assert backup(source, dest) == (SCHEMA_VERSION, True)
    after = contents(tmp_path)
    assert after.pop("y.db")
    assert after == before, "the source is only read, and the copy is one file"
    assert ask(dest, "SELECT count(*) FROM keys") == 149
    assert ask(dest, "SELECT count(*) FROM strings WHERE key IN ('k0', 'k149')") == 1
    assert ask(dest, "SELECT count(*) FROM journal") == 0
    assert check_file(dest) == []


def test_a_raw_copy_has_the_journal_as_it_was(tmp_path: Path) -> None:
    source, dest = tmp_path / "x.db", tmp_path / "y.db"
    killed(source)
    assert backup(source, dest, folds=False) == (SCHEMA_VERSION, False)
    assert ask(dest, "SELECT count(*) FROM keys") == 100
    assert ask(dest, "SELECT count(*) FROM journal") == 51
    assert strings(dest).keys() == {b"k%d" % number for number in range(1, 150)}


def test_the_copy_of_a_file_without_a_journal_is_folded_anyway(tmp_path: Path) -> None:
    FileStore(tmp_path / "x.db").close()
    assert backup(tmp_path / "x.db", tmp_path / "y.db", folds=False).is_folded


def test_a_file_of_an_older_version_is_copied_as_it_is(tmp_path: Path) -> None:
    source, dest = tmp_path / "x.db", tmp_path / "y.db"
    FileStore(source).close()
    with closing(apsw.Connection(str(source))) as connection:
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION - 1}")
        connection.execute("INSERT INTO journal VALUES (1, x'90')")
    assert backup(source, dest) == (SCHEMA_VERSION - 1, False)
    assert ask(dest, "PRAGMA user_version") == SCHEMA_VERSION - 1
    assert ask(dest, "SELECT count(*) FROM journal") == 1


def test_databases_that_no_default_configuration_has(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "x.db", databases=40)
    store.keyspace.databases[39].set_string(b"far", b"v")
    store.commit()
    store.keyspace.databases[38].set_string(b"gone", b"v")
    store.keyspace.databases[38].flush()
    store.commit()
    store.abandon()
    backup(tmp_path / "x.db", tmp_path / "y.db")
    assert ask(tmp_path / "y.db", "SELECT db, key FROM keys") == (39, "far")


def test_the_copy_of_an_active_active_file_is_the_same_replica_at_the_same_place(
    tmp_path: Path,
) -> None:
    """It is a copy, which its mark says. The fold adds no event to its history."""
    source, raw, folded = (tmp_path / name for name in ("x.db", "raw.db", "folded.db"))
    killed(source, node=3)
    backup(source, raw, folds=False)
    assert backup(source, folded).is_folded
    assert ask(folded, "SELECT count(*) FROM journal") == 0
    assert ask(folded, "SELECT count(*) FROM keys") == 149
    assert check_file(folded) == []
    found = []
    for path in (raw, folded):
        store = FileStore(path, node=3)
        stage = store.keyspace.stage  # type: ignore[attr-defined]
        found.append((store.keyspace.own_position, dict(stage.vector), stage.facts))
        assert store.backup_mark
        store.abandon()
    assert found[0] == found[1]
    assert found[0][0][1] > 0


# -- places where a copy must not go --------------------------------------------------------------


@pytest.mark.parametrize("end", ["", "-wal", "-mark", "-journal"])
def test_nothing_is_overwritten_and_no_wal_of_another_file_is_taken_over(
    tmp_path: Path, end: str
) -> None:
    FileStore(tmp_path / "x.db").close()
    (tmp_path / f"y.db{end}").write_bytes(b"precious")
    with pytest.raises(StorageError, match=f"y.db{end} exists"):
        backup(tmp_path / "x.db", tmp_path / "y.db")
    assert (tmp_path / f"y.db{end}").read_bytes() == b"precious"


def test_a_link_that_leads_nowhere_is_not_replaced(tmp_path: Path) -> None:
    FileStore(tmp_path / "x.db").close()
    (tmp_path / "y.db").symlink_to("nowhere")
    with pytest.raises(StorageError, match="exists"):
        backup(tmp_path / "x.db", tmp_path / "y.db")


@pytest.mark.parametrize("has_links", [True, False])
def test_a_file_that_comes_meanwhile_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_links: bool
) -> None:
    if not has_links:

        def no_links(*paths: object) -> None:
            raise PermissionError

        monkeypatch.setattr(os, "link", no_links)
    killed(tmp_path / "x.db")
    dest = tmp_path / "to" / "y.db"
    dest.parent.mkdir()

    def come(*progress: object) -> None:
        dest.write_bytes(b"precious")

    with pytest.raises(StorageError, match=r"y\.db exists"):
        backup(tmp_path / "x.db", dest, progress=come)
    assert os.listdir(dest.parent) == ["y.db"]
    assert dest.read_bytes() == b"precious"
    dest.unlink()
    backup(tmp_path / "x.db", dest)
    assert os.listdir(dest.parent) == ["y.db"]


def test_a_program_that_reads_the_unfinished_copy_is_named(tmp_path: Path) -> None:
    """The tables are in the WAL of the copy then, and would be lost with it."""
    killed(tmp_path / "x.db")
    (tmp_path / "to").mkdir()
    readers: list[apsw.Connection] = []

    def read(work: str, done: int, total: int, unit: str) -> None:
        if work == "folding" and not readers:
            (partial,) = (tmp_path / "to").glob(".*.partial")
            readers.append(apsw.Connection(str(partial)))
            readers[0].execute("BEGIN").execute("SELECT count(*) FROM journal").fetchall()

    with pytest.raises(StorageError, match="another program reads the copy; try again"):
        backup(tmp_path / "x.db", tmp_path / "to" / "y.db", progress=read)
    readers[0].close()
    assert os.listdir(tmp_path / "to") == []


@pytest.mark.parametrize("moment", ["copying", "reading the journal", "folding"])
def test_nothing_is_left_of_a_copy_that_is_interrupted(tmp_path: Path, moment: str) -> None:
    killed(tmp_path / "x.db")
    (tmp_path / "to").mkdir()

    def interrupt(work: str, done: int, total: int, unit: str) -> None:
        if work == moment:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        backup(tmp_path / "x.db", tmp_path / "to" / "y.db", progress=interrupt)
    assert os.listdir(tmp_path / "to") == []


@pytest.mark.source_only  # it replaces a method
def test_nothing_is_left_of_a_copy_that_cannot_be_folded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed(tmp_path / "x.db")
    (tmp_path / "to").mkdir()

    def full(store: FileStore) -> bool:
        raise StorageError("cannot write the tables: database or disk is full")

    monkeypatch.setattr(FileStore, "fold_step", full)
    with pytest.raises(StorageError, match=r"cannot fold .*y\.db: .*disk is full"):
        backup(tmp_path / "x.db", tmp_path / "to" / "y.db")
    assert os.listdir(tmp_path / "to") == []
