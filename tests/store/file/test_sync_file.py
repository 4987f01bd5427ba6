"""The file is synced through SQLite, also in rounds of a checkpoint that have not copied all."""

from pathlib import Path

import apsw
import pytest

from holdfast.store.file.sync_file import sync_file
from holdfast.store.store import FileStore
from tests.faults.disk import Disk


def test_what_was_written_to_the_file_is_on_the_disk(tmp_path: Path) -> None:
    disk, path = Disk(), tmp_path / "a.db"
    connection = apsw.Connection(str(path), vfs=disk.name)
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("CREATE TABLE t (x)")
    kept = disk.file(str(path))
    assert kept.unsynced
    sync_file(connection)
    assert not kept.unsynced
    assert bytes(kept.synced) == path.read_bytes()


def test_a_sync_that_fails_is_no_secret(tmp_path: Path) -> None:
    disk = Disk()
    connection = apsw.Connection(str(tmp_path / "a.db"), vfs=disk.name)
    connection.execute("CREATE TABLE t (x)")
    disk.sync_error = True
    with pytest.raises(OSError, match="the disk says no"):
        sync_file(connection)


def test_a_checkpoint_beside_commits_syncs_the_file_though_a_reader_keeps_the_wal(
    tmp_path: Path,
) -> None:
    """SQLite itself syncs the file only when all frames were copied. Under load there is always one
    more, so the last checkpoint, for which commits wait, would have to sync all pages."""
    disk, path = Disk(), tmp_path / "a.db"
    store = FileStore(path, vfs=disk.name)
    reader = apsw.Connection(str(path), apsw.SQLITE_OPEN_READONLY)
    try:
        store.keyspace.databases[0].set_string(b"before", b"." * 100_000)
        store.commit()
        rows = reader.execute("SELECT lsn FROM journal UNION ALL SELECT 0")
        next(rows)  # the frames from here on cannot be copied
        store.keyspace.databases[0].set_string(b"after", b"." * 100_000)
        store.commit()
        size = path.stat().st_size
        store.checkpoint()
        assert path.stat().st_size > size
        assert not disk.file(str(path)).unsynced
    finally:
        reader.close()
        store.close()
