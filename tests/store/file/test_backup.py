"""A copy is one moment of the original, also while a client writes."""

import os
from pathlib import Path

import pytest

from holdfast.errors import StorageError
from holdfast.store.check import check_file
from holdfast.store.file import copying
from holdfast.store.file.backup import backup
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

    def progress(done: int, total: int) -> None:
        put(store, 1000 + len(steps), 1)
        store.fold_step()
        steps.append((done, total))

    backup(source, dest, progress)
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
