"""Files that can only be read: in a folder where nothing can be written, and without shared memory.

The superuser may write everywhere, so a process reads them that lacks this right.
"""

import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.errors import StorageError
from holdfast.store.check import check
from holdfast.store.file import reading as reading_module
from holdfast.store.file.mark import mark_path
from holdfast.store.file.reading import reading
from holdfast.store.file.wal import FRAME_HEADER, WAL_HEADER, WalFile, wal_path
from holdfast.store.store import FileStore

PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 24, 1, 2

# The files beside the database.
CLEAN: set[str] = set()
KILLED = {"-wal", "-mark", "-shm"}
MOVED = {"-wal", "-mark"}  # to another machine, or to a medium that cannot be written


def obey_permissions() -> None:
    """In a new process: drop the right of the superuser to write everywhere."""
    if os.geteuid() == 0:
        prctl = ctypes.CDLL(None, use_errno=True).prctl
        for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
            if prctl(PR_CAPBSET_DROP, capability, 0, 0, 0):
                raise OSError(ctypes.get_errno(), "prctl")


def holdfast(*args: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "holdfast", *args]
    return subprocess.run(
        argv, capture_output=True, text=True, timeout=50, preexec_fn=obey_permissions
    )


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "files"
    folder.mkdir()
    yield folder
    folder.chmod(0o755)


def make(folder: Path, beside: set[str]) -> Path:
    """A file with 20 keys, ten of them in its journal alone. All of it can only be read."""
    path = folder / "x.db"
    store = FileStore(path)
    for number in range(20):
        store.keyspace.databases[0].set_string(b"k%d" % number, b"v")
        store.commit()
        if number == 9:
            store.fold()
    store.sync()
    if beside:
        store.abandon()
    else:
        store.close()
    for file in folder.iterdir():
        if file.name.removeprefix("x.db") not in {"", *beside}:
            file.unlink()
        else:
            file.chmod(0o444)
    folder.chmod(0o555)
    return path


def damage(path: Path, frame: int) -> None:
    """The WAL, from this frame on."""
    wal = wal_path(path)
    wal.chmod(0o644)
    with closing(WalFile(wal)) as found:
        at = WAL_HEADER + (frame - 1) * found.frame_bytes + FRAME_HEADER
    with wal.open("r+b") as file:
        file.seek(at)
        file.write(b"\xa5" * 10)


@pytest.mark.skipif(sys.platform != "linux", reason="needs prctl")
@pytest.mark.parametrize("beside", [CLEAN, KILLED, MOVED])
def test_check_and_backup_in_a_folder_that_cannot_be_written(
    folder: Path, tmp_path: Path, beside: set[str]
) -> None:
    path = make(folder, beside)
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    result = holdfast("check", str(path), "--json")
    assert (result.returncode, result.stderr) == (0, ""), result
    found = json.loads(result.stdout)
    assert (found["ok"], found["problems"]) == (True, [])
    assert len(found["notes"]) == (1 if beside else 0)
    assert all("x.db-wal was read, but its valid frames" in note for note in found["notes"])
    copy = tmp_path / "copy.db"
    result = holdfast("backup", str(path), str(copy))
    assert (result.returncode, result.stderr) == (0, ""), result
    store = FileStore(copy)
    assert len(store.keyspace.databases[0]) == 20
    store.abandon()
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before


@pytest.mark.skipif(sys.platform != "linux", reason="needs prctl")
@pytest.mark.parametrize("beside", [CLEAN, MOVED])
def test_a_file_that_cannot_be_written_in_a_folder_that_can(folder: Path, beside: set[str]) -> None:
    path = make(folder, beside)
    folder.chmod(0o755)
    result = holdfast("check", str(path))
    assert (result.returncode, result.stderr) == (0, ""), result
    assert result.stdout.endswith("x.db: no problems found\n")


@pytest.mark.skipif(sys.platform != "linux", reason="needs prctl")
def test_damage_is_found_there_too(folder: Path) -> None:
    path = make(folder, MOVED)
    damage(path, frame=1)
    result = holdfast("check", str(path))
    assert result.returncode == 1, result
    assert "lacks writes that were acknowledged: it has batches up to " in result.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="needs prctl")
def test_a_wal_that_may_not_be_read_is_one_sentence(folder: Path) -> None:
    path = make(folder, MOVED)
    wal_path(path).chmod(0o000)
    result = holdfast("check", str(path))
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.count("\n") == 1
    assert "x.db-wal" in result.stderr


@pytest.fixture
def read_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the folder could not be written, for this process."""
    monkeypatch.setattr(reading_module, "_can_write", lambda folder: False)


@pytest.mark.usefixtures("read_only")
@pytest.mark.parametrize("beside", [CLEAN, MOVED])
def test_a_server_that_starts_meanwhile_is_noticed(folder: Path, beside: set[str]) -> None:
    """There are no locks, so the pages that were read may be of two moments."""
    path = make(folder, beside)
    folder.chmod(0o755)
    for file in folder.iterdir():
        file.chmod(0o644)
    changed = pytest.raises(StorageError, match="was changed while it was read without locks")
    with changed, reading(path) as connection:
        assert connection.execute("SELECT count(*) FROM redis_keys").get is not None
        FileStore(path).close()


@pytest.mark.usefixtures("read_only")
def test_the_mark_is_compared_without_locks(folder: Path) -> None:
    path = make(folder, MOVED)
    folder.chmod(0o755)
    wal_path(path).unlink()
    assert mark_path(path).exists()
    (problem,) = check(path).problems
    assert "x.db-wal is missing" in problem


def test_what_was_cut_off_is_a_note(tmp_path: Path) -> None:
    """Frames behind the last valid one are those of a write that was never acknowledged."""
    path = tmp_path / "x.db"
    store = FileStore(path)
    store.keyspace.databases[0].set_string(b"k", b"v")
    store.commit()
    store.sync()
    mark, before = mark_path(path).read_bytes(), store.wal_pages
    store.keyspace.databases[0].set_string(b"large", b"x" * 100_000)
    store.commit()
    frames = store.wal_pages
    store.abandon()
    mark_path(path).write_bytes(mark)
    damage(path, frame=frames - 3)
    problems, notes = check(path)
    assert problems == []
    dropped = frames - before  # all of the transaction
    assert notes == [f"the next start drops {dropped} frames of a write that was cut off"]
